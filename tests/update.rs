//! Updates of a device: the steps from one image to the next, and faulty or hostile senders.

use std::cell::Cell;
use std::rc::Rc;

use embedded_storage::nor_flash::{ErrorType, NorFlash, NorFlashErrorKind, ReadNorFlash};

use crate::device::{Device, PRODUCT, confirm, digest_of, image, keys, off, root, running, send, unsigned_image};
use crate::flash::{Log, Operation};
use tidegate_model::sign::SecretKey;
use tidegate_tests::random::Rng;
use tidegate_update::{Boot, KeyChange, KeyError, Mapped, Phase, Slots, TrustError, UpdateError};

type Small = Device<8, 1024>;

fn device(image: &[u8]) -> (Small, Log) {
    let log = Log::default();
    (Device::new(8 << 10, &log).flashed(image), log)
}

#[test]
fn a_device_goes_from_one_image_to_the_next_and_back() {
    let mut rng = Rng::new(1);
    let [first, second, third] = [(2000, 1), (5000, 2), (3000, 2)].map(|(bytes, counter)| image(bytes, counter));
    let (device, _) = device(&first);
    let mut slots = device.open().unwrap();
    assert_eq!((slots.boot(), running(&mut slots)), (Boot::Confirmed, (1, first.clone())));
    send(&mut slots, &second, &mut rng).unwrap();
    // Until the reset the old model runs.
    assert_eq!(running(&mut slots).1, first);
    let mut slots = off(slots).open().unwrap();
    assert_eq!((slots.boot(), running(&mut slots)), (Boot::Trial, (2, second.clone())));
    assert_eq!(slots.counter(), 1, "the counter is that of the last confirmed image");
    let mut slots = off(slots).open().unwrap();
    assert_eq!((slots.boot(), running(&mut slots)), (Boot::Reverted, (1, first.clone())));
    assert_eq!(off(slots).open().unwrap().boot(), Boot::Confirmed);
    let (device, _) = self::device(&first);
    let mut slots = device.open().unwrap();
    send(&mut slots, &second, &mut rng).unwrap();
    // Without a reset, between two steps.
    slots.switch().unwrap();
    assert_eq!((slots.boot(), running(&mut slots).1), (Boot::Trial, second));
    assert_eq!(slots.switch(), Err(UpdateError::NothingPending));
    confirm(&mut slots).unwrap();
    assert_eq!(confirm(&mut slots), Err(UpdateError::NoTrial));
    assert_eq!(slots.counter(), 2);
    // The same counter again, in the first bank.
    let mut slots = off(slots).open().unwrap();
    send(&mut slots, &third, &mut rng).unwrap();
    let mut slots = off(slots).open().unwrap();
    confirm(&mut slots).unwrap();
    assert_eq!(running(&mut off(slots).open().unwrap()).1, third);
}

#[test]
fn a_device_without_an_image_takes_its_first_one() {
    let log = Log::default();
    let mut slots = Small::new(8 << 10, &log).open().unwrap();
    assert_eq!(slots.boot(), Boot::Empty);
    assert!(matches!(slots.split().0, Err(TrustError::Empty)));
    assert_eq!(log.count(), 0, "nothing is worth a record");
    let first = image(3000, 7);
    send(&mut slots, &first, &mut Rng::new(2)).unwrap();
    let slots = off(slots).open().unwrap();
    assert_eq!(slots.boot(), Boot::Trial);
    let mut slots = off(slots).open().unwrap();
    assert_eq!(slots.boot(), Boot::Reverted);
    send(&mut slots, &first, &mut Rng::new(3)).unwrap();
    let mut slots = off(slots).open().unwrap();
    confirm(&mut slots).unwrap();
    assert_eq!(running(&mut off(slots).open().unwrap()), (7, first));
}

