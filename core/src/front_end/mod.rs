//! Microphone samples in, mel-frequency cepstral coefficients (MFCC) out, one frame at a time.
//!
//! ```text
//! frame of i16 → window → FFT → |bin| or |bin|² → mel bands → ln(max(·, floor)) → DCT-II → coefficients
//! ```
//!
//! The features are those of TensorFlow's `AudioSpectrogram` (with `magnitude_squared`) followed by `Mfcc`, or those of
//! sonopy, which Mycroft Precise hears with. [`MfccSettings`] names them, [`Mfcc`] is the image section with the settings and
//! their tables, of f32 or of integers, and [`FrontEnd`] or [`IntegerFrontEnd`] is the stream. The tables come from the image,
//! so every target computes with the same bits.
//!
//! | file | what |
//! |---|---|
//! | `settings.rs` | the settings, their limits, the errors |
//! | `section.rs` | the section's layout, and [`Mfcc::parse`] |
//! | `tables.rs` | what a packer writes into the section (feature `libm`) |
//! | `frames.rs` | samples in, frames of samples out |
//! | `stream.rs` | [`FrontEnd`]: in f32 |
//! | `integer/` | [`IntegerFrontEnd`]: without a float |

mod frames;
pub mod integer;
mod section;
mod settings;
mod stream;
#[cfg(feature = "libm")]
mod tables;

pub use integer::{IntegerFrontEnd, IntegerMfcc};
pub use section::Mfcc;
pub use settings::{First, FrontEndError, MelCorners, MfccSettings, Spectrum, Window};
pub use stream::FrontEnd;
