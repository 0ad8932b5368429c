//! The power is cut at every byte written and every page erased of an update. Whatever is cut, the device boots a signed
//! model, never a mixed one, never one that is older than the confirmed one, and can be updated.
//!
//! `TIDEGATE_CUTS=all`, which `cargo xtask soak` sets, tries every cut; otherwise a seeded sample is tried.

use std::collections::BTreeMap;
use std::thread;

use crate::device::{Device, confirm, image, off, running, send};
use crate::flash::Log;
use tidegate_tests::random::Rng;
use tidegate_update::{Boot, TrustError, UpdateError};

/// Counter of the image that the factory flashes.
const OLD: u32 = 5;
/// Counter of the update.
const NEW: u32 = 6;
/// Counter of an image that is refused.
const DOWNGRADE: u32 = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Scenario {
    Update,
    Revert,
    Downgrade,
    SecondCut,
}

const SCENARIOS: [Scenario; 4] = [Scenario::Update, Scenario::Revert, Scenario::Downgrade, Scenario::SecondCut];

/// The images of a run, by their counters.
type Images = BTreeMap<u32, Vec<u8>>;

/// An uncut run: the device before it, its operations, and the operations between which either image may boot.
struct Run<const WRITE: usize, const ERASE: usize> {
    before: Device<WRITE, ERASE>,
    log: Log,
    /// Number of operations before which the new image cannot boot.
    pending: usize,
    /// Number of operations after which the old image cannot boot.
    confirmed: usize,
}

fn uncut<const WRITE: usize, const ERASE: usize>(
    scenario: Scenario,
    images: &Images,
    rng: &mut Rng,
) -> Run<WRITE, ERASE> {
    let longest = images.values().map(Vec::len).max().unwrap_or(0);
    let factory = Device::<WRITE, ERASE>::new(longest, &Log::default()).flashed(&images[&OLD]);
    // The journal is as full as it may be after years.
    let mut slots = factory.open().unwrap();
    for _ in 0..rng.below(12) {
        let _ = send(&mut slots, &images[&DOWNGRADE], rng);
    }
    let before = off(slots).copy(&Log::default(), 1);
    let log = Log::default();
    let mut slots = before.copy(&log, 2).open().unwrap();
    let (mut pending, mut confirmed) = (usize::MAX, usize::MAX);
    match scenario {
        Scenario::Downgrade => {
            let refused = send(&mut slots, &images[&DOWNGRADE], rng);
            let too_old = TrustError::OldCounter { found: DOWNGRADE, needed: OLD };
            assert_eq!(refused, Err(UpdateError::Trust(too_old)));
        }
        _ => {
            send(&mut slots, &images[&NEW], rng).unwrap();
            pending = log.count() - 1;
            slots = off(slots).open().unwrap();
            assert_eq!((slots.boot(), running(&mut slots).0), (Boot::Trial, NEW));
            if scenario == Scenario::Revert {
                slots = off(slots).open().unwrap();
                assert_eq!((slots.boot(), running(&mut slots).0), (Boot::Reverted, OLD));
            } else {
                confirm(&mut slots).unwrap();
                confirmed = log.count();
            }
        }
    }
    Run { before, log, pending, confirmed }
}

/// Boots a device, and checks what runs.
fn boots<const WRITE: usize, const ERASE: usize>(
    device: Device<WRITE, ERASE>,
    images: &Images,
    allowed: &[u32],
) -> Device<WRITE, ERASE> {
    let mut slots = device.open().unwrap();
    let (counter, bytes) = running(&mut slots);
    assert!(allowed.contains(&counter), "{counter} runs, not one of {allowed:?}");
    assert!(bytes == images[&counter], "the image with counter {counter} is mixed");
    off(slots)
}

/// Updates a device to the end.
fn updated<const WRITE: usize, const ERASE: usize>(
    device: Device<WRITE, ERASE>,
    images: &Images,
    rng: &mut Rng,
) -> Device<WRITE, ERASE> {
    let mut slots = device.open().unwrap();
    if slots.boot() != Boot::Trial {
        send(&mut slots, &images[&NEW], rng).unwrap();
        slots = off(slots).open().unwrap();
    }
    assert_eq!((slots.boot(), running(&mut slots).0), (Boot::Trial, NEW));
    confirm(&mut slots).unwrap();
    assert_eq!(slots.counter(), NEW);
    off(slots)
}

