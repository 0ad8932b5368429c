//! The front end of TensorFlow Lite Micro: compared bit by bit with the features of `pymicro-features` over a recorded
//! stream, with its twin, and with damaged sections.

use tidegate::Numeric;
use tidegate::front_end::{FrontEnd, FrontEndError, IntegerFrontEnd, Method, Mfcc, MfccSettings, Spectrum, Window};
use tidegate_model::canonical;
use tidegate_model::data::{read_audio_at, read_tensors};
use tidegate_tests::data;
use tidegate_tests::front_end::{HELLO_EDGE, damaged, frames, loud_and_quiet, signals};
use tidegate_tests::random::Rng;
use tidegate_tests::twin_micro::Twin;

/// Scale of the input of "okay nabu", and its greatest integer.
const OKAY_NABU: (f32, u16) = (0.101_960_786, 255);
/// Raw features.
const RAW: (f32, u16) = (MfccSettings::MICRO_SCALE, 32_767);

fn micro_wake_word() -> MfccSettings {
    MfccSettings::from(&canonical::Mfcc::micro_wake_word(10))
}

fn section(settings: &MfccSettings, (scale, most): (f32, u16)) -> Vec<u8> {
    let mut section = vec![0; settings.micro_section_len().unwrap()];
    assert_eq!(settings.write_micro(scale, most, &mut section), Ok(section.len()));
    section
}

/// All feature frames of a signal that is pushed in blocks of these lengths, repeated in turn.
fn features(section: &[u8], signal: &[i16], blocks: &[usize]) -> Vec<Vec<i16>> {
    let mfcc = Mfcc::parse(section).unwrap().integer().unwrap();
    let mut memory = vec![0xdead_beef; mfcc.memory_words()];
    let mut front_end = IntegerFrontEnd::new(&mfcc, &mut memory).unwrap();
    frames(&mut front_end, signal, blocks, IntegerFrontEnd::push, IntegerFrontEnd::next)
}

/// The recorded stream and its raw features; the repository has only its start.
fn recorded() -> (Vec<i16>, Vec<Vec<i16>>) {
    let file = |name: &str| data::file(&format!("deployed/micro_wake_word/{name}"));
    let (sound, tensors) =
        if data::is_whole() { ("stream.flac", "reference.safetensors") } else { ("start.flac", "start.safetensors") };
    let sound = read_audio_at(&file(sound), 16_000).unwrap().samples;
    let raw = &read_tensors(&file(tensors)).unwrap()["features_raw"];
    (sound, raw.data.chunks(40).map(|frame| frame.iter().map(|&value| value as i16).collect()).collect())
}

/// The settings of `drawn`, by rate, window, FFT, channels, edges in Hz, and whether there is a gain control.
type Drawn = (u32, u32, u32, u32, f32, f32, bool);

fn settings((sample_rate, window_len, fft_len, bands, lower_hz, upper_hz, gain): Drawn) -> MfccSettings {
    MfccSettings {
        method: if gain { Method::Micro } else { Method::MicroWithoutGain },
        sample_rate,
        window_len,
        stride_len: window_len / 3,
        fft_len,
        bins_per_rate: fft_len,
        mel_bands: bands,
        coefficients: bands,
        lower_hz,
        upper_hz,
        ..micro_wake_word()
    }
}

/// Settings, and the CRC-32 of the tables that TensorFlow Lite Micro's sources compute for them.
const TABLES: [(Drawn, u32); 11] = [
    ((16_000, 480, 512, 40, 125.0, 7500.0, true), 0xb881_c3ce),
    ((16_000, 400, 512, 32, 125.0, 7500.0, false), 0xdcf9_7ef6),
    ((16_000, 480, 512, 40, 125.0, 7500.0, true), 0xb881_c3ce),
    ((16_000, 1024, 1024, 40, 60.0, 7800.0, true), 0xc385_1021),
    ((8000, 200, 256, 32, 125.0, 3800.0, true), 0xa498_eadb),
    ((8000, 240, 256, 20, 125.0, 3800.0, false), 0x69e2_c8b9),
    ((16_000, 256, 256, 16, 300.0, 7000.0, true), 0xdf39_743f),
    ((16_000, 640, 1024, 48, 80.0, 7600.0, true), 0xdaad_c385),
    ((16_000, 1600, 2048, 64, 20.0, 7900.0, true), 0x9260_cf32),
    ((44_100, 882, 1024, 40, 125.0, 7500.0, true), 0x7e47_510a),
    ((16_000, 160, 256, 10, 200.0, 6000.0, false), 0x0eea_1ee2),
];

