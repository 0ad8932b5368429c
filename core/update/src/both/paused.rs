//! A transfer between two blocks. It borrows nothing, so that other work can use the updater in the meantime.

use super::flash::Flash;
use super::receiver::{Receiver, Transfer};
use super::updater::Updater;
use crate::fault::UpdateError;
use crate::mapped::Mapped;

/// The image that is being received, if any. Every call must pass an updater of the same slots.
#[derive(Debug, Default)]
pub(crate) struct Paused(Option<Transfer>);

impl Paused {
    operation! {
        /// Begins to receive an image of `len` bytes. A transfer in progress is abandoned.
        pub fn begin<B: Flash + Mapped, J: Flash<Error = B::Error>>(
            &mut self,
            updater: &mut Updater<'_, B, J>,
            len: u32,
        ) -> Result<(), UpdateError<B::Error>> {
            self.0 = None;
            self.0 = Some(wait!(updater.begin(len))?.pause());
            Ok(())
        }
    }

    operation! {
        /// Continues this transfer, or the one that a reset interrupted.
        pub fn resume<B: Flash + Mapped, J: Flash<Error = B::Error>>(
            &mut self,
            updater: &mut Updater<'_, B, J>,
        ) -> Result<(), UpdateError<B::Error>> {
            if self.0.is_none() {
                self.0 = wait!(updater.resume())?.map(Receiver::pause);
            }
            if self.0.is_some() { Ok(()) } else { Err(UpdateError::NoTransfer) }
        }
    }

    /// The receiver of the transfer.
    pub fn receiver<'r, B: Flash + Mapped, J: Flash<Error = B::Error>>(
        &self,
        updater: &'r mut Updater<'_, B, J>,
    ) -> Result<Receiver<'r, B, J>, UpdateError<B::Error>> {
        Ok(updater.proceed(self.0.ok_or(UpdateError::NoTransfer)?))
    }

    operation! {
        /// Takes the bytes from offset `at` on. Returns the number of bytes received so far.
        pub fn write<B: Flash + Mapped, J: Flash<Error = B::Error>>(
            &mut self,
            updater: &mut Updater<'_, B, J>,
            at: u32,
            bytes: &[u8],
        ) -> Result<u32, UpdateError<B::Error>> {
            let mut receiver = self.receiver(updater)?;
            let written = wait!(receiver.write(at, bytes));
            let received = receiver.received();
            // After a failure of the flash, the transfer can be resumed at the page that was written last.
            self.0 = if matches!(written, Err(UpdateError::Flash(_))) { None } else { Some(receiver.pause()) };
            written.map(|()| received)
        }
    }

    operation! {
        /// Verifies the image. The transfer ends, unless the image is incomplete.
        pub fn finish<B: Flash + Mapped, J: Flash<Error = B::Error>>(
            &mut self,
            updater: &mut Updater<'_, B, J>,
        ) -> Result<(), UpdateError<B::Error>> {
            let finished = wait!(self.receiver(updater)?.finish());
            if !matches!(finished, Err(UpdateError::Incomplete { .. })) {
                self.0 = None;
            }
            finished
        }
    }
}
