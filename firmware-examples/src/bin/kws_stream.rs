//! A keyword spotter in integers, from samples to events: GRU_S in `i8x16`, with its weights in the layout of the core.
//! Its output is the same on every machine, and it contains no floating-point code.

#![no_std]
#![no_main]

mod spotter;

use firmware_examples::recording::{CLIPS, Clip};
use firmware_examples::{Console, arch::entry, start};
use tidegate::{DetectorSettings, IntegerDetector, IntegerFrontEnd, IntegerMfcc, Model, State, StepError};

use spotter::Spotter;

const MODEL: Model<'static> =
    tidegate::include_model!(concat!(env!("OUT_DIR"), "/kws.tgi")).integers_only().expect("kws.tgi is not in integers");
const MFCC: IntegerMfcc<'static> = MODEL.integer_front_end().expect("kws.tgi has no front end in integers");
const DETECTOR: &DetectorSettings<'static> = MODEL.detector().expect("kws.tgi has no detector");

struct Spotting<'m> {
    front_end: IntegerFrontEnd<'static, 'm>,
    state: State<'m>,
    scratch: [u32; MODEL.scratch_words()],
    posteriors: [i16; MODEL.output_size()],
    detector: IntegerDetector<'static, 'm>,
}

impl Spotter for Spotting<'_> {
    const SAMPLE_RATE: u32 = MFCC.settings().sample_rate;
    const HEARD: &'static [Clip] = &CLIPS;

    fn reset(&mut self) {
        self.front_end.reset();
        self.state.reset();
    }

    fn push(&mut self, samples: &[i16]) -> usize {
        self.front_end.push(samples)
    }

    fn step(&mut self) -> Option<Result<bool, StepError>> {
        let frame = self.front_end.next()?;
        let step = MODEL.step_i16(&mut self.state, &mut self.scratch, frame, &mut self.posteriors);
        Some(step.map(tidegate::Step::has_output))
    }

    fn step_over_zeros(&mut self) -> Result<(), StepError> {
        let frame = [0; MODEL.input_size()];
        MODEL.step_i16(&mut self.state, &mut self.scratch, &frame, &mut self.posteriors).map(drop)
    }

    fn print(&self, console: &mut Console) {
        console.integers(&self.posteriors);
    }

    fn detect(&mut self, now_ms: u32) -> Option<&'static str> {
        let event = self.detector.push(&self.posteriors, now_ms).ok()??;
        MODEL.labels().nth(event.label)
    }
}

#[entry]
fn main() -> ! {
    start(run)
}

fn run() -> Option<()> {
    let (mut memory, mut sound) = ([0; MODEL.state_words()], [0; MFCC.memory_words()]);
    let mut means = [0; DETECTOR.integer_memory_words()];
    spotter::run(Spotting {
        front_end: IntegerFrontEnd::new(&MFCC, &mut sound).ok()?,
        state: State::new(&MODEL, &mut memory).ok()?,
        scratch: [0; MODEL.scratch_words()],
        posteriors: [0; MODEL.output_size()],
        detector: IntegerDetector::new(DETECTOR, MODEL.output_scale(), &mut means).ok()?,
    })
}
