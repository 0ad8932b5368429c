//! The integer front end: compared bit by bit with its twin, with the formulas on real speech, and with damaged
//! sections.

use tidegate::{
    BufferTooSmall, ImageError, Numeric, Sequence, State, StepError,
    front_end::{First, FrontEnd, FrontEndError, IntegerFrontEnd, Mfcc, MfccSettings, Spectrum},
};
use tidegate_model::load::ImageBuffer;
use tidegate_model::pack::pack;
use tidegate_tests::front_end::{HELLO_EDGE, PRECISE, SMALL, damaged, drawn, frames, loud_and_quiet, signals};
use tidegate_tests::random::Rng;
use tidegate_tests::tolerance::worse;
use tidegate_tests::twin_front_end::Twin;
use tidegate_tests::{data, images, oracle};

fn section(settings: &MfccSettings) -> Vec<u8> {
    let mut section = vec![0; settings.integer_section_len().unwrap()];
    assert_eq!(settings.write_integer(&mut section), Ok(section.len()));
    section
}

/// All feature frames of a signal that is pushed in blocks of these lengths, repeated in turn.
fn features(section: &[u8], signal: &[i16], blocks: &[usize]) -> Vec<Vec<i16>> {
    let mfcc = Mfcc::parse(section).unwrap().integer().unwrap();
    let mut memory = vec![0xdead_beef; mfcc.memory_words()];
    let mut front_end = IntegerFrontEnd::new(&mfcc, &mut memory).unwrap();
    frames(&mut front_end, signal, blocks, IntegerFrontEnd::push, IntegerFrontEnd::next)
}

#[test]
fn every_bit_matches_the_twin_and_no_sum_overflows() {
    let rng = &mut Rng::new(3);
    let (mut frames, mut options) = (0, [0; 4]);
    let rounds = if cfg!(debug_assertions) { 20 } else { 300 };
    for round in 0..rounds {
        let drawn = drawn(rng);
        let settings = match round {
            0 => HELLO_EDGE,
            1 => PRECISE,
            _ => drawn,
        };
        let mut bytes = vec![0; settings.integer_section_len().unwrap_or(0)];
        match settings.write_integer(&mut bytes) {
            Err(FrontEndError::Band { .. } | FrontEndError::MelEdge { .. }) => continue,
            written => assert_eq!(written, Ok(bytes.len()), "{settings:?}"),
        }
        let twin = Twin::new(&bytes, &settings);
        for (what, signal) in signals(settings.window_len as usize, rng) {
            let expected = twin.features(0, &signal);
            assert_eq!(features(&bytes, &signal, &[signal.len()]), [expected], "{what}, {settings:?}");
            frames += 1;
        }
        options[usize::from(settings.spectrum == Spectrum::Power)] += 1;
        options[2 + usize::from(settings.first == First::LogEnergy)] += 1;
    }
    println!("{frames} frames, {options:?}");
    assert!(frames > 5 * rounds && options.iter().all(|&count| 8 * count > rounds));
}

/// Sums of squared features and squared errors, the worst error in units, and the number of errors above one unit.
#[derive(Default)]
struct Errors {
    signal: f64,
    noise: f64,
    worst: f64,
    count: usize,
}

impl Errors {
    fn add(&mut self, found: i16, expected: f64, scale: f64) {
        let error = f64::from(found) - expected / scale;
        self.signal += (expected / scale).powi(2);
        self.noise += error * error;
        self.worst = worse(self.worst, error.abs());
        self.count += 1;
    }

    fn snr_db(&self) -> f64 {
        10.0 * (self.signal / self.noise).log10()
    }

    fn rms(&self) -> f64 {
        (self.noise / self.count as f64).sqrt()
    }
}

/// A rounded value is off by 0.29 units on average and by at most half a unit. The integers add the rest, mostly in
/// frames whose loudest bands are 90 dB above the others, where the 16-bit window becomes audible. Silence, whose first
/// feature is the greatest, dominates the ratio of whole clips.
#[test]
fn features_of_real_speech_match_the_formulas() {
    let clips = tidegate_model::data::read_index(&data::file("speech_commands_v2/index.csv")).unwrap();
    // About 240 clips of the whole data, and every clip of a part.
    let step = (clips.len() / 240).max(1) * if cfg!(debug_assertions) { 48 } else { 1 };
    let cases = [("hello edge", HELLO_EDGE), ("precise", PRECISE)];
    for (name, settings) in cases {
        let bytes = section(&settings);
        let scale = f64::from(Mfcc::parse(&bytes).unwrap().scale().unwrap());
        let (mut of_f32, mut exact) = (Errors::default(), Errors::default());
        let mut in_f32 = vec![0; settings.section_len().unwrap()];
        settings.write(&mut in_f32).unwrap();
        for clip in clips.iter().step_by(step) {
            let signal = tidegate_model::data::read_audio_at(&clip.path, 16_000).unwrap().samples;
            let found = features(&bytes, &signal, &[160]);
            let mfcc = Mfcc::parse(&in_f32).unwrap();
            let expected = tidegate_model::runner::features(&mfcc, &signal).unwrap();
            for (&found, &expected) in found.concat().iter().zip(&expected) {
                of_f32.add(found, f64::from(expected), scale);
            }
            // The formulas in f64 are slow, so only the middle frame is compared.
            let middle = found.len() / 2;
            let from = middle * settings.stride_len as usize;
            let frame = &signal[from..from + settings.window_len as usize];
            for (&found, expected) in found[middle].iter().zip(oracle::front_end::features(&settings, frame)) {
                exact.add(found, expected.value, scale);
            }
        }
        for (what, errors) in [("f32", &of_f32), ("the formulas in f64", &exact)] {
            println!(
                "{name}, a unit of {scale:.5}: against {what}: {} features, worst error {:.2} units, {:.3} on average, {:.1} dB",
                errors.count,
                errors.worst,
                errors.rms(),
                errors.snr_db()
            );
            assert!(errors.worst <= 2.0 && errors.rms() <= 0.3 && errors.snr_db() >= 65.0);
        }
    }
}

