//! Updates over asynchronous flash: the same operations in the same order as over blocking flash.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use embedded_storage::nor_flash as blocking;
use embedded_storage_async::nor_flash::{ErrorType, NorFlash, ReadNorFlash};
use tidegate_model::sign::SecretKey;
use tidegate_update::wire::{Answer, Request};
use tidegate_update::{Boot, KeyChange, Mapped, Tested, UpdateError, asynch};

use crate::device::{Device, PRODUCT, image, keys, root, unsigned_image};
use crate::flash::{Flash, Log, Operation};

type Part = Flash<8, 1024>;

/// A flash whose operations are not ready when they are first polled.
struct Waiting(Part);

/// Ready when it is polled again.
async fn wait() {
    let mut polled = false;
    poll_fn(|_| if std::mem::replace(&mut polled, true) { Poll::Ready(()) } else { Poll::Pending }).await;
}

impl ErrorType for Waiting {
    type Error = Infallible;
}

impl ReadNorFlash for Waiting {
    const READ_SIZE: usize = 1;

    async fn read(&mut self, offset: u32, bytes: &mut [u8]) -> Result<(), Infallible> {
        wait().await;
        blocking::ReadNorFlash::read(&mut self.0, offset, bytes)
    }

    fn capacity(&self) -> usize {
        blocking::ReadNorFlash::capacity(&self.0)
    }
}

impl NorFlash for Waiting {
    const WRITE_SIZE: usize = 8;
    const ERASE_SIZE: usize = 1024;

    async fn erase(&mut self, from: u32, to: u32) -> Result<(), Infallible> {
        wait().await;
        blocking::NorFlash::erase(&mut self.0, from, to)
    }

    async fn write(&mut self, offset: u32, bytes: &[u8]) -> Result<(), Infallible> {
        wait().await;
        blocking::NorFlash::write(&mut self.0, offset, bytes)
    }
}

impl Mapped for Waiting {
    fn bytes(&self) -> &[u8] {
        self.0.bytes()
    }
}

/// Runs a future to its end. Also returns how often it was not ready.
fn run<F: Future>(future: F) -> (F::Output, usize) {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    let mut waits = 0;
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return (output, waits),
            Poll::Pending => waits += 1,
        }
    }
}

/// The image that each stage ends with: the boot, the confirmed counter, and the id of the model that runs.
type Stage = (Boot, u32, u64);

/// One life of a device: updates over slots, an endpoint and its answers, with resets, trials and a change of keys.
macro_rules! life {
    ($kind:ident, $parts:expr $(, $wait:tt)*) => {{
        let ([first, second, journal], mut stages): (_, Vec<Stage>) = ($parts, Vec::new());
        let mut slots = $kind::Slots::open([first, second], journal, keys())$(.$wait)*.unwrap();
        let boot = slots.boot();
        let (active, updater) = slots.split();
        let mut session = $kind::Session::new(updater, active.as_ref().ok(), boot);
        let answer = session.answer(1, Request::Hello)$(.$wait)*;
        assert!(matches!(answer, Answer::About(_)), "{answer:?}");
        // A transfer that a reset interrupts.
        let next = image(5000, 2);
        let (_, mut updater) = slots.split();
        let mut receiver = updater.begin(next.len() as u32)$(.$wait)*.unwrap();
        receiver.write(0, &next[..3000])$(.$wait)*.unwrap();
        let ([first, second], journal) = slots.into_parts();
        let mut slots = $kind::Slots::open([first, second], journal, keys())$(.$wait)*.unwrap();
        let (_, mut updater) = slots.split();
        let mut receiver = updater.resume()$(.$wait)*.unwrap().expect("an image is being received");
        assert_eq!(receiver.received(), 2048, "the page that was written last is received again");
        receiver.write(2048, &next[2048..])$(.$wait)*.unwrap();
        receiver.finish()$(.$wait)*.unwrap();
        let mut endpoint = $kind::Endpoint::new(slots);
        macro_rules! stage {
            () => {{
                let id = endpoint.active().unwrap().model().id().0;
                stages.push((endpoint.slots().boot(), endpoint.slots().counter(), id));
            }};
        }
        stage!();
        // A trial that ends with the old model, and one that ends with the new one.
        endpoint.switch()$(.$wait)*.unwrap();
        stage!();
        endpoint.revert()$(.$wait)*.unwrap();
        stage!();
        for (number, request) in [
            Request::Begin { len: next.len() as u32 },
            Request::Block { at: 0, bytes: &next[..4000] },
            Request::Block { at: 4000, bytes: &next[4000..] },
            Request::Finish,
        ]
        .into_iter()
        .enumerate()
        {
            let answer = endpoint.answer(number as u8, request)$(.$wait)*;
            assert!(!matches!(answer, Answer::Refused(_)), "{answer:?}");
        }
        endpoint.switch()$(.$wait)*.unwrap();
        let tested: Tested = endpoint.active().unwrap().tested_by_firmware().unwrap();
        endpoint.confirm(tested)$(.$wait)*.unwrap();
        stage!();
        // A change of the signing key.
        let signer = SecretKey::from_seed(&[1; 32]);
        let change = KeyChange::new(1, PRODUCT, signer.public().as_bytes());
        endpoint.change_key(root().sign_change(&change).unwrap().as_bytes())$(.$wait)*.unwrap();
        let third = signer.sign(&unsigned_image(2000, 3), &PRODUCT, 3).unwrap();
        endpoint.begin(third.len() as u32)$(.$wait)*.unwrap();
        endpoint.write(0, &third[..500])$(.$wait)*.unwrap();
        assert_eq!(endpoint.resume()$(.$wait)*.unwrap() as usize, third.len());
        endpoint.write(500, &third[500..])$(.$wait)*.unwrap();
        endpoint.finish()$(.$wait)*.unwrap();
        assert_eq!(endpoint.confirm(tested)$(.$wait)*, Err(UpdateError::NoTrial));
        endpoint.switch()$(.$wait)*.unwrap();
        stage!();
        stages
    }};
}

#[test]
fn asynchronous_flash_has_the_operations_of_blocking_flash() {
    use tidegate_update as blocking;
    let flashed = |log: &Log| {
        let Device { parts } = Device::<8, 1024>::new(8 << 10, &Log::default()).flashed(&image(3000, 1)).copy(log, 1);
        parts
    };
    let (log, log_of_async) = (Log::default(), Log::default());
    let stages = life!(blocking, flashed(&log));
    let (stages_of_async, waits) = run(async { life!(asynch, flashed(&log_of_async).map(Waiting), await) });
    let boots: Vec<(Boot, u32)> = stages.iter().map(|stage| (stage.0, stage.1)).collect();
    let expected = [(Boot::Confirmed, 1), (Boot::Trial, 1), (Boot::Reverted, 1), (Boot::Trial, 2), (Boot::Trial, 2)];
    assert_eq!(boots, expected);
    assert_eq!(stages, stages_of_async);
    let (operations, operations_of_async) = (log.operations(), log_of_async.operations());
    assert_eq!(operations, operations_of_async);
    // Erases of a range are one operation of the driver and one of the log for each page.
    let writes = operations.iter().filter(|operation| matches!(operation, Operation::Write(..))).count();
    assert!(waits > writes, "{waits} waits, {writes} writes");
}
