//! Receives an image into the spare bank, in blocks of any size.

use super::flash::Flash;
use super::journal::Journal;
use crate::ed25519::Sha512;
use crate::fault::UpdateError;
use crate::key::Keys;
use crate::mapped::Mapped;
use crate::record::Phase;
use crate::trusted::{Parse, vet};

/// Number of bytes that are written at once.
const BLOCK: usize = 256;

/// An image that is being received. Dropping the receiver keeps the bytes in flash:
/// [`Updater::resume`](super::Updater::resume) continues the transfer.
#[derive(Debug)]
pub struct Receiver<'a, B, J> {
    bank: &'a mut B,
    journal: &'a mut Journal<J>,
    keys: &'a Keys,
    parse: Parse,
    transfer: Transfer,
}

/// The progress of a transfer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transfer {
    /// Length of the image in bytes.
    len: u32,
    /// Number of bytes written to flash.
    written: u32,
    block: [u8; BLOCK],
    /// Number of bytes in `block`.
    filled: usize,
}

impl Transfer {
    pub fn new(written: u32, len: u32) -> Self {
        Self { len, written, block: [0; BLOCK], filled: 0 }
    }

    fn received(&self) -> u32 {
        self.written + self.filled as u32
    }
}

impl<'a, B: Flash + Mapped, J: Flash<Error = B::Error>> Receiver<'a, B, J> {
    pub(crate) fn new(
        bank: &'a mut B,
        journal: &'a mut Journal<J>,
        keys: &'a Keys,
        parse: Parse,
        transfer: Transfer,
    ) -> Self {
        Self { bank, journal, keys, parse, transfer }
    }

    /// Releases the updater. [`Updater::proceed`](super::Updater::proceed) continues the transfer.
    pub(crate) fn pause(self) -> Transfer {
        self.transfer
    }

    /// Number of bytes received so far, which is the offset of the next block.
    pub fn received(&self) -> u32 {
        self.transfer.received()
    }

    /// Length of the image in bytes, as announced by the sender.
    pub fn image_bytes(&self) -> u32 {
        self.transfer.len
    }

    /// The SHA-512 over the received bytes.
    pub fn digest(&self) -> [u8; 64] {
        let mut hash = Sha512::new();
        hash.update(self.bank.bytes().get(..self.transfer.written as usize).unwrap_or_default());
        hash.update(self.transfer.block.get(..self.transfer.filled).unwrap_or_default());
        hash.finalize()
    }

    operation! {
        /// Takes the bytes from offset `at` on, which must be [`received`](Self::received).
        ///
        /// # Errors
        /// If another block is expected, the block extends past the end of the image, or the flash fails.
        pub fn write(&mut self, at: u32, mut bytes: &[u8]) -> Result<(), UpdateError<B::Error>> {
            let expected = self.received();
            if at != expected || bytes.len() > self.transfer.len.saturating_sub(expected) as usize {
                return Err(UpdateError::OutOfOrder { expected, found: at });
            }
            while !bytes.is_empty() {
                let room = self.transfer.block.get_mut(self.transfer.filled..).unwrap_or_default();
                let (head, rest) = bytes.split_at_checked(room.len()).unwrap_or((bytes, &[]));
                room.iter_mut().zip(head).for_each(|(place, byte)| *place = *byte);
                self.transfer.filled += head.len();
                bytes = rest;
                if self.transfer.filled == BLOCK {
                    wait!(self.flush())?;
                }
            }
            Ok(())
        }
    }

    operation! {
        /// Verifies the complete image in place and makes it pending: it runs on trial after the next reset, or after
        /// [`Slots::switch`](super::Slots::switch).
        ///
        /// # Errors
        /// If the image is incomplete, in which case the received bytes stay in flash; if it is not trusted or its header
        /// states another length, in which cases it is discarded; or if the flash fails.
        pub fn finish(mut self) -> Result<(), UpdateError<B::Error>> {
            let (len, received) = (self.transfer.len, self.received());
            if received < len {
                return Err(UpdateError::Incomplete { len, received });
            }
            wait!(self.flush())?;
            let verdict = self.verdict();
            let phase = if verdict.is_ok() { Phase::Pending } else { Phase::Idle };
            self.journal.stage(phase);
            wait!(self.journal.commit(self.keys.changes()))?;
            verdict
        }
    }

    fn verdict(&self) -> Result<(), UpdateError<B::Error>> {
        let (announced, bytes) = (self.transfer.len, self.bank.bytes());
        let bytes = bytes.get(..announced as usize).unwrap_or(bytes);
        let image = vet(self.parse, bytes, self.keys, self.journal.state().counter).map_err(UpdateError::Trust)?;
        let found = image.image_bytes() as u32;
        if announced == found { Ok(()) } else { Err(UpdateError::OtherLength { announced, found }) }
    }

    operation! {
        /// Writes the block, padded to the granularity of the flash.
        fn flush(&mut self) -> Result<(), UpdateError<B::Error>> {
            let Transfer { written, block, filled, .. } = &mut self.transfer;
            let padded = filled.next_multiple_of(self.bank.write_size().max(1));
            if let Some(block) = block.get_mut(..padded).filter(|block| !block.is_empty()) {
                if let Some(padding) = block.get_mut(*filled..) {
                    padding.fill(0xFF);
                }
                wait!(self.bank.write(*written, block)).map_err(UpdateError::Flash)?;
                self.journal.count(0, 1);
            }
            *written += *filled as u32;
            *filled = 0;
            Ok(())
        }
    }
}
