//! The streaming front end, compared with TensorFlow's features of real speech, and with damaged sections.

use std::path::Path;

use safetensors::SafeTensors;
use tidegate::{
    BufferTooSmall,
    front_end::{First, FrontEnd, FrontEndError, MelCorners, Mfcc, MfccSettings, Spectrum, Window},
};
use tidegate_model::data::read_index;
use tidegate_tests::front_end::{HELLO_EDGE, PRECISE, SMALL, damaged, frames, loud_and_quiet};
use tidegate_tests::random::Rng;
use tidegate_tests::tolerance::worst;
use tidegate_tests::{data, oracle};

fn section(settings: &MfccSettings) -> Vec<u8> {
    let mut section = vec![0; settings.section_len().unwrap()];
    assert_eq!(settings.write(&mut section), Ok(section.len()));
    section
}

/// All feature frames of a signal that is pushed in blocks of these lengths, repeated in turn.
fn features(settings: &MfccSettings, signal: &[i16], blocks: &[usize]) -> Vec<Vec<f32>> {
    let section = section(settings);
    let mfcc = Mfcc::parse(&section).unwrap();
    let mut memory = vec![0xdead_beef; mfcc.memory_words()];
    let mut front_end = FrontEnd::new(&mfcc, &mut memory).unwrap();
    frames(&mut front_end, signal, blocks, FrontEnd::push, FrontEnd::next)
}

fn noise(len: usize) -> Vec<i16> {
    let mut state = 1u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 16) as i16
    };
    (0..len).map(|_| next()).collect()
}

fn flac(path: &Path) -> Vec<i16> {
    let mut reader = claxon::FlacReader::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    assert_eq!((reader.streaminfo().channels, reader.streaminfo().bits_per_sample), (1, 16));
    reader.samples().map(|sample| i16::try_from(sample.unwrap()).unwrap()).collect()
}

/// The reference is `AudioSpectrogram` and `Mfcc` of TensorFlow 2.21; both limits were chosen here.
#[test]
fn features_match_those_of_tensorflow() {
    let reference = std::fs::read(data::file("hello_edge/reference.safetensors")).unwrap();
    let reference = SafeTensors::deserialize(&reference).unwrap();
    let clips = read_index(&data::file("speech_commands_v2/index.csv")).unwrap();
    let rows = reference.tensor("mfcc_clip").unwrap();
    let rows: Vec<_> = rows.data().as_chunks().0.iter().map(|&row| i64::from_le_bytes(row) as usize).collect();

    for stride_len in [320, 640] {
        let settings = MfccSettings { stride_len, ..HELLO_EDGE };
        let expected = reference.tensor(&format!("mfcc/stride{stride_len}")).unwrap();
        let &[heard, frames, coefficients] = expected.shape() else { panic!("{:?}", expected.shape()) };
        assert_eq!((heard, coefficients), (rows.len(), settings.coefficients as usize));
        let expected: Vec<f32> = expected.data().as_chunks().0.iter().map(|&x| f32::from_le_bytes(x)).collect();

        let mut errors: Vec<_> = rows
            .iter()
            .zip(expected.chunks(frames * coefficients))
            .map(|(&row, expected)| {
                let signal = flac(&clips[row].path);
                let got = features(&settings, &signal, &[signal.len()]);
                assert_eq!(got.len(), frames);
                worst(got.concat().iter().zip(expected).map(|(got, expected)| (got - expected).abs()))
            })
            .collect();
        errors.sort_by(f32::total_cmp);
        let (median, worst) = (errors[errors.len() / 2], errors[errors.len() - 1]);
        println!("stride {stride_len}: worst error of a clip: median {median:.2e}, worst {worst:.2e}");
        assert!(worst <= 5e-4 && median <= 2e-5);
    }
}

