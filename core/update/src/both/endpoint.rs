//! A device that takes updates, in one value.

use super::flash::Flash;
use super::session::{Conversation, Runs};
use super::slots::Slots;
use super::updater::{Running, Updater};
use crate::active::Active;
use crate::error::TrustError;
use crate::fault::UpdateError;
use crate::mapped::Mapped;
use crate::tested::Tested;
use crate::wire::{Answer, Request};

/// The slots, the transfer and the conversation with a sender in one value that borrows nothing. It is for code whose calls
/// cannot share borrows, such as the library for C. Other firmware uses [`Session`](super::Session).
///
/// An update still goes to the bank that does not run. The owner ends every use of the model before it
/// [switches](Self::switch) or [reverts](Self::revert).
#[derive(Debug)]
pub struct Endpoint<B, J> {
    slots: Slots<B, J>,
    /// The signature and the id of the model that [`active`](Self::active) has verified.
    running: Option<Running>,
    model: u64,
    conversation: Conversation,
}

impl<B: Flash + Mapped, J: Flash<Error = B::Error>> Endpoint<B, J> {
    /// An endpoint with the slots of [`Slots::open`].
    pub fn new(slots: Slots<B, J>) -> Self {
        Self { slots, running: None, model: 0, conversation: Conversation::default() }
    }

    /// The slots.
    pub fn slots(&self) -> &Slots<B, J> {
        &self.slots
    }

    /// The slots, without the transfer.
    pub fn into_slots(self) -> Slots<B, J> {
        self.slots
    }

    /// Verifies the image that runs.
    ///
    /// # Errors
    /// If it is not trusted, or there is none.
    pub fn active(&mut self) -> Result<Active<'_>, TrustError> {
        let (active, _) = self.slots.split();
        self.running = active.as_ref().ok().map(|active| Running::of(active.trusted().signed()));
        self.model = active.as_ref().map_or(0, |active| active.model().id().0);
        active
    }

    operation! {
        /// [`Updater::confirm`] with a proof from [`active`](Self::active).
        ///
        /// # Errors
        /// As [`Updater::confirm`].
        pub fn confirm(&mut self, tested: Tested) -> Result<(), UpdateError<B::Error>> {
            wait!(self.slots.updater(self.running).confirm(tested))
        }
    }

    operation! {
        /// Makes the key of a signed key change the signing key: [`Updater::change_key`].
        ///
        /// # Errors
        /// As [`Updater::change_key`].
        pub fn change_key(&mut self, change: &[u8]) -> Result<(), UpdateError<B::Error>> {
            let (_, mut updater) = self.slots.split();
            wait!(updater.change_key(change))
        }
    }

    operation! {
        /// Erases the spare bank and begins a transfer of `len` bytes: [`Updater::begin`].
        ///
        /// # Errors
        /// As [`Updater::begin`].
        pub fn begin(&mut self, len: u32) -> Result<(), UpdateError<B::Error>> {
            let (transfer, mut updater) = (&mut self.conversation.transfer, self.slots.updater(self.running));
            wait!(transfer.begin(&mut updater, len))
        }
    }

    operation! {
        /// Continues the transfer that was interrupted. Returns the length of its image.
        ///
        /// # Errors
        /// If there is no such transfer, or the flash fails.
        pub fn resume(&mut self) -> Result<u32, UpdateError<B::Error>> {
            let (transfer, mut updater) = (&mut self.conversation.transfer, self.slots.updater(self.running));
            wait!(transfer.resume(&mut updater))?;
            Ok(transfer.receiver(&mut updater)?.image_bytes())
        }
    }

    operation! {
        /// Takes the bytes of the image from offset `at` on: [`Receiver::write`](super::Receiver::write).
        ///
        /// # Errors
        /// As [`Receiver::write`](super::Receiver::write), or if no image is being received.
        pub fn write(&mut self, at: u32, bytes: &[u8]) -> Result<(), UpdateError<B::Error>> {
            let (transfer, mut updater) = (&mut self.conversation.transfer, self.slots.updater(self.running));
            wait!(transfer.write(&mut updater, at, bytes)).map(|_| ())
        }
    }

    /// Bytes of the image received so far, and their SHA-512.
    ///
    /// # Errors
    /// If no image is being received.
    pub fn received(&mut self) -> Result<(u32, [u8; 64]), UpdateError<B::Error>> {
        let (transfer, mut updater) = (&self.conversation.transfer, self.slots.updater(self.running));
        let receiver = transfer.receiver(&mut updater)?;
        Ok((receiver.received(), receiver.digest()))
    }

    operation! {
        /// Verifies the complete image and makes it pending: [`Receiver::finish`](super::Receiver::finish).
        ///
        /// # Errors
        /// As [`Receiver::finish`](super::Receiver::finish), or if no image is being received.
        pub fn finish(&mut self) -> Result<(), UpdateError<B::Error>> {
            let (transfer, mut updater) = (&mut self.conversation.transfer, self.slots.updater(self.running));
            wait!(transfer.finish(&mut updater))
        }
    }

    operation! {
        /// Carries out a request: [`Session::answer`](super::Session::answer).
        pub fn answer(&mut self, number: u8, request: Request<'_>) -> Answer<'static> {
            let runs = Runs { boot: self.slots.boot(), model: self.model };
            let mut updater: Updater<'_, B, J> = self.slots.updater(self.running);
            wait!(self.conversation.answer(&mut updater, runs, number, request))
        }
    }

    operation! {
        /// Lets a pending image run on trial without a reset: [`Slots::switch`].
        ///
        /// # Errors
        /// As [`Slots::switch`].
        pub fn switch(&mut self) -> Result<(), UpdateError<B::Error>> {
            wait!(self.slots.switch())?;
            self.forget();
            Ok(())
        }
    }

    operation! {
        /// Ends the trial of a model without a reset: [`Slots::revert`].
        ///
        /// # Errors
        /// As [`Slots::revert`].
        pub fn revert(&mut self) -> Result<(), UpdateError<B::Error>> {
            wait!(self.slots.revert())?;
            self.forget();
            Ok(())
        }
    }

    /// Forgets the verified model, because another one runs, which is not verified yet.
    fn forget(&mut self) {
        (self.running, self.model) = (None, 0);
    }
}