#[test]
fn blocks_of_any_length_give_the_same_bits_and_f32_features_are_scaled_integers() {
    let rng = &mut Rng::new(9);
    let signal: Vec<i16> = (0..5000).map(|_| rng.number(9000.0) as i16).collect();
    let like = |settings: MfccSettings| {
        move |(window_len, stride_len)| MfccSettings { window_len, stride_len, lead_frames: 2, ..settings }
    };
    let lens = [(640, 320), (639, 100), (400, 1001), (1024, 1023)].map(like(HELLO_EDGE));
    for settings in lens.into_iter().chain([(1600, 800), (512, 512)].map(like(PRECISE))) {
        let bytes = section(&settings);
        let whole = features(&bytes, &signal, &[signal.len()]);
        let frames = (signal.len() - settings.window_len as usize) / settings.stride_len as usize + 1;
        assert_eq!(whole.len(), frames + 2);
        assert!(whole[..2].iter().flatten().all(|&feature| feature == 0));
        for blocks in [&[1][..], &[7, 1, 333, 64], &[641]] {
            assert_eq!(features(&bytes, &signal, blocks), whole, "{settings:?}, {blocks:?}");
        }
        let mfcc = Mfcc::parse(&bytes).unwrap();
        let scale = mfcc.scale().unwrap();
        let floats = tidegate_model::runner::features(&mfcc, &signal).unwrap();
        assert_eq!(floats, whole.concat().iter().map(|&feature| f32::from(feature) * scale).collect::<Vec<_>>());
        let mut memory = vec![0; mfcc.memory_words()];
        let integer = mfcc.integer().unwrap();
        let mut front_end = IntegerFrontEnd::new(&integer, &mut memory).unwrap();
        for _ in 0..2 {
            assert_eq!(front_end.push(&signal), settings.window_len as usize);
            assert_eq!(front_end.push(&signal), 0);
            (0..2).for_each(|_| assert!(front_end.next().is_some()));
            assert_eq!(front_end.next().unwrap(), whole[2]);
            assert!(front_end.next().is_none());
            front_end.reset();
        }
    }
}

#[test]
fn memory_stays_within_its_limit_and_less_is_refused() {
    for settings in [HELLO_EDGE, PRECISE] {
        let bytes = section(&settings);
        let mfcc = Mfcc::parse(&bytes).unwrap();
        let integer = mfcc.integer().unwrap();
        let needed = integer.memory_words();
        println!(
            "{} bytes of memory, {} of tables; {} of tables in f32",
            4 * needed,
            bytes.len(),
            settings.section_len().unwrap()
        );
        assert!(4 * needed <= 8 * 1024);
        for given in [0, 1, needed / 2, needed - 1] {
            let refused = BufferTooSmall { needed, given };
            assert_eq!(IntegerFrontEnd::new(&integer, &mut vec![0; given]).unwrap_err(), refused);
            assert_eq!(FrontEnd::new(&mfcc, &mut vec![0; given]).unwrap_err(), refused);
        }
    }
}