/// The same definition in f64 (NumPy), for samples that are all 1000.
#[test]
fn a_constant_signal_shows_the_side_lobes_of_the_window() {
    let expected =
        [-75.07279, 16.445917, 4.538818, 3.9408305, 2.1895704, 2.0504088, 1.3809961, 1.3297876, 0.9863483, 0.96359557];
    for (got, expected) in features(&HELLO_EDGE, &[1000; 640], &[640]).concat().iter().zip(expected) {
        assert!((got - expected as f32).abs() < 0.01, "{got} {expected}");
    }
}

/// The points of sonopy's grid, by NumPy, with settings for which all points differ.
#[test]
fn corners_on_whole_bins_match_those_of_sonopy() {
    let grid = [0, 1, 3, 6, 9, 12, 16, 21, 26, 32, 39, 47, 57, 68, 81, 97, 114, 135, 159, 187, 219, 257];
    let section = section(&PRECISE);
    let (window, edges) = section[48..].split_at(4);
    assert_eq!(window, ((1.0 / 32768.0 / 512.0_f64.sqrt()) as f32).to_le_bytes());
    assert!(edges.chunks(4).zip(grid).all(|(edge, bin)| edge == u32::to_le_bytes(bin)));
}

/// Every combination of options, in random sizes, is within the error bound of the oracle's formulas.
#[test]
fn every_option_computes_its_formula() {
    let rng = &mut Rng::new(5);
    let (mut checked, mut tight, mut whole_bins) = (0, 0, 0);
    for _ in 0..400 {
        let fft_len = rng.pick(&[256, 512]);
        let mel_bands = 2 + rng.below(20) as u32;
        let settings = MfccSettings {
            window_len: 2 + rng.below(3 * fft_len / 2) as u32,
            stride_len: 65_536,
            window: rng.pick(&[Window::Hann, Window::Rectangular, Window::Hamming]),
            fft_len: fft_len as u32,
            spectrum: rng.pick(&[Spectrum::Magnitude, Spectrum::Power]),
            mel_bands,
            coefficients: 1 + rng.below(mel_bands as usize) as u32,
            lower_hz: rng.pick(&[0.0, 20.0, 133.5]),
            upper_hz: rng.pick(&[3800.0, 8000.0, 16_000.0]),
            bins_per_rate: (fft_len + rng.pick(&[0, 1]) - rng.pick(&[0, fft_len / 2])) as u32,
            corners: rng.pick(&[MelCorners::Exact, MelCorners::WholeBins]),
            log_floor: rng.pick(&[1e-12, 2.2e-16]),
            first: rng.pick(&[First::Cepstrum, First::LogEnergy]),
            ..HELLO_EDGE
        };
        let mut bytes = vec![0; settings.section_len().unwrap_or(0)];
        match settings.write(&mut bytes) {
            Err(FrontEndError::Band { .. } | FrontEndError::MelEdge { .. }) => continue,
            written => assert_eq!(written, Ok(bytes.len()), "{settings:?}"),
        }
        let loudness = rng.pick(&[0, 3, 1000, 32_767]);
        let mut signal: Vec<i16> = (0..settings.window_len).map(|_| rng.number(loudness as f32) as i16).collect();
        if rng.below(2) == 0 {
            let tone = |n: usize| (1000.0 * (n as f64 * 0.3).sin()) as i16;
            signal.iter_mut().enumerate().for_each(|(n, sample)| *sample = sample.saturating_add(tone(n)));
        }
        let expected = oracle::front_end::features(&settings, &signal);
        let got = features(&settings, &signal, &[signal.len()]).concat();
        assert_eq!(got.len(), expected.len());
        for (got, expected) in got.iter().zip(&expected) {
            let error = (f64::from(*got) - expected.value).abs();
            assert!(error <= expected.error, "{settings:?}, loudness {loudness}: {got} is not {expected:?}");
            checked += 1;
            tight += usize::from(expected.error < 0.01);
        }
        whole_bins += usize::from(settings.corners == MelCorners::WholeBins);
    }
    println!("{checked} features, {tight} with a bound below 0.01");
    assert!(checked > 1000 && whole_bins > 50 && 2 * tight > checked, "{checked} {whole_bins} {tight}");
}

