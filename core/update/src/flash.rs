//! Flash as the updater sees it. All of its logic is written once, for asynchronous flash: [`Blocking`] and [`block_on`]
//! run the same code over blocking drivers.

use core::future::Future;
use core::hint::spin_loop;
use core::pin::pin;
use core::task::{Context, Poll, Waker};

use embedded_storage::nor_flash as blocking;
use embedded_storage_async::nor_flash::{ErrorType, NorFlash, ReadNorFlash};

/// A bank that the processor reads in place, because a model runs from it without a copy.
pub trait Mapped {
    /// All bytes of the bank, from an address that is a multiple of 16. They show what was written and erased last: an
    /// implementation invalidates the cache, if there is one.
    fn bytes(&self) -> &[u8];
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
