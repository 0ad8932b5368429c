//! The work of the functions: checks of the arguments, then calls of the crate `tidegate-update`.

#![deny(unsafe_code)]

use ::tidegate_update::wire::{Answer, Request};
use ::tidegate_update::{Active, Boot, Endpoint, FRAME_BYTES, Frames, Keys, Phase, Slots};

use tidegate::{ImageBytes, ImageError, Model};

use super::flash::Driver;
use super::tidegate_boot::{self, *};
use super::tidegate_phase::{self, *};
use super::{TIDEGATE_FRAME_BYTES, tidegate_slots, tidegate_update, tidegate_update_config};
use crate::memory::{self, Apart, Lent, Place, Region, Word, disjoint};
use crate::status::tidegate_status::{self, *};
use crate::types::tidegate_model;

const _: () =
    assert!(TIDEGATE_FRAME_BYTES == FRAME_BYTES, "TIDEGATE_FRAME_BYTES is not the length of the longest frame");

/// The value of a [`tidegate_update`].
pub(crate) struct Update {
    endpoint: Endpoint<Driver, Driver>,
    frames: Frames,
    /// The addresses at which the banks and the journal are mapped.
    parts: [Region; 3],
    /// Address of the model that is open.
    model: Option<usize>,
}

/// Opens the slots. A model of the object may not be open.
pub(crate) fn open(
    word: Word,
    update: *mut tidegate_update,
    config: *const tidegate_update_config,
) -> Result<(), tidegate_status> {
    let (update, config) = (Place::new(word, update)?, Lent::new(word, config, 1)?);
    update.is_free()?;
    if update.hold().is_ok_and(|held| held.get().model.is_some()) {
        return Err(TIDEGATE_UPDATE_MODEL_OPEN);
    }
    let of_config = config.region();
    let Some(config) = config.get().first() else { return Err(TIDEGATE_NULL) };
    let [first, second] = &config.banks;
    let banks = [Driver::bank(word, first)?, Driver::bank(word, second)?];
    let journal = Driver::journal(word, &config.journal)?;
    let [a, b] = banks.each_ref().map(Driver::region);
    let parts = [a, b, journal.region()];
    let apart = disjoint(&[update.region(), a, b, journal.region()], &[of_config])?;
    let slots = open_slots(banks, journal, config);
    fill(update, apart, slots, parts)
}

/// Not inlined: what [`fill`] moves is not on the stack while an image is verified.
#[inline(never)]
fn open_slots(
    banks: [Driver; 2],
    journal: Driver,
    config: &tidegate_update_config,
) -> Result<Slots<Driver, Driver>, tidegate_status> {
    let keys = Keys::new(&config.root_key, config.product)?;
    Ok(Slots::open_by(parse, banks, journal, keys)?)
}

#[inline(never)]
fn fill(
    update: Place<tidegate_update>,
    apart: Apart,
    slots: Result<Slots<Driver, Driver>, tidegate_status>,
    parts: [Region; 3],
) -> Result<(), tidegate_status> {
    let opened =
        slots.map(|slots| Update { endpoint: Endpoint::new(slots), frames: Frames::new(), parts, model: None });
    update.fill_with(apart, opened, [Region::default(); 2])
}