#[test]
fn mel_bands_without_a_bin_of_their_own_are_refused() {
    let settings = MfccSettings { mel_bands: 40, upper_hz: 2000.0, ..PRECISE };
    let mut bytes = vec![0; settings.section_len().unwrap()];
    assert!(matches!(settings.write(&mut bytes), Err(FrontEndError::MelEdge { .. })));
}

/// A section with up to four changed words is refused, or gives finite features for the loudest signal and for silence.
#[test]
fn a_damaged_section_is_refused_or_computes_features() {
    let rng = &mut Rng::new(11);
    let (good, loud) = (SMALL.map(|settings| section(&settings)), loud_and_quiet());
    let mut heard = 0;
    for _ in 0..if cfg!(debug_assertions) { 2000 } else { 200_000 } {
        let bytes = damaged(&good, rng, 12, &[u32::MAX, 0, f32::NAN.to_bits()]);
        let Ok(mfcc) = Mfcc::parse(&bytes) else { continue };
        let mut memory = vec![u32::MAX; mfcc.memory_words()];
        let mut front_end = FrontEnd::new(&mfcc, &mut memory).unwrap();
        let mut rest = &loud[..];
        while !rest.is_empty() {
            rest = &rest[front_end.push(rest)..];
            while let Some(frame) = front_end.next() {
                assert!(frame.iter().all(|feature| feature.is_finite()), "{:?}", mfcc.settings());
                heard += 1;
            }
        }
    }
    println!("{heard} frames computed");
    assert!(heard > 1000);
}

#[test]
fn unknown_options_are_refused() {
    let good = section(&PRECISE);
    for bit in 6..32 {
        let mut bad = good.clone();
        bad[44..48].copy_from_slice(&(15_u32 | 1 << bit).to_le_bytes());
        assert_eq!(Mfcc::parse(&bad).unwrap_err(), FrontEndError::Options { found: 15 | 1 << bit });
    }
    // The energy is not available with logarithms of mel bands.
    let mut bad = good.clone();
    bad[44..48].copy_from_slice(&(15_u32 | 1 << 5).to_le_bytes());
    assert_eq!(Mfcc::parse(&bad).unwrap_err(), FrontEndError::LogMel);
}

#[test]
fn lead_frames_of_zeros_come_before_the_first_frame_and_again_after_a_reset() {
    let (section, signal) = (section(&MfccSettings { lead_frames: 3, ..PRECISE }), noise(3200));
    let alone = features(&PRECISE, &signal, &[3200]);
    let mfcc = Mfcc::parse(&section).unwrap();
    let mut memory = vec![0xdead_beef; mfcc.memory_words()];
    let mut front_end = FrontEnd::new(&mfcc, &mut memory).unwrap();
    for _ in 0..2 {
        let mut frames = Vec::new();
        assert_eq!(front_end.push(&signal[..1599]), 1599);
        assert!(front_end.next().is_none());
        let mut rest = &signal[1599..];
        while !rest.is_empty() {
            rest = &rest[front_end.push(rest)..];
            while let Some(frame) = front_end.next() {
                frames.push(frame.to_vec());
            }
        }
        assert_eq!(frames[..3], [[0.0; 13]; 3].map(Vec::from));
        assert_eq!(frames[3..], alone);
        front_end.reset();
    }
}

#[test]
fn blocks_of_any_length_give_the_same_bits() {
    let signal = noise(5000);
    let lens = [(640, 320), (640, 640), (639, 100), (640, 1), (400, 1001), (1024, 1023)];
    let like =
        |settings: MfccSettings| move |(window_len, stride_len)| MfccSettings { window_len, stride_len, ..settings };
    let cut = [(1600, 800), (513, 1), (512, 512)].map(like(PRECISE));
    for settings in lens.map(like(HELLO_EDGE)).into_iter().chain(cut) {
        let MfccSettings { window_len, stride_len, .. } = settings;
        let signal = if stride_len == 1 { &signal[..700] } else { &signal[..] };
        let whole = features(&settings, signal, &[signal.len()]);
        assert_eq!(whole.len(), (signal.len() - window_len as usize) / stride_len as usize + 1);
        for blocks in [&[1][..], &[7, 1, 333, 64], &[641]] {
            assert_eq!(features(&settings, signal, blocks), whole, "{window_len}/{stride_len}, {blocks:?}");
        }
        // A frame depends only on its own samples.
        for (n, frame) in whole.iter().enumerate() {
            let from = n * stride_len as usize;
            let alone = features(&settings, &signal[from..from + window_len as usize], &[usize::MAX]);
            assert_eq!(alone, [frame.as_slice()]);
        }
    }
}

