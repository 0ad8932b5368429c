//! Backends that run a model: `core`, or `tidegate-fused` with the fastest instruction set of this CPU. Build scripts
//! do not run models, so they omit the latter.

use tidegate::{Batch, Model, SectionKind, Sequence, State, Step, StepError, Values};
#[cfg(feature = "fused")]
use tidegate_fused::FusedModel;

use crate::budget::{Budget, TooCostly};

/// A model and its backend.
#[derive(Clone)]
pub enum Engine<'m> {
    /// The reference kernels, as on a microcontroller.
    Scalar(Model<'m>),
    /// A model that is packed for this machine.
    #[cfg(feature = "fused")]
    Fused(FusedModel<'m>),
}

/// Scratch memory of a backend; its content has no meaning between steps.
pub enum Scratch {
    /// Scratch of the reference kernels.
    Scalar(Vec<u32>),
    /// Scratch of the packed model.
    #[cfg(feature = "fused")]
    Fused(tidegate_fused::Scratch),
}

/// The memory for running a model.
fn budget(model: &Model<'_>) -> Budget {
    Budget::of_file(model.image().section(SectionKind::Weights).map_or(0, <[u8]>::len))
}

/// Checks that there is memory for a state and the scratch of a model, which may be large for a small image.
///
/// # Errors
/// If they need more than 64 MiB plus 8 times the bytes of the weights, or more than [`allow`](crate::budget::allow) allows.
pub fn check_memory(model: &Model<'_>) -> Result<(), TooCostly> {
    budget(model).take(model.state_words().saturating_add(model.scratch_words()), size_of::<u32>())
}

impl<'m> From<&Model<'m>> for Engine<'m> {
    fn from(model: &Model<'m>) -> Self {
        Self::Scalar(*model)
    }
}

impl<'m> From<&Self> for Engine<'m> {
    fn from(engine: &Self) -> Self {
        engine.clone()
    }
}

impl<'m> Engine<'m> {
    /// Packs a model for this machine. The reference kernels run a model whose nodes share so many tensors that it
    /// exceeds the memory for an image of its size.
    #[cfg(feature = "fused")]
    pub fn fused(model: &Model<'m>) -> Self {
        FusedModel::try_new(model, budget(model).left()).map_or(Self::Scalar(*model), Self::Fused)
    }

    /// The fastest backend of this build. Integer numerics give the same bits in every backend.
    pub fn fastest(model: &Model<'m>) -> Self {
        #[cfg(feature = "fused")]
        return Self::fused(model);
        #[cfg(not(feature = "fused"))]
        Self::Scalar(*model)
    }

    /// The model.
    pub fn model(&self) -> &Model<'m> {
        match self {
            Self::Scalar(model) => model,
            #[cfg(feature = "fused")]
            Self::Fused(fused) => fused.model(),
        }
    }

    /// Name of the instruction set.
    pub fn isa(&self) -> &'static str {
        match self {
            Self::Scalar(_) => "scalar",
            #[cfg(feature = "fused")]
            Self::Fused(fused) => fused.isa().name(),
        }
    }

    /// The same model as one endless run.
    pub fn endless(&self) -> Self {
        match self {
            Self::Scalar(model) => Self::Scalar(model.endless()),
            #[cfg(feature = "fused")]
            Self::Fused(fused) => Self::Fused(fused.endless()),
        }
    }

    /// Allocates scratch for steps of this model.
    pub fn scratch(&self) -> Scratch {
        match self {
            Self::Scalar(model) => Scratch::Scalar(vec![0; model.scratch_words()]),
            #[cfg(feature = "fused")]
            Self::Fused(fused) => Scratch::Fused(fused.scratch()),
        }
    }

    /// [`Model::step_f32`], with its errors.
    pub fn step_f32(
        &self,
        state: &mut State<'_>,
        scratch: &mut Scratch,
        input: &[f32],
        output: &mut [f32],
    ) -> Result<Step, StepError> {
        match (self, scratch) {
            #[cfg(feature = "fused")]
            (Self::Fused(fused), Scratch::Fused(scratch)) => fused.step(state, scratch, input, output),
            (Self::Scalar(model), Scratch::Scalar(scratch)) => model.step_f32(state, scratch, input, output),
            #[cfg(feature = "fused")]
            _ => Err(StepError::OtherState),
        }
    }

    /// [`Model::step_observed`], with its errors.
    pub fn step_observed(
        &self,
        state: &mut State<'_>,
        scratch: &mut Scratch,
        inputs: &[&[f32]],
        outputs: &mut [&mut [f32]],
        observe: impl FnMut(usize, Values<'_>),
    ) -> Result<Step, StepError> {
        match (self, scratch) {
            #[cfg(feature = "fused")]
            (Self::Fused(fused), Scratch::Fused(scratch)) => {
                fused.step_observed(state, scratch, inputs, outputs, observe)
            }
            (Self::Scalar(model), Scratch::Scalar(scratch)) => {
                model.step_observed(state, scratch, inputs, outputs, observe)
            }
            #[cfg(feature = "fused")]
            _ => Err(StepError::OtherState),
        }
    }

    /// [`Model::step_i16`], with its errors.
    pub fn step_i16(
        &self,
        state: &mut State<'_>,
        scratch: &mut Scratch,
        input: &[i16],
        output: &mut [i16],
    ) -> Result<Step, StepError> {
        match (self, scratch) {
            #[cfg(feature = "fused")]
            (Self::Fused(fused), Scratch::Fused(scratch)) => {
                fused.step_ports_i16(state, scratch, &[input], &mut [output])
            }
            (Self::Scalar(model), Scratch::Scalar(scratch)) => model.step_i16(state, scratch, input, output),
            #[cfg(feature = "fused")]
            _ => Err(StepError::OtherState),
        }
    }

    /// [`Model::finish`], with its errors.
    pub fn finish(
        &self,
        state: &mut State<'_>,
        scratch: &mut Scratch,
        outputs: &mut [&mut [f32]],
    ) -> Result<Step, StepError> {
        match (self, scratch) {
            #[cfg(feature = "fused")]
            (Self::Fused(fused), Scratch::Fused(scratch)) => fused.finish(state, scratch, outputs),
            (Self::Scalar(model), Scratch::Scalar(scratch)) => model.finish(state, scratch, outputs),
            #[cfg(feature = "fused")]
            _ => Err(StepError::OtherState),
        }
    }

    /// [`Model::run_batch`], with its errors.
    pub fn run_batch(
        &self,
        batch: &mut Batch<'_>,
        scratch: &mut Scratch,
        inputs: &[&[f32]],
        outputs: &mut [&mut [f32]],
        sequence: &Sequence<'_>,
    ) -> Result<usize, StepError> {
        match (self, scratch) {
            #[cfg(feature = "fused")]
            (Self::Fused(fused), Scratch::Fused(scratch)) => fused.run_batch(batch, scratch, inputs, outputs, sequence),
            (Self::Scalar(model), Scratch::Scalar(scratch)) => {
                model.run_batch(batch, scratch, inputs, outputs, sequence)
            }
            #[cfg(feature = "fused")]
            _ => Err(StepError::OtherState),
        }
    }
}
