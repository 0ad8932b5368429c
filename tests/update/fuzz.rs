//! Bodies of the fuzz targets of updates: flash with any contents, and any sender. Whatever the bytes, nothing panics, and
//! only a signed image that is not older than the confirmed one runs. The targets in `tests/fuzz` include this file.

use std::convert::Infallible;
use std::mem;
use std::sync::OnceLock;

use embedded_storage::nor_flash::{ErrorType, NorFlash, ReadNorFlash};
use sha2::{Digest, Sha512};
use tidegate_model::sign::SecretKey;
use tidegate_update::wire::{Answer, BLOCK_BYTES, Request};
use tidegate_update::{Endpoint, FRAME_BYTES, Frames, KeyChange, Keys, Mapped, Session, Slots, Tested, UpdateError};

const PRODUCT: [u8; 16] = *b"a fuzzed product";
const PAGE: usize = 1024;
const BANK: usize = 4 * PAGE;
const JOURNAL: usize = 2 * PAGE;
/// Length of a record of the journal, of which the last bytes are its checksum.
const RECORD: usize = 256;
const CHECKSUM: usize = 8;

/// Memory of whole pages at a 16-byte boundary, in which bits are only cleared until a page is erased.
#[derive(Clone, Debug)]
struct Memory {
    buffer: Vec<u8>,
    start: usize,
    len: usize,
}

impl Memory {
    fn new(len: usize) -> Self {
        let buffer = vec![0xFF; len + 16];
        let start = buffer.as_ptr().align_offset(16);
        Self { buffer, start, len }
    }

    /// The bytes of a clone lie elsewhere.
    fn copy(&self) -> Self {
        let mut copy = Self::new(self.len);
        copy.get_mut().copy_from_slice(self.bytes());
        copy
    }

    fn get_mut(&mut self) -> &mut [u8] {
        &mut self.buffer[self.start..self.start + self.len]
    }
}

impl Mapped for Memory {
    fn bytes(&self) -> &[u8] {
        &self.buffer[self.start..self.start + self.len]
    }
}

impl ErrorType for Memory {
    type Error = Infallible;
}

impl ReadNorFlash for Memory {
    const READ_SIZE: usize = 1;

    fn read(&mut self, offset: u32, bytes: &mut [u8]) -> Result<(), Infallible> {
        bytes.copy_from_slice(&self.bytes()[offset as usize..][..bytes.len()]);
        Ok(())
    }

    fn capacity(&self) -> usize {
        self.len
    }
}

impl NorFlash for Memory {
    const WRITE_SIZE: usize = 8;
    const ERASE_SIZE: usize = PAGE;

    fn erase(&mut self, from: u32, to: u32) -> Result<(), Infallible> {
        assert!(from <= to && [from, to].iter().all(|at| at.is_multiple_of(PAGE as u32)), "{from} to {to}");
        self.get_mut()[from as usize..to as usize].fill(0xFF);
        Ok(())
    }

    fn write(&mut self, offset: u32, bytes: &[u8]) -> Result<(), Infallible> {
        assert!([offset as usize, bytes.len()].iter().all(|at| at.is_multiple_of(8)), "{offset}: {}", bytes.len());
        let place = &mut self.get_mut()[offset as usize..][..bytes.len()];
        place.iter_mut().zip(bytes).for_each(|(place, byte)| *place &= byte);
        Ok(())
    }
}

/// An endpoint verifies the image that runs once, not before every operation: signatures take most of the time.
type Device = Endpoint<Memory, Memory>;
type Done = Result<(), UpdateError<Infallible>>;

/// The images and records that exist, and devices before and after an update.
struct World {
    keys: Keys,
    /// Signed by the root key, with the counters 4 to 7.
    images: [Vec<u8>; 4],
    /// Signed by another key.
    foreign: Vec<u8>,
    change: Vec<u8>,
    parts: [Memory; 3],
}

