//! The second half of the flash: two banks for images, and the journal.
#![allow(unsafe_code)]

use core::cell::RefCell;
use core::slice;

use embassy_embedded_hal::flash::partition::{BlockingPartition, Error};
use embassy_rp::flash::{self, FLASH_BASE, Flash};
use embassy_rp::peripherals::FLASH;
use embassy_sync::blocking_mutex::Mutex;
use embassy_sync::blocking_mutex::raw::NoopRawMutex;
use embedded_storage::nor_flash::{ErrorType, NorFlash, ReadNorFlash};
use tidegate_update::Mapped;

/// Bytes of the flash of a Pico.
const LEN: usize = 2 << 20;
/// Where the first bank starts: behind the firmware, as `memory.x` says.
const BANKS: u32 = 1 << 20;
/// Bytes of a bank.
const BANK: u32 = 256 << 10;
/// Bytes of the journal, two pages.
const JOURNAL: u32 = 8 << 10;

type Chip = Flash<'static, FLASH, flash::Blocking, LEN>;

/// The flash, which the banks and the journal share.
pub type Shared = Mutex<NoopRawMutex, RefCell<Chip>>;

/// A bank or the journal. The HAL erases and writes from RAM, with interrupts off.
pub struct Part<'f>(BlockingPartition<'f, NoopRawMutex, Chip>);

impl<'f> Part<'f> {
    /// The two banks and the journal.
    pub fn all(flash: &'f Shared) -> [Self; 3] {
        let parts = [(BANKS, BANK), (BANKS + BANK, BANK), (BANKS + 2 * BANK, JOURNAL)];
        parts.map(|(offset, size)| Self(BlockingPartition::new(flash, offset, size)))
    }
}

impl Mapped for Part<'_> {
    fn bytes(&self) -> &[u8] {
        let start = FLASH_BASE as usize + self.0.offset() as usize;
        // SAFETY: flash is mapped here and always readable. The parts do not overlap, and a part is written only by
        // `erase` and `write`, which borrow it mutably.
        unsafe { slice::from_raw_parts(start as *const u8, self.0.size() as usize) }
    }
}

impl ErrorType for Part<'_> {
    type Error = Error<flash::Error>;
}

impl ReadNorFlash for Part<'_> {
    const READ_SIZE: usize = Chip::READ_SIZE;

    fn read(&mut self, offset: u32, bytes: &mut [u8]) -> Result<(), Self::Error> {
        self.0.read(offset, bytes)
    }

    fn capacity(&self) -> usize {
        self.0.capacity()
    }
}

impl NorFlash for Part<'_> {
    const WRITE_SIZE: usize = Chip::WRITE_SIZE;
    const ERASE_SIZE: usize = Chip::ERASE_SIZE;

    fn erase(&mut self, from: u32, to: u32) -> Result<(), Self::Error> {
        self.0.erase(from, to)
    }

    fn write(&mut self, offset: u32, bytes: &[u8]) -> Result<(), Self::Error> {
        self.0.write(offset, bytes)
    }
}
