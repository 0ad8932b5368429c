//! How audio becomes features, by its own settings or by the name of what was trained with them.

use serde::{Deserialize, Serialize};
use tidegate::front_end::{First, MelCorners, MfccSettings, Spectrum, Window};

/// A new window starts every 240 ms unless something else is said (DESIGN.md, The command line).
const WINDOW_EVERY_SECONDS: f64 = 0.24;

/// Mel-frequency cepstral coefficients; what is left out is as in TensorFlow's `AudioSpectrogram` and `Mfcc`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mfcc {
    /// Hz
    pub sample_rate: u32,
    /// Samples in a frame.
    pub window_len: u32,
    /// Samples from one frame to the next.
    pub stride_len: u32,
    /// What the samples of a frame are multiplied by.
    #[serde(default, with = "WindowName")]
    pub window: Window,
    /// Points of the FFT; a power of two. Of a longer frame only so many samples are heard.
    pub fft_len: u32,
    /// What the mel bands add up.
    #[serde(default, with = "SpectrumName")]
    pub spectrum: Spectrum,
    /// Mel bands.
    pub mel_bands: u32,
    /// Hz
    pub lower_hz: f32,
    /// Hz
    pub upper_hz: f32,
    /// Bins of the FFT that the mel bands count from 0 Hz to the sample rate; left out: `fft_len`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bins_per_rate: Option<u32>,
    /// Where the corners of the mel bands lie.
    #[serde(default, with = "MelCornersName")]
    pub corners: MelCorners,
    /// Features of a frame.
    pub coefficients: u32,
    /// Least value under the logarithm.
    pub log_floor: f32,
    /// What the first feature is.
    #[serde(default, with = "FirstName")]
    pub first: First,
    /// Frames of zeros that come before the first.
    #[serde(default)]
    pub lead_frames: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Window", rename_all = "snake_case")]
enum WindowName {
    Hann,
    Rectangular,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Spectrum", rename_all = "snake_case")]
enum SpectrumName {
    Magnitude,
    Power,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "MelCorners", rename_all = "snake_case")]
enum MelCornersName {
    Exact,
    WholeBins,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "First", rename_all = "snake_case")]
enum FirstName {
    Cepstrum,
    LogEnergy,
}

impl Mfcc {
    /// What [`named`](Self::named) knows.
    pub const NAMES: [&str; 1] = ["precise"];

    /// The front end of this name, and how many frames after one window the next begins. `precise`: Mycroft Precise as it
    /// ships, on windows of 29 frames. What it says of a word may last no longer than two frames, so windows that begin
    /// with every third frame miss some; it is small enough for a window with every frame (29 states are 2.3 KB).
    pub fn named(name: &str) -> Option<(Self, u32)> {
        let precise = Self {
            sample_rate: 16_000,
            window_len: 1600,
            stride_len: 800,
            window: Window::Rectangular,
            fft_len: 512,
            spectrum: Spectrum::Power,
            mel_bands: 20,
            lower_hz: 0.0,
            upper_hz: 16_000.0,
            bins_per_rate: Some(257),
            corners: MelCorners::WholeBins,
            coefficients: 13,
            log_floor: f64::EPSILON as f32,
            first: First::LogEnergy,
            lead_frames: 28,
        };
        (name == "precise").then_some((precise, 1))
    }

    /// A new window begins after so many frames, unless something else is said.
    pub fn every(&self) -> u32 {
        let every = WINDOW_EVERY_SECONDS * f64::from(self.sample_rate) / f64::from(self.stride_len);
        (every.round() as u32).max(1)
    }

    /// Milliseconds of sound in so many frames.
    pub fn milliseconds(&self, frames: u32) -> u32 {
        let after_first = u64::from(frames.saturating_sub(1)).saturating_mul(u64::from(self.stride_len));
        let samples = u64::from(self.window_len).saturating_add(after_first);
        let milliseconds = samples.saturating_mul(1000) / u64::from(self.sample_rate.max(1));
        u32::try_from(milliseconds).unwrap_or(u32::MAX)
    }
}

/// As `core` has it.
impl From<&Mfcc> for MfccSettings {
    fn from(mfcc: &Mfcc) -> Self {
        let Mfcc { sample_rate, window_len, stride_len, window, fft_len, spectrum, mel_bands, .. } = *mfcc;
        let Mfcc { lower_hz, upper_hz, bins_per_rate, corners, coefficients, log_floor, first, lead_frames, .. } =
            *mfcc;
        Self {
            sample_rate,
            window_len,
            stride_len,
            window,
            fft_len,
            spectrum,
            mel_bands,
            coefficients,
            lower_hz,
            upper_hz,
            bins_per_rate: bins_per_rate.unwrap_or(fft_len),
            corners,
            log_floor,
            first,
            lead_frames,
        }
    }
}

/// As an image has it.
impl From<&MfccSettings> for Mfcc {
    fn from(settings: &MfccSettings) -> Self {
        let MfccSettings { sample_rate, window_len, stride_len, window, fft_len, spectrum, .. } = *settings;
        let MfccSettings { mel_bands, lower_hz, upper_hz, bins_per_rate, corners, .. } = *settings;
        let MfccSettings { coefficients, log_floor, first, lead_frames, .. } = *settings;
        Self {
            sample_rate,
            window_len,
            stride_len,
            window,
            fft_len,
            spectrum,
            mel_bands,
            lower_hz,
            upper_hz,
            bins_per_rate: Some(bins_per_rate),
            corners,
            coefficients,
            log_floor,
            first,
            lead_frames,
        }
    }
}
