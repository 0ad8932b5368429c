//! The wake word "okay nabu" of microWakeWord, from samples to a pin: the front end of TensorFlow Lite Micro, the network
//! and the detector, all in integers. Its output is the same on every machine.

#![no_std]
#![no_main]

mod spotter;

use firmware_examples::recording::{Clip, WAKE_WORD};
use firmware_examples::{Console, arch::entry, start};
use tidegate::{DetectorSettings, IntegerDetector, IntegerFrontEnd, IntegerMfcc, Model, State, StepError};

use spotter::Spotter;

const MODEL: Model<'static> = tidegate::include_model!(concat!(env!("OUT_DIR"), "/wake_word.tgi"))
    .integers_only()
    .expect("wake_word.tgi is not in integers");
const FEATURES: IntegerMfcc<'static> = MODEL.integer_front_end().expect("wake_word.tgi has no front end in integers");
const DETECTOR: &DetectorSettings<'static> = MODEL.detector().expect("wake_word.tgi has no detector");

struct Listening<'m> {
    front_end: IntegerFrontEnd<'static, 'm>,
    state: State<'m>,
    scratch: [u32; MODEL.scratch_words()],
    probability: [i16; 1],
    detector: IntegerDetector<'static, 'm>,
}

impl Spotter for Listening<'_> {
    const SAMPLE_RATE: u32 = FEATURES.settings().sample_rate;
    const HEARD: &'static [Clip] = &WAKE_WORD;

    fn reset(&mut self) {
        self.front_end.reset();
        self.state.reset();
    }

    fn push(&mut self, samples: &[i16]) -> usize {
        self.front_end.push(samples)
    }

    fn step(&mut self) -> Option<Result<bool, StepError>> {
        let frame = self.front_end.next()?;
        let step = MODEL.step_i16(&mut self.state, &mut self.scratch, frame, &mut self.probability);
        Some(step.map(tidegate::Step::has_output))
    }

    fn step_over_zeros(&mut self) -> Result<(), StepError> {
        let frame = [0; MODEL.input_size()];
        MODEL.step_i16(&mut self.state, &mut self.scratch, &frame, &mut self.probability).map(drop)
    }

    fn print(&self, console: &mut Console) {
        console.integers(&self.probability);
    }

    fn detect(&mut self, now_ms: u32) -> Option<&'static str> {
        let event = self.detector.push(&self.probability, now_ms).ok()??;
        MODEL.labels().nth(event.label)
    }
}

#[entry]
fn main() -> ! {
    start(run)
}

fn run() -> Option<()> {
    let (mut memory, mut sound) = ([0; MODEL.state_words()], [0; FEATURES.memory_words()]);
    let mut means = [0; DETECTOR.integer_memory_words()];
    spotter::run(Listening {
        front_end: IntegerFrontEnd::new(&FEATURES, &mut sound).ok()?,
        state: State::new(&MODEL, &mut memory).ok()?,
        scratch: [0; MODEL.scratch_words()],
        probability: [0],
        detector: IntegerDetector::new(DETECTOR, MODEL.output_scale(), &mut means).ok()?,
    })
}
