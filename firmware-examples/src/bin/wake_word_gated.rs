//! Two models that share one front end: the wake word of `wake_word`, and voice activity detection that gates it. An
//! event of the wake word counts only if there is speech, as in ESPHome.

#![no_std]
#![no_main]

mod spotter;

use firmware_examples::recording::{Clip, WAKE_WORD};
use firmware_examples::{Console, arch::entry, start};
use tidegate::{DetectorSettings, IntegerDetector, IntegerFrontEnd, IntegerMfcc, Model, State, StepError};

use spotter::Spotter;

const WORD: Model<'static> = tidegate::include_model!(concat!(env!("OUT_DIR"), "/wake_word.tgi"))
    .integers_only()
    .expect("wake_word.tgi is not in integers");
const GATE: Model<'static> = tidegate::include_model!(concat!(env!("OUT_DIR"), "/wake_gate.tgi"))
    .integers_only()
    .expect("wake_gate.tgi is not in integers");
const FEATURES: IntegerMfcc<'static> = WORD.integer_front_end().expect("wake_word.tgi has no front end in integers");
/// Words of scratch for a step of either model.
const SCRATCH: usize =
    if WORD.scratch_words() > GATE.scratch_words() { WORD.scratch_words() } else { GATE.scratch_words() };

/// A model with its state, its probability and its detector.
struct Listener<'m> {
    model: &'static Model<'static>,
    state: State<'m>,
    probability: [i16; 1],
    detector: IntegerDetector<'static, 'm>,
}

impl Listener<'_> {
    fn step(&mut self, scratch: &mut [u32], frame: &[i16]) -> Result<bool, StepError> {
        let step = self.model.step_i16(&mut self.state, scratch, frame, &mut self.probability)?;
        Ok(step.has_output())
    }

    /// The label that the detector reports.
    fn detect(&mut self, now_ms: u32) -> Option<&'static str> {
        let event = self.detector.push(&self.probability, now_ms).ok()??;
        self.model.labels().nth(event.label)
    }
}

struct Listening<'m> {
    front_end: IntegerFrontEnd<'static, 'm>,
    scratch: [u32; SCRATCH],
    word: Listener<'m>,
    gate: Listener<'m>,
}

impl Spotter for Listening<'_> {
    const SAMPLE_RATE: u32 = FEATURES.settings().sample_rate;
    const HEARD: &'static [Clip] = &WAKE_WORD;

    fn reset(&mut self) {
        self.front_end.reset();
        self.word.state.reset();
        self.gate.state.reset();
    }

    fn push(&mut self, samples: &[i16]) -> usize {
        self.front_end.push(samples)
    }

    fn step(&mut self) -> Option<Result<bool, StepError>> {
        let frame = self.front_end.next()?;
        // Both models have an output at every third frame.
        let gated = self.gate.step(&mut self.scratch, frame);
        Some(gated.and_then(|_| self.word.step(&mut self.scratch, frame)))
    }

    fn step_over_zeros(&mut self) -> Result<(), StepError> {
        let frame = [0; WORD.input_size()];
        self.gate.step(&mut self.scratch, &frame)?;
        self.word.step(&mut self.scratch, &frame).map(drop)
    }

    fn print(&self, console: &mut Console) {
        let ([word], [gate]) = (self.word.probability, self.gate.probability);
        console.integers(&[word, gate]);
    }

    fn detect(&mut self, now_ms: u32) -> Option<&'static str> {
        let (heard, speech) = (self.word.detect(now_ms), self.gate.detect(now_ms));
        heard.filter(|_| speech.is_some())
    }
}

#[entry]
fn main() -> ! {
    start(run)
}

fn run() -> Option<()> {
    const OF_WORD: &DetectorSettings<'static> = WORD.detector().expect("wake_word.tgi has no detector");
    const OF_GATE: &DetectorSettings<'static> = GATE.detector().expect("wake_gate.tgi has no detector");
    let mut sound = [0; FEATURES.memory_words()];
    let (mut word, mut gate) = ([0; WORD.state_words()], [0; GATE.state_words()]);
    let (mut of_word, mut of_gate) = ([0; OF_WORD.integer_memory_words()], [0; OF_GATE.integer_memory_words()]);
    spotter::run(Listening {
        front_end: IntegerFrontEnd::new(&FEATURES, &mut sound).ok()?,
        scratch: [0; SCRATCH],
        word: Listener {
            model: &WORD,
            state: State::new(&WORD, &mut word).ok()?,
            probability: [0],
            detector: IntegerDetector::new(OF_WORD, WORD.output_scale(), &mut of_word).ok()?,
        },
        gate: Listener {
            model: &GATE,
            state: State::new(&GATE, &mut gate).ok()?,
            probability: [0],
            detector: IntegerDetector::new(OF_GATE, GATE.output_scale(), &mut of_gate).ok()?,
        },
    })
}
