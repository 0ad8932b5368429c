//! The chain in f32.

use tidegate::detector::{Detector, DetectorSettings};
use tidegate::front_end::{self, Mfcc};
use tidegate::{State, Step, StepError};

use super::MODEL;

pub type Value = f32;
pub type FrontEnd<'b> = front_end::FrontEnd<'static, 'b>;

pub const MFCC: &Mfcc<'static> = MODEL.front_end().expect("the image has no front end");
const DETECTOR: &DetectorSettings<'static> = MODEL.detector().expect("the image has no detector");
pub const DETECTOR_WORDS: usize = DETECTOR.memory_words();

pub fn front_end(memory: &mut [u32]) -> Option<FrontEnd<'_>> {
    front_end::FrontEnd::new(MFCC, memory).ok()
}

pub fn step(
    state: &mut State<'_>,
    scratch: &mut [u32],
    frame: &[f32],
    posteriors: &mut [f32],
) -> Result<Step, StepError> {
    MODEL.step_f32(state, scratch, frame, posteriors)
}

/// The label of an event, if there is one.
pub struct Judge<'b>(Detector<'static, 'b>);

impl<'b> Judge<'b> {
    pub fn new(memory: &'b mut [u32]) -> Option<Self> {
        Detector::new(DETECTOR, memory).ok().map(Self)
    }

    pub fn push(&mut self, posteriors: &[f32], now_ms: u32) -> Option<usize> {
        Some(self.0.push(posteriors, now_ms).ok()??.label)
    }
}

/// What is printed of a posterior.
pub fn bits(posterior: f32) -> u32 {
    posterior.to_bits()
}
