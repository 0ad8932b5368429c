//! The front end of MLPerf Tiny's streaming wake word: compared with the recorded inputs of the benchmark's model, bit by
//! bit with its twin, and with damaged sections.

use tidegate::Numeric;
use tidegate::front_end::{
    First, FrontEnd, FrontEndError, IntegerFrontEnd, LogMel, MelCorners, Method, Mfcc, MfccSettings, Spectrum, Window,
};
use tidegate_model::canonical;
use tidegate_model::data::{read_audio_at, read_tensors};
use tidegate_model::load::{self, Settings};
use tidegate_tests::data;
use tidegate_tests::front_end::{HELLO_EDGE, MLPERF, damaged, frames, loud_and_quiet, signals};
use tidegate_tests::random::Rng;
use tidegate_tests::tolerance::worst;
use tidegate_tests::twin_front_end::Twin;

/// Scale of an input, its zero point if it has one, and its greatest integer.
type Port = (f32, Option<i16>, u16);
/// The input of MLPerf's model.
const INT8: Port = (0.003_701_042_6, Some(-128), 255);
const PLAIN: Port = (1.0 / 32_767.0, None, 32_767);

fn section(settings: &MfccSettings, (scale, zero_point, most): Port) -> Vec<u8> {
    let mut section = vec![0; settings.integer_section_len().unwrap()];
    assert_eq!(settings.write_log_mel(scale, zero_point, most, &mut section), Ok(section.len()));
    section
}

/// All feature frames of a signal that is pushed in blocks of these lengths, repeated in turn.
fn features(section: &[u8], signal: &[i16], blocks: &[usize]) -> Vec<Vec<i16>> {
    let mfcc = Mfcc::parse(section).unwrap().integer().unwrap();
    let mut memory = vec![0xdead_beef; mfcc.memory_words()];
    let mut front_end = IntegerFrontEnd::new(&mfcc, &mut memory).unwrap();
    frames(&mut front_end, signal, blocks, IntegerFrontEnd::push, IntegerFrontEnd::next)
}

fn in_floats(settings: &MfccSettings, signal: &[i16]) -> Vec<f32> {
    let mut section = vec![0; settings.section_len().unwrap()];
    assert_eq!(settings.write(&mut section), Ok(section.len()));
    tidegate_model::runner::features(&Mfcc::parse(&section).unwrap(), signal).unwrap()
}

fn file(name: &str) -> std::path::PathBuf {
    data::file(&format!("deployed/{name}"))
}

/// Recorded sounds: name, samples, and the integers of the model's input. The repository has only the start of one.
fn recorded() -> Vec<(&'static str, Vec<i16>, Vec<f32>)> {
    let mut tensors = read_tensors(&file("mlperf_streaming/reference.safetensors")).unwrap();
    let mut input = |name: &str| tensors.remove(name).unwrap().data;
    let stream = if data::is_whole() { "stream.flac" } else { "start.flac" };
    let mut stream = read_audio_at(&file(&format!("micro_wake_word/{stream}")), 16_000).unwrap().samples;
    stream.truncate(120 * 16_000);
    let mut sounds = vec![("stream", stream, input("stream/input"))];
    if data::is_whole() {
        let mut reader = hound::WavReader::open(file("mlperf_streaming/short_wav_easy10s.wav")).unwrap();
        assert_eq!(reader.spec().channels, 2);
        let left = reader.samples::<i16>().step_by(2).map(Result::unwrap).collect();
        sounds.push(("short", left, input("short/input")));
    }
    sounds
}

