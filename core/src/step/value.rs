//! The number types at the ports of a model, and the pass that each of them takes.

use super::{StepError, advance, advance_rows};
use crate::element::Observe;
use crate::model::Model;
use crate::node::Pass;
use crate::port::Buffers;

/// A number type at the ports of a model: f32 or i16.
pub trait PortValue: bytemuck::Pod {
    /// Checks that the ports of `model` accept this number type.
    ///
    /// # Errors
    /// If they do not.
    #[doc(hidden)]
    fn check(model: &Model<'_>) -> Result<(), StepError>;

    /// Runs a pass through a model that has been [checked](Self::check). The buffers have been checked, too. Returns
    /// whether there is an output; `None` if the pass is impossible, because the image has changed since it was parsed.
    #[doc(hidden)]
    #[expect(private_interfaces, reason = "only this crate runs passes")]
    fn advance(
        model: &Model<'_>,
        words: &mut [u32],
        buffers: Buffers<'_, '_, '_, Self>,
        pass: Pass,
        observe: Observe<'_>,
    ) -> Option<bool>;

    /// Runs `rows` steps with an output each if the model is one that `step::advance_rows` accepts. Returns whether it is;
    /// otherwise as [`advance`](Self::advance).
    #[doc(hidden)]
    #[expect(private_interfaces, reason = "only this crate runs passes")]
    fn advance_rows(
        model: &Model<'_>,
        words: &mut [u32],
        buffers: Buffers<'_, '_, '_, Self>,
        rows: usize,
    ) -> Option<bool>;
}

impl PortValue for f32 {
    fn check(model: &Model<'_>) -> Result<(), StepError> {
        model.check_floats()
    }

    #[expect(private_interfaces, reason = "only this crate runs passes")]
    fn advance(
        model: &Model<'_>,
        words: &mut [u32],
        buffers: Buffers<'_, '_, '_, f32>,
        pass: Pass,
        observe: Observe<'_>,
    ) -> Option<bool> {
        model.engine().ok().and_then(|engine| engine(model, words, buffers, pass, observe))
    }

    #[expect(private_interfaces, reason = "only this crate runs passes")]
    fn advance_rows(
        model: &Model<'_>,
        words: &mut [u32],
        buffers: Buffers<'_, '_, '_, f32>,
        rows: usize,
    ) -> Option<bool> {
        if model.numeric().is_integer() {
            return Some(false);
        }
        advance_rows(model, words, buffers, rows)
    }
}

impl PortValue for i16 {
    fn check(model: &Model<'_>) -> Result<(), StepError> {
        if model.numeric().is_integer() { Ok(()) } else { Err(StepError::FloatModel) }
    }

    /// Inlined with all of [`advance`], which the compiler then fits to its caller: that saves 90 to 160 instructions per
    /// step.
    #[inline(always)]
    #[expect(private_interfaces, reason = "only this crate runs passes")]
    fn advance(
        model: &Model<'_>,
        words: &mut [u32],
        buffers: Buffers<'_, '_, '_, i16>,
        pass: Pass,
        observe: Observe<'_>,
    ) -> Option<bool> {
        advance::<i16, i16>(model, words, buffers, pass, observe)
    }

    #[expect(private_interfaces, reason = "only this crate runs passes")]
    fn advance_rows(
        model: &Model<'_>,
        words: &mut [u32],
        buffers: Buffers<'_, '_, '_, i16>,
        rows: usize,
    ) -> Option<bool> {
        advance_rows(model, words, buffers, rows)
    }
}
