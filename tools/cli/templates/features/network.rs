//! From a row of features to an output. The program and its test share this file.

use tidegate::{BufferTooSmall, Model, Runner, StepError};

/// The image, checked at compile time. Its bytes stay in flash.
const MODEL: Model<'static> = tidegate::include_model!("../model.tgi");

/// Milliseconds from one row to the next. FILL IN: the image does not say; 10 is an assumption.
pub const BLOCK_MS: u32 = 10;
/// The features of a step.
pub type Block = [f32; MODEL.input_size()];
/// The output of a step.
pub type Output = [f32; MODEL.output_size()];

/// The memory of a network.
pub struct Memory([u32; MODEL.runner_words()]);

impl Memory {
    pub const fn new() -> Self {
        Self([0; MODEL.runner_words()])
    }
}

/// A network over one sequence of rows.
pub struct Network<'m>(Runner<'static, &'m mut [u32]>);

impl<'m> Network<'m> {
    /// A network at the start of a sequence.
    pub fn new(memory: &'m mut Memory) -> Result<Self, BufferTooSmall> {
        Runner::new(&MODEL, &mut memory.0[..]).map(Self)
    }

    /// Processes a row. Calls `decide` if the step has an output, also with the label of its largest value, of the
    /// first if there are several.
    pub fn process(
        &mut self,
        block: &Block,
        mut decide: impl FnMut(&Output, Option<&'static str>),
    ) -> Result<(), StepError> {
        let Some(output) = self.0.step(block)? else { return Ok(()) };
        let labeled = output.iter().zip(MODEL.labels());
        let best = labeled.reduce(|best, next| if next.0 > best.0 { next } else { best });
        if let Some(values) = output.first_chunk() {
            decide(values, best.map(|(_, label)| label));
        }
        Ok(())
    }
}
