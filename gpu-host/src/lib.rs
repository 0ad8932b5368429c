//! Training, and the way out of cuDNN. cuDNN keeps the parameters of a whole network in one opaque buffer, whose layout
//! may change from version to version; what leaves this crate are canonical weights, which `tidegate pack` reads.
//!
//! Nothing that `tidegate`, `tidegate-fused` or the command line need is in here.

#![deny(missing_docs)]

mod checkpoint;
pub mod cpu;
#[cfg(feature = "cudnn")]
pub mod device;
pub mod keras;
pub mod layout;
#[cfg(feature = "cudnn")]
pub mod library;
pub mod network;
pub mod record;
#[cfg(feature = "cudnn")]
pub mod recorder;
pub mod rnn;
pub mod saveable;
#[cfg(feature = "cudnn")]
pub mod status;
#[cfg(feature = "cudnn")]
pub mod sys;
pub mod tensorflow;
#[cfg(feature = "cudnn")]
pub mod timing;
pub mod train;
pub mod weights;
