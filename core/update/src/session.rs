//! The device's end of the [protocol](crate::wire): answers to requests, from any line.

use embedded_storage_async::nor_flash::NorFlash;

use crate::fault::UpdateError;
use crate::flash::Mapped;
use crate::receiver::{Receiver, Transfer};
use crate::record::Phase;
use crate::refusal::Refusal;
use crate::slots::{Active, Boot};
use crate::updater::Updater;
use crate::wire::{About, Answer, Request, VERSION};

/// Answers the requests of a sender, while the active model runs.
#[derive(Debug)]
pub struct Session<'a, B, J> {
    updater: Updater<'a, B, J>,
    boot: Boot,
    /// The id of the model that runs, or 0.
    model: u64,
    transfer: Option<Transfer>,
    /// The request that was carried out last and its answer, in case the answer is lost.
    last: Option<(u8, Answer<'static>)>,
}

impl<'a, B: NorFlash + Mapped, J: NorFlash<Error = B::Error>> Session<'a, B, J> {
    /// Begins with the updater of [`Slots::split`](crate::Slots::split), the model that runs, and
    /// [`Slots::boot`](crate::Slots::boot).
    pub fn new(updater: Updater<'a, B, J>, active: Option<&Active<'_>>, boot: Boot) -> Self {
        let model = active.map_or(0, |active| active.model().id().0);
        Self { updater, boot, model, transfer: None, last: None }
    }

    /// Carries out a request. One with the number of the request before it is a repetition, and gets the same answer.
    ///
    /// After [`Answer::Done`] to [`Request::Run`], the firmware sends the answer, ends the session and calls
    /// [`Slots::switch`](crate::Slots::switch).
    pub async fn answer(&mut self, number: u8, request: Request<'_>) -> Answer<'static> {
        if request == Request::Hello {
            // A sender begins with it, and its numbers begin anew.
            self.last = None;
            return Answer::About(self.about());
        }
        if let Some((_, answer)) = self.last.filter(|(last, _)| *last == number) {
            return answer;
        }
        let answer = self.carry_out(request).await.unwrap_or_else(Answer::Refused);
        self.last = Some((number, answer));
        answer
    }

    async fn carry_out(&mut self, request: Request<'_>) -> Result<Answer<'static>, Refusal> {
        match request {
            Request::Hello => Ok(Answer::About(self.about())),
            Request::Begin { len } => {
                self.transfer = None;
                let receiver = self.updater.begin(len).await?;
                Ok(keep(&mut self.transfer, receiver))
            }
            Request::Resume => self.resume().await,
            Request::Block { at, bytes } => self.block(at, bytes).await,
            Request::Finish => self.finish().await,
            Request::Run if self.updater.phase() == Phase::Pending => Ok(Answer::Done),
            Request::Run => Err(Refusal::from(UpdateError::<B::Error>::NothingPending)),
        }
    }

    fn about(&self) -> About {
        let (bank, counter, phase) = (self.updater.bank(), self.updater.counter(), self.updater.phase());
        About { version: VERSION, boot: self.boot, phase, counter, model: self.model, bank }
    }

    /// Continues the transfer of this session, or that before a reset.
    async fn resume(&mut self) -> Result<Answer<'static>, Refusal> {
        let receiver = match self.transfer.take() {
            Some(transfer) => Some(self.updater.proceed(transfer)),
            None => self.updater.resume().await?,
        };
        Ok(keep(&mut self.transfer, receiver.ok_or(Refusal::NO_TRANSFER)?))
    }

    async fn block(&mut self, at: u32, bytes: &[u8]) -> Result<Answer<'static>, Refusal> {
        let mut receiver = self.updater.proceed(self.transfer.take().ok_or(Refusal::NO_TRANSFER)?);
        let written = receiver.write(at, bytes).await;
        let received = receiver.received();
        // After a failure of the flash, the transfer can be resumed at the page that was written last.
        if !matches!(written, Err(UpdateError::Flash(_))) {
            self.transfer = Some(receiver.pause());
        }
        written?;
        Ok(Answer::Taken { received })
    }

    async fn finish(&mut self) -> Result<Answer<'static>, Refusal> {
        let transfer = self.transfer.take().ok_or(Refusal::NO_TRANSFER)?;
        match self.updater.proceed(transfer).finish().await {
            Ok(()) => Ok(Answer::Done),
            Err(error) => {
                if matches!(error, UpdateError::Incomplete { .. }) {
                    self.transfer = Some(transfer);
                }
                Err(error.into())
            }
        }
    }
}

/// Pauses a transfer until the next block.
fn keep<B: NorFlash + Mapped, J: NorFlash<Error = B::Error>>(
    transfer: &mut Option<Transfer>,
    receiver: Receiver<'_, B, J>,
) -> Answer<'static> {
    let (len, received, digest) = (receiver.image_bytes(), receiver.received(), receiver.digest());
    *transfer = Some(receiver.pause());
    Answer::Received { len, received, digest }
}