#[test]
fn a_second_of_sound_has_49_or_25_frames() {
    let signal = noise(16_000);
    for (stride_len, frames) in [(320, 49), (640, 25)] {
        assert_eq!(features(&MfccSettings { stride_len, ..HELLO_EDGE }, &signal, &[16_000]).len(), frames);
    }
}

#[test]
fn every_sound_has_finite_features() {
    let square: Vec<_> = (0..2048).map(|n| if n / 8 % 2 == 0 { i16::MIN } else { i16::MAX }).collect();
    for (fft_len, options) in [256, 512, 1024, 2048].into_iter().flat_map(|len| [(len, HELLO_EDGE), (len, PRECISE)]) {
        let settings =
            MfccSettings { fft_len, bins_per_rate: fft_len, window_len: fft_len, upper_hz: 8000.0, ..options };
        for signal in [vec![0; 2048], vec![i16::MIN; 2048], vec![i16::MAX; 2048], square.clone(), noise(2048)] {
            let frames = features(&settings, &signal, &[100]);
            assert!(!frames.is_empty() && frames.concat().iter().all(|feature| feature.is_finite()));
        }
    }
}

/// ln(1e-12) in every band: only the first row of the DCT does not sum to zero.
#[test]
fn silence_gives_the_floor() {
    let frames = features(&HELLO_EDGE, &[0; 640], &[640]);
    let floor = 40.0 * (2.0f32 / 40.0).sqrt() * 1e-12f32.ln();
    assert!((frames[0][0] - floor).abs() < 2e-5, "{} {floor}", frames[0][0]);
    assert!(frames[0][1..].iter().all(|feature| feature.abs() < 5e-5), "{frames:?}");
}

/// A section whose tables are zeros and whose bins, 2 to 256, are all below the last center.
const BARE: [u8; BARE_LEN] = {
    let (low, high, floor) = (20f32.to_bits(), 4000f32.to_bits(), 1e-12f32.to_bits());
    let words = [16_000, 640, 640, 1024, 40, 10, low, high, floor, 1024, 0, 0];
    let (mut bytes, mut byte) = ([0; BARE_LEN], 0);
    while byte < BARE_LEN {
        bytes[byte] = match (byte / 4, byte % 4) {
            (word @ 0..12, shift) => words[word].to_le_bytes()[shift],
            (652..693, 0) => 2,
            (693, 0 | 1) => 1,
            _ => 0,
        };
        byte += 1;
    }
    bytes
};
const BARE_LEN: usize = 4 * (12 + 640 + 42 + 255 + 400);

#[test]
fn a_section_is_checked_when_the_firmware_is_compiled() {
    const MFCC: Mfcc<'_> = match Mfcc::parse(&BARE) {
        Ok(mfcc) => mfcc,
        Err(_) => panic!("the section is not a front end"),
    };
    let mut memory = [0; MFCC.memory_words()];
    assert!(FrontEnd::new(&MFCC, &mut memory).is_ok());
    assert_eq!(MFCC.settings(), &HELLO_EDGE);
}