/// A model on trial is what the updater would erase if it could begin.
#[test]
fn a_model_on_trial_is_not_overwritten() {
    let (device, _) = device(&image(2000, 1));
    let mut slots = device.open().unwrap();
    send(&mut slots, &image(3000, 2), &mut Rng::new(4)).unwrap();
    let mut slots = off(slots).open().unwrap();
    let (_active, mut updater) = slots.split();
    assert_eq!(updater.begin(2000).err(), Some(UpdateError::Busy));
    let change = KeyChange::new(1, PRODUCT, SecretKey::from_seed(&[9; 32]).public().as_bytes());
    let change = root().sign_change(&change).unwrap();
    assert_eq!(updater.change_key(change.as_bytes()), Err(UpdateError::Busy));
}

#[test]
fn hostile_senders_do_not_get_an_image_in() {
    let good = image(5000, 2);
    let (device, log) = device(&image(2000, 1));
    let mut slots = device.open().unwrap();
    let (active, mut updater) = slots.split();
    let tested = active.unwrap().tested_by_firmware().unwrap();
    let len = good.len() as u32;
    let out_of_order = |expected, found| Err(UpdateError::OutOfOrder { expected, found });
    assert_eq!(updater.begin(u32::MAX).err(), Some(UpdateError::TooLong { len: u32::MAX, bank: 8 << 10 }));
    let mut receiver = updater.begin(len).unwrap();
    receiver.write(0, &good[..1000]).unwrap();
    // A replayed block, a block that is too early, swapped blocks, and one that ends after the image.
    assert_eq!(receiver.write(0, &good[..1000]), out_of_order(1000, 0));
    assert_eq!(receiver.write(2000, &good[2000..3000]), out_of_order(1000, 2000));
    assert_eq!(receiver.write(1000, &[0; 8 << 10]), out_of_order(1000, 1000));
    assert_eq!(receiver.received(), 1000);
    receiver.write(1000, &good[1000..]).unwrap();
    assert_eq!(receiver.write(len, &[0]), out_of_order(len, len));
    receiver.write(len, &[]).unwrap();
    assert_eq!(receiver.digest(), digest_of(&good));
    receiver.finish().unwrap();

    // Swapped contents with right offsets.
    let mut receiver = updater.begin(len).unwrap();
    receiver.write(0, &good[..1000]).unwrap();
    receiver.write(1000, &good[2000..3000]).unwrap();
    receiver.write(2000, &good[1000..2000]).unwrap();
    receiver.write(3000, &good[3000..]).unwrap();
    assert_eq!(receiver.finish(), Err(UpdateError::Trust(TrustError::BadSignature)));
    assert!(updater.resume().unwrap().is_none(), "a refused image is given up");

    // Lengths other than the image's.
    let mut receiver = updater.begin(len + 100).unwrap();
    receiver.write(0, &good).unwrap();
    receiver.write(len, &[0; 100]).unwrap();
    let announced = len + 100;
    assert_eq!(receiver.finish(), Err(UpdateError::OtherLength { announced, found: len }));
    let mut receiver = updater.begin(len - 1).unwrap();
    receiver.write(0, &good[..good.len() - 1]).unwrap();
    let (needed, given) = (good.len(), good.len() - 1);
    assert_eq!(receiver.finish(), Err(UpdateError::Trust(TrustError::Truncated { needed, given })));
    let receiver = updater.begin(0).unwrap();
    assert!(matches!(receiver.finish(), Err(UpdateError::Trust(TrustError::Truncated { .. }))));
    let mut receiver = updater.begin(len).unwrap();
    receiver.write(0, &good[..10]).unwrap();
    assert_eq!(receiver.finish(), Err(UpdateError::Incomplete { len, received: 10 }));
    assert_eq!(updater.confirm(tested), Err(UpdateError::NoTrial));
    let touched = |operation: &Operation| operation.part() == 0;
    assert!(!log.operations().iter().any(touched), "the bank of the active model is not written");
    let mut slots = off(slots).open().unwrap();
    assert_eq!((slots.boot(), running(&mut slots).0), (Boot::Confirmed, 1));
}