#[test]
fn features_are_the_recorded_inputs_of_the_model() {
    let model = load::canonical(&file("mlperf_streaming/str_ww_ref_model.tflite"), &Settings::default()).unwrap().model;
    let input = &model.architecture.integers[&model.architecture.inputs[0].name];
    assert_eq!((input.scale, Some(input.zero_point as i16)), (INT8.0, INT8.1));
    let (named, _) = canonical::Mfcc::named("mlperf_streaming").unwrap();
    let section = named.section(Numeric::I8, Some(input)).unwrap();
    for (name, sound, expected) in recorded() {
        let found = features(&section, &sound, &[512]).concat();
        assert_eq!(found.len(), expected.len(), "{name}");
        // The model's integers are 128 less than those of a slot.
        let off = |found: &[f32]| {
            let off: Vec<f32> =
                found.iter().zip(&expected).map(|(slot, expected)| (slot - 128.0 - expected).abs()).collect();
            (off.iter().filter(|&&off| off > 0.0).count(), worst(off))
        };
        let slots: Vec<f32> = found.iter().map(|&slot| f32::from(slot)).collect();
        let (differ, most) = off(&slots);
        println!("{name}: {differ} of {} differ, by {most} at most", expected.len());
        assert!(most <= 1.0 && 1000 * differ <= expected.len(), "{name}: {differ}, {most}");
        // In floats, with the rounding of a cast in C.
        let scale = input.scale;
        let slot = |feature: f32| ((feature / scale - 128.0).trunc() + 128.0).clamp(0.0, 255.0);
        let slots: Vec<f32> = in_floats(&MLPERF, &sound).into_iter().map(slot).collect();
        let (differ, most) = off(&slots);
        println!("{name} in floats: {differ} differ, by {most} at most");
        assert!(most <= 1.0 && 200 * differ <= expected.len(), "{name} in floats: {differ}, {most}");
    }
}

#[test]
fn features_in_floats_are_the_recorded_ones() {
    if !data::is_whole() {
        println!("SKIP: the sound is not in the repository; set TIDEGATE_DATA_DIR");
        return;
    }
    let expected =
        read_tensors(&file("mlperf_streaming/reference.safetensors")).unwrap()["short/features"].data.clone();
    let sounds = recorded();
    let found = in_floats(&MLPERF, &sounds[1].1);
    assert_eq!(found.len(), expected.len());
    let most = worst(found.iter().zip(&expected).map(|(a, b)| (a - b).abs()));
    println!("{most:.1e}");
    assert!(most <= 1e-4, "{most:e}");
    // In integers without a zero point: half a unit, and the logarithm's error.
    let integers = features(&section(&MLPERF, PLAIN), &sounds[1].1, &[512]).concat();
    let most = worst(integers.iter().zip(&expected).map(|(&a, b)| (f32::from(a) / 32_767.0 - b).abs()));
    println!("{most:.1e} in integers");
    assert!(most <= 1e-4, "{most:e} in integers");
}

#[test]
fn every_bit_matches_the_twin() {
    let rng = &mut Rng::new(51);
    let mut count = 0;
    for round in 0..if cfg!(debug_assertions) { 5 } else { 60 } {
        let fft_len: usize = rng.pick(&[256, 512, 1024, 2048]);
        let mel_bands = 2 + rng.below(40) as u32;
        let emphasis = rng.pick(&[0.0, 0.5, 0.96875, 1.0]);
        let lowest_db = rng.pick(&[-300.0, -52.0, 0.0]);
        let highest_db = lowest_db + rng.pick(&[20.0, 64.0, 300.0]);
        let window_len = 2 + rng.below(3 * fft_len / 2) as u32;
        let drawn = MfccSettings {
            method: Method::LogMel(LogMel { emphasis, lowest_db, highest_db }),
            window_len,
            stride_len: window_len.div_ceil(2),
            window: rng.pick(&[Window::Hann, Window::Rectangular, Window::Hamming]),
            fft_len: fft_len as u32,
            mel_bands,
            coefficients: mel_bands,
            lower_hz: rng.pick(&[0.0, 133.5]),
            upper_hz: rng.pick(&[3800.0, 8000.0]),
            bins_per_rate: fft_len as u32,
            corners: rng.pick(&[MelCorners::Exact, MelCorners::WholeBins]),
            log_floor: rng.pick(&[1.0, 1e-12, 1e-37]),
            ..MLPERF
        };
        let settings = if round == 0 { MLPERF } else { drawn };
        let mut bytes = vec![0; settings.integer_section_len().unwrap_or(0)];
        let (scale, zero_point, most) = rng.pick(&[INT8, PLAIN]);
        match settings.write_log_mel(scale, zero_point, most, &mut bytes) {
            Err(FrontEndError::Band { .. } | FrontEndError::MelEdge { .. }) => continue,
            written => assert_eq!(written, Ok(bytes.len()), "{settings:?}"),
        }
        let twin = Twin::new(&bytes, &settings);
        let (window, stride) = (settings.window_len as usize, settings.stride_len as usize);
        for (what, signal) in signals(3 * window, rng) {
            let starts = (0..=signal.len() - window).step_by(stride);
            let frame = |start: usize| {
                let before = start.checked_sub(1).map_or(0, |before| signal[before]);
                twin.features(before, &signal[start..start + window])
            };
            let expected: Vec<_> = starts.map(frame).collect();
            assert_eq!(features(&bytes, &signal, &[signal.len()]), expected, "{what}, {settings:?}");
            count += expected.len();
        }
    }
    println!("{count} frames");
    assert!(count > 50);
}

