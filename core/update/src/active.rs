//! The model that runs.

use tidegate::Model;

use crate::tested::{TestError, Tested};
use crate::trusted::Trusted;

/// The outcome of [`Slots::open`](crate::Slots::open) after a reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Boot {
    /// No bank has an image.
    Empty,
    /// The confirmed image runs.
    Confirmed,
    /// A new image runs on trial: test it, then [confirm](crate::Updater::confirm) it.
    Trial,
    /// The image on trial was not confirmed before the reset: the previous image runs again.
    Reverted,
}

/// The model that runs. It borrows its bank, which therefore cannot be erased.
///
/// An update goes to the other bank, and [`Slots::switch`](crate::Slots::switch) needs both banks back:
///
/// ```compile_fail,E0499
/// # use tidegate_update::*;
/// # use embedded_storage::nor_flash::NorFlash;
/// fn switch<B: NorFlash + Mapped, J: NorFlash<Error = B::Error>>(slots: &mut Slots<B, J>) {
///     let (active, _) = slots.split();
///     slots.switch();
///     drop(active);
/// }
/// ```
///
/// Without the active model it compiles:
///
/// ```
/// # use tidegate_update::*;
/// # use embedded_storage::nor_flash::NorFlash;
/// fn switch<B: NorFlash + Mapped, J: NorFlash<Error = B::Error>>(slots: &mut Slots<B, J>) {
///     let (active, _) = slots.split();
///     drop(active);
///     slots.switch();
/// }
/// ```
#[derive(Debug)]
pub struct Active<'bank>(pub(crate) Trusted<'bank>);

impl<'bank> Active<'bank> {
    /// The model. A [`State`](tidegate::State) of another model is refused by its id.
    pub fn model(&self) -> &Model<'bank> {
        self.0.model()
    }

    /// The verified image.
    pub fn trusted(&self) -> &Trusted<'bank> {
        &self.0
    }

    /// Runs the self-test of the image. `memory` has [`Model::runner_words`] words.
    ///
    /// # Errors
    /// If the image has no self-test, the memory is too short, or the model does not give the expected bits: then
    /// [revert](crate::Slots::revert), or reset.
    pub fn self_test(&self, memory: &mut [u32]) -> Result<Tested, TestError> {
        self.model().self_test().ok_or(TestError::NoSelfTest)?.run(memory).map_err(TestError::Failed)?;
        Ok(Tested(self.0.signed().mark()))
    }

    /// Declares that the firmware has tested a model whose image has no self-test.
    ///
    /// # Errors
    /// If the image has a self-test, which must be run instead.
    pub fn tested_by_firmware(&self) -> Result<Tested, TestError> {
        if self.model().self_test().is_some() {
            Err(TestError::HasSelfTest)
        } else {
            Ok(Tested(self.0.signed().mark()))
        }
    }
}