#[test]
fn images_that_are_not_trusted_never_become_pending() {
    let unsigned = unsigned_image(3000, 3);
    let other = SecretKey::from_seed(&[9; 32]);
    let (device, _) = device(&image(2000, 5));
    let mut slots = device.open().unwrap();
    let mut refused = |image: &[u8]| match send(&mut slots, image, &mut Rng::new(5)) {
        Err(UpdateError::Trust(error)) => {
            slots = off(std::mem::replace(&mut slots, Small::new(1, &Log::default()).open().unwrap())).open().unwrap();
            assert_eq!((slots.boot(), running(&mut slots).0), (Boot::Confirmed, 5));
            error
        }
        found => panic!("{found:?}"),
    };
    assert_eq!(refused(&unsigned), TrustError::Unsigned);
    assert_eq!(
        refused(&other.sign(&unsigned, &PRODUCT, 9).unwrap()),
        TrustError::UnknownKey { key: other.public().id() }
    );
    assert_eq!(refused(&root().sign(&unsigned, &[0; 16], 9).unwrap()), TrustError::WrongProduct { found: [0; 16] });
    assert_eq!(refused(&image(3000, 4)), TrustError::OldCounter { found: 4, needed: 5 });
}

#[test]
fn an_image_is_resumed_at_the_byte_or_after_a_reset_at_the_page() {
    let good = image(6000, 2);
    let len = good.len() as u32;
    let (device, log) = device(&image(2000, 1));
    let mut slots = device.open().unwrap();
    {
        let (_, mut updater) = slots.split();
        assert!(updater.resume().unwrap().is_none());
        let mut receiver = updater.begin(len).unwrap();
        for at in 0..3001 {
            receiver.write(at as u32, &good[at..=at]).unwrap();
            assert_eq!(receiver.received(), at as u32 + 1);
        }
        assert_eq!(receiver.digest(), digest_of(&good[..3001]));
    }
    let before = log.count();
    let mut slots = off(slots).open().unwrap();
    let (_, mut updater) = slots.split();
    let mut receiver = updater.resume().unwrap().expect("an image is being received");
    assert_eq!((receiver.image_bytes(), receiver.received()), (len, 2048));
    assert_eq!(receiver.digest(), digest_of(&good[..2048]));
    receiver.write(2048, &good[2048..]).unwrap();
    receiver.finish().unwrap();
    let erased = log.operations()[before..].iter().filter(|done| matches!(done, Operation::Erase(1, _))).count();
    assert_eq!(erased, 4, "pages 2 to 5");
    assert_eq!(running(&mut off(slots).open().unwrap()).1, good);
}

/// In a bank that is not erased yet, the end of an older image would be taken for that of the new one.
#[test]
fn an_image_whose_bank_was_not_erased_yet_is_begun_anew() {
    let (device, log) = device(&image(2000, 1));
    let mut slots = device.open().unwrap();
    send(&mut slots, &image(7000, 0), &mut Rng::new(8)).unwrap_err();
    let before = log.count();
    let device = off(slots).copy(&Log::default(), 1);
    let mut slots = device.copy(&log, 2).open().unwrap();
    slots.split().1.begin(3000).unwrap();
    let operations = &log.operations()[before..];
    for done in 1..operations.len() {
        let mut device = device.copy(&Log::default(), 3);
        for operation in &operations[..done] {
            device.parts[operation.part()].perform(operation, None);
        }
        let mut slots = device.open().unwrap();
        assert!(slots.split().1.resume().unwrap().is_none(), "{done} operations done");
    }
}