#[test]
fn features_are_those_of_the_recorded_stream_at_every_frame() {
    let (sound, expected) = recorded();
    let found = features(&section(&micro_wake_word(), RAW), &sound, &[160]);
    assert_eq!(found.len(), expected.len());
    let differ = found.iter().zip(&expected).filter(|(found, expected)| found != expected).count();
    println!("{differ} of {} frames differ", expected.len());
    assert_eq!(differ, 0, "of {} frames", expected.len());
    // In the scale of a model, each is the nearest integer.
    let (scale, most) = OKAY_NABU;
    let nearest =
        |raw: i16| (f64::from(raw) * 10.0 / 256.0 / f64::from(scale) + 0.5).floor().min(f64::from(most)) as i16;
    let found = features(&section(&micro_wake_word(), OKAY_NABU), &sound, &[160]);
    assert_eq!(found.concat(), expected.concat().into_iter().map(nearest).collect::<Vec<_>>());
}

/// The bits of the tables follow from f32: with f64, the window differs at sample 17, and two weights by one.
#[test]
fn tables_are_those_of_tensorflow_lite_micro() {
    for (drawn, crc) in TABLES {
        let section = section(&settings(drawn), RAW);
        assert_eq!(crc32(&section[72..]), crc, "{drawn:?}");
    }
    let section = section(&micro_wake_word(), OKAY_NABU);
    let word = |at: usize| u32::from_le_bytes(*section[at..].first_chunk().unwrap());
    assert_eq!(section.len(), 2508);
    assert_eq!([52, 56, 60].map(word), [100_431, 130_483, 255]);
}

fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| (crc >> 1) ^ (0xedb8_8320 * (crc & 1)))
    })
}

#[test]
fn every_bit_matches_the_twin() {
    let rng = &mut Rng::new(21);
    let mut count = 0;
    for (drawn, _) in TABLES {
        let settings = settings(drawn);
        for port in [RAW, OKAY_NABU] {
            let bytes = section(&settings, port);
            // The absolute value of `i16::MIN` wraps. The click is in the middle of the window, where the window is 1.
            let mut click = vec![0; settings.window_len as usize];
            click[settings.window_len as usize / 2] = i16::MIN;
            let signals = signals(8 * settings.window_len as usize, rng);
            for (what, signal) in signals.into_iter().chain([("a click", click)]) {
                let mut twin = Twin::new(&bytes, &settings);
                let (window, stride) = (settings.window_len as usize, settings.stride_len as usize);
                let expected: Vec<_> =
                    signal.windows(window).step_by(stride).map(|frame| twin.features(frame)).collect();
                assert_eq!(features(&bytes, &signal, &[signal.len()]), expected, "{what}, {drawn:?}");
                count += expected.len();
            }
        }
    }
    println!("{count} frames");
    assert!(count > 4000);
}

