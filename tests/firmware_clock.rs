//! The firmware's clock, which counts samples, and a detector that runs on it for weeks.

use tidegate::{Detector, DetectorSettings, LabelSettings};

#[path = "../firmware-examples/src/clock.rs"]
mod clock;

use clock::Clock;

/// Milliseconds modulo 2^32, from a count of samples that does not wrap.
fn exact(samples: u64, sample_rate: u32) -> u32 {
    (samples * 1000 / u64::from(sample_rate)) as u32
}

#[test]
fn the_clock_continues_where_samples_or_milliseconds_wrap() {
    for (sample_rate, block) in [(16_000, 1_600_000), (8_000, 800_037), (44_100, 4_000_001), (11_025, 1_000_003)] {
        let mut clock = Clock::new(sample_rate);
        let mut heard = 0;
        // Sixty days, in which milliseconds wrap once and samples many times.
        while heard < 60 * 86_400 * u64::from(sample_rate) {
            heard += u64::from(block);
            assert_eq!(clock.after(block), exact(heard, sample_rate), "{heard} samples at {sample_rate}");
        }
        assert!(heard > 1 << 32 && heard * 1000 / u64::from(sample_rate) > 1 << 32);
    }
}

/// With a word that never ends, an event follows every refractory time, for sixty days.
#[test]
fn no_refractory_time_is_lost_or_cut_short_in_sixty_days() {
    let label = LabelSettings { threshold: 0.5, refractory_ms: 1000 };
    let mut section = [0; 64];
    let len = DetectorSettings::write(1, &[label], &mut section).unwrap();
    let settings = DetectorSettings::parse(&section[..len]).unwrap();
    let mut memory = [0; 1];
    let mut detector = Detector::new(&settings, &mut memory).unwrap();
    let (sample_rate, block) = (16_000, 6_400);
    let mut clock = Clock::new(sample_rate);
    let mut last = None;
    for blocks in 1..=60 * 86_400 * u64::from(sample_rate) / u64::from(block) {
        let now_ms = clock.after(block);
        let Some(event) = detector.push(&[1.0], now_ms).unwrap() else { continue };
        assert_eq!(event.at_ms, now_ms);
        // The third block of 400 ms is the first that is at least a second later.
        assert!(last.is_none_or(|last| blocks - last == 3), "{blocks} blocks, and {last:?} at the last event");
        last = Some(blocks);
    }
}
