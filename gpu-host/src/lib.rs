#![doc = include_str!("../README.md")]
#![deny(missing_docs)]

mod checkpoint;
pub mod cpu;
#[cfg(feature = "cudnn")]
pub mod device;
pub mod keras;
pub mod layout;
#[cfg(feature = "cudnn")]
mod library;
pub mod network;
pub mod rnn;
pub mod saveable;
#[cfg(feature = "cudnn")]
pub mod status;
#[cfg(feature = "cudnn")]
#[doc(hidden)]
pub mod sys;
pub mod tensorflow;
pub mod train;
pub mod weights;
