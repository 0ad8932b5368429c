//! The self-test of an image: inputs, and the outputs that they must give, bit for bit. A device that has received a model
//! runs the self-test before it trusts the model.

use core::fmt;

use crate::element::Element;
use crate::error::{BufferTooSmall, StepError};
use crate::image::SectionKind;
use crate::image::field::self_test as field;
use crate::image::read::u32_at;
use crate::model::Model;
use crate::state::State;
use crate::step::Step;

/// The self-test of a model with one input and one output: [`Model::self_test`].
#[derive(Clone, Copy, Debug)]
pub struct SelfTest<'m> {
    model: &'m Model<'m>,
    /// The inputs of all steps, then the outputs of the steps that have one.
    values: &'m [u8],
    steps: usize,
    outputs: usize,
}

/// Why a model has not passed its self-test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum SelfTestError {
    /// A step failed, for example because the memory is too short.
    Step(StepError),
    /// An element of the output of a step, both counted from 0, does not have the expected bits.
    #[expect(missing_docs, reason = "the line above says what the fields hold")]
    Differs { step: usize, element: usize },
    /// The number of steps that have an output is not the expected one.
    Outputs {
        /// Number of steps that should have an output.
        expected: usize,
    },
}

impl fmt::Display for SelfTestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Step(error) => write!(f, "the self-test cannot run: {error}"),
            Self::Differs { step, element } => {
                write!(f, "element {element} of the output of step {step} does not have the bits of the self-test")
            }
            Self::Outputs { expected } => write!(f, "other than {expected} steps of the self-test have an output"),
        }
    }
}

impl core::error::Error for SelfTestError {}

impl<'a> Model<'a> {
    /// The self-test of the image, if it has one.
    pub fn self_test<'m>(&'m self) -> Option<SelfTest<'m>>
    where
        'a: 'm,
    {
        let payload = self.image().section(SectionKind::SelfTest)?;
        let [steps, outputs] = [field::STEPS, field::OUTPUTS].map(|field| u32_at(payload, field).unwrap_or(0) as usize);
        Some(SelfTest { model: self, values: payload.get(field::LEN..)?, steps, outputs })
    }
}

impl SelfTest<'_> {
    /// Number of steps.
    pub const fn steps(&self) -> usize {
        self.steps
    }

    /// Number of steps that have an output.
    pub const fn outputs(&self) -> usize {
        self.outputs
    }

    /// Runs the model from a zero state, and compares the bits of every output. In an integer numeric every backend computes
    /// exactly the stored bits; in a float numeric they are those of this crate with the feature `libm`.
    ///
    /// `memory` has [`Model::runner_words`] words.
    ///
    /// # Errors
    /// If the memory is too short, or an output differs.
    // Not inlined: it is rare, and large with both elements.
    #[inline(never)]
    pub fn run(&self, memory: &mut [u32]) -> Result<(), SelfTestError> {
        if self.model.numeric().is_integer() {
            self.compare(memory, |state, scratch, x, y| self.model.step_i16(state, scratch, x, y))
        } else {
            self.compare(memory, |state, scratch, x, y| self.model.step_f32(state, scratch, x, y))
        }
    }

    fn compare<E: Element>(
        &self,
        memory: &mut [u32],
        step: impl Fn(&mut State<'_>, &mut [u32], &[E], &mut [E]) -> Result<Step, StepError>,
    ) -> Result<(), SelfTestError> {
        let model = self.model;
        let too_small = BufferTooSmall { needed: model.runner_words(), given: memory.len() };
        let too_small = SelfTestError::Step(StepError::Scratch(too_small));
        let (own, rest) = memory.split_at_mut_checked(model.state_words()).ok_or(too_small)?;
        let (scratch, rest) = rest.split_at_mut_checked(model.scratch_words()).ok_or(too_small)?;
        let output: &mut [E] = bytemuck::cast_slice_mut(rest);
        let output = output.get_mut(..model.output_size()).ok_or(too_small)?;
        let mut state = State::new(model, own).map_err(|error| SelfTestError::Step(error.into()))?;
        let other = SelfTestError::Outputs { expected: self.outputs };
        // The section is aligned, and the length of its header is a whole number of elements.
        let values: &[E] = bytemuck::try_cast_slice(self.values).unwrap_or_default();
        let (inputs, mut expected) = values.split_at_checked(self.steps * model.input_size()).ok_or(other)?;
        for (number, input) in inputs.chunks_exact(model.input_size().max(1)).enumerate() {
            let done = step(&mut state, scratch, input, output).map_err(SelfTestError::Step)?;
            if done.has_output() {
                let (own, later) = expected.split_at_checked(output.len()).ok_or(other)?;
                let differs = |(found, expected)| bytemuck::bytes_of::<E>(found) != bytemuck::bytes_of::<E>(expected);
                if let Some(element) = output.iter().zip(own).position(differs) {
                    return Err(SelfTestError::Differs { step: number, element });
                }
                expected = later;
            }
        }
        if expected.is_empty() { Ok(()) } else { Err(other) }
    }
}
