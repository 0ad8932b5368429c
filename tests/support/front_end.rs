//! What the tests of both front ends share: settings, and a signal that goes through.

use tidegate::front_end::{First, MelCorners, MfccSettings, Spectrum, Window};

/// What the networks of Hello Edge hear.
pub const HELLO_EDGE: MfccSettings = MfccSettings {
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

/// What Mycroft Precise hears: frames whose first 512 samples count.
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

/// Frames of features of a whole signal, pushed in blocks of these lengths in turn.
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
