#![doc = include_str!("../../README.md")]
#![no_std]
#![deny(missing_docs)]

#[cfg(not(any(feature = "libm", feature = "micromath")))]
compile_error!("enable the feature `libm` (default) or `micromath`: the activations need exp and tanh");

// Weights are read in place, and a length of an image is a usize.
#[cfg(not(target_endian = "little"))]
compile_error!("images are little-endian and read in place: this target is not");
#[cfg(target_pointer_width = "16")]
compile_error!("lengths and offsets of an image have 32 bits: this target's usize has 16");

pub mod activation;
pub mod backend;
pub mod batch;
pub mod cell;
pub mod curve;
pub mod detector;
mod engine;
pub mod error;
mod fixed;
mod flow;
pub mod front_end;
pub mod gate;
pub mod image;
pub mod integer_norm;
mod kernel;
mod math;
pub mod model;
pub mod node;
mod norm;
pub mod port;
pub mod quant;
mod run;
pub mod schedule;
pub mod sequence;
pub mod state;
pub mod step;
mod tanh;
mod tensor;

pub use batch::Batch;
pub use detector::{Detector, IntegerDetector};
pub use error::{BufferTooSmall, WrongLength};
pub use front_end::{FrontEnd, IntegerFrontEnd};
pub use image::{Aligned, ImageBytes, ImageError, Numeric};
pub use model::Model;
pub use schedule::Schedule;
pub use sequence::Sequence;
pub use state::State;
pub use step::{Step, StepError};
