//! Computes features from microphone samples, one frame at a time: mel-frequency cepstral coefficients (MFCC), or those
//! of TensorFlow Lite Micro.
//!
//! ```text
//! frame of i16 → window → FFT → |bin| or |bin|² → mel bands → ln(max(·, floor)) → DCT-II → coefficients
//!                                                                               → decibels → 0 to 1 (LogMel)
//! ```
//!
//! The features are those of TensorFlow's `AudioSpectrogram` (with `magnitude_squared`) followed by `Mfcc`, or those of
//! sonopy, the front end of Mycroft Precise, or those of MLPerf Tiny ([`Method::LogMel`]). [`Method::Micro`] is another
//! chain. [`MfccSettings`] describes them, [`Mfcc`]
//! is the image section with the settings and their tables, in f32 or in integers, and [`FrontEnd`] or
//! [`IntegerFrontEnd`] is the stream. The tables come from the image, so that every target computes the same bits.
//!
//! | file | contents |
//! |---|---|
//! | `settings.rs` | the settings, their limits, the errors |
//! | `section.rs` | the layout of the section |
//! | `mfcc.rs` | [`Mfcc::parse`]: the settings and tables, checked |
//! | `tables.rs` | the tables that a packer writes into the section (feature `libm`) |
//! | `frames.rs` | collects samples into frames |
//! | `float.rs` | the features of a frame, in f32 |
//! | `stream.rs` | [`FrontEnd`], in f32 |
//! | `integer/` | the features of a frame, without floating point |
//! | `micro/` | the features of TensorFlow Lite Micro, without floating point |
//! | `integer_stream.rs` | [`IntegerFrontEnd`], without floating point |

mod float;
mod frames;
#[doc(hidden)]
pub mod integer;
mod integer_stream;
mod mfcc;
mod micro;
mod section;
mod settings;
mod stream;
#[cfg(feature = "libm")]
mod tables;

pub use integer_stream::IntegerFrontEnd;
pub use mfcc::{IntegerMfcc, Mfcc};
pub use settings::{First, FrontEndError, LogMel, MelCorners, Method, MfccSettings, Spectrum, Window};
pub use stream::FrontEnd;