/// The sample before a frame is the one that was dropped last, also where the stride exceeds the window.
#[test]
fn blocks_of_any_length_give_the_same_bits_and_a_reset_stream_starts_again() {
    let rng = &mut Rng::new(52);
    let signal: Vec<i16> = (0..9000).map(|_| rng.number(9000.0) as i16).collect();
    for (window_len, stride_len) in [(1024, 512), (1023, 100), (400, 400), (400, 1001), (1024, 1023)] {
        let settings = MfccSettings { window_len, stride_len, lead_frames: 1, ..MLPERF };
        let bytes = section(&settings, INT8);
        let twin = Twin::new(&bytes, &settings);
        let whole = features(&bytes, &signal, &[signal.len()]);
        let (window, stride) = (window_len as usize, stride_len as usize);
        let expected = (0..=signal.len() - window).step_by(stride).map(|start| {
            let before = start.checked_sub(1).map_or(0, |before| signal[before]);
            twin.features(before, &signal[start..start + window])
        });
        assert!(whole[1..].iter().cloned().eq(expected), "{settings:?}");
        for blocks in [&[1][..], &[7, 1, 333], &[512], &[1025]] {
            assert_eq!(features(&bytes, &signal, blocks), whole, "{settings:?}, {blocks:?}");
        }
        let mfcc = Mfcc::parse(&bytes).unwrap();
        let scaled: Vec<Vec<f32>> =
            whole.iter().map(|frame| frame.iter().map(|&x| f32::from(x) * INT8.0).collect()).collect();
        let mut memory = vec![u32::MAX; mfcc.memory_words()];
        let mut front_end = FrontEnd::new(&mfcc, &mut memory).unwrap();
        for _ in 0..2 {
            assert_eq!(frames(&mut front_end, &signal, &[333], FrontEnd::push, FrontEnd::next), scaled);
            front_end.reset();
        }
    }
}

#[test]
fn wrong_settings_and_tables_are_refused() {
    let with = |emphasis, lowest_db, highest_db| MfccSettings {
        method: Method::LogMel(LogMel { emphasis, lowest_db, highest_db }),
        ..MLPERF
    };
    for settings in [
        MfccSettings { spectrum: Spectrum::Magnitude, ..MLPERF },
        MfccSettings { first: First::LogEnergy, ..MLPERF },
        MfccSettings { coefficients: 39, ..MLPERF },
        with(-0.1, -52.0, 12.0),
        with(1.1, -52.0, 12.0),
        with(f32::NAN, -52.0, 12.0),
        with(0.9, -52.0, -33.0),
        with(0.9, -301.0, 12.0),
        with(0.9, -52.0, f32::NAN),
        with(0.9, -52.0, 301.0),
    ] {
        assert_eq!(settings.check(), Err(FrontEndError::LogMel), "{settings:?}");
    }
    assert_eq!(MLPERF.write_integer(&mut [0; 9999]), Err(FrontEndError::LogMel));
    assert_eq!(HELLO_EDGE.write_log_mel(1.0, None, 255, &mut [0; 9999]), Err(FrontEndError::LogMel));
    assert_eq!(MLPERF.micro_section_len(), Err(FrontEndError::Micro));
    for scale in [0.0, -1.0, f32::NAN, f32::INFINITY, 1e-6] {
        let refused = MLPERF.write_log_mel(scale, None, 255, &mut [0; 9999]).unwrap_err();
        assert!(matches!(refused, FrontEndError::Scale { .. }), "{scale}: {refused}");
    }
    let good = section(&MLPERF, INT8);
    let mfcc = Mfcc::parse(&good).unwrap();
    assert_eq!((good.len(), mfcc.settings(), mfcc.scale()), (4360, &MLPERF, Some(INT8.0)));
    // The ring of samples, the FFT, the bands and the features.
    assert_eq!(mfcc.memory_words(), 512 + 1024 + 40 + 40);
    for given in (0..good.len()).step_by(7).chain([good.len() - 1, good.len() - 2, good.len() + 2]) {
        let mut bytes = good.clone();
        bytes.resize(given, 0);
        let refused = Mfcc::parse(&bytes).unwrap_err();
        assert!(matches!(refused, FrontEndError::SectionLen { given: found, .. } if found == given), "{refused}");
    }
    let with = |offset: usize, value: u32| {
        let mut bad = good.clone();
        bad[offset..offset + 4].copy_from_slice(&value.to_le_bytes());
        Mfcc::parse(&bad).map(|_| ())
    };
    for (offset, most) in
        [(60, 0x7f7f_ffff), (72, 1 << 14), (88, 32_767), (92, i32::MAX as u32), (92 + 4 * 256, i32::MAX as u32)]
    {
        assert_eq!(with(offset, most), Ok(()), "{offset}");
        assert_eq!(with(offset, most + 1), Err(FrontEndError::TableValue { offset }));
    }
    let options = u32::from_le_bytes(*good[44..].first_chunk().unwrap());
    assert_eq!(options, 0xb2);
    for options in [options | 1, options | 1 << 6, options | 1 << 8, options | 1 << 9, options | 1 << 10] {
        assert_eq!(with(44, options), Err(FrontEndError::Options { found: options }));
    }
    for options in [options ^ 1 << 1, options | 1 << 3] {
        assert_eq!(with(44, options), Err(FrontEndError::LogMel));
    }
    assert_eq!(with(92 + 4 * 257 + 4, 0), Err(FrontEndError::MelEdge { edge: 1, found: 0 }));
}