fn world() -> &'static World {
    static WORLD: OnceLock<World> = OnceLock::new();
    WORLD.get_or_init(|| {
        let [root, other] = [1, 2].map(|number| SecretKey::from_seed(&[number; 32]));
        let image = include_bytes!("../../core/examples/kws.tgi");
        let images = [4, 5, 6, 7].map(|counter| root.sign(image, &PRODUCT, counter).expect("the image can be signed"));
        let keys = Keys::new(root.public().as_bytes(), PRODUCT).expect("the root key is a key");
        let change = KeyChange::new(1, PRODUCT, other.public().as_bytes());
        let change = root.sign_change(&change).expect("the change has a serial number").as_bytes().to_vec();
        let foreign = other.sign(image, &PRODUCT, 9).expect("the image can be signed");
        let mut parts = [BANK, BANK, JOURNAL].map(Memory::new);
        parts[0].get_mut()[..images[1].len()].copy_from_slice(&images[1]);
        // From counter 5 to counter 6, with some records.
        let mut device = open(parts, keys);
        send(&mut device, &images[2]).expect("the image is newer");
        device.switch().expect("an image is pending");
        let active = device.active().expect("the image is signed");
        let tested = active.tested_by_firmware().expect("the images have no self-test");
        device.confirm(tested).expect("a model is on trial");
        World { keys, images, foreign, change, parts: off(device) }
    })
}

fn open(parts: [Memory; 3], keys: Keys) -> Device {
    let [first, second, journal] = parts;
    Endpoint::new(Slots::open([first, second], journal, keys).expect("the geometry is supported"))
}

fn off(device: Device) -> [Memory; 3] {
    let ([first, second], journal) = device.into_slots().into_parts();
    [first, second, journal]
}

fn send(device: &mut Device, image: &[u8]) -> Done {
    device.begin(image.len() as u32)?;
    device.write(0, image)?;
    device.finish()
}

/// The counter of the image that runs, which is a signed one and not older than the confirmed one, and the proof that it
/// may be confirmed.
fn verified(device: &mut Device, world: &World) -> Option<(u32, Tested)> {
    let confirmed = device.slots().counter();
    let active = device.active().ok()?;
    let (bytes, counter) = (active.model().image().bytes, active.trusted().signed().counter());
    let is_known = world.images.iter().chain([&world.foreign]).any(|image| image == bytes);
    assert!(is_known, "an image that nobody has signed runs");
    assert!(counter >= confirmed, "{counter} runs, but {confirmed} is confirmed");
    Some((counter, active.tested_by_firmware().expect("the images have no self-test")))
}

/// Patches of banks and journal, then a reset. A patch is an offset (u16), a length (u8) and bytes. Bit 0 of the first byte
/// makes the checksums of the journal valid again, as an attacker with the flash would.
pub fn update_flash(data: &[u8]) -> bool {
    let world = world();
    let Some((&flags, mut patches)) = data.split_first() else { return false };
    let mut parts = world.parts.each_ref().map(Memory::copy);
    while let [low, high, len, rest @ ..] = patches {
        let (len, mut at) = (usize::from(*len).min(rest.len()), usize::from(u16::from_le_bytes([*low, *high])));
        let (bytes, others) = rest.split_at(len);
        for part in &mut parts {
            if at < part.len {
                let end = (at + len).min(part.len);
                part.get_mut()[at..end].copy_from_slice(&bytes[..end - at]);
                break;
            }
            at -= part.len;
        }
        patches = others;
    }
    if flags & 1 != 0 {
        for record in parts[2].get_mut().chunks_mut(RECORD).filter(|record| record.starts_with(b"TGJ1")) {
            let (body, checksum) = record.split_at_mut(RECORD - CHECKSUM);
            checksum.copy_from_slice(&Sha512::digest(&*body)[..CHECKSUM]);
        }
    }
    // Sequence numbers end: a record with the last one is never replaced.
    let records = parts[2].bytes().chunks(RECORD).filter(|record| record.starts_with(b"TGJ1"));
    let mut sequences = records.filter_map(|record| record.get(4..8)?.first_chunk());
    let ends = sequences.any(|&sequence| u32::from_le_bytes(sequence) > u32::MAX - 100);
    let mut device = open(parts, world.keys);
    let before = verified(&mut device, world);
    let _ = device.resume();
    let mut device = open(off(device), world.keys);
    // The device must not be stuck: unless the journal's counter exceeds every image's, an update succeeds. Only one input in
    // eight tries this, because the signatures of an update take most of the time.
    if device.slots().counter() <= 7 && !ends && data.iter().fold(0, |sum, byte| sum ^ byte) % 8 == 0 {
        verified(&mut device, world);
        send(&mut device, &world.images[3]).expect("the image is new enough");
        device.switch().expect("an image is pending");
        let (_, tested) = verified(&mut device, world).expect("the image is signed");
        device.confirm(tested).expect("a model is on trial");
        let counter = verified(&mut open(off(device), world.keys), world).map(|(counter, _)| counter);
        assert_eq!(counter, Some(7), "the device is stuck");
    }
    before.is_some()
}

