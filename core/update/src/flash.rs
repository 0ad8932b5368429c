//! Flash as the updater sees it. All of its logic is written once, for asynchronous flash: [`Blocking`] and [`block_on`]
//! run the same code over blocking drivers.

use core::hint::spin_loop;
use core::pin::pin;
use core::task::{Context, Poll, Waker};

use embedded_storage::nor_flash as blocking;
use embedded_storage_async::nor_flash::{ErrorType, NorFlash, ReadNorFlash};

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
    /// Fills `bytes` with the contents of the flash, starting at `offset`.
    fn read(&mut self, offset: u32, bytes: &mut [u8]) -> impl Future<Output = Result<(), Self::Error>>;
    /// Erases the pages from offset `from` to offset `to`, exclusive.
    fn erase(&mut self, from: u32, to: u32) -> impl Future<Output = Result<(), Self::Error>>;
    /// Writes `bytes` to erased flash, starting at `offset`.
    fn write(&mut self, offset: u32, bytes: &[u8]) -> impl Future<Output = Result<(), Self::Error>>;
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

    fn read(&mut self, offset: u32, bytes: &mut [u8]) -> impl Future<Output = Result<(), Self::Error>> {
        ReadNorFlash::read(self, offset, bytes)
    }

    fn erase(&mut self, from: u32, to: u32) -> impl Future<Output = Result<(), Self::Error>> {
        NorFlash::erase(self, from, to)
    }

    fn write(&mut self, offset: u32, bytes: &[u8]) -> impl Future<Output = Result<(), Self::Error>> {
        NorFlash::write(self, offset, bytes)
    }
}

/// A bank that the processor reads in place, because a model runs from it without a copy.
pub trait Mapped {
    /// All bytes of the bank, from an address that is a multiple of 16. They must reflect all earlier writes and erases: an
    /// implementation invalidates the cache, if there is one.
    fn bytes(&self) -> &[u8];
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

/// A blocking flash.
#[derive(Clone, Copy, Debug)]
pub struct Blocking<F>(pub F);

impl<F: ErrorType> ErrorType for Blocking<F> {
    type Error = F::Error;
}

impl<F: blocking::ReadNorFlash> ReadNorFlash for Blocking<F> {
    const READ_SIZE: usize = F::READ_SIZE;

    async fn read(&mut self, offset: u32, bytes: &mut [u8]) -> Result<(), Self::Error> {
        self.0.read(offset, bytes)
    }

    fn capacity(&self) -> usize {
        self.0.capacity()
    }
}

impl<F: blocking::NorFlash> NorFlash for Blocking<F> {
    const WRITE_SIZE: usize = F::WRITE_SIZE;
    const ERASE_SIZE: usize = F::ERASE_SIZE;

    async fn erase(&mut self, from: u32, to: u32) -> Result<(), Self::Error> {
        self.0.erase(from, to)
    }

    async fn write(&mut self, offset: u32, bytes: &[u8]) -> Result<(), Self::Error> {
        self.0.write(offset, bytes)
    }
}

impl<F: Mapped> Mapped for Blocking<F> {
    fn bytes(&self) -> &[u8] {
        self.0.bytes()
    }
}

/// Runs an operation to its end. Over [`Blocking`] flash it never waits; over another one it spins.
pub fn block_on<F: Future>(operation: F) -> F::Output {
    let mut operation = pin!(operation);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(output) = operation.as_mut().poll(&mut context) {
            return output;
        }
        spin_loop();
    }
}