#[test]
fn every_prefix_of_a_section_is_refused() {
    let mut section = section(&HELLO_EDGE);
    println!("section: {} bytes", section.len());
    for len in 0..section.len() {
        let error = Mfcc::parse(&section[..len]).unwrap_err();
        assert!(matches!(error, FrontEndError::SectionLen { needed, given } if given == len && needed > len));
    }
    let needed = section.len();
    section.push(0);
    let given = section.len();
    assert_eq!(Mfcc::parse(&section).unwrap_err(), FrontEndError::SectionLen { needed, given });
    assert_eq!(HELLO_EDGE.write(&mut section), Ok(needed));
    let given = needed - 1;
    assert_eq!(HELLO_EDGE.write(&mut section[..given]), Err(FrontEndError::SectionLen { needed, given }));
}

#[test]
fn wrong_settings_are_refused_by_name() {
    let ok = HELLO_EDGE;
    let cases = [
        (MfccSettings { sample_rate: 0, ..ok }, FrontEndError::SampleRate { found: 0 }),
        (MfccSettings { sample_rate: u32::MAX, ..ok }, FrontEndError::SampleRate { found: u32::MAX }),
        (MfccSettings { fft_len: 1000, ..ok }, FrontEndError::FftLen { found: 1000 }),
        (MfccSettings { fft_len: 4096, ..ok }, FrontEndError::FftLen { found: 4096 }),
        (MfccSettings { window_len: 1, ..ok }, FrontEndError::WindowLen { found: 1 }),
        (MfccSettings { window_len: 65_537, ..ok }, FrontEndError::WindowLen { found: 65_537 }),
        (MfccSettings { stride_len: 0, ..ok }, FrontEndError::StrideLen { found: 0 }),
        (MfccSettings { stride_len: 65_537, ..ok }, FrontEndError::StrideLen { found: 65_537 }),
        (MfccSettings { mel_bands: 1, ..ok }, FrontEndError::MelBands { found: 1 }),
        (MfccSettings { mel_bands: 129, ..ok }, FrontEndError::MelBands { found: 129 }),
        (MfccSettings { coefficients: 0, ..ok }, FrontEndError::Coefficients { found: 0, mel_bands: 40 }),
        (MfccSettings { coefficients: 41, ..ok }, FrontEndError::Coefficients { found: 41, mel_bands: 40 }),
        (MfccSettings { lower_hz: -1.0, ..ok }, FrontEndError::Band { lower_hz: -1.0, upper_hz: 4000.0 }),
        (MfccSettings { upper_hz: 8000.1, ..ok }, FrontEndError::Band { lower_hz: 20.0, upper_hz: 8000.1 }),
        (MfccSettings { upper_hz: 20.0, ..ok }, FrontEndError::Band { lower_hz: 20.0, upper_hz: 20.0 }),
        (MfccSettings { upper_hz: 21.0, ..ok }, FrontEndError::Band { lower_hz: 20.0, upper_hz: 21.0 }),
        (MfccSettings { bins_per_rate: 0, ..ok }, FrontEndError::Band { lower_hz: 20.0, upper_hz: 4000.0 }),
        (MfccSettings { bins_per_rate: 2049, ..ok }, FrontEndError::Band { lower_hz: 20.0, upper_hz: 4000.0 }),
        (
            MfccSettings { corners: MelCorners::WholeBins, upper_hz: 23.0, ..ok },
            FrontEndError::Band { lower_hz: 20.0, upper_hz: 23.0 },
        ),
        (
            MfccSettings { corners: MelCorners::WholeBins, upper_hz: 8016.0, ..ok },
            FrontEndError::Band { lower_hz: 20.0, upper_hz: 8016.0 },
        ),
        (MfccSettings { lead_frames: 4097, ..ok }, FrontEndError::LeadFrames { found: 4097 }),
        (MfccSettings { log_floor: 0.0, ..ok }, FrontEndError::LogFloor { found: 0.0 }),
        (MfccSettings { log_floor: 2.0, ..ok }, FrontEndError::LogFloor { found: 2.0 }),
    ];
    let good = section(&ok);
    for (settings, error) in cases {
        assert_eq!(settings.section_len(), Err(error));
        assert_eq!(settings.write(&mut good.clone()), Err(error));
        // Byte positions of the words that differ from the good section's settings.
        assert_eq!(Mfcc::parse(&with_settings(&good, &settings)).unwrap_err(), error);
    }
    for (lower_hz, upper_hz) in [(f32::NAN, 4000.0), (20.0, f32::NAN), (20.0, f32::INFINITY)] {
        let settings = MfccSettings { lower_hz, upper_hz, ..ok };
        assert!(matches!(settings.section_len(), Err(FrontEndError::Band { .. })));
    }
    let settings = MfccSettings { log_floor: f32::NAN, ..ok };
    assert!(matches!(settings.section_len(), Err(FrontEndError::LogFloor { .. })));
}

