//! Two banks and a journal: which bank runs, and which one an update goes to.

use tidegate::Model;

use super::flash::Flash;
use super::journal::Journal;
use super::updater::{Running, Updater};
use crate::active::{Active, Boot};
use crate::error::TrustError;
use crate::fault::UpdateError;
use crate::key::{Accept, Keys};
use crate::mapped::Mapped;
use crate::record::{Bank, Phase, Record, Wear};
use crate::trusted::{Parse, Trusted, vet};

/// Two banks for images, and a journal in flash of its own.
#[derive(Debug)]
pub struct Slots<B, J> {
    banks: [B; 2],
    journal: Journal<J>,
    keys: Keys,
    parse: Parse,
    boot: Boot,
}

impl<B: Flash + Mapped, J: Flash<Error = B::Error>> Slots<B, J> {
    operation! {
        /// Reads the journal after a reset, and records the consequences: a pending image goes on trial, and an image on trial
        /// that was not confirmed is discarded. Without a journal, a trusted image in the first bank is the confirmed one, as a
        /// factory flashes it.
        ///
        /// # Errors
        /// If the flash fails, or its geometry is not supported.
        pub fn open(banks: [B; 2], journal: J, keys: Keys) -> Result<Self, UpdateError<B::Error>> {
            wait!(Self::open_by(|bytes| Model::parse(bytes), banks, journal, keys))
        }
    }

    operation! {
        /// [`open`](Self::open) with `parse` in place of [`Model::parse`], which links the code of every cell into the
        /// firmware.
        ///
        /// # Errors
        /// As [`open`](Self::open).
        pub fn open_by(
            parse: Parse,
            banks: [B; 2],
            journal: J,
            mut keys: Keys,
        ) -> Result<Self, UpdateError<B::Error>> {
            let fits = |bank: &B| Record::LEN.is_multiple_of(bank.write_size()) && bank.erase_size() > 0;
            if !banks.iter().all(fits) {
                return Err(UpdateError::Geometry);
            }
            let (journal, found) = wait!(Journal::open(journal, &mut keys))?;
            let mut slots = Self { banks, journal, keys, parse, boot: Boot::Empty };
            if !found {
                wait!(slots.adopt())?;
            }
            let boot = match slots.journal.state().phase {
                Phase::Pending if slots.trusted_spare().is_some() => {
                    wait!(slots.enter(Phase::Trial))?;
                    Boot::Trial
                }
                Phase::Pending | Phase::Trial => {
                    wait!(slots.enter(Phase::Idle))?;
                    Boot::Reverted
                }
                _ if slots.journal.state().active.is_none() => Boot::Empty,
                _ => Boot::Confirmed,
            };
            slots.boot = boot;
            Ok(slots)
        }
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

    operation! {
        /// Lets a pending image run on trial without a reset. States of the old model are no longer valid.
        ///
        /// # Errors
        /// If no image is pending, the pending image is not trusted, or the flash fails.
        pub fn switch(&mut self) -> Result<(), UpdateError<B::Error>> {
            if self.journal.state().phase != Phase::Pending || self.trusted_spare().is_none() {
                return Err(UpdateError::NothingPending);
            }
            wait!(self.enter(Phase::Trial))?;
            self.boot = Boot::Trial;
            Ok(())
        }
    }

    operation! {
        /// Ends the trial of a model without a reset: the active model runs again.
        ///
        /// # Errors
        /// If no model is on trial, or the flash fails.
        pub fn revert(&mut self) -> Result<(), UpdateError<B::Error>> {
            if self.journal.state().phase != Phase::Trial {
                return Err(UpdateError::NoTrial);
            }
            wait!(self.enter(Phase::Idle))?;
            self.boot = Boot::Reverted;
            Ok(())
        }
    }

    operation! {
        /// Takes over the image that the factory has flashed.
        fn adopt(&mut self) -> Result<(), UpdateError<B::Error>> {
            // Without an active bank, the first one is the spare.
            let Some(counter) = self.trusted_spare() else { return Ok(()) };
            let adopted = self.journal.stage(Phase::Idle);
            (adopted.active, adopted.counter) = (Some(adopted.spare()), counter);
            wait!(self.journal.commit(self.keys.changes()))
        }
    }

    operation! {
        /// Records the state with this phase.
        fn enter(&mut self, phase: Phase) -> Result<(), UpdateError<B::Error>> {
            self.journal.stage(phase);
            wait!(self.journal.commit(self.keys.changes()))
        }
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
