//! Recurrent networks on microcontrollers.
#![no_std]
#![deny(missing_docs)]

#[cfg(not(any(feature = "libm", feature = "micromath")))]
compile_error!("enable the feature `libm` (default) or `micromath`: the activations need exp and tanh");

pub mod activation;
pub mod cell;
pub mod detector;
pub mod error;
pub mod front_end;
pub mod gate;
mod math;
mod words;

pub use error::{BufferTooSmall, WrongLength};