#[test]
fn a_key_change_survives_resets_and_never_takes_the_key_of_the_active_model() {
    let key = |number: u8| SecretKey::from_seed(&[number; 32]);
    let change = |to: u8, serial| {
        let change = KeyChange::new(serial, PRODUCT, key(to).public().as_bytes());
        *root().sign_change(&change).unwrap().as_bytes()
    };
    let by = |number: u8, counter| key(number).sign(&unsigned_image(3000, 8), &PRODUCT, counter).unwrap();
    let mut rng = Rng::new(6);
    let (device, _) = device(&image(2000, 1));
    let mut slots = device.open().unwrap();
    slots.split().1.change_key(&change(1, 1)).unwrap();
    let mut slots = off(slots).open().unwrap();
    send(&mut slots, &by(1, 2), &mut rng).unwrap();
    let mut slots = off(slots).open().unwrap();
    confirm(&mut slots).unwrap();
    assert_eq!(
        slots.split().1.change_key(&change(2, 1)),
        Err(UpdateError::Key(KeyError::OldSerial { found: 1, held: 1 }))
    );
    slots.split().1.change_key(&change(2, 2)).unwrap();
    // The active model was confirmed, so it runs on; an update by its key is refused.
    let mut slots = off(slots).open().unwrap();
    assert_eq!(running(&mut slots).0, 2);
    let revoked = TrustError::RevokedKey { key: key(1).public().id() };
    assert_eq!(send(&mut slots, &by(1, 3), &mut rng), Err(UpdateError::Trust(revoked)));
    // Another change would leave the active model without a key.
    assert_eq!(slots.split().1.change_key(&change(3, 3)), Err(UpdateError::KeyInUse));
    send(&mut slots, &by(2, 3), &mut rng).unwrap();
    let mut slots = off(slots).open().unwrap();
    confirm(&mut slots).unwrap();
    slots.split().1.change_key(&change(3, 3)).unwrap();
    assert_eq!(running(&mut off(slots).open().unwrap()).0, 3);
}

/// A flash whose writes fail while a flag is set.
struct Failing {
    flash: crate::flash::Flash<8, 1024>,
    fails: Rc<Cell<bool>>,
}

impl ErrorType for Failing {
    type Error = NorFlashErrorKind;
}

impl ReadNorFlash for Failing {
    const READ_SIZE: usize = 1;

    fn read(&mut self, offset: u32, bytes: &mut [u8]) -> Result<(), NorFlashErrorKind> {
        self.flash.read(offset, bytes).map_err(|never| match never {})
    }

    fn capacity(&self) -> usize {
        self.flash.capacity()
    }
}

impl NorFlash for Failing {
    const WRITE_SIZE: usize = 8;
    const ERASE_SIZE: usize = 1024;

    fn erase(&mut self, from: u32, to: u32) -> Result<(), NorFlashErrorKind> {
        self.flash.erase(from, to).map_err(|never| match never {})
    }

    fn write(&mut self, offset: u32, bytes: &[u8]) -> Result<(), NorFlashErrorKind> {
        if self.fails.get() {
            return Err(NorFlashErrorKind::Other);
        }
        self.flash.write(offset, bytes).map_err(|never| match never {})
    }
}

impl Mapped for Failing {
    fn bytes(&self) -> &[u8] {
        self.flash.bytes()
    }
}

