//! Checks and times the layers that `tidegate-gpu` runs on cuDNN. Only the developers of Tidegate run this program; it
//! is not published, and nothing depends on it.

#![deny(missing_docs)]

pub mod record;
#[cfg(feature = "cudnn")]
pub mod recorder;
#[cfg(feature = "cudnn")]
pub mod timing;