/// A section with up to four changed words is refused, or gives features within its limits for the loudest signal and
/// for silence.
#[test]
fn a_damaged_section_is_refused_or_computes_features() {
    let rng = &mut Rng::new(53);
    let small =
        MfccSettings { fft_len: 256, window_len: 100, bins_per_rate: 256, mel_bands: 6, coefficients: 6, ..MLPERF };
    let (good, loud) = ([INT8, PLAIN].map(|port| section(&small, port)), loud_and_quiet());
    let mut heard = 0;
    for _ in 0..if cfg!(debug_assertions) { 500 } else { 20_000 } {
        let bytes = damaged(&good, rng, 23, &[u32::MAX, 0, i32::MAX as u32, i32::MIN as u32]);
        let Ok(mfcc) = Mfcc::parse(&bytes) else { continue };
        if !matches!(mfcc.settings().method, Method::LogMel(_)) {
            continue;
        }
        let most = i16::from_le_bytes([bytes[88], bytes[89]]);
        let found = if mfcc.integer().is_some() { features(&bytes, &loud, &[loud.len()]) } else { continue };
        assert!(found.iter().flatten().all(|feature| (0..=most).contains(feature)), "{:?}", mfcc.settings());
        heard += found.len();
    }
    println!("{heard} frames computed");
    assert!(heard > 1000);
}

#[test]
fn an_image_has_the_features_in_floats_and_in_integers() {
    let mut model = tidegate_tests::images::whole();
    let size = model.architecture.inputs[0].size as u32;
    let (named, every) = canonical::Mfcc::named("mlperf_streaming").unwrap();
    assert_eq!((MfccSettings::from(&named), every), (MLPERF, 1));
    let json = serde_json::to_string(&named).unwrap();
    assert!(
        json.contains(r#""method":{"log_mel":{"emphasis":0.96875,"lowest_db":-52.0,"highest_db":12.0}}"#),
        "{json}"
    );
    assert_eq!(serde_json::from_str::<canonical::Mfcc>(&json).unwrap(), named);
    model.architecture.front_end = Some(canonical::Mfcc { mel_bands: size, coefficients: size, ..named });
    for numeric in [Numeric::F32, Numeric::I8x16] {
        let bytes = tidegate_model::pack::pack(&model, numeric).unwrap();
        let buffer = load::ImageBuffer::new(&bytes);
        let image = buffer.model().unwrap();
        let scale = numeric.is_integer().then_some(PLAIN.0);
        assert_eq!(image.front_end().unwrap().scale(), scale);
        assert!(matches!(image.front_end().unwrap().settings().method, Method::LogMel(_)));
    }
}