#[test]
fn wrong_tables_are_refused_with_their_position() {
    let good = section(&HELLO_EDGE);
    let mfcc = Mfcc::parse(&good).unwrap();
    assert_eq!(mfcc.settings(), &HELLO_EDGE);
    let (window, edges, weights, dct) = (48, 48 + 4 * 640, 48 + 4 * (640 + 42), good.len() - 4 * 400);
    for offset in [window, edges - 4, weights, dct - 4, dct, good.len() - 4] {
        for value in [f32::NAN, f32::INFINITY, -1.001, 1e30] {
            let mut bad = good.clone();
            bad[offset..offset + 4].copy_from_slice(&value.to_le_bytes());
            assert_eq!(Mfcc::parse(&bad).unwrap_err(), FrontEndError::TableValue { offset });
        }
    }
    for (edge, found) in [(0, 1), (0, 3), (1, 0), (20, 1), (41, 256), (41, 258), (41, u32::MAX), (30, 258)] {
        let mut bad = good.clone();
        bad[edges + 4 * edge..][..4].copy_from_slice(&found.to_le_bytes());
        assert_eq!(Mfcc::parse(&bad).unwrap_err(), FrontEndError::MelEdge { edge, found });
    }
}

#[test]
fn short_memory_is_refused() {
    let section = section(&HELLO_EDGE);
    let mfcc = Mfcc::parse(&section).unwrap();
    let needed = mfcc.memory_words();
    println!("memory: {} bytes", 4 * needed);
    assert!(4 * needed < 6 * 1024);
    for given in 0..needed {
        assert_eq!(FrontEnd::new(&mfcc, &mut vec![0; given]).unwrap_err(), BufferTooSmall { needed, given });
    }
}

#[test]
fn a_frame_waits_until_it_is_fetched_and_a_reset_discards_it() {
    let (section, signal) = (section(&HELLO_EDGE), noise(2000));
    let mfcc = Mfcc::parse(&section).unwrap();
    let mut memory = vec![0; mfcc.memory_words()];
    let mut front_end = FrontEnd::new(&mfcc, &mut memory).unwrap();
    assert_eq!(front_end.push(&signal), 640);
    assert_eq!(front_end.push(&signal[640..]), 0);
    let first = front_end.next().unwrap().to_vec();
    assert!(front_end.next().is_none());
    assert_eq!(front_end.push(&signal[640..700]), 60);
    front_end.reset();
    assert_eq!(front_end.push(&signal), 640);
    assert_eq!(front_end.next().unwrap(), first);
}

/// `good` with the words of these settings, whose options must be the same.
fn with_settings(good: &[u8], settings: &MfccSettings) -> Vec<u8> {
    let MfccSettings { sample_rate, window_len, stride_len, fft_len, mel_bands, coefficients, .. } = *settings;
    let MfccSettings { bins_per_rate, lead_frames, corners, .. } = *settings;
    let floats = [settings.lower_hz, settings.upper_hz, settings.log_floor].map(f32::to_bits);
    let options = if corners == MelCorners::WholeBins { 4 } else { 0 };
    let words = [&[sample_rate, window_len, stride_len, fft_len, mel_bands, coefficients][..], &floats].concat();
    let words = words.into_iter().chain([bins_per_rate, lead_frames, options]);
    let mut bytes = good.to_vec();
    for (slot, word) in bytes.chunks_mut(4).zip(words) {
        slot.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}
