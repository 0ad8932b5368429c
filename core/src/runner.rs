//! A model with the memory that it needs.

use crate::error::{BufferTooSmall, StepError};
use crate::model::Model;
use crate::state::State;
use crate::step::Step;

/// A model with its state, scratch and output in one piece of memory.
///
/// The memory is anything that holds [`Model::runner_words`] words: an array for a model that is a constant, a slice, or a
/// `Vec<u32>`. For several streams of one model, which can share the scratch, and for models with several inputs or outputs,
/// use [`State`] and [`Model::step_ports`].
///
/// ```
/// use tidegate::{Model, Runner};
///
/// const MODEL: Model = tidegate::include_model!("../examples/kws.tgi");
///
/// let mut runner = Runner::new(&MODEL, [0; MODEL.runner_words()])?;
/// assert!(runner.step(&[0.5, -1.0])?.is_none(), "the first window has three steps");
/// assert!(runner.step(&[0.5, -1.0])?.is_none());
/// let posteriors = runner.step(&[0.5, -1.0])?.expect("the first window is full");
/// assert!((posteriors.iter().sum::<f32>() - 1.0).abs() < 1e-6);
///
/// runner.reset();
/// assert!(runner.step(&[0.5, -1.0])?.is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Runner<'m, M> {
    model: &'m Model<'m>,
    memory: M,
}

impl Model<'_> {
    /// Words of memory that a [`Runner`] needs: state, scratch and the first output in f32.
    pub const fn runner_words(&self) -> usize {
        self.state_words() + self.scratch_words() + self.output_size()
    }
}

impl<'m, M: AsRef<[u32]> + AsMut<[u32]>> Runner<'m, M> {
    /// Creates a runner whose state is zero.
    ///
    /// # Errors
    /// If `memory` is shorter than [`Model::runner_words`].
    pub fn new(model: &'m Model<'m>, mut memory: M) -> Result<Self, BufferTooSmall> {
        let words = memory.as_mut();
        let (needed, given) = (model.runner_words(), words.len());
        words.get_mut(..needed).ok_or(BufferTooSmall { needed, given })?.fill(0);
        Ok(Self { model, memory })
    }

    /// The model.
    pub const fn model(&self) -> &'m Model<'m> {
        self.model
    }

    /// The state, to save, restore or set it.
    ///
    /// # Errors
    /// If the memory has become shorter.
    pub fn state(&mut self) -> Result<State<'_>, BufferTooSmall> {
        State::over(self.model, self.memory.as_mut())
    }

    /// Resets the state to zero: the next step is the first of a sequence.
    pub fn reset(&mut self) {
        if let Ok(mut state) = self.state() {
            state.reset();
        }
    }

    /// Runs one time step of a model with one input and one output. Returns the output if the step has one.
    ///
    /// # Errors
    /// If the input has the wrong length, or the model has several inputs or outputs.
    pub fn step(&mut self, input: &[f32]) -> Result<Option<&[f32]>, StepError> {
        self.run(|model, state, scratch, output| model.step_f32(state, scratch, input, output))
    }

    /// [`step`](Self::step) of a model in an integer numeric, without a float: see [`Model::step_i16`].
    ///
    /// # Errors
    /// As [`step`](Self::step); also if the numeric is a float one.
    pub fn step_i16(&mut self, input: &[i16]) -> Result<Option<&[i16]>, StepError> {
        self.run(|model, state, scratch, output| model.step_i16(state, scratch, input, output))
    }

    /// Ends a sequence, as [`Model::finish`]. Returns the output if there is one.
    ///
    /// # Errors
    /// If the model has several outputs.
    pub fn finish(&mut self) -> Result<Option<&[f32]>, StepError> {
        self.run(|model, state, scratch, output| model.finish(state, scratch, &mut [output]))
    }

    /// [`finish`](Self::finish) of a model in an integer numeric, without a float.
    ///
    /// # Errors
    /// As [`finish`](Self::finish); also if the numeric is a float one.
    pub fn finish_i16(&mut self) -> Result<Option<&[i16]>, StepError> {
        self.run(|model, state, scratch, output| model.finish_i16(state, scratch, &mut [output]))
    }

    /// Lends the parts of the memory to a step.
    #[inline(always)]
    fn run<P: bytemuck::Pod>(
        &mut self,
        step: impl FnOnce(&Model<'_>, &mut State<'_>, &mut [u32], &mut [P]) -> Result<Step, StepError>,
    ) -> Result<Option<&[P]>, StepError> {
        let model = self.model;
        let words = self.memory.as_mut();
        let too_small = StepError::Scratch(BufferTooSmall { needed: model.runner_words(), given: words.len() });
        let (own, rest) = words.split_at_mut_checked(model.state_words()).ok_or(too_small)?;
        let (scratch, rest) = rest.split_at_mut_checked(model.scratch_words()).ok_or(too_small)?;
        let output: &mut [P] = bytemuck::cast_slice_mut(rest);
        let output = output.get_mut(..model.output_size()).ok_or(too_small)?;
        let mut state = State::over(model, own).map_err(StepError::Scratch)?;
        let step = step(model, &mut state, scratch, output)?;
        Ok(step.has_output().then_some(output))
    }
}
