//! The front end with the kernels of this host has the bits of the core's.

use tidegate::front_end::{Method, MfccSettings};
use tidegate::{FrontEnd, IntegerFrontEnd, Mfcc};
use tidegate_fused::host_front_end;
use tidegate_tests::data;
use tidegate_tests::front_end::{HELLO_EDGE, MLPERF, PRECISE, SMALL, damaged, drawn, signals};
use tidegate_tests::random::Rng;

/// The bits of all features of a signal, in f32 and in integers.
fn features(mfcc: &Mfcc<'_>, signal: &[i16]) -> (Vec<u32>, Vec<i16>) {
    let mut memory = vec![0; mfcc.memory_words()];
    let (mut in_f32, mut in_integers) = (Vec::new(), Vec::new());
    let mut front_end = FrontEnd::new(mfcc, &mut memory).unwrap();
    let mut rest = signal;
    while !rest.is_empty() {
        rest = &rest[front_end.push(rest)..];
        while let Some(frame) = front_end.next() {
            in_f32.extend(frame.iter().map(|value| value.to_bits()));
        }
    }
    let integer = mfcc.integer().expect("the tables are integers");
    let mut front_end = IntegerFrontEnd::new(&integer, &mut memory).unwrap();
    let mut rest = signal;
    while !rest.is_empty() {
        rest = &rest[front_end.push(rest)..];
        while let Some(frame) = front_end.next() {
            in_integers.extend_from_slice(frame);
        }
    }
    (in_f32, in_integers)
}

/// The section of a front end in integers; `None` if the settings describe none.
fn section(settings: &MfccSettings) -> Option<Vec<u8>> {
    let mut section = vec![0; settings.integer_section_len().ok()?];
    match settings.method {
        Method::LogMel(_) => settings.write_log_mel(1.0 / 256.0, Some(-128), 255, &mut section),
        _ => settings.write_integer(&mut section),
    }
    .ok()?;
    Some(section)
}

/// Compares both ways on a signal. Returns the number of features.
fn compare(section: &[u8], signal: &[i16], what: &str) -> usize {
    let mfcc = Mfcc::parse(section).unwrap();
    let (expected, found) = (features(&mfcc, signal), features(&host_front_end(&mfcc), signal));
    assert_eq!(found, expected, "{what}, {:?}", mfcc.settings());
    expected.0.len()
}

#[test]
fn random_front_ends_on_loud_quiet_and_odd_signals_have_the_bits_of_the_core() {
    let rng = &mut Rng::new(8);
    let (mut count, mut sections) = (0, 0);
    for round in 0..200 {
        let settings = match round {
            0 => HELLO_EDGE,
            1 => PRECISE,
            2 => MLPERF,
            _ => drawn(rng),
        };
        let Some(section) = section(&settings) else {
            assert!(round > 2, "{settings:?}");
            continue;
        };
        sections += 1;
        for (what, signal) in signals(settings.window_len as usize, rng) {
            count += compare(&section, &signal, what);
        }
    }
    assert!(sections > 100 && count > 10_000, "{sections} sections, {count} features");
}

/// A table of an untrusted image may not contain sines.
#[test]
fn damaged_tables_give_the_bits_of_the_core_too() {
    let rng = &mut Rng::new(9);
    let good = [&SMALL[..], &[HELLO_EDGE, MLPERF]].concat();
    let good: Vec<Vec<u8>> = good.iter().map(|settings| section(settings).unwrap()).collect();
    let mut parsed = 0;
    for _ in 0..2000 {
        let section = damaged(&good, rng, 20, &[0, 1, u32::MAX, 1 << 31, i32::MAX as u32]);
        let Ok(mfcc) = Mfcc::parse(&section) else { continue };
        if mfcc.integer().is_none() {
            continue;
        }
        parsed += 1;
        let signal: Vec<i16> = (0..mfcc.settings().window_len).map(|_| rng.bits() as i16).collect();
        compare(&section, &signal, "noise");
    }
    assert!(parsed > 300, "{parsed}");
}

#[test]
fn clips_have_the_bits_of_the_core() {
    let clips = tidegate_model::data::read_index(&data::file("speech_commands_v2/index.csv")).unwrap();
    let step = (clips.len() / 40).max(1);
    for settings in [HELLO_EDGE, PRECISE, MLPERF] {
        let section = section(&settings).unwrap();
        for clip in clips.iter().step_by(step) {
            let signal = tidegate_model::data::read_audio_at(&clip.path, 16_000).unwrap().samples;
            assert!(compare(&section, &signal, "a clip") > 100);
        }
    }
}
