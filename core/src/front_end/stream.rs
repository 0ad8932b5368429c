//! The stream: it accepts samples in pieces of any length, and returns the features of each complete frame.

use super::frames::{Due, Frames};
use super::mfcc::Mfcc;
use crate::error::BufferTooSmall;

/// A stream of samples that is converted to frames of f32 features. If the tables contain integers, each feature is
/// that of [`IntegerFrontEnd`](super::IntegerFrontEnd) times its scale.
///
/// ```
/// # fn show(front_end: &mut tidegate::front_end::FrontEnd, mut samples: &[i16]) {
/// while !samples.is_empty() {
///     let taken = front_end.push(samples);
///     samples = &samples[taken..];
///     while let Some(features) = front_end.next() {
///         // One step of the network.
/// #       let _ = features;
///     }
/// }
/// # }
/// ```
///
/// The features do not depend on how the samples are divided into pushes, not even in their last bit. With f32 tables
/// and the feature `libm` they are within 5e-4 of TensorFlow's for speech, and within 0.01 for a constant signal: there
/// the upper bands hold only the side lobes of the window, which f32 does not resolve better. They are within 1e-5 of
/// sonopy's.
#[derive(Debug)]
pub struct FrontEnd<'a, 'b> {
    mfcc: Mfcc<'a>,
    frames: Frames<'b>,
    /// The working memory of the method, and its state.
    work: &'b mut [u32],
    /// [coefficients]
    features: &'b mut [f32],
}

impl<'a, 'b> FrontEnd<'a, 'b> {
    /// Starts without samples. `memory` is borrowed until the front end is dropped.
    ///
    /// # Errors
    /// If `memory` is shorter than [`Mfcc::memory_words`].
    pub fn new(mfcc: &Mfcc<'a>, memory: &'b mut [u32]) -> Result<Self, BufferTooSmall> {
        let (samples, work, features) = mfcc.settings().split(memory)?;
        let features = bytemuck::must_cast_slice_mut(features);
        work.fill(0);
        Ok(Self { mfcc: *mfcc, frames: Frames::new(mfcc.settings(), samples), work, features })
    }

    /// Accepts samples until a frame is complete; returns the number of accepted samples, which is 0 while a frame
    /// waits for [`next`](Self::next).
    pub fn push(&mut self, samples: &[i16]) -> usize {
        self.frames.push(samples)
    }

    /// The features of the next frame, if it is complete; advances by the stride. The first frame is preceded by frames
    /// of zeros ([`lead_frames`](super::MfccSettings::lead_frames)).
    // Not an `Iterator`: the features are borrowed from the front end.
    #[expect(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Option<&[f32]> {
        match self.frames.due()? {
            Due::Zeros => self.features.fill(0.0),
            Due::Samples => {
                self.mfcc.extract(self.frames.frame(), self.work, self.features);
                self.frames.advance();
            }
        }
        Some(self.features)
    }

    /// Discards all samples and starts again.
    pub fn reset(&mut self) {
        self.frames.reset();
        self.work.fill(0);
    }
}
