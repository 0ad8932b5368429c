#![doc = include_str!("../README.md")]

pub mod c_header;
/// The crate that runs the images. Build scripts use this re-export, so that the features they need on the host stay
/// separate from those of the firmware.
pub use tidegate;

pub mod backend;
pub mod batch;
pub mod budget;
mod buffer;
pub mod cadence;
pub mod calibrate;
pub mod canonical;
pub mod compare;
pub mod cost;
pub mod data;
#[cfg(feature = "denoise")]
pub mod denoise;
pub mod drift;
pub mod error;
pub mod export;
pub mod format;
pub mod heard;
pub mod in_place;
pub mod inputs;
pub mod inspect;
pub mod labeled;
pub mod load;
pub mod output;
pub mod pack;
pub mod packing;
pub mod progress;
pub mod quantize;
pub mod runner;
pub mod score;
pub mod sections;
pub mod self_test;
#[cfg(feature = "sign")]
pub mod sign;
pub mod sound;
pub mod streamed;
pub mod verify;
