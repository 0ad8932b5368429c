//! The stream in integers, of every method.

use super::frames::{Due, Frames};
use super::mfcc::IntegerMfcc;
use crate::error::BufferTooSmall;

/// A stream of samples that is converted to frames of integer features, each divided by the scale of the model's input:
/// the input of [`Model::step_i16`](crate::Model::step_i16). It uses no floating point.
///
/// The calls are those of [`FrontEnd`](super::FrontEnd). The features do not depend on how the samples are divided into
/// calls.
#[derive(Debug)]
pub struct IntegerFrontEnd<'a, 'b> {
    mfcc: IntegerMfcc<'a>,
    frames: Frames<'b>,
    /// The working memory of the method, and its state.
    work: &'b mut [u32],
    /// [coefficients]
    features: &'b mut [i16],
}

impl<'a, 'b> IntegerFrontEnd<'a, 'b> {
    /// Starts without samples. `memory` is borrowed until the front end is dropped.
    ///
    /// # Errors
    /// If `memory` is shorter than [`IntegerMfcc::memory_words`].
    pub fn new(mfcc: &IntegerMfcc<'a>, memory: &'b mut [u32]) -> Result<Self, BufferTooSmall> {
        let (samples, work, features) = mfcc.settings().split(memory)?;
        let features: &mut [i16] = bytemuck::must_cast_slice_mut(features);
        let too_small = BufferTooSmall { needed: mfcc.memory_words(), given: 0 };
        let features = features.get_mut(..mfcc.settings().coefficients as usize).ok_or(too_small)?;
        work.fill(0);
        Ok(Self { mfcc: *mfcc, frames: Frames::new(mfcc.settings(), samples), work, features })
    }

    /// Accepts samples until a frame is complete; returns the number of accepted samples, which is 0 while a frame
    /// waits for [`next`](Self::next).
    pub fn push(&mut self, samples: &[i16]) -> usize {
        self.frames.push(samples)
    }

    /// The features of the next frame, if it is complete; advances by the stride. The first frame is preceded by frames
    /// of zeros ([`MfccSettings::lead_frames`](super::MfccSettings::lead_frames)).
    // Not an `Iterator`: the features are borrowed from the front end.
    #[expect(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Option<&[i16]> {
        match self.frames.due()? {
            Due::Zeros => self.features.fill(0),
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
