//! Two banks and a journal: which bank runs, and which one an update goes to.

use tidegate::Model;

use crate::error::TrustError;
use crate::fault::UpdateError;
use crate::flash::{Flash, Mapped};
use crate::journal::Journal;
use crate::key::{Accept, Keys};
use crate::record::{Bank, Phase, Record, Wear};
use crate::tested::{TestError, Tested};
use crate::trusted::{Parse, Trusted, vet};
use crate::updater::{Running, Updater};

/// The outcome of [`Slots::open`] after a reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Boot {
    /// No bank has an image.
    Empty,
    /// The confirmed image runs.
    Confirmed,
    /// A new image runs on trial: test it, then [confirm](Updater::confirm) it.
    Trial,
    /// The image on trial was not confirmed before the reset: the previous image runs again.
    Reverted,
}

/// Two banks for images, and a journal in flash of its own.
#[derive(Debug)]
pub struct Slots<B, J> {
    banks: [B; 2],
    journal: Journal<J>,
    keys: Keys,
    parse: Parse,
    boot: Boot,
}

/// The model that runs. It borrows its bank, which therefore cannot be erased.
///
/// An update goes to the other bank, and [`Slots::switch`] needs both banks back:
///
/// ```compile_fail,E0499
/// # use tidegate_update::*;
/// # use embedded_storage_async::nor_flash::NorFlash;
/// async fn switch<B: NorFlash + Mapped, J: NorFlash<Error = B::Error>>(slots: &mut Slots<B, J>) {
///     let (active, _) = slots.split();
///     slots.switch().await;
///     drop(active);
/// }
/// ```
///
/// Without the active model it compiles:
///
/// ```
/// # use tidegate_update::*;
/// # use embedded_storage_async::nor_flash::NorFlash;
/// async fn switch<B: NorFlash + Mapped, J: NorFlash<Error = B::Error>>(slots: &mut Slots<B, J>) {
///     let (active, _) = slots.split();
///     drop(active);
///     slots.switch().await;
/// }
/// ```
#[derive(Debug)]
pub struct Active<'bank>(Trusted<'bank>);

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
    /// [revert](Slots::revert), or reset.
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

impl<B: Flash + Mapped, J: Flash<Error = B::Error>> Slots<B, J> {
    /// Reads the journal after a reset, and records the consequences: a pending image goes on trial, and an image on trial
    /// that was not confirmed is discarded. Without a journal, a trusted image in the first bank is the confirmed one, as a
    /// factory flashes it.
    ///
    /// # Errors
    /// If the flash fails, or its geometry is not supported.
    pub fn open(banks: [B; 2], journal: J, keys: Keys) -> impl Future<Output = Result<Self, UpdateError<B::Error>>> {
        Self::open_by(|bytes| Model::parse(bytes), banks, journal, keys)
    }

