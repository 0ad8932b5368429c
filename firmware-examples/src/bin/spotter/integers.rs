//! The chain in integers: what a core without an FPU runs.

use tidegate::detector::{DetectorSettings, IntegerDetector};
use tidegate::front_end::{IntegerFrontEnd, IntegerMfcc};
use tidegate::{State, Step, StepError};

use super::{MODEL, WHOLE};

pub type Value = i16;
pub type FrontEnd<'b> = IntegerFrontEnd<'static, 'b>;

pub const MFCC: &IntegerMfcc<'static> =
    &WHOLE.front_end().expect("the image has no front end").integer().expect("the front end is not one of integers");
const DETECTOR: &DetectorSettings<'static> = MODEL.detector().expect("the image has no detector");
pub const DETECTOR_WORDS: usize = DETECTOR.integer_memory_words();

pub fn front_end(memory: &mut [u32]) -> Option<FrontEnd<'_>> {
    IntegerFrontEnd::new(MFCC, memory).ok()
}

pub fn step(
    state: &mut State<'_>,
    scratch: &mut [u32],
    frame: &[i16],
    posteriors: &mut [i16],
) -> Result<Step, StepError> {
    MODEL.step_i16(state, scratch, frame, posteriors)
}

/// The label of an event, if there is one.
pub struct Judge<'b>(IntegerDetector<'static, 'b>);

impl<'b> Judge<'b> {
    pub fn new(memory: &'b mut [u32]) -> Option<Self> {
        IntegerDetector::new(DETECTOR, MODEL.output_scale(), memory).ok().map(Self)
    }

    pub fn push(&mut self, posteriors: &[i16], now_ms: u32) -> Option<usize> {
        Some(self.0.push(posteriors, now_ms).ok()??.label)
    }
}

/// The bits of the f32 that a posterior over 2^15 is, without a float: all programs print the same.
pub fn bits(posterior: i16) -> u32 {
    let magnitude = u32::from(posterior.unsigned_abs());
    let Some(top) = magnitude.checked_ilog2() else { return 0 };
    let sign = if posterior < 0 { 1 << 31 } else { 0 };
    sign | (127 - 15 + top) << 23 | (magnitude << (23 - top)) & 0x7f_ffff
}