/// Tries the cuts of one scenario; `chosen` says which. Returns their number.
fn cut<const WRITE: usize, const ERASE: usize>(
    scenario: Scenario,
    bytes: usize,
    seed: u64,
    mut chosen: impl FnMut(usize) -> bool,
) -> usize {
    let mut rng = Rng::new(seed);
    let images: Images = [OLD, NEW, DOWNGRADE].map(|counter| (counter, image(bytes, counter))).into();
    let run = uncut::<WRITE, ERASE>(scenario, &images, &mut rng);
    let log = run.log.operations();
    let mut device = run.before;
    let (mut places, mut tried) = (0, 0);
    for (index, operation) in log.iter().enumerate() {
        let allowed: &[u32] = match index {
            _ if index < run.pending => &[OLD],
            _ if index < run.confirmed => &[OLD, NEW],
            _ => &[NEW],
        };
        for place in 0..operation.cuts() {
            places += 1;
            if !chosen(places) {
                continue;
            }
            tried += 1;
            let mut torn = device.copy(&Log::default(), seed ^ places as u64);
            torn.parts[operation.part()].perform(operation, Some(place));
            if scenario == Scenario::SecondCut {
                let torn = cut_again(&torn, &images, &mut rng);
                boots(torn, &images, if index < run.confirmed { &[OLD, NEW] } else { &[NEW] });
                continue;
            }
            let torn = boots(torn, &images, allowed);
            // The device must not be stuck: the update can still be made.
            if tried % 4 == 0 {
                boots(updated(torn, &images, &mut rng), &images, &[NEW]);
            }
        }
        device.parts[operation.part()].perform(operation, None);
    }
    tried
}

/// The device after its recovery was cut at a random place too. Without this cut, the recovery ends with the update.
fn cut_again<const WRITE: usize, const ERASE: usize>(
    torn: &Device<WRITE, ERASE>,
    images: &Images,
    rng: &mut Rng,
) -> Device<WRITE, ERASE> {
    let log = Log::default();
    updated(torn.copy(&log, rng.bits()), images, rng);
    let mut torn = torn.copy(&Log::default(), rng.bits());
    let recovery = log.operations();
    let cut = rng.below(recovery.len());
    for (index, operation) in recovery.iter().take(cut + 1).enumerate() {
        let place = (index == cut).then(|| rng.below(operation.cuts()));
        torn.parts[operation.part()].perform(operation, place);
    }
    torn
}

/// Tries cuts of all scenarios in one geometry, and returns their number. With `TIDEGATE_CUTS=all` the places are divided
/// among the cores; otherwise about `sample` places of each scenario are tried.
fn scenarios<const WRITE: usize, const ERASE: usize>(bytes: usize, sample: usize) -> usize {
    let all = std::env::var("TIDEGATE_CUTS").is_ok_and(|value| value == "all");
    let shares = if all { thread::available_parallelism().map_or(1, usize::from) } else { 1 };
    let tried = |scenario, share| {
        let mut rng = Rng::new(WRITE as u64);
        let chosen = |place| if all { place % shares == share } else { rng.below(bytes) < sample };
        cut::<WRITE, ERASE>(scenario, bytes, bytes as u64, chosen)
    };
    thread::scope(|scope| {
        let parts = SCENARIOS.into_iter().flat_map(|scenario| (0..shares).map(move |share| (scenario, share)));
        let threads: Vec<_> = parts.map(|(scenario, share)| scope.spawn(move || tried(scenario, share))).collect();
        threads.into_iter().map(|thread| thread.join().expect("a cut has failed")).sum()
    })
}

/// Words of 4, 8, 16 and 32 bytes, as microcontrollers with and without ECC have them, and of one byte.
#[test]
fn every_cut_boots_a_signed_model_and_none_older_than_the_confirmed_one() {
    let tried = [
        scenarios::<4, 1024>(2 << 10, 90),
        scenarios::<8, 2048>(5 << 10, 90),
        scenarios::<16, 4096>(9 << 10, 40),
        scenarios::<32, 8192>(20 << 10, 30),
        scenarios::<1, 512>(2 << 10, 30),
    ];
    println!("{} cuts tried", tried.iter().sum::<usize>());
    assert!(tried.iter().sum::<usize>() >= 1000, "{tried:?}");
}

/// An image of 300 KB.
#[test]
fn cuts_in_a_long_image_boot_a_signed_model_too() {
    let tried = scenarios::<8, 4096>(300 << 10, 4);
    println!("{tried} cuts tried");
    assert!(tried >= 8, "{tried}");
}