/// A sender that sends anything in any order, with resets in between.
pub fn update_protocol(data: &[u8]) -> bool {
    let world = world();
    let mut device = open(world.parts.each_ref().map(Memory::copy), world.keys);
    let mut confirmed = device.slots().counter();
    let (mut done, mut left) = (false, data);
    // The image that runs is verified after every change, and after a reset if flash was written since the last one.
    let (mut running, mut written) = (verified(&mut device, world), false);
    while let [call, argument, rest @ ..] = left {
        left = rest;
        let image = match argument % 5 {
            4 => &world.foreign,
            number => &world.images[usize::from(number)],
        };
        let before = device.slots().phase();
        let changed = match call % 8 {
            0 => {
                device = open(off(device), world.keys);
                mem::take(&mut written) || device.slots().phase() != before
            }
            1 => device.switch().is_ok(),
            2 => device.revert().is_ok(),
            3 => running.is_some_and(|(_, tested)| device.confirm(tested).is_ok()),
            4 => device.change_key(&world.change).is_ok(),
            5 => {
                let bytes = left.get(..usize::from(*argument)).unwrap_or(left);
                let changed = device.change_key(bytes).is_ok();
                assert!(!changed || bytes == world.change);
                changed
            }
            number if call & 8 == 0 => {
                let ask = &mut |number, request: Request<'_>| device.answer(number, request);
                left = receive(ask, image, left, number == 6);
                written = true;
                device.slots().phase() != before
            }
            // A session, which knows of no transfer before it.
            number => {
                let mut slots = device.into_slots();
                let boot = slots.boot();
                let (active, updater) = slots.split();
                let mut session = Session::new(updater, active.as_ref().ok(), boot);
                left = receive(&mut |number, request| session.answer(number, request), image, left, number == 6);
                device = Endpoint::new(slots);
                true
            }
        };
        if changed {
            written |= call % 8 != 0;
            running = verified(&mut device, world);
            done |= running.is_some_and(|(counter, _)| counter == 7);
        }
        assert!(device.slots().counter() >= confirmed, "the counter has fallen");
        confirmed = device.slots().counter();
    }
    assert!(verified(&mut device, world).is_some(), "no model runs");
    if written {
        let mut device = open(off(device), world.keys);
        assert!(device.slots().counter() >= confirmed, "the counter has fallen");
        assert!(verified(&mut device, world).is_some(), "no model runs after a reset");
    }
    done
}

