//! What a call into cuDNN comes back with, and everything that can go wrong between here and a device.

use crate::layout::LayoutError;
use crate::library::LibraryMissing;
use crate::rnn::RnnError;
use crate::weights::WeightsError;

/// What a cuDNN function returns. A number, not an enum: a newer cuDNN may have codes that this build does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Status(pub u32);

/// cuDNN 9's codes by their thousands; the rest of the digits says more. (`cudnn_graph.h`)
const CATEGORIES: [(u32, &str); 6] = [
    (0, "success"),
    (1, "not initialized, or parts of different versions"),
    (2, "bad parameter"),
    (3, "not supported"),
    (4, "internal error"),
    (5, "execution failed"),
];

impl Status {
    /// `CUDNN_STATUS_SUCCESS`
    pub const SUCCESS: Self = Self(0);

    /// Whether it says that a combination of settings is not there.
    pub const fn is_unsupported(self) -> bool {
        self.0 / 1000 == 3
    }

    /// What kind of code it is.
    pub fn category(self) -> &'static str {
        let known =
            CATEGORIES.iter().find(|(thousands, _)| self.0 / 1000 == *thousands && (self.0 == 0 || *thousands > 0));
        known.map_or("unknown", |(_, words)| words)
    }

    /// The error of the function `call`, if it is one.
    ///
    /// # Errors
    /// If the status is not success.
    pub fn of(self, call: &'static str) -> Result<(), GpuError> {
        if self == Self::SUCCESS { Ok(()) } else { Err(GpuError::Cudnn { call, status: self }) }
    }
}

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "status {} ({})", self.0, self.category())
    }
}

/// Why nothing runs on a GPU.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GpuError {
    /// A library is not on this machine.
    #[error(transparent)]
    LibraryMissing(#[from] LibraryMissing),
    /// A library is there but lacks a function: it is too old, or too new.
    #[error("{library} has no function {symbol}: cuDNN 9 and, for several GPUs, NCCL 2.14 are needed")]
    SymbolMissing {
        /// The file.
        library: String,
        /// The function.
        symbol: &'static str,
    },
    /// A cuDNN whose statuses mean something else.
    #[error("{library} has the version {found}: cuDNN 9 is needed")]
    Version {
        /// The file.
        library: String,
        /// `CUDNN_VERSION`
        found: usize,
    },
    /// A function of the driver refused.
    #[error("{call}: {}", told(.source))]
    Cuda {
        /// Its name.
        call: &'static str,
        /// What it returned.
        source: cudarc::driver::DriverError,
    },
    /// There is no such GPU.
    #[error("GPU {number} (LOCAL_RANK) is wanted, but there are {count} (CUDA_VISIBLE_DEVICES)")]
    Number {
        /// Its number, from 0.
        number: usize,
        /// How many there are.
        count: usize,
    },
    /// An NCCL function refused.
    #[error("{call}: {reason} (NCCL_DEBUG=INFO says more)")]
    Nccl {
        /// Its name.
        call: &'static str,
        /// What NCCL calls it.
        reason: String,
    },
    /// A cuDNN function refused.
    #[error("{call}: {status}")]
    Cudnn {
        /// Its name.
        call: &'static str,
        /// What it returned.
        status: Status,
    },
    /// Where cuDNN says that its parameters lie.
    #[error("cudnnGetRNNWeightParams: {0}")]
    Layout(#[from] LayoutError),
    /// Where cuDNN says that its parameters lie makes no sense in numbers.
    #[error("cudnnGetRNNWeightParams: {what} is {found}")]
    Report {
        /// Which of its answers.
        what: &'static str,
        /// What it is.
        found: i64,
    },
    /// A number that is beyond what cuDNN counts with.
    #[error("{what} is {found}, more than cuDNN can count")]
    Count {
        /// Which.
        what: &'static str,
        /// What it is.
        found: usize,
    },
    /// The lengths of sequences are not those of a batch.
    #[error("a sequence of {found} steps in a batch of at most {longest}")]
    Length {
        /// What there is.
        found: usize,
        /// Most steps.
        longest: usize,
    },
    /// Memory of the device is not as long as it must be, or belongs to another device or stream.
    #[error("{what}: {found} elements, but {needed} are needed, on the stream of the device")]
    Buffer {
        /// Of what.
        what: &'static str,
        /// What there is.
        found: usize,
        /// What is needed.
        needed: usize,
    },
    /// A way back was asked for where nothing was kept for it.
    #[error("a plan that only runs has no way back")]
    NotTraining,
    /// A stack is none.
    #[error(transparent)]
    Rnn(#[from] RnnError),
    /// Weights are not those of the stack.
    #[error(transparent)]
    Weights(#[from] WeightsError),
}

/// What the driver says of its error, and the error's name.
fn told(error: &cudarc::driver::DriverError) -> String {
    match error.error_string() {
        Ok(text) => format!("{} ({:?})", text.to_string_lossy(), error.0),
        Err(_) => format!("{:?}", error.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_an_error_with_the_name_of_its_call() {
        Status::SUCCESS.of("cudnnCreate").unwrap();
        let text = |code| Status(code).of("cudnnCreate").unwrap_err().to_string();
        assert_eq!(text(2002), "cudnnCreate: status 2002 (bad parameter)");
        assert_eq!(text(5001), "cudnnCreate: status 5001 (execution failed)");
        assert_eq!(text(7), "cudnnCreate: status 7 (unknown)");
        assert_eq!(text(9999), "cudnnCreate: status 9999 (unknown)");
    }
}
