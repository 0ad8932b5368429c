//! The journal: records in a ring of pages. Each record is written once, to erased flash. A page is erased when the ring
//! returns to it; it does not hold the newest record then.

use super::flash::{Flash, page, whole_pages};
use crate::fault::UpdateError;
use crate::key::{Changes, Keys};
use crate::record::{Phase, Record};

const SLOT: u32 = Record::LEN as u32;

/// The journal and the state that its newest record holds.
#[derive(Debug)]
pub struct Journal<J> {
    flash: J,
    /// Offset of the next slot, which is erased, or begins a page, or is the end of the journal.
    next: u32,
    state: Record,
    /// The state that is recorded next.
    staged: Record,
}

impl<J: Flash> Journal<J> {
    operation! {
        /// Finds the newest record, and gives its key changes to `keys`. Also returns whether there is one.
        pub fn open(flash: J, keys: &mut Keys) -> Result<(Self, bool), UpdateError<J::Error>> {
            let divides = |size| Record::LEN.is_multiple_of(size);
            let fits = page(&flash).is_multiple_of(SLOT) && divides(flash.write_size()) && divides(flash.read_size());
            if !fits || whole_pages(&flash) / page(&flash) < 2 {
                return Err(UpdateError::Geometry);
            }
            keys.restore([None; 2]);
            let mut journal = Self { flash, next: 0, state: Record::default(), staged: Record::default() };
            let (mut found, mut at) = (false, 0);
            while at < journal.end() {
                let mut bytes = [0; Record::LEN];
                wait!(journal.flash.read(at, &mut bytes)).map_err(UpdateError::Flash)?;
                let record = Record::decode(&bytes);
                if let Some(record) = record.filter(|record| !found || record.sequence > journal.state.sequence) {
                    (journal.state, journal.next, found) = (record, at + SLOT, true);
                    keys.restore(Record::changes(&bytes, keys.product()));
                } else if at == journal.next && !journal.begins_a_page(at) && bytes.iter().any(|byte| *byte != 0xFF) {
                    // A torn record is skipped: not every flash can be written twice.
                    journal.next = at + SLOT;
                }
                at += SLOT;
            }
            Ok((journal, found))
        }
    }

    pub fn into_flash(self) -> J {
        self.flash
    }

    pub fn state(&self) -> &Record {
        &self.state
    }

    /// Counts operations in the banks. The counts are recorded together with the next change of the state.
    pub fn count(&mut self, erases: u32, writes: u32) {
        let wear = &mut self.state.wear;
        wear.erases = wear.erases.saturating_add(erases);
        wear.writes = wear.writes.saturating_add(writes);
    }

    /// A copy of the state with this phase, for further changes. [`commit`](Self::commit) records it.
    #[inline(never)]
    pub fn stage(&mut self, phase: Phase) -> &mut Record {
        self.staged = Record { phase, ..self.state };
        &mut self.staged
    }

    operation! {
        /// Records the staged state and the key changes. If the write fails, or the power is cut, the journal holds either
        /// the old state or the new one.
        pub fn commit(&mut self, changes: &Changes) -> Result<(), UpdateError<J::Error>> {
            let at = if self.next < self.end() { self.next } else { 0 };
            if self.begins_a_page(at) {
                wait!(self.flash.erase(at, at + page(&self.flash))).map_err(UpdateError::Flash)?;
                self.count(1, 0);
            }
            self.count(0, 1);
            // A slot whose write fails is not written again, and its record may be valid.
            self.next = at + SLOT;
            self.state.sequence = self.state.sequence.saturating_add(1);
            (self.staged.sequence, self.staged.wear) = (self.state.sequence, self.state.wear);
            wait!(self.flash.write(at, &self.staged.encode(changes))).map_err(UpdateError::Flash)?;
            self.state = self.staged;
            Ok(())
        }
    }

    fn begins_a_page(&self, at: u32) -> bool {
        at.is_multiple_of(page(&self.flash))
    }

    /// Offset of the end of the last whole page.
    fn end(&self) -> u32 {
        whole_pages(&self.flash)
    }
}
