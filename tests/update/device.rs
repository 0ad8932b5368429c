//! A device with two banks and a journal in a [`Flash`], and signed images for it.

use std::convert::Infallible;

use tidegate::{Layout, Numeric};
use tidegate_model::sign::SecretKey;
use tidegate_tests::crafted::Crafted;
use tidegate_tests::random::Rng;
use tidegate_update::{Keys, Receiver, Slots, UpdateError};

use crate::flash::{Flash, Log, Operation};

/// The slots of a device.
pub type Opened<const WRITE: usize, const ERASE: usize> = Slots<Flash<WRITE, ERASE>, Flash<WRITE, ERASE>>;
/// Why an operation on a device fails.
pub type Fault = UpdateError<Infallible>;

/// The product of the devices.
pub const PRODUCT: [u8; 16] = *b"a tested product";

/// The root key of the devices.
pub fn root() -> SecretKey {
    SecretKey::from_seed(&[42; 32])
}

/// The keys of a device.
pub fn keys() -> Keys {
    Keys::new(root().public().as_bytes(), PRODUCT).expect("the root key is a key")
}

/// An image without signature: a dense layer with random weights, of about `bytes` bytes.
pub fn unsigned_image(bytes: usize, seed: u64) -> Vec<u8> {
    let units = ((bytes / 4) as f64).sqrt() as u32 / 4 * 4;
    let mut crafted = Crafted::new(Numeric::F32, Layout::Portable);
    let input = crafted.slot(units);
    let matrix = 4 * units * units;
    // Runs of 0xFF look like erased flash.
    let mut rng = Rng::new(seed);
    let weight = |index: u32| if index / 700 % 3 == 1 { 0xFF } else { rng.bits() as u8 };
    crafted.weights = (0..matrix + 4 * units).map(weight).collect();
    let output = crafted.dense((input, units), units, [0, matrix]);
    crafted.image(&[("in", input, units)], &[("out", output, units)]).get().to_vec()
}

/// A signed image of about `bytes` bytes, with a counter.
pub fn image(bytes: usize, counter: u32) -> Vec<u8> {
    root().sign(&unsigned_image(bytes, u64::from(counter)), &PRODUCT, counter).expect("the image can be signed")
}

/// A device that is switched off.
#[derive(Debug)]
pub struct Device<const WRITE: usize, const ERASE: usize> {
    /// First bank, second bank, journal.
    pub parts: [Flash<WRITE, ERASE>; 3],
}

impl<const WRITE: usize, const ERASE: usize> Device<WRITE, ERASE> {
    /// A device with erased banks of at least `bytes` bytes, and three pages of journal.
    pub fn new(bytes: usize, log: &Log) -> Self {
        let pages = bytes.div_ceil(ERASE);
        Self { parts: [(0, pages), (1, pages), (2, 3)].map(|(number, pages)| Flash::new(number, pages, log)) }
    }

    /// Flashes the first bank in the factory.
    pub fn flashed(mut self, image: &[u8]) -> Self {
        let padded = [image, &vec![0xFF; image.len().next_multiple_of(WRITE) - image.len()]].concat();
        self.parts[0].perform(&Operation::Write(0, 0, padded), None);
        self
    }

    /// A copy with a log of its own.
    pub fn copy(&self, log: &Log, seed: u64) -> Self {
        let [a, b, c] = &self.parts;
        Self { parts: [a, b, c].map(|part| part.copy(log, seed)) }
    }

    /// Switches the device on.
    ///
    /// # Errors
    /// If the geometry of the flash is not supported.
    pub fn open(self) -> Result<Opened<WRITE, ERASE>, Fault> {
        let [a, b, journal] = self.parts;
        Slots::open([a, b], journal, keys())
    }
}

/// Switches a device off.
pub fn off<const WRITE: usize, const ERASE: usize>(slots: Opened<WRITE, ERASE>) -> Device<WRITE, ERASE> {
    let ([a, b], journal) = slots.into_parts();
    Device { parts: [a, b, journal] }
}

/// The counter and the bytes of the image that runs.
pub fn running<const WRITE: usize, const ERASE: usize>(slots: &mut Opened<WRITE, ERASE>) -> (u32, Vec<u8>) {
    let counter = slots.counter();
    let (active, _) = slots.split();
    let active = active.unwrap_or_else(|error| panic!("no trusted model runs: {error}"));
    let signed = active.trusted().signed();
    assert!(signed.counter() >= counter, "{} is older than the confirmed {counter}", signed.counter());
    (signed.counter(), active.model().image().bytes.to_vec())
}

/// Sends an image in blocks of random sizes, from where the device has stopped, and finishes.
///
/// # Errors
/// If the device refuses the image.
pub fn send<const WRITE: usize, const ERASE: usize>(
    slots: &mut Opened<WRITE, ERASE>,
    image: &[u8],
    rng: &mut Rng,
) -> Result<(), Fault> {
    let (_, mut updater) = slots.split();
    let resumed = updater.resume()?;
    let mut resumed = resumed.filter(|receiver| receiver.image_bytes() as usize == image.len());
    let received = resumed.as_ref().map_or(0, Receiver::received);
    let digest = resumed.as_ref().map(Receiver::digest);
    if digest != Some(digest_of(&image[..received as usize])) {
        resumed = None;
    }
    let mut receiver = match resumed {
        Some(receiver) => receiver,
        None => updater.begin(image.len() as u32)?,
    };
    while (receiver.received() as usize) < image.len() {
        let at = receiver.received() as usize;
        let len = (1 + rng.below(1500)).min(image.len() - at);
        receiver.write(at as u32, &image[at..at + len])?;
    }
    receiver.finish()
}

/// SHA-512.
pub fn digest_of(bytes: &[u8]) -> [u8; 64] {
    use sha2::{Digest, Sha512};
    Sha512::digest(bytes).into()
}

/// Confirms the model on trial.
///
/// # Errors
/// If none is.
pub fn confirm<const WRITE: usize, const ERASE: usize>(slots: &mut Opened<WRITE, ERASE>) -> Result<(), Fault> {
    let (active, mut updater) = slots.split();
    let active = active.expect("the model on trial is trusted");
    updater.confirm(active.tested_by_firmware().expect("these images have no self-test"))
}
