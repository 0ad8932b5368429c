//! From sound to labels: front end → network → detector. The program and its test share this file.

use tidegate::{BufferTooSmall, Detector, DetectorSettings, FrontEnd, Mfcc, Model, State, StepError};

/// The image, checked at compile time. Its bytes stay in flash.
const MODEL: Model<'static> = tidegate::include_model!("../model.tgi");
const FRONT_END: &Mfcc<'static> = MODEL.front_end().expect("model.tgi has no front end");
const DETECTOR: Option<&DetectorSettings<'static>> = MODEL.detector();
const DETECTOR_WORDS: usize = match DETECTOR {
    Some(detector) => detector.memory_words(),
    None => 0,
};

/// Samples per second.
pub const SAMPLE_RATE: u32 = FRONT_END.settings().sample_rate;
/// Milliseconds of a block.
pub const BLOCK_MS: u32 = 10;
/// Samples that arrive together.
pub type Block = [i16; (SAMPLE_RATE * BLOCK_MS / 1000) as usize];
/// The posteriors of a decision.
pub type Output = [f32; MODEL.output_size()];

/// The memory of a network.
pub struct Memory {
    state: [u32; MODEL.state_words()],
    scratch: [u32; MODEL.scratch_words()],
    front_end: [u32; FRONT_END.memory_words()],
    detector: [u32; DETECTOR_WORDS],
}

impl Memory {
    pub const fn new() -> Self {
        Self {
            state: [0; MODEL.state_words()],
            scratch: [0; MODEL.scratch_words()],
            front_end: [0; FRONT_END.memory_words()],
            detector: [0; DETECTOR_WORDS],
        }
    }
}

/// A network over one stream of sound.
pub struct Network<'m> {
    front_end: FrontEnd<'static, 'm>,
    state: State<'m>,
    scratch: &'m mut [u32],
    detector: Option<Detector<'static, 'm>>,
    now_ms: u32,
}

impl<'m> Network<'m> {
    /// A network at the start of a stream.
    pub fn new(memory: &'m mut Memory) -> Result<Self, BufferTooSmall> {
        Ok(Self {
            front_end: FrontEnd::new(FRONT_END, &mut memory.front_end)?,
            state: State::new(&MODEL, &mut memory.state)?,
            scratch: &mut memory.scratch,
            detector: DETECTOR.map(|settings| Detector::new(settings, &mut memory.detector)).transpose()?,
            now_ms: 0,
        })
    }

    /// Processes a block. Calls `decide` with each output of the network, and with the label that is detected then.
    pub fn process(
        &mut self,
        block: &Block,
        mut decide: impl FnMut(&Output, Option<&'static str>),
    ) -> Result<(), StepError> {
        self.now_ms = self.now_ms.wrapping_add(BLOCK_MS);
        let mut samples = block.as_slice();
        while !samples.is_empty() {
            samples = samples.get(self.front_end.push(samples)..).unwrap_or_default();
            while let Some(frame) = self.front_end.next() {
                let mut output = [0.0; MODEL.output_size()];
                if !MODEL.step_f32(&mut self.state, self.scratch, frame, &mut output)?.has_output() {
                    continue;
                }
                let detector = self.detector.as_mut();
                let event = detector.and_then(|detector| detector.push(&output, self.now_ms).ok().flatten());
                decide(&output, event.and_then(|event| MODEL.labels().nth(event.label)));
            }
        }
        Ok(())
    }
}
