#![doc = include_str!("../README.md")]
#![no_std]
#![deny(missing_docs)]

// Weights are read in place, and lengths in an image are converted to usize.
#[cfg(not(target_endian = "little"))]
compile_error!("images are little-endian and read in place, but this target is big-endian");
#[cfg(target_pointer_width = "16")]
compile_error!("lengths and offsets of an image have 32 bits: this target's usize has 16");

/// The value of a `Result` in a `const fn`, which cannot use `?`. Returns the error.
macro_rules! ok {
    ($result:expr) => {
        match $result {
            Ok(value) => value,
            Err(error) => return Err(error),
        }
    };
}

/// The value of an `Option` in a `const fn`, which cannot use `?`.
macro_rules! some {
    ($option:expr) => {
        match $option {
            Some(value) => value,
            None => return None,
        }
    };
}

mod activation;
mod backend;
mod batch;
mod cell;
mod curve;
mod detector;
mod element;
mod error;
mod fixed;
mod flow;
pub mod front_end;
mod gate;
mod image;
mod include;
mod integer_norm;
mod kernel;
mod math;
mod model;
mod node;
mod norm;
mod port;
mod quant;
mod rfft;
mod runner;
mod schedule;
mod self_test;
mod sequence;
mod spec;
mod state;
mod step;
mod stft;
mod tanh;
mod tensor;
mod text;
mod work;
mod write;

pub use batch::Batch;
pub use detector::{Detector, DetectorError, DetectorSettings, Event, LabelSettings};
pub use detector::{IntegerDetector, IntegerDetectorError, IntegerEvent};
pub use error::{BufferTooSmall, PortCount, ShapeError, StepError, TooManyCells, WrongLength};
pub use front_end::{FrontEnd, FrontEndError, IntegerFrontEnd, IntegerMfcc, Mfcc};
pub use image::{Aligned, ImageBytes, ImageError, Layout, Misaligned, ModelId, Numeric, SectionKind};
pub use model::{Family, Model};
pub use port::{Port, Ports};
pub use runner::Runner;
pub use schedule::Schedule;
pub use self_test::{SelfTest, SelfTestError};
pub use sequence::Sequence;
pub use state::{RestoreError, State};
pub use step::{Step, Values};
pub use stft::{Stft, StftError};
pub use work::{Limit, Limits, Work};

/// The modules that the other crates of this repository share with this one: the packer, the kernels for hosts, the C
/// interface and the tests. Only they may use it: anything in here may change in any release.
#[doc(hidden)]
#[rustfmt::skip]
pub mod internals {
    pub mod activation { pub use crate::activation::*; }
    pub mod backend { pub use crate::backend::*; }
    pub mod cell { pub use crate::cell::*; }
    pub mod crc { pub use crate::image::crc::*; }
    pub mod curve { pub use crate::curve::*; }
    pub mod fixed { pub use crate::fixed::*; }
    pub mod gate { pub use crate::gate::*; }
    pub mod image { pub use crate::image::*; }
    pub mod include { pub use crate::include::*; }
    pub mod integer_norm { pub use crate::integer_norm::*; }
    pub mod model { pub use crate::model::*; }
    pub mod node { pub use crate::node::*; }
    pub mod port { pub use crate::port::*; }
    pub mod quant { pub use crate::quant::*; }
    pub mod step { pub use crate::step::*; }
    pub mod write { pub use crate::write::*; }
}