/// After a write of the journal that fails, the device has the state, the counter and the keys that it had before.
#[test]
fn a_write_of_the_journal_that_fails_changes_nothing() {
    let fails = Rc::new(Cell::new(false));
    let (device, _) = device(&image(2000, 1));
    let [first, second, journal] = device.parts.map(|flash| Failing { flash, fails: fails.clone() });
    let mut slots = Slots::open([first, second], journal, keys()).unwrap();
    let broken = Err(UpdateError::Flash(NorFlashErrorKind::Other));
    let signer = SecretKey::from_seed(&[1; 32]);
    let change = KeyChange::new(1, PRODUCT, signer.public().as_bytes());
    let change = *root().sign_change(&change).unwrap().as_bytes();
    let update = signer.sign(&unsigned_image(3000, 8), &PRODUCT, 2).unwrap();
    let send = |slots: &mut Slots<_, _>| {
        let (_, mut updater) = slots.split();
        let mut receiver = updater.begin(update.len() as u32)?;
        receiver.write(0, &update)?;
        receiver.finish()
    };
    fails.set(true);
    assert_eq!(slots.split().1.change_key(&change), broken);
    fails.set(false);
    let unknown = TrustError::UnknownKey { key: signer.public().id() };
    assert_eq!(send(&mut slots), Err(UpdateError::Trust(unknown)));
    slots.split().1.change_key(&change).unwrap();
    send(&mut slots).unwrap();
    fails.set(true);
    assert_eq!(slots.switch(), broken);
    fails.set(false);
    assert_eq!((slots.phase(), slots.boot()), (Phase::Pending, Boot::Confirmed));
    slots.switch().unwrap();
    let confirm = |slots: &mut Slots<_, _>| {
        let (active, mut updater) = slots.split();
        let tested = active.unwrap().tested_by_firmware().unwrap();
        updater.confirm(tested)
    };
    fails.set(true);
    assert_eq!(confirm(&mut slots), broken);
    fails.set(false);
    assert_eq!((slots.phase(), slots.counter()), (Phase::Trial, 1));
    confirm(&mut slots).unwrap();
    assert_eq!((slots.phase(), slots.counter()), (Phase::Idle, 2));
    let ([first, second], journal) = slots.into_parts();
    let slots = Slots::open([first, second], journal, keys()).unwrap();
    assert_eq!((slots.boot(), slots.counter()), (Boot::Confirmed, 2));
}

#[test]
fn wear_is_counted_and_spread_over_the_pages_of_the_journal() {
    let mut rng = Rng::new(7);
    let (device, log) = device(&image(2000, 1));
    let mut slots = device.open().unwrap();
    for round in 0..12 {
        send(&mut slots, &image(2000, 1 + round), &mut rng).unwrap();
        slots = off(slots).open().unwrap();
        confirm(&mut slots).unwrap();
    }
    let log = log.operations();
    let erases = |part: usize, page: Option<u32>| {
        let is_one = |done: &&Operation| matches!(done, Operation::Erase(p, at) if *p == part && page.is_none_or(|page| *at == 1024 * page));
        log.iter().filter(is_one).count()
    };
    let counted = slots.wear();
    assert_eq!(counted.erases as usize, (0..3).map(|part| erases(part, None)).sum::<usize>());
    let writes = log.iter().filter(|done| matches!(done, Operation::Write(..))).count();
    assert_eq!(counted.writes as usize, writes);
    let pages = [0, 1, 2].map(|page| erases(2, Some(page)));
    assert!(pages.iter().max().unwrap() - pages.iter().min().unwrap() <= 1 && pages[0] >= 5, "{pages:?}");
}

#[test]
fn a_geometry_that_a_record_does_not_fit_is_refused() {
    let log = Log::default();
    let open = |device: Device<4, 128>| device.open().err();
    assert_eq!(open(Device::new(1 << 10, &log)), Some(UpdateError::Geometry));
    let [a, b, journal] = Device::<512, 1024>::new(1 << 10, &log).parts;
    assert_eq!(Slots::open([a, b], journal, keys()).err(), Some(UpdateError::Geometry));
    let mut one = Small::new(8 << 10, &log).parts;
    one[2] = crate::flash::Flash::new(2, 1, &log);
    assert_eq!(Small { parts: one }.open().err(), Some(UpdateError::Geometry));
}

/// RAM that an update keeps: slots with journal and keys, updater, receiver with its block of 256 bytes.
#[test]
fn an_update_keeps_less_than_4_kib_in_ram() {
    use std::mem::size_of;
    use tidegate_update::{Active, Receiver, Updater};
    // A driver of flash is a few words.
    type Driver = crate::flash::Flash<8, 1024>;
    let driver = 3 * size_of::<Driver>();
    let slots = size_of::<Slots<Driver, Driver>>() - driver;
    let parts = [
        slots,
        size_of::<Active<'_>>(),
        size_of::<Updater<'_, Driver, Driver>>(),
        size_of::<Receiver<'_, Driver, Driver>>(),
    ];
    println!("{parts:?} bytes");
    assert!(parts.iter().sum::<usize>() <= 4 << 10, "{parts:?}");
}