#[test]
fn blocks_of_any_length_give_the_same_bits_and_a_reset_stream_starts_again() {
    let rng = &mut Rng::new(22);
    let signal: Vec<i16> = (0..16_000).map(|_| rng.number(9000.0) as i16).collect();
    for port in [RAW, OKAY_NABU] {
        let bytes = section(&micro_wake_word(), port);
        let whole = features(&bytes, &signal, &[signal.len()]);
        assert_eq!(whole.len(), (16_000 - 480) / 160 + 1);
        for blocks in [&[1][..], &[7], &[160], &[481, 3]] {
            assert_eq!(features(&bytes, &signal, blocks), whole, "{blocks:?}");
        }
        let mfcc = Mfcc::parse(&bytes).unwrap();
        let scale = mfcc.scale().unwrap();
        let scaled: Vec<Vec<f32>> =
            whole.iter().map(|frame| frame.iter().map(|&feature| f32::from(feature) * scale).collect()).collect();
        let mut memory = vec![u32::MAX; mfcc.memory_words()];
        let mut floats = FrontEnd::new(&mfcc, &mut memory).unwrap();
        let mut words = vec![u32::MAX; mfcc.memory_words()];
        let mut integers = IntegerFrontEnd::new(&mfcc.integer().unwrap(), &mut words).unwrap();
        for _ in 0..3 {
            assert_eq!(frames(&mut floats, &signal, &[160], FrontEnd::push, FrontEnd::next), scaled);
            assert_eq!(frames(&mut integers, &signal, &[160], IntegerFrontEnd::push, IntegerFrontEnd::next), whole);
            floats.reset();
            integers.reset();
        }
    }
}

#[test]
fn memory_is_that_of_the_samples_the_points_the_estimates_and_the_features() {
    let bytes = section(&micro_wake_word(), RAW);
    let mfcc = Mfcc::parse(&bytes).unwrap();
    assert_eq!((mfcc.memory_words(), mfcc.integer().unwrap().memory_words()), (576, 576));
    assert!(IntegerFrontEnd::new(&mfcc.integer().unwrap(), &mut vec![0; 575]).is_err());
}

#[test]
fn wrong_settings_and_tables_are_refused() {
    let good = micro_wake_word();
    for settings in [
        MfccSettings { window: Window::Rectangular, ..good },
        MfccSettings { spectrum: Spectrum::Power, ..good },
        MfccSettings { window_len: 513, ..good },
        MfccSettings { coefficients: 39, ..good },
        MfccSettings { bins_per_rate: 500, ..good },
        MfccSettings { log_floor: 0.5, ..good },
    ] {
        assert_eq!(settings.check(), Err(FrontEndError::Micro), "{settings:?}");
    }
    assert_eq!(good.section_len(), Err(FrontEndError::Micro));
    assert_eq!(good.integer_section_len(), Err(FrontEndError::Micro));
    assert_eq!(HELLO_EDGE.micro_section_len(), Err(FrontEndError::Micro));
    let high = MfccSettings { upper_hz: 8000.0, ..good };
    assert_eq!(high.micro_section_len(), Err(FrontEndError::MelEdge { edge: 41, found: 257 }));
    let mut section = section(&good, OKAY_NABU);
    for scale in [0.0, -1.0, f32::NAN, f32::INFINITY, 0.001] {
        let refused = good.write_micro(scale, 255, &mut section.clone()).unwrap_err();
        assert!(matches!(refused, FrontEndError::Scale { .. }), "{scale}: {refused}");
    }
    assert_eq!(Mfcc::parse(&section).unwrap().settings(), &good);
    for given in (0..section.len()).step_by(7).chain([2507, 2509]) {
        let mut bytes = section.clone();
        bytes.resize(given, 0);
        let refused = Mfcc::parse(&bytes).unwrap_err();
        assert!(matches!(refused, FrontEndError::SectionLen { given: found, .. } if found == given), "{refused}");
    }
    let mut with = |offset: usize, bytes: &[u8]| {
        let old = section[offset..][..bytes.len()].to_vec();
        section[offset..][..bytes.len()].copy_from_slice(bytes);
        let parsed = Mfcc::parse(&section).map(|_| ());
        section[offset..][..bytes.len()].copy_from_slice(&old);
        parsed
    };
    for options in [0x40, 0x210, 0x50 | 1 << 5, 0x50 | 1 << 8] {
        assert_eq!(with(44, &u32::to_le_bytes(options)), Err(FrontEndError::Options { found: options }));
    }
    assert_eq!(with(44, &u32::to_le_bytes(0x51)), Err(FrontEndError::Micro));
    let (edges, window) = (72 + 2 * 129, 72 + 2 * (129 + 42));
    let weights = window + 2 * 480;
    for (offset, most) in [(48, 0x7f7f_ffff), (52, (1 << 20) - 1), (56, (1 << 20) - 1), (60, 32_767)] {
        assert_eq!(with(offset, &u32::to_le_bytes(most)), Ok(()));
        assert_eq!(with(offset, &u32::to_le_bytes(most + 1)), Err(FrontEndError::TableValue { offset }));
    }
    for (offset, most) in [(64, 1 << 14), (66, 1 << 14), (68, 1 << 14), (72, 32_767), (window - 86, 32_767)]
        .into_iter()
        .chain([(window, 4096), (weights - 2, 4096), (weights, 4096), (weights + 2 * 471, 4096)])
    {
        assert_eq!(with(offset, &u16::to_le_bytes(most)), Ok(()), "{offset}");
        assert_eq!(with(offset, &u16::to_le_bytes(most + 1)), Err(FrontEndError::TableValue { offset }));
    }
    for (offset, most) in [(70, 15), (71, 31)] {
        assert_eq!(with(offset, &[most]), Ok(()));
        assert_eq!(with(offset, &[most + 1]), Err(FrontEndError::TableValue { offset }));
    }
    for (edge, found) in [(0, 0), (1, 4), (41, 257)] {
        assert_eq!(
            with(edges + 2 * edge, &u16::to_le_bytes(found)),
            Err(FrontEndError::MelEdge { edge, found: u32::from(found) })
        );
    }
    // Fewer bins need fewer weights.
    assert!(matches!(with(edges, &u16::to_le_bytes(6)), Err(FrontEndError::SectionLen { needed: 2504, given: 2508 })));
}