/// Reads a verified image.
#[cfg(not(feature = "image"))]
fn parse(bytes: ImageBytes<'_>) -> Result<Model<'_>, ImageError> {
    Model::parse(bytes)
}

/// Reads a verified image with the cells of the image in the library, so that no others are linked.
#[cfg(feature = "image")]
fn parse(bytes: ImageBytes<'_>) -> Result<Model<'_>, ImageError> {
    Model::parse_in(bytes, &crate::builtin::FAMILY)
}

/// Calls `work` on the value of an update, if the other arguments of the call are apart from each other, from the object
/// and from the flash.
fn with<T, const N: usize>(
    word: Word,
    update: *mut tidegate_update,
    arguments: [Region; N],
    work: impl FnOnce(&mut Update, Apart) -> Result<T, tidegate_status>,
) -> Result<T, tidegate_status> {
    const MOST: usize = 5;
    const { assert!(N <= MOST) };
    let update = Place::new(word, update)?;
    let mut held = update.hold()?;
    let mut written = [Region::default(); 1 + MOST];
    for (to, region) in written.iter_mut().zip([update.region()].into_iter().chain(arguments)) {
        *to = region;
    }
    let apart = disjoint(&written, &held.get().parts)?;
    work(held.value(apart), apart)
}

/// Writes the state of the slots.
pub(crate) fn slots(
    word: Word,
    update: *mut tidegate_update,
    slots: *mut tidegate_slots,
) -> Result<(), tidegate_status> {
    let to = memory::Answer::new(word, slots)?;
    with(word, update, [to.region()], |update, apart| {
        let slots = update.endpoint.slots();
        let (boot, phase, counter, wear) = (slots.boot().into(), slots.phase().into(), slots.counter(), slots.wear());
        to.give(apart, tidegate_slots { boot, phase, counter, erases: wear.erases, writes: wear.writes });
        Ok(())
    })
}

/// Opens the model that runs.
pub(crate) fn model(
    word: Word,
    update: *mut tidegate_update,
    model: *mut tidegate_model,
) -> Result<(), tidegate_status> {
    let model = Place::new(word, model)?;
    with(word, update, [model.region()], |update, apart| {
        if update.model.is_some() {
            return Err(TIDEGATE_UPDATE_MODEL_OPEN);
        }
        // The bank outlives the borrow of the slots: it stays as it is until the model is closed.
        let active = update.endpoint.active().map_err(tidegate_status::from);
        let image = active.map(|active| active.model().image().bytes).map(|image| (image.as_ptr(), image.len()));
        let parsed = image.and_then(|(image, image_len)| {
            let image = ImageBytes::new(Lent::new(word, image, image_len)?.get())?;
            Ok(parse(image)?)
        });
        update.model = parsed.is_ok().then(|| model.region().start());
        model.fill(apart, parsed)
    })
}

/// Closes the model that is open.
pub(crate) fn close(
    word: Word,
    update: *mut tidegate_update,
    model: *mut tidegate_model,
) -> Result<(), tidegate_status> {
    let model = Place::new(word, model)?;
    with(word, update, [model.region()], |update, apart| {
        if update.model != Some(model.region().start()) {
            return Err(TIDEGATE_UPDATE_NOT_OPEN);
        }
        update.model = None;
        model.clear(apart);
        Ok(())
    })
}

/// Confirms the model on trial, after its self-test in these words, or without one.
pub(crate) fn confirm(
    word: Word,
    update: *mut tidegate_update,
    words: Option<(*mut u32, usize)>,
) -> Result<(), tidegate_status> {
    let words = words.map(|(words, len)| Lent::new(word, words, len)).transpose()?;
    let region = words.as_ref().map(Lent::region).unwrap_or_default();
    with(word, update, [region], |update, apart| {
        if update.endpoint.slots().phase() != Phase::Trial {
            return Err(TIDEGATE_UPDATE_NO_TRIAL);
        }
        let active: Active<'_> = update.endpoint.active()?;
        let tested = match words {
            Some(words) => active.self_test(words.get_mut(apart)),
            None => active.tested_by_firmware(),
        }?;
        Ok(update.endpoint.confirm(tested)?)
    })
}

/// Begins a transfer.
pub(crate) fn begin(word: Word, update: *mut tidegate_update, image_len: u32) -> Result<(), tidegate_status> {
    with(word, update, [], |update, _| Ok(update.endpoint.begin(image_len)?))
}

/// Continues a transfer.
pub(crate) fn resume(word: Word, update: *mut tidegate_update, image_len: *mut u32) -> Result<(), tidegate_status> {
    let image_len = memory::Answer::new(word, image_len)?;
    with(word, update, [image_len.region()], |update, apart| {
        image_len.give(apart, update.endpoint.resume()?);
        Ok(())
    })
}

/// Writes the number and the digest of the bytes received.
pub(crate) fn received(
    word: Word,
    update: *mut tidegate_update,
    received: *mut u32,
    (digest, digest_len): (*mut u8, usize),
) -> Result<(), tidegate_status> {
    let (received, digest) = (memory::Answer::new(word, received)?, Lent::new(word, digest, digest_len)?);
    with(word, update, [received.region(), digest.region()], |update, apart| {
        let place = digest.get_mut(apart).first_chunk_mut().ok_or(TIDEGATE_TOO_SHORT)?;
        let (bytes, found) = update.endpoint.received()?;
        *place = found;
        received.give(apart, bytes);
        Ok(())
    })
}

/// Takes a block.
pub(crate) fn write(
    word: Word,
    update: *mut tidegate_update,
    offset: u32,
    (bytes, bytes_len): (*const u8, usize),
) -> Result<(), tidegate_status> {
    let bytes = Lent::new(word, bytes, bytes_len)?;
    with(word, update, [bytes.region()], |update, _| Ok(update.endpoint.write(offset, bytes.get())?))
}

/// An operation without arguments.
pub(crate) enum Operation {
    Finish,
    Switch,
    Revert,
}

/// Carries an operation out.
pub(crate) fn run(word: Word, update: *mut tidegate_update, operation: Operation) -> Result<(), tidegate_status> {
    with(word, update, [], |update, _| {
        let endpoint = &mut update.endpoint;
        match (operation, update.model) {
            (Operation::Finish, _) => endpoint.finish()?,
            (Operation::Switch | Operation::Revert, Some(_)) => return Err(TIDEGATE_UPDATE_MODEL_OPEN),
            (Operation::Switch, None) => endpoint.switch()?,
            (Operation::Revert, None) => endpoint.revert()?,
        }
        Ok(())
    })
}

/// Changes the signing key.
pub(crate) fn change_key(
    word: Word,
    update: *mut tidegate_update,
    (change, change_len): (*const u8, usize),
) -> Result<(), tidegate_status> {
    let change = Lent::new(word, change, change_len)?;
    with(word, update, [change.region()], |update, _| Ok(update.endpoint.change_key(change.get())?))
}

/// Where the results of [`serve`] go.
pub(crate) struct Served {
    pub taken: *mut usize,
    pub frame_used: *mut usize,
    pub run: *mut bool,
}

/// Takes bytes of a line until they complete a request, and answers it.
pub(crate) fn serve(
    word: Word,
    update: *mut tidegate_update,
    (bytes, bytes_len): (*const u8, usize),
    (frame, frame_len): (*mut u8, usize),
    results: Served,
) -> Result<(), tidegate_status> {
    let (bytes, frame) = (Lent::new(word, bytes, bytes_len)?, Lent::new(word, frame, frame_len)?);
    let (taken, used) = (memory::Answer::new(word, results.taken)?, memory::Answer::new(word, results.frame_used)?);
    let run = memory::Answer::new(word, results.run)?;
    let arguments = [bytes.region(), frame.region(), taken.region(), used.region(), run.region()];
    with(word, update, arguments, |update, apart| {
        let frame = frame.get_mut(apart).first_chunk_mut().ok_or(TIDEGATE_TOO_SHORT)?;
        let (mut count, mut len, mut runs) = (0, 0, false);
        for &byte in bytes.get() {
            count += 1;
            let Some((number, request)) = update.frames.push(byte).and_then(Request::decode) else { continue };
            let answer = update.endpoint.answer(number, request);
            len = answer.encode(number, frame).len();
            runs = (request, answer) == (Request::Run, Answer::Done);
            break;
        }
        taken.give(apart, count);
        used.give(apart, len);
        run.give(apart, runs);
        Ok(())
    })
}

impl From<Boot> for tidegate_boot {
    fn from(boot: Boot) -> Self {
        match boot {
            Boot::Empty => TIDEGATE_BOOT_EMPTY,
            Boot::Confirmed => TIDEGATE_BOOT_CONFIRMED,
            Boot::Trial => TIDEGATE_BOOT_TRIAL,
            Boot::Reverted => TIDEGATE_BOOT_REVERTED,
        }
    }
}

impl From<Phase> for tidegate_phase {
    fn from(phase: Phase) -> Self {
        match phase {
            Phase::Idle => TIDEGATE_PHASE_IDLE,
            Phase::Erasing => TIDEGATE_PHASE_ERASING,
            Phase::Receiving => TIDEGATE_PHASE_RECEIVING,
            Phase::Pending => TIDEGATE_PHASE_PENDING,
            Phase::Trial => TIDEGATE_PHASE_TRIAL,
        }
    }
}
