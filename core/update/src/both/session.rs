//! The device's end of the [protocol](crate::wire): answers to requests, over any line.

use super::flash::Flash;
use super::paused::Paused;
use super::updater::Updater;
use crate::active::{Active, Boot};
use crate::fault::UpdateError;
use crate::mapped::Mapped;
use crate::record::Phase;
use crate::wire::{About, Answer, Request, VERSION};

/// Answers the requests of a sender, while the active model runs.
#[derive(Debug)]
pub struct Session<'a, B, J> {
    updater: Updater<'a, B, J>,
    runs: Runs,
    conversation: Conversation,
}

impl<'a, B: Flash + Mapped, J: Flash<Error = B::Error>> Session<'a, B, J> {
    /// Creates a session from the updater of [`Slots::split`](super::Slots::split), the model that runs, and
    /// [`Slots::boot`](super::Slots::boot).
    pub fn new(updater: Updater<'a, B, J>, active: Option<&Active<'_>>, boot: Boot) -> Self {
        let model = active.map_or(0, |active| active.model().id().0);
        Self { updater, runs: Runs { boot, model }, conversation: Conversation::default() }
    }

    operation! {
        /// Carries out a request. A request with the number of the previous one is a repetition, and gets the same answer.
        ///
        /// After [`Answer::Done`] to [`Request::Run`], the firmware sends the answer, ends the session and calls
        /// [`Slots::switch`](super::Slots::switch).
        pub fn answer(&mut self, number: u8, request: Request<'_>) -> Answer<'static> {
            wait!(self.conversation.answer(&mut self.updater, self.runs, number, request))
        }
    }
}

/// The model that the device runs, and the outcome of the last reset.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Runs {
    pub boot: Boot,
    /// The id of the model that runs, or 0.
    pub model: u64,
}

/// A transfer and the last answer about it. Every call must pass an updater of the same slots.
#[derive(Debug, Default)]
pub(crate) struct Conversation {
    pub transfer: Paused,
    /// The request that was carried out last and its answer, in case the answer is lost.
    last: Option<(u8, Answer<'static>)>,
}

impl Conversation {
    operation! {
        /// [`Session::answer`].
        pub fn answer<B: Flash + Mapped, J: Flash<Error = B::Error>>(
            &mut self,
            updater: &mut Updater<'_, B, J>,
            runs: Runs,
            number: u8,
            request: Request<'_>,
        ) -> Answer<'static> {
            if request == Request::Hello {
                // The sender begins with `Hello`, and starts its numbers again.
                self.last = None;
                return about(updater, runs);
            }
            if let Some((_, answer)) = self.last.filter(|(last, _)| *last == number) {
                return answer;
            }
            let answer = wait!(self.carry_out(updater, runs, request));
            let answer = answer.unwrap_or_else(|error| Answer::Refused(error.into()));
            self.last = Some((number, answer));
            answer
        }
    }

    operation! {
        fn carry_out<B: Flash + Mapped, J: Flash<Error = B::Error>>(
            &mut self,
            updater: &mut Updater<'_, B, J>,
            runs: Runs,
            request: Request<'_>,
        ) -> Result<Answer<'static>, UpdateError<B::Error>> {
            match request {
                Request::Hello => return Ok(about(updater, runs)),
                Request::Begin { len } => wait!(self.transfer.begin(updater, len))?,
                Request::Resume => wait!(self.transfer.resume(updater))?,
                Request::Block { at, bytes } => {
                    let received = wait!(self.transfer.write(updater, at, bytes))?;
                    return Ok(Answer::Taken { received });
                }
                Request::Finish => return wait!(self.transfer.finish(updater)).map(|()| Answer::Done),
                Request::Run if updater.phase() == Phase::Pending => return Ok(Answer::Done),
                Request::Run => return Err(UpdateError::NothingPending),
            }
            let receiver = self.transfer.receiver(updater)?;
            let (len, received, digest) = (receiver.image_bytes(), receiver.received(), receiver.digest());
            Ok(Answer::Received { len, received, digest })
        }
    }
}

fn about<B: Flash + Mapped, J: Flash<Error = B::Error>>(updater: &Updater<'_, B, J>, runs: Runs) -> Answer<'static> {
    let (bank, counter, phase) = (updater.bank(), updater.counter(), updater.phase());
    Answer::About(About { version: VERSION, boot: runs.boot, phase, counter, model: runs.model, bank })
}
