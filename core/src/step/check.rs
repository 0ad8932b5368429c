//! The checks of a step. After them a step cannot fail.

use crate::error::{BufferTooSmall, PortCount, ShapeError, StepError};
use crate::model::Model;

impl Model<'_> {
    /// Checks that the ports accept f32.
    ///
    /// # Errors
    /// If the model has [integer ports only](Model::integers_only).
    #[doc(hidden)]
    pub fn check_floats(&self) -> Result<(), StepError> {
        self.engine().map(drop)
    }

    /// Checks all buffers, which have `rows` rows each, before anything changes. Returns the part of the scratch that
    /// the model needs.
    ///
    /// # Errors
    /// The first error found.
    #[doc(hidden)]
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

    /// Checks the outputs, which have `rows` rows each, and the scratch. Returns the part of the scratch that the model
    /// needs.
    ///
    /// # Errors
    /// The first error found.
    #[doc(hidden)]
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
