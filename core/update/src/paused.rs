//! A transfer between two blocks. It borrows nothing, so that other work can use the updater in the meantime.

use crate::fault::UpdateError;
use crate::flash::{Flash, Mapped};
use crate::receiver::{Receiver, Transfer};
use crate::updater::Updater;

/// The image that is being received, if any. Every call must pass an updater of the same slots.
#[derive(Debug, Default)]
pub(crate) struct Paused(Option<Transfer>);

impl Paused {
    /// Begins to receive an image of `len` bytes. A transfer in progress is abandoned.
    pub async fn begin<B: Flash + Mapped, J: Flash<Error = B::Error>>(
        &mut self,
        updater: &mut Updater<'_, B, J>,
        len: u32,
    ) -> Result<(), UpdateError<B::Error>> {
        self.0 = None;
        self.0 = Some(updater.begin(len).await?.pause());
        Ok(())
    }

    /// Continues this transfer, or the one that a reset interrupted.
    pub async fn resume<B: Flash + Mapped, J: Flash<Error = B::Error>>(
        &mut self,
        updater: &mut Updater<'_, B, J>,
    ) -> Result<(), UpdateError<B::Error>> {
        if self.0.is_none() {
            self.0 = updater.resume().await?.map(Receiver::pause);
        }
        if self.0.is_some() { Ok(()) } else { Err(UpdateError::NoTransfer) }
    }

    /// The receiver of the transfer.
    pub fn receiver<'r, B: Flash + Mapped, J: Flash<Error = B::Error>>(
        &self,
        updater: &'r mut Updater<'_, B, J>,
    ) -> Result<Receiver<'r, B, J>, UpdateError<B::Error>> {
        Ok(updater.proceed(self.0.ok_or(UpdateError::NoTransfer)?))
    }

    /// Takes the bytes from offset `at` on. Returns the number of bytes received so far.
    pub async fn write<B: Flash + Mapped, J: Flash<Error = B::Error>>(
        &mut self,
        updater: &mut Updater<'_, B, J>,
        at: u32,
        bytes: &[u8],
    ) -> Result<u32, UpdateError<B::Error>> {
        let mut receiver = self.receiver(updater)?;
        let written = receiver.write(at, bytes).await;
        let received = receiver.received();
        // After a failure of the flash, the transfer can be resumed at the page that was written last.
        self.0 = if matches!(written, Err(UpdateError::Flash(_))) { None } else { Some(receiver.pause()) };
        written.map(|()| received)
    }

    /// Verifies the image. The transfer ends, unless the image is incomplete.
    pub async fn finish<B: Flash + Mapped, J: Flash<Error = B::Error>>(
        &mut self,
        updater: &mut Updater<'_, B, J>,
    ) -> Result<(), UpdateError<B::Error>> {
        let finished = self.receiver(updater)?.finish().await;
        if !matches!(finished, Err(UpdateError::Incomplete { .. })) {
            self.0 = None;
        }
        finished
    }
}