    /// [`open`](Self::open) with `parse` in place of [`Model::parse`], which links the code of every cell into the firmware.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub async fn open_by(
        parse: Parse,
        banks: [B; 2],
        journal: J,
        mut keys: Keys,
    ) -> Result<Self, UpdateError<B::Error>> {
        let fits = |bank: &B| Record::LEN.is_multiple_of(bank.write_size()) && bank.erase_size() > 0;
        if !banks.iter().all(fits) {
            return Err(UpdateError::Geometry);
        }
        let (journal, found) = Journal::open(journal, &mut keys).await?;
        let mut slots = Self { banks, journal, keys, parse, boot: Boot::Empty };
        if !found {
            slots.adopt().await?;
        }
        let boot = match slots.journal.state().phase {
            Phase::Pending if slots.trusted_spare().is_some() => {
                slots.enter(Phase::Trial).await?;
                Boot::Trial
            }
            Phase::Pending | Phase::Trial => {
                slots.enter(Phase::Idle).await?;
                Boot::Reverted
            }
            _ if slots.journal.state().active.is_none() => Boot::Empty,
            _ => Boot::Confirmed,
        };
        slots.boot = boot;
        Ok(slots)
    }

    /// The outcome of the last reset.
    pub fn boot(&self) -> Boot {
        self.boot
    }

    /// The security counter of the last confirmed image.
    pub fn counter(&self) -> u32 {
        self.journal.state().counter
    }

    /// Numbers of erases and writes of the flash so far.
    pub fn wear(&self) -> Wear {
        self.journal.state().wear
    }

    /// The banks and the flash of the journal.
    pub fn into_parts(self) -> ([B; 2], J) {
        (self.banks, self.journal.into_flash())
    }

    /// The model that runs, which borrows its bank, and the updater, which borrows the other one. Verifies the image.
    pub fn split(&mut self) -> (Result<Active<'_>, TrustError>, Updater<'_, B, J>) {
        let state = *self.journal.state();
        let (running, spare) = banks(&mut self.banks, &state);
        // A key change may have replaced the key of a confirmed image.
        let accept = if state.phase == Phase::Trial { Accept::Current } else { Accept::Replaced };
        let active = match running {
            Some(bank) => {
                Trusted::accept(self.parse, bank.bytes(), &self.keys, &self.keys.product(), state.counter, accept)
                    .map(Active)
            }
            None => Err(TrustError::Empty),
        };
        let signed = active.as_ref().ok().map(|active| Running::of(active.0.signed()));
        (active, Updater::new(spare, &mut self.journal, &mut self.keys, self.parse, signed))
    }

    /// The updater of [`split`](Self::split) again, for a model that it has verified.
    pub(crate) fn updater(&mut self, running: Option<Running>) -> Updater<'_, B, J> {
        let (_, spare) = banks(&mut self.banks, self.journal.state());
        Updater::new(spare, &mut self.journal, &mut self.keys, self.parse, running)
    }

    /// The phase of the spare bank.
    pub fn phase(&self) -> Phase {
        self.journal.state().phase
    }

    /// Lets a pending image run on trial without a reset. States of the old model are no longer valid.
    ///
    /// # Errors
    /// If no image is pending, the pending image is not trusted, or the flash fails.
    pub async fn switch(&mut self) -> Result<(), UpdateError<B::Error>> {
        if self.journal.state().phase != Phase::Pending || self.trusted_spare().is_none() {
            return Err(UpdateError::NothingPending);
        }
        self.enter(Phase::Trial).await?;
        self.boot = Boot::Trial;
        Ok(())
    }

    /// Ends the trial of a model without a reset: the active model runs again.
    ///
    /// # Errors
    /// If no model is on trial, or the flash fails.
    pub async fn revert(&mut self) -> Result<(), UpdateError<B::Error>> {
        if self.journal.state().phase != Phase::Trial {
            return Err(UpdateError::NoTrial);
        }
        self.enter(Phase::Idle).await?;
        self.boot = Boot::Reverted;
        Ok(())
    }

    /// Takes over the image that the factory has flashed.
    async fn adopt(&mut self) -> Result<(), UpdateError<B::Error>> {
        // Without an active bank, the first one is the spare.
        let Some(counter) = self.trusted_spare() else { return Ok(()) };
        let adopted = self.journal.stage(Phase::Idle);
        (adopted.active, adopted.counter) = (Some(adopted.spare()), counter);
        self.journal.commit(self.keys.changes()).await
    }

    /// Records the state with this phase.
    fn enter(&mut self, phase: Phase) -> impl Future<Output = Result<(), UpdateError<B::Error>>> {
        self.journal.stage(phase);
        self.journal.commit(self.keys.changes())
    }

    /// The security counter of the image in the spare bank, if it is trusted as an update.
    fn trusted_spare(&self) -> Option<u32> {
        let ([first, second], state) = (&self.banks, self.journal.state());
        let bank = if state.spare() == Bank::First { first } else { second };
        vet(self.parse, bank.bytes(), &self.keys, state.counter).ok().map(|image| image.counter())
    }
}

/// The bank that runs, if any, and the spare bank.
fn banks<'b, B>([first, second]: &'b mut [B; 2], state: &Record) -> (Option<&'b B>, &'b mut B) {
    match state.running() {
        Some(Bank::First) => (Some(first), second),
        Some(Bank::Second) => (Some(second), first),
        None => (None, first),
    }
}