#[test]
fn wrong_tables_are_refused_with_their_position() {
    let good = section(&HELLO_EDGE);
    assert_eq!(Mfcc::parse(&good).unwrap().settings(), &HELLO_EDGE);
    for given in (0..good.len()).step_by(7).chain([good.len() - 1, good.len() - 2, good.len() + 2]) {
        let mut bytes = good.clone();
        bytes.resize(given, 0);
        assert!(
            matches!(Mfcc::parse(&bytes).unwrap_err(), FrontEndError::SectionLen { given: found, .. } if found == given)
        );
    }
    let with = |offset: usize, bytes: &[u8]| {
        let mut bad = good.clone();
        bad[offset..offset + bytes.len()].copy_from_slice(bytes);
        Mfcc::parse(&bad).map(|_| ())
    };
    let (sines, edges) = (60, 60 + 4 * 257);
    let weights = good.len() - 2 * 255;
    for scale in [0.0, -1.0, f32::NAN, f32::INFINITY] {
        assert_eq!(with(48, &scale.to_le_bytes()), Err(FrontEndError::TableValue { offset: 48 }));
    }
    for offset in [sines, edges - 4] {
        assert_eq!(with(offset, &(1_u32 << 31).to_le_bytes()), Err(FrontEndError::TableValue { offset }));
    }
    for (edge, found) in [(0, 1), (1, 0), (41, 256), (41, 258), (30, 258)] {
        let error = with(edges + 4 * edge, &u32::to_le_bytes(found));
        assert_eq!(error, Err(FrontEndError::MelEdge { edge, found }));
    }
    for offset in [weights, good.len() - 2] {
        assert_eq!(with(offset, &32_769_u16.to_le_bytes()), Err(FrontEndError::TableValue { offset }));
        assert_eq!(with(offset, &32_768_u16.to_le_bytes()), Ok(()));
    }
}

/// A section with up to four changed words is refused, or gives features for the loudest signal and for silence.
#[test]
fn a_damaged_section_is_refused_or_computes_features() {
    let rng = &mut Rng::new(12);
    let (good, loud) = (SMALL.map(|settings| section(&settings)), loud_and_quiet());
    let mut heard = 0;
    for _ in 0..if cfg!(debug_assertions) { 1000 } else { 50_000 } {
        let bytes = damaged(&good, rng, 15, &[u32::MAX, 0, i32::MAX as u32, i32::MIN as u32]);
        let Ok(mfcc) = Mfcc::parse(&bytes) else { continue };
        let Some(mfcc) = mfcc.integer() else { continue };
        let mut memory = vec![u32::MAX; mfcc.memory_words()];
        let mut front_end = IntegerFrontEnd::new(&mfcc, &mut memory).unwrap();
        let mut rest = &loud[..];
        while !rest.is_empty() {
            rest = &rest[front_end.push(rest)..];
            while let Some(frame) = front_end.next() {
                assert!(!frame.contains(&i16::MIN), "{:?}", mfcc.settings());
                heard += 1;
            }
        }
    }
    println!("{heard} frames computed");
    assert!(heard > 1000);
}

#[test]
fn the_front_end_of_an_integer_image_has_the_scale_of_its_input() {
    let image = pack(&images::whole(), Numeric::I8x16).unwrap();
    let buffer = ImageBuffer::new(&image);
    let model = buffer.model().unwrap();
    let scale = model.front_end().unwrap().scale().unwrap();
    assert_eq!((model.input_scale(), model.output_scale()), (scale, 1.0 / 32768.0));
    let at = image.windows(4).position(|word| word == scale.to_le_bytes()).unwrap();
    let mut other = image.clone();
    let needed = scale * 2.0;
    other[at..at + 4].copy_from_slice(&needed.to_le_bytes());
    tidegate::internals::write::seal(&mut other);
    assert_eq!(ImageBuffer::new(&other).model().unwrap_err(), ImageError::BadFrontEndScale { needed, given: scale });

    // Without f32: the same integers only.
    let only = model.integers_only().unwrap();
    assert!(only.front_end().is_none());
    let kept = only.integer_front_end().expect("the front end is in integers");
    let (mut words, samples) = (vec![0; kept.memory_words()], vec![1000; 65_536]);
    let mut front_end = IntegerFrontEnd::new(&kept, &mut words).unwrap();
    front_end.push(&samples);
    let features = front_end.next().expect("a frame is complete").to_vec();
    let whole = model.integer_front_end().expect("the front end is in integers");
    let mut words = vec![0; whole.memory_words()];
    let mut front_end = IntegerFrontEnd::new(&whole, &mut words).unwrap();
    front_end.push(&samples);
    assert_eq!(front_end.next(), Some(features.as_slice()));
    let (mut memory, mut scratch) = (vec![0; only.state_words()], vec![0; only.scratch_words()]);
    let mut state = State::new(&only, &mut memory).unwrap();
    assert_eq!(only.step_f32(&mut state, &mut scratch, &[0.0; 2], &mut [0.0; 3]), Err(StepError::IntegersOnly));
    let sequence = Sequence::default();
    let run = only.run_ports(&mut state, &mut scratch, &[&[0.0; 6]], &mut [&mut [0.0; 9]], &sequence);
    assert_eq!(run, Err(StepError::IntegersOnly));
    let mut posteriors = [0; 3];
    while !only.step_i16(&mut state, &mut scratch, &[100, -100], &mut posteriors).unwrap().has_output() {}
    assert!(posteriors.iter().all(|&posterior| posterior > 0));
    let buffer = ImageBuffer::new(&pack(&images::whole(), Numeric::F32).unwrap());
    let float = buffer.model().unwrap();
    assert!(
        float.integers_only().is_none()
            && float.integer_front_end().is_none()
            && float.front_end().unwrap().integer().is_none()
    );
    assert_eq!((float.input_scale(), float.front_end().unwrap().scale()), (1.0, None));
}
