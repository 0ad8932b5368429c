//! Status codes of cuDNN and the errors of everything that runs on a GPU.

use crate::layout::LayoutError;
pub use crate::library::{LibraryError, Needed, SymbolMissing};
use crate::rnn::RnnError;
use crate::weights::WeightsError;

/// Return value of a cuDNN function. A number, not an enum: a newer cuDNN may return codes that this build does not
/// know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Status(pub u32);

impl Status {
    /// `CUDNN_STATUS_SUCCESS`
    pub const SUCCESS: Self = Self(0);

    /// Whether cuDNN does not support a combination of settings.
    pub const fn is_unsupported(self) -> bool {
        self.0 / 1000 == 3
    }

    /// Category of the code in words: its thousands; the other digits give details. (`cudnn_graph.h`)
    pub const fn category(self) -> &'static str {
        match (self.0 / 1000, self.0) {
            (_, 0) => "success",
            (1, _) => "not initialized, or parts of different versions",
            (2, _) => "bad parameter",
            (3, _) => "not supported",
            (4, _) => "internal error",
            (5, _) => "execution failed",
            _ => "unknown",
        }
    }

    /// Turns the status of the function `call` into a result.
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

/// Why something cannot run on a GPU.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the error texts explain the variants and their fields")]
#[non_exhaustive]
pub enum GpuError {
    #[error(transparent)]
    Library(#[from] LibraryError),
    #[error(transparent)]
    SymbolMissing(#[from] SymbolMissing),
    #[error("{library} has version {found}: cuDNN 9 is required")]
    Version { library: String, found: usize },
    #[error("{call}: {}", described(.source))]
    Cuda { call: &'static str, source: cudarc::driver::DriverError },
    #[error("GPU {number} (LOCAL_RANK) does not exist: {count} found (CUDA_VISIBLE_DEVICES)")]
    Number { number: usize, count: usize },
    #[error("{call}: {reason} (NCCL_DEBUG=INFO prints more)")]
    Nccl { call: &'static str, reason: String },
    #[error("{call}: {status}")]
    Cudnn { call: &'static str, status: Status },
    #[error("cudnnGetRNNWeightParams: {0}")]
    Layout(#[from] LayoutError),
    #[error("cudnnGetRNNWeightParams: {what} is {found}")]
    Report { what: &'static str, found: i64 },
    #[error("{what} is {found}, which is too large for cuDNN")]
    Count { what: &'static str, found: usize },
    #[error("a sequence has {found} steps, but the batch takes 1 to {longest}")]
    Length { found: usize, longest: usize },
    #[error("{what}: {found} elements given, but {needed} needed on the stream of the device")]
    Buffer { what: &'static str, found: usize, needed: usize },
    #[error("a batch for inference has no backward pass")]
    NotTraining,
    /// The settings of the stack are invalid.
    #[error(transparent)]
    Rnn(#[from] RnnError),
    /// The weights do not fit the stack.
    #[error(transparent)]
    Weights(#[from] WeightsError),
}

/// The driver's text and name for its error.
fn described(error: &cudarc::driver::DriverError) -> String {
    match error.error_string() {
        Ok(text) => format!("{} ({:?})", text.to_string_lossy(), error.0),
        Err(_) => format!("{:?}", error.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_the_call_and_its_status() {
        Status::SUCCESS.of("cudnnCreate").unwrap();
        let text = |code| Status(code).of("cudnnCreate").unwrap_err().to_string();
        assert_eq!(text(2002), "cudnnCreate: status 2002 (bad parameter)");
        assert_eq!(text(5001), "cudnnCreate: status 5001 (execution failed)");
        assert_eq!(text(7), "cudnnCreate: status 7 (unknown)");
        assert_eq!(text(9999), "cudnnCreate: status 9999 (unknown)");
    }
}