/// A section with up to four changed words is refused, or has the features of its twin for the loudest signal and for
/// silence.
#[test]
fn a_damaged_section_is_refused_or_computes_features() {
    let rng = &mut Rng::new(23);
    let small = |gain| settings((16_000, 100, 256, 6, 300.0, 7000.0, gain));
    let (good, loud) = ([true, false].map(|gain| section(&small(gain), OKAY_NABU)), loud_and_quiet());
    let mut heard = 0;
    for _ in 0..if cfg!(debug_assertions) { 200 } else { 5000 } {
        let bytes = damaged(&good, rng, 18, &[u32::MAX, 0, i32::MAX as u32, 0x7fff_8000]);
        let Ok(mfcc) = Mfcc::parse(&bytes) else { continue };
        let settings = *mfcc.settings();
        let (window, stride) = (settings.window_len as usize, settings.stride_len as usize);
        if settings.method == Method::Mfcc || settings.lead_frames > 0 || loud.len() < window {
            continue;
        }
        let mut twin = Twin::new(&bytes, &settings);
        let expected: Vec<_> = loud.windows(window).step_by(stride).map(|frame| twin.features(frame)).collect();
        assert_eq!(features(&bytes, &loud, &[loud.len()]), expected, "{settings:?}");
        heard += expected.len();
    }
    println!("{heard} frames computed");
    assert!(heard > 1000);
}

#[test]
fn an_image_in_floats_has_the_features_too() {
    let mut model = tidegate_tests::images::whole();
    let size = model.architecture.inputs[0].size as u32;
    model.architecture.front_end =
        Some(canonical::Mfcc { mel_bands: size, coefficients: size, ..canonical::Mfcc::micro_wake_word(10) });
    for numeric in [Numeric::F32, Numeric::I8x16] {
        let bytes = tidegate_model::pack::pack(&model, numeric).unwrap();
        let buffer = tidegate_model::load::ImageBuffer::new(&bytes);
        let image = buffer.model().unwrap();
        assert_eq!(image.front_end().unwrap().scale(), Some(MfccSettings::MICRO_SCALE));
        assert_eq!(image.integer_front_end().is_some(), numeric.is_integer());
    }
}
