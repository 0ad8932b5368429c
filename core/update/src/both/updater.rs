//! Changes of the spare bank and of the keys, while the active model runs.

use super::flash::{Flash, page, whole_pages};
use super::journal::Journal;
use super::receiver::{Receiver, Transfer};
use crate::fault::UpdateError;
use crate::key::{Accept, KeyChange, Keys};
use crate::key_id::KeyId;
use crate::mapped::Mapped;
use crate::record::{Phase, Record};
use crate::signature::Signed;
use crate::tested::Tested;
use crate::trusted::Parse;

/// Changes the spare bank, the journal and the keys. It has no access to the bank of the active model.
#[derive(Debug)]
pub struct Updater<'a, B, J> {
    spare: &'a mut B,
    journal: &'a mut Journal<J>,
    keys: &'a mut Keys,
    parse: Parse,
    running: Option<Running>,
}

/// The signer, the counter and the mark of the image that runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Running {
    key: KeyId,
    counter: u32,
    mark: u64,
}

impl Running {
    pub(crate) fn of(signed: &Signed<'_>) -> Self {
        Self { key: signed.key(), counter: signed.counter(), mark: signed.mark() }
    }
}

impl<'a, B: Flash + Mapped, J: Flash<Error = B::Error>> Updater<'a, B, J> {
    pub(crate) fn new(
        spare: &'a mut B,
        journal: &'a mut Journal<J>,
        keys: &'a mut Keys,
        parse: Parse,
        running: Option<Running>,
    ) -> Self {
        Self { spare, journal, keys, parse, running }
    }

    operation! {
        /// Makes the model on trial, which has passed its test, the active one. Images with a lower security counter are
        /// refused from now on.
        ///
        /// # Errors
        /// If no model is on trial, another one was tested, or the flash fails.
        pub fn confirm(&mut self, tested: Tested) -> Result<(), UpdateError<B::Error>> {
            let (Some(running), Phase::Trial) = (&self.running, self.journal.state().phase) else {
                return Err(UpdateError::NoTrial);
            };
            if tested.0 != running.mark {
                return Err(UpdateError::NotTested);
            }
            let confirmed = self.journal.stage(Phase::Idle);
            confirmed.active = Some(confirmed.spare());
            confirmed.counter = confirmed.counter.max(running.counter);
            wait!(self.journal.commit(self.keys.changes()))
        }
    }

    operation! {
        /// Erases the spare bank for an image of `len` bytes. An image that is pending or being received is discarded.
        ///
        /// # Errors
        /// If the image does not fit, a model is on trial, or the flash fails.
        pub fn begin(&mut self, len: u32) -> Result<Receiver<'_, B, J>, UpdateError<B::Error>> {
            if self.journal.state().phase == Phase::Trial {
                return Err(UpdateError::Busy);
            }
            let bank = self.bank();
            if len > bank {
                return Err(UpdateError::TooLong { len, bank });
            }
            // Until the bank is erased, a reset must not mistake the end of an older image for the end of this one.
            self.journal.stage(Phase::Erasing).image_len = len;
            wait!(self.journal.commit(self.keys.changes()))?;
            wait!(self.erase(0, bank))?;
            self.journal.stage(Phase::Receiving);
            wait!(self.journal.commit(self.keys.changes()))?;
            Ok(self.proceed(Transfer::new(0, len)))
        }
    }

    operation! {
        /// Continues to receive an image after a reset, from the start of the page that was written last. `None` if no image is
        /// being received. The sender compares [`Receiver::digest`] with its own image, and starts again if they differ.
        ///
        /// # Errors
        /// If the flash fails.
        pub fn resume(&mut self) -> Result<Option<Receiver<'_, B, J>>, UpdateError<B::Error>> {
            let Record { phase: Phase::Receiving, image_len, .. } = *self.journal.state() else { return Ok(None) };
            if image_len > self.bank() {
                return Ok(None);
            }
            let unit = page(self.spare);
            let end = image_len.next_multiple_of(unit);
            let bytes = self.spare.bytes();
            let written = bytes.iter().rposition(|&byte| byte != 0xFF).unwrap_or(0) as u32;
            let page = written / unit * unit;
            // The last word may be torn. Later pages look erased, but may have been written with 0xFF.
            wait!(self.erase(page, end))?;
            Ok(Some(self.proceed(Transfer::new(page, image_len))))
        }
    }

    operation! {
        /// Makes the key of a signed key change the signing key.
        ///
        /// # Errors
        /// If the change is not valid, a model is pending or on trial, the active model would lose its key, or the flash
        /// fails.
        pub fn change_key(&mut self, change: &[u8]) -> Result<(), UpdateError<B::Error>> {
            if matches!(self.journal.state().phase, Phase::Pending | Phase::Trial) {
                return Err(UpdateError::Busy);
            }
            let keys = KeyChange::parse(change).and_then(|change| self.keys.change(&change)).map_err(UpdateError::Key)?;
            if self.running.as_ref().is_some_and(|running| keys.find(running.key, Accept::Replaced).is_err()) {
                return Err(UpdateError::KeyInUse);
            }
            self.journal.stage(self.phase());
            wait!(self.journal.commit(keys.changes()))?;
            *self.keys = keys;
            Ok(())
        }
    }

    /// Size of the spare bank in bytes, rounded down to whole pages.
    pub(crate) fn bank(&self) -> u32 {
        whole_pages(self.spare)
    }

    /// Continues a paused transfer. No other transfer may have begun in the meantime.
    pub(crate) fn proceed(&mut self, transfer: Transfer) -> Receiver<'_, B, J> {
        Receiver::new(self.spare, self.journal, self.keys, self.parse, transfer)
    }

    /// The phase of the spare bank.
    pub(crate) fn phase(&self) -> Phase {
        self.journal.state().phase
    }

    /// The counter of the last confirmed image.
    pub(crate) fn counter(&self) -> u32 {
        self.journal.state().counter
    }

    operation! {
        fn erase(&mut self, from: u32, to: u32) -> Result<(), UpdateError<B::Error>> {
            if from < to {
                wait!(self.spare.erase(from, to)).map_err(UpdateError::Flash)?;
                self.journal.count((to - from) / page(self.spare), 0);
            }
            Ok(())
        }
    }
}
