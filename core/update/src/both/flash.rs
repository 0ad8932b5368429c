//! Flash as the updater sees it.

use super::nor_flash::{NorFlash, ReadNorFlash};

/// Flash of a bank or of the journal. Every [`NorFlash`] is one. Implement this trait for a flash whose sizes are known
/// only at run time; its methods have the meaning of those of [`NorFlash`].
pub trait Flash {
    /// Error of the driver.
    type Error;
    /// Unit of reads in bytes.
    fn read_size(&self) -> usize;
    /// Unit of writes in bytes.
    fn write_size(&self) -> usize;
    /// Size of a page in bytes.
    fn erase_size(&self) -> usize;
    /// Capacity in bytes.
    fn capacity(&self) -> usize;

    operation! {
        /// Fills `bytes` with the contents of the flash, starting at `offset`.
        fn read(&mut self, offset: u32, bytes: &mut [u8]) -> Result<(), Self::Error>;
    }

    operation! {
        /// Erases the pages from offset `from` to offset `to`, exclusive.
        fn erase(&mut self, from: u32, to: u32) -> Result<(), Self::Error>;
    }

    operation! {
        /// Writes `bytes` to erased flash, starting at `offset`.
        fn write(&mut self, offset: u32, bytes: &[u8]) -> Result<(), Self::Error>;
    }
}

impl<F: NorFlash> Flash for F {
    type Error = F::Error;

    fn read_size(&self) -> usize {
        F::READ_SIZE
    }

    fn write_size(&self) -> usize {
        F::WRITE_SIZE
    }

    fn erase_size(&self) -> usize {
        F::ERASE_SIZE
    }

    fn capacity(&self) -> usize {
        ReadNorFlash::capacity(self)
    }

    operation! {
        fn read(&mut self, offset: u32, bytes: &mut [u8]) -> Result<(), Self::Error> {
            wait!(ReadNorFlash::read(self, offset, bytes))
        }
    }

    operation! {
        fn erase(&mut self, from: u32, to: u32) -> Result<(), Self::Error> {
            wait!(NorFlash::erase(self, from, to))
        }
    }

    operation! {
        fn write(&mut self, offset: u32, bytes: &[u8]) -> Result<(), Self::Error> {
            wait!(NorFlash::write(self, offset, bytes))
        }
    }
}

/// Size of a page in bytes, at least 1, so that a division by it cannot panic.
pub(crate) fn page(flash: &impl Flash) -> u32 {
    (flash.erase_size() as u32).max(1)
}

/// Capacity in bytes, rounded down to whole pages.
pub(crate) fn whole_pages(flash: &impl Flash) -> u32 {
    let page = page(flash);
    flash.capacity() as u32 / page * page
}