/// The device's answer to a request.
type Ask<'a> = &'a mut dyn FnMut(u8, Request<'_>) -> Answer<'static>;

/// A transfer over a line of an image, or of what the data describe. Returns the remaining data.
fn receive<'d>(ask: Ask<'_>, image: &[u8], mut data: &'d [u8], resume: bool) -> &'d [u8] {
    let mut line = Line { device: ask, frames: Frames::new(), number: 0 };
    line.ask(Request::Hello);
    let begun = if resume {
        line.ask(Request::Resume)
    } else {
        let len = match data {
            [0, low, high, rest @ ..] => {
                data = rest;
                u32::from(u16::from_le_bytes([*low, *high]))
            }
            _ => image.len() as u32,
        };
        line.ask(Request::Begin { len })
    };
    let Answer::Received { len: announced, received: mut at, .. } = begun else { return data };
    while let [call, len, rest @ ..] = data {
        data = rest;
        match call % 6 {
            // The right bytes, in blocks of any size or as a whole.
            0 | 1 => {
                let end = if *call & 64 != 0 { image.len() } else { at as usize + usize::from(*len) };
                let bytes = image.get(at as usize..end.min(image.len())).unwrap_or_default();
                for block in bytes.chunks(BLOCK_BYTES) {
                    at = line.block(at, at, block, announced);
                }
            }
            // Any bytes at the right place, and at a wrong one.
            2 => {
                let bytes = data.get(..usize::from(*len).min(BLOCK_BYTES)).unwrap_or_default();
                at = line.block(at, at, bytes, announced);
            }
            3 => at = line.block(at, u32::from(*len) * 17, data.get(..8).unwrap_or(data), announced),
            4 => {
                line.ask(Request::Finish);
                return data;
            }
            // Noise on the line.
            _ => {
                let noise = data.get(..usize::from(*len)).unwrap_or(data);
                for &byte in noise {
                    if let Some((number, request)) = line.frames.push(byte).and_then(Request::decode) {
                        (line.device)(number, request);
                        return data;
                    }
                }
            }
        }
    }
    data
}

/// A device at the end of a line.
struct Line<'a> {
    device: Ask<'a>,
    frames: Frames,
    number: u8,
}

impl Line<'_> {
    /// The answer to a request; both go through frames.
    fn ask(&mut self, request: Request<'_>) -> Answer<'static> {
        self.number = self.number.wrapping_add(1);
        let mut frame = [0; FRAME_BYTES];
        let sent = request.encode(self.number, &mut frame);
        assert!(!sent.is_empty(), "{request:?} is too long");
        let (last, first) = sent.split_last().expect("a frame ends");
        for (at, &byte) in first.iter().enumerate() {
            let found = self.frames.push(byte);
            // The zero that begins a frame may end noise that is a frame too.
            assert!(found.is_none() || at == 0, "a frame ends with its last byte");
        }
        let (number, found) = self.frames.push(*last).and_then(Request::decode).expect("the frame is whole");
        assert_eq!((number, found), (self.number, request));
        let answer = (self.device)(number, found);
        // If the answer is lost, the same request gets the same answer and is not carried out again.
        assert_eq!((self.device)(number, found), answer);
        let (mut frames, mut found) = (Frames::new(), None);
        for &byte in answer.encode(number, &mut frame) {
            if let Some((number, answer)) = frames.push(byte).and_then(Answer::decode) {
                found = answer.reply().ok().map(|answer| (number, answer));
            }
        }
        assert_eq!(found, Some((number, answer)));
        answer
    }

    /// Sends a block, which is accepted as a whole or not at all. Returns the offset of the next block.
    fn block(&mut self, received: u32, at: u32, bytes: &[u8], announced: u32) -> u32 {
        let end = received + bytes.len() as u32;
        match self.ask(Request::Block { at, bytes }) {
            Answer::Taken { received: now } => {
                assert!(at == received && now == end && end <= announced, "{at} {received} {now} {announced}");
                end
            }
            answer => {
                assert!(at != received || end > announced, "{answer:?}");
                received
            }
        }
    }
}
