//! Settings and signals that the tests of the float and the integer front end share.

use tidegate::front_end::{First, LogMel, MelCorners, Method, MfccSettings, Spectrum, Window};

use crate::random::Rng;

/// Settings of the Hello Edge networks.
pub const HELLO_EDGE: MfccSettings = MfccSettings {
    method: Method::Mfcc,
    sample_rate: 16_000,
    window_len: 640,
    stride_len: 640,
    window: Window::Hann,
    fft_len: 1024,
    spectrum: Spectrum::Magnitude,
    mel_bands: 40,
    coefficients: 10,
    lower_hz: 20.0,
    upper_hz: 4000.0,
    bins_per_rate: 1024,
    corners: MelCorners::Exact,
    log_floor: 1e-12,
    first: First::Cepstrum,
    lead_frames: 0,
};

/// Settings of Mycroft Precise: only the first 512 samples of each frame count.
pub const PRECISE: MfccSettings = MfccSettings {
    window_len: 1600,
    stride_len: 800,
    window: Window::Rectangular,
    fft_len: 512,
    spectrum: Spectrum::Power,
    mel_bands: 20,
    coefficients: 13,
    lower_hz: 0.0,
    upper_hz: 16_000.0,
    bins_per_rate: 257,
    corners: MelCorners::WholeBins,
    log_floor: f64::EPSILON as f32,
    first: First::LogEnergy,
    ..HELLO_EDGE
};

/// Settings of MLPerf Tiny's streaming wake word.
pub const MLPERF: MfccSettings = MfccSettings {
    method: Method::LogMel(LogMel { emphasis: 0.96875, lowest_db: -52.0, highest_db: 12.0 }),
    window_len: 1024,
    stride_len: 512,
    window: Window::Hamming,
    spectrum: Spectrum::Power,
    coefficients: 40,
    lower_hz: 0.0,
    upper_hz: 8000.0,
    log_floor: 1e-30,
    ..HELLO_EDGE
};

/// All feature frames of a signal that is pushed in blocks of these lengths, repeated in turn.
pub fn frames<F, T: Copy>(
    front_end: &mut F,
    signal: &[i16],
    blocks: &[usize],
    push: impl Fn(&mut F, &[i16]) -> usize,
    next: impl Fn(&mut F) -> Option<&[T]>,
) -> Vec<Vec<T>> {
    let (mut frames, mut rest) = (Vec::new(), signal);
    for &block in blocks.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let (mut samples, later) = rest.split_at(block.min(rest.len()));
        rest = later;
        while !samples.is_empty() {
            let taken = push(front_end, samples);
            assert!(taken > 0);
            samples = &samples[taken..];
            while let Some(frame) = next(front_end) {
                frames.push(frame.to_vec());
            }
        }
    }
    frames
}

/// Two small front ends: damage hits a used field often and shows early.
pub const SMALL: [MfccSettings; 2] = [
    MfccSettings { fft_len: 256, window_len: 300, bins_per_rate: 129, mel_bands: 6, coefficients: 3, ..PRECISE },
    MfccSettings { fft_len: 256, window_len: 100, bins_per_rate: 256, lead_frames: 2, ..HELLO_EDGE },
];

/// Random settings. Some describe no front end.
pub fn drawn(rng: &mut Rng) -> MfccSettings {
    let fft_len: usize = rng.pick(&[256, 512, 1024, 2048]);
    let mel_bands = 2 + rng.below(40) as u32;
    MfccSettings {
        window_len: 2 + rng.below(3 * fft_len / 2) as u32,
        stride_len: 65_536,
        window: rng.pick(&[Window::Hann, Window::Rectangular, Window::Hamming]),
        fft_len: fft_len as u32,
        spectrum: rng.pick(&[Spectrum::Magnitude, Spectrum::Power]),
        mel_bands,
        coefficients: 1 + rng.below(mel_bands as usize) as u32,
        lower_hz: rng.pick(&[0.0, 20.0, 133.5]),
        upper_hz: rng.pick(&[3800.0, 8000.0]),
        bins_per_rate: fft_len as u32,
        corners: rng.pick(&[MelCorners::Exact, MelCorners::WholeBins]),
        log_floor: rng.pick(&[1.0, 1e-12, 2.2e-16, 1e-37]),
        first: rng.pick(&[First::Cepstrum, First::LogEnergy]),
        ..HELLO_EDGE
    }
}

/// One of the `good` sections with up to four words changed. The first `settings` words are chosen more often than the
/// tables after them. A new value is near the old one, random, the old one with a bit flipped, or one of `ends`.
pub fn damaged(good: &[Vec<u8>], rng: &mut Rng, settings: usize, ends: &[u32]) -> Vec<u8> {
    let mut bytes = good[rng.below(good.len())].clone();
    for _ in 0..=rng.below(4) {
        let words = if rng.below(4) > 0 { settings } else { bytes.len() / 4 };
        let word = rng.below(words);
        let old = u32::from_le_bytes(*bytes[4 * word..].first_chunk().unwrap());
        let near = old.wrapping_add(rng.below(9) as u32).wrapping_sub(4);
        let changed = [near, rng.bits() as u32, old ^ 1 << rng.below(32)];
        let new = rng.pick(&[&changed, ends].concat());
        bytes[4 * word..][..4].copy_from_slice(&new.to_le_bytes());
    }
    bytes
}

/// The loudest possible signal, then silence.
pub fn loud_and_quiet() -> Vec<i16> {
    (0..1200).map(|n| if n % 2 == 0 { i16::MIN } else { i16::MAX }).chain([0; 1200]).collect()
}

/// The loudest and quietest signals, signals unlike speech, and noise of a given loudness.
pub fn signals(len: usize, rng: &mut Rng) -> Vec<(&'static str, Vec<i16>)> {
    let each = |value: &mut dyn FnMut(usize) -> i16| (0..len).map(value).collect::<Vec<i16>>();
    let at = rng.below(len);
    let loudness = rng.pick(&[1.0, 3.0, 100.0, 5000.0, 32_767.0]);
    let (period, phase) = (2.0 + f64::from(rng.number(1.0)).abs() * 100.0, f64::from(rng.number(3.0)));
    vec![
        ("silence", vec![0; len]),
        ("the least", vec![-1; len]),
        ("one", vec![1; len]),
        ("the loudest", vec![i16::MIN; len]),
        ("the loudest above", vec![i16::MAX; len]),
        ("a square of full scale", each(&mut |n| if n / 8 % 2 == 0 { i16::MIN } else { i16::MAX })),
        ("every other sample", each(&mut |n| if n % 2 == 0 { i16::MIN } else { i16::MAX })),
        ("every other sample, slower", each(&mut |n| if n / 2 % 2 == 0 { i16::MIN } else { i16::MIN + 1 })),
        ("an impulse", each(&mut |n| if n == at { i16::MIN } else { 0 })),
        ("the least impulse", each(&mut |n| i16::from(n == at))),
        ("a tone", each(&mut |n| (32_767.0 * (n as f64 * std::f64::consts::TAU / period + phase).sin()) as i16)),
        ("noise", each(&mut |_| rng.number(loudness) as i16)),
    ]
}
