//! One time step: inference on one page.

pub use crate::engine::Values;
use crate::engine::{self, Buffers, unseen};
use crate::error::BufferTooSmall;
pub use crate::error::{PortCount, ShapeError, StepError};
use crate::model::Model;
use crate::run::Pass;
use crate::state::{Owner, State};

/// What a step gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[must_use]
pub struct Step {
    output: bool,
}

impl Step {
    /// What another backend's step gave.
    pub const fn new(output: bool) -> Self {
        Self { output }
    }

    /// Whether the step wrote its outputs. Without, they are as they were: a window was not full yet.
    pub const fn has_output(self) -> bool {
        self.output
    }
}

impl Model<'_> {
    /// One time step of a model with one input and one output, both f32.
    ///
    /// `input` is `[input_size]`, `output` `[output_size]`. `scratch` may be shared by all states of a model.
    ///
    /// # Errors
    /// If a buffer has the wrong length, or the state is not this model's.
    pub fn step_f32(
        &self,
        state: &mut State<'_>,
        scratch: &mut [u32],
        input: &[f32],
        output: &mut [f32],
    ) -> Result<Step, StepError> {
        self.step_ports(state, scratch, &[input], &mut [output])
    }

    /// One time step, with a slice for each input and each output.
    ///
    /// # Errors
    /// As [`step_f32`](Self::step_f32).
    pub fn step_ports(
        &self,
        state: &mut State<'_>,
        scratch: &mut [u32],
        inputs: &[&[f32]],
        outputs: &mut [&mut [f32]],
    ) -> Result<Step, StepError> {
        self.step_observed(state, scratch, inputs, outputs, unseen)
    }

    /// [`step_ports`](Self::step_ports) that shows the output of every node as it is computed: `observe(node, values)`.
    /// Where several states take turns it shows each that steps, in their order; [`endless`](Self::endless) has one.
    ///
    /// # Errors
    /// As [`step_f32`](Self::step_f32).
    pub fn step_observed(
        &self,
        state: &mut State<'_>,
        scratch: &mut [u32],
        inputs: &[&[f32]],
        outputs: &mut [&mut [f32]],
        mut observe: impl FnMut(usize, Values<'_>),
    ) -> Result<Step, StepError> {
        self.check_owner(state.owner, state.words.len())?;
        let scratch = self.check_buffers(scratch, (inputs, 1), (outputs, 1))?;
        let buffers = Buffers { scratch, inputs, from: 0, outputs, to: 0, wanted: true };
        Ok(Step { output: self.engine()?(self, state, buffers, Pass::STEP, &mut observe) })
    }

    /// One time step of a model in an integer numeric with one input and one output: as [`step_f32`](Self::step_f32),
    /// without a float. What the integers count is in [`Port::scale`](crate::port::Port::scale); the least is -32767: with
    /// -32768 a sum may wrap, or a product change its sign, and the output may be any.
    ///
    /// # Errors
    /// As [`step_f32`](Self::step_f32); also if the numeric is a float one.
    pub fn step_i16(
        &self,
        state: &mut State<'_>,
        scratch: &mut [u32],
        input: &[i16],
        output: &mut [i16],
    ) -> Result<Step, StepError> {
        self.step_ports_i16(state, scratch, &[input], &mut [output])
    }

    /// [`step_i16`](Self::step_i16) with a slice for each input and each output.
    ///
    /// # Errors
    /// As [`step_i16`](Self::step_i16).
    pub fn step_ports_i16(
        &self,
        state: &mut State<'_>,
        scratch: &mut [u32],
        inputs: &[&[i16]],
        outputs: &mut [&mut [i16]],
    ) -> Result<Step, StepError> {
        if !self.numeric().is_integer() {
            return Err(StepError::FloatModel);
        }
        self.check_owner(state.owner, state.words.len())?;
        let scratch = self.check_buffers(scratch, (inputs, 1), (outputs, 1))?;
        let buffers = Buffers { scratch, inputs, from: 0, outputs, to: 0, wanted: true };
        Ok(Step { output: engine::advance::<i16, i16>(self, state, buffers, Pass::STEP, &mut unseen) })
    }

    /// Ends a sequence of a model that looks at windows: the steps since the last full window, if there are any, give
    /// an output as a window of their own, whose missing rows are zero. Other models have nothing to give at the end,
    /// nor have those whose schedule is windows, which are full or nothing.
    ///
    /// # Errors
    /// As [`step_ports`](Self::step_ports).
    pub fn finish(
        &self,
        state: &mut State<'_>,
        scratch: &mut [u32],
        outputs: &mut [&mut [f32]],
    ) -> Result<Step, StepError> {
        self.check_owner(state.owner, state.words.len())?;
        let scratch = self.check_outputs(scratch, (outputs, 1))?;
        let buffers = Buffers { scratch, inputs: &[], from: 0, outputs, to: 0, wanted: true };
        Ok(Step { output: self.engine()?(self, state, buffers, Pass::FINISH, &mut unseen) })
    }

    /// The id is what the packer says: two images may share one and yet need states of another length.
    pub(crate) fn check_owner(&self, owner: Owner, words: usize) -> Result<(), StepError> {
        let own = owner == Owner::of(self) && words == self.state_words();
        if own { Ok(()) } else { Err(StepError::OtherState) }
    }

    /// Whether f32 may go in and out.
    ///
    /// # Errors
    /// If the model is [without them](Model::integers_only).
    pub fn check_floats(&self) -> Result<(), StepError> {
        self.engine().map(drop)
    }

    /// Everything that can be wrong with the buffers, before anything changes; each has so many rows. Returns the
    /// scratch, as long as the model needs it.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check_buffers<'s, P>(
        &self,
        scratch: &'s mut [u32],
        (inputs, rows): (&[&[P]], usize),
        outputs: (&[&mut [P]], usize),
    ) -> Result<&'s mut [u32], StepError> {
        let (needed, given) = (self.inputs().count(), inputs.len());
        if needed != given {
            return Err(StepError::Inputs(PortCount { needed, given }));
        }
        for (port, (((_, size), _), input)) in self.inputs().slots().zip(inputs).enumerate() {
            let (needed, given) = (size.saturating_mul(rows), input.len());
            if needed != given {
                return Err(StepError::Input(ShapeError { port, needed, given }));
            }
        }
        self.check_outputs(scratch, outputs)
    }

    /// The outputs, each of so many rows, and the scratch.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check_outputs<'s, P>(
        &self,
        scratch: &'s mut [u32],
        (outputs, rows): (&[&mut [P]], usize),
    ) -> Result<&'s mut [u32], StepError> {
        let (needed, given) = (self.outputs().count(), outputs.len());
        if needed != given {
            return Err(StepError::Outputs(PortCount { needed, given }));
        }
        for (port, (((_, size), _), output)) in self.outputs().slots().zip(outputs).enumerate() {
            let (needed, given) = (size.saturating_mul(rows), output.len());
            if needed != given {
                return Err(StepError::Output(ShapeError { port, needed, given }));
            }
        }
        let (needed, given) = (self.scratch_words(), scratch.len());
        scratch.get_mut(..needed).ok_or(StepError::Scratch(BufferTooSmall { needed, given }))
    }
}
