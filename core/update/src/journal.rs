//! The journal: records in a ring of pages. Each is written once, in erased flash; a page is erased when the ring returns
//! to it, and never holds the newest record then.

use embedded_storage_async::nor_flash::NorFlash;

use crate::fault::UpdateError;
use crate::record::Record;

const SLOT: u32 = Record::LEN as u32;

/// The journal and the state that its newest record holds.
#[derive(Debug)]
pub struct Journal<J> {
    flash: J,
    /// Offset of the slot after the newest record.
    next: u32,
    state: Record,
    product: [u8; 16],
}

impl<J: NorFlash> Journal<J> {
    /// Finds the newest record. The second value says whether there is one.
    pub async fn open(flash: J, product: [u8; 16]) -> Result<(Self, bool), UpdateError<J::Error>> {
        let fits = J::ERASE_SIZE.is_multiple_of(Record::LEN) && Record::LEN.is_multiple_of(J::WRITE_SIZE);
        if !fits || !Record::LEN.is_multiple_of(J::READ_SIZE) || flash.capacity() / J::ERASE_SIZE.max(1) < 2 {
            return Err(UpdateError::Geometry);
        }
        let mut journal = Self { flash, next: 0, state: Record::default(), product };
        let mut found = false;
        for slot in 0..journal.end() / SLOT {
            let record = Record::decode(&journal.read(slot * SLOT).await?, journal.product);
            if let Some(record) = record.filter(|record| !found || record.sequence > journal.state.sequence) {
                (journal.state, journal.next, found) = (record, (slot + 1) * SLOT, true);
            }
        }
        Ok((journal, found))
    }

    pub fn into_flash(self) -> J {
        self.flash
    }

    pub fn state(&self) -> &Record {
        &self.state
    }

    /// Counts operations in the banks. They are recorded together with the next change of the state.
    pub fn count(&mut self, erases: u32, writes: u32) {
        let wear = &mut self.state.wear;
        wear.erases = wear.erases.saturating_add(erases);
        wear.writes = wear.writes.saturating_add(writes);
    }

    /// Records a change of the state. If this fails, or the power is cut, the state is the old or the new one.
    pub async fn change(&mut self, change: impl FnOnce(&mut Record)) -> Result<(), UpdateError<J::Error>> {
        let at = self.free().await?;
        self.count(0, 1);
        let mut state = self.state;
        change(&mut state);
        state.sequence = state.sequence.saturating_add(1);
        self.flash.write(at, &state.encode()).await.map_err(UpdateError::Flash)?;
        (self.state, self.next) = (state, at + SLOT);
        Ok(())
    }

    /// Offset of an erased slot.
    async fn free(&mut self) -> Result<u32, UpdateError<J::Error>> {
        let mut at = self.next;
        loop {
            if at >= self.end() {
                at = 0;
            }
            if at.is_multiple_of(J::ERASE_SIZE as u32) {
                self.flash.erase(at, at + J::ERASE_SIZE as u32).await.map_err(UpdateError::Flash)?;
                self.count(1, 0);
                return Ok(at);
            }
            // A torn record is passed over: not every flash can be written twice.
            if self.read(at).await? == [0xFF; Record::LEN] {
                return Ok(at);
            }
            at += SLOT;
        }
    }

    async fn read(&mut self, at: u32) -> Result<[u8; Record::LEN], UpdateError<J::Error>> {
        let mut bytes = [0; Record::LEN];
        self.flash.read(at, &mut bytes).await.map_err(UpdateError::Flash)?;
        Ok(bytes)
    }

    /// Offset of the end of the last whole page.
    fn end(&self) -> u32 {
        (self.flash.capacity() / J::ERASE_SIZE.max(1) * J::ERASE_SIZE) as u32
    }
}
