//! Front end settings, given one by one or by the name of a framework that trains with them.

use serde::{Deserialize, Serialize};
use tidegate::Numeric;
use tidegate::front_end::{First, FrontEndError, LogMel, MelCorners, Method, MfccSettings, Spectrum, Window};

use super::Integers;

/// By default, a new window starts every 240 ms (DESIGN.md, The command line).
const WINDOW_EVERY_SECONDS: f64 = 0.24;

/// Features of sound, by default mel-frequency cepstral coefficients with the settings of TensorFlow's
/// `AudioSpectrogram` and `Mfcc`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mfcc {
    /// The kind of features.
    #[serde(default, with = "MethodName")]
    pub method: Method,
    /// Sample rate in Hz.
    pub sample_rate: u32,
    /// Number of samples in a frame.
    pub window_len: u32,
    /// Number of samples from one frame to the next.
    pub stride_len: u32,
    /// Window function that the samples of a frame are multiplied by.
    #[serde(default, with = "WindowName")]
    pub window: Window,
    /// Number of points of the FFT; a power of two. A longer frame is truncated to this length.
    pub fft_len: u32,
    /// The spectrum that is summed into the mel bands.
    #[serde(default, with = "SpectrumName")]
    pub spectrum: Spectrum,
    /// Number of mel bands.
    pub mel_bands: u32,
    /// Lower edge of the mel bands in Hz.
    pub lower_hz: f32,
    /// Upper edge of the mel bands in Hz.
    pub upper_hz: f32,
    /// Number of FFT bins between 0 Hz and the sample rate, as counted by the mel bands; default: `fft_len`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bins_per_rate: Option<u32>,
    /// Placement of the corners of the mel bands.
    #[serde(default, with = "MelCornersName")]
    pub corners: MelCorners,
    /// Number of features of a frame.
    pub coefficients: u32,
    /// Least value under the logarithm.
    pub log_floor: f32,
    /// Meaning of the first feature.
    #[serde(default, with = "FirstName")]
    pub first: First,
    /// Number of zero frames before the first frame.
    #[serde(default)]
    pub lead_frames: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Method", rename_all = "snake_case")]
enum MethodName {
    Mfcc,
    LogMel(#[serde(with = "LogMelFields")] LogMel),
    Micro,
    MicroWithoutGain,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "LogMel", deny_unknown_fields)]
struct LogMelFields {
    emphasis: f32,
    lowest_db: f32,
    highest_db: f32,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Window", rename_all = "snake_case")]
enum WindowName {
    Hann,
    Rectangular,
    Hamming,
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
    /// Names that [`named`](Self::named) accepts.
    pub const NAMES: [&str; 3] = ["precise", "micro_wake_word", "mlperf_streaming"];

    /// The front end of this name, and the number of frames from the start of one window to the next.
    pub fn named(name: &str) -> Option<(Self, u32)> {
        match name {
            "precise" => Some((Self::precise(), 1)),
            "micro_wake_word" => Some((Self::micro_wake_word(10), 1)),
            "mlperf_streaming" => Some((Self::mlperf_streaming(), 1)),
            _ => None,
        }
    }

    /// ESPHome's microWakeWord: 40 channels of windows of 30 ms that start every `step_ms`.
    pub fn micro_wake_word(step_ms: u32) -> Self {
        const SAMPLES_PER_MS: u32 = 16;
        Self {
            method: Method::Micro,
            sample_rate: 1000 * SAMPLES_PER_MS,
            window_len: 30 * SAMPLES_PER_MS,
            stride_len: step_ms.saturating_mul(SAMPLES_PER_MS),
            window: Window::Hann,
            fft_len: 512,
            spectrum: Spectrum::Magnitude,
            mel_bands: 40,
            lower_hz: 125.0,
            upper_hz: 7500.0,
            bins_per_rate: None,
            corners: MelCorners::Exact,
            coefficients: 40,
            log_floor: 1.0,
            first: First::Cepstrum,
            lead_frames: 0,
        }
    }

    /// MLPerf Tiny's streaming wake word: 40 mel bands of windows of 64 ms that start every 32 ms, from -52 to 12 dB.
    fn mlperf_streaming() -> Self {
        Self {
            method: Method::LogMel(LogMel { emphasis: 1.0 - 1.0 / 32.0, lowest_db: -52.0, highest_db: 12.0 }),
            sample_rate: 16_000,
            window_len: 1024,
            stride_len: 512,
            window: Window::Hamming,
            fft_len: 1024,
            spectrum: Spectrum::Power,
            mel_bands: 40,
            lower_hz: 0.0,
            upper_hz: 8000.0,
            bins_per_rate: None,
            corners: MelCorners::Exact,
            coefficients: 40,
            log_floor: 1e-30,
            first: First::Cepstrum,
            lead_frames: 0,
        }
    }

    /// Mycroft Precise as shipped, with windows of 29 frames. Its response to a word may last only two frames, so
    /// windows that start every third frame miss some words. The model is small enough to start a window with every
    /// frame (29 states are 2.3 KB).
    fn precise() -> Self {
        Self {
            method: Method::Mfcc,
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
        }
    }

    /// Default number of frames from the start of one window to the next.
    pub fn every(&self) -> u32 {
        let every = WINDOW_EVERY_SECONDS * f64::from(self.sample_rate) / f64::from(self.stride_len);
        (every.round() as u32).max(1)
    }

    /// Duration of `frames` frames in milliseconds.
    pub fn milliseconds(&self, frames: u32) -> u32 {
        let after_first = u64::from(frames.saturating_sub(1)).saturating_mul(u64::from(self.stride_len));
        let samples = u64::from(self.window_len).saturating_add(after_first);
        let milliseconds = samples.saturating_mul(1000) / u64::from(self.sample_rate.max(1));
        u32::try_from(milliseconds).unwrap_or(u32::MAX)
    }

    /// Encodes the front end as a section of an image; for an integer numeric, as an integer front end. `input` is the
    /// integer form of the input if the model is an integer model already; the features then have this form.
    ///
    /// # Errors
    /// If the front end cannot be stored.
    pub fn section(&self, numeric: Numeric, input: Option<&Integers>) -> Result<Vec<u8>, FrontEndError> {
        let settings = MfccSettings::from(self);
        let most = |input: &Integers| i32::from(i8::MAX).saturating_sub(input.zero_point).clamp(0, 255) as u16;
        let most = input.map_or(i16::MAX.unsigned_abs(), most);
        let mut payload = vec![
            0;
            match settings.method {
                Method::Micro | Method::MicroWithoutGain => settings.micro_section_len()?,
                _ if numeric.is_integer() => settings.integer_section_len()?,
                _ => settings.section_len()?,
            }
        ];
        match settings.method {
            Method::Micro | Method::MicroWithoutGain => {
                let scale = input.map_or(MfccSettings::MICRO_SCALE, |input| input.scale);
                settings.write_micro(scale, most, &mut payload)?
            }
            Method::LogMel(_) if numeric.is_integer() => {
                // The greatest feature is 1.
                let scale = input.map_or(1.0 / f32::from(i16::MAX), |input| input.scale);
                settings.write_log_mel(scale, input.map(|input| input.zero_point as i16), most, &mut payload)?
            }
            _ if numeric.is_integer() => settings.write_integer(&mut payload)?,
            _ => settings.write(&mut payload)?,
        };
        Ok(payload)
    }
}

/// Converts to the settings of `core`.
impl From<&Mfcc> for MfccSettings {
    fn from(mfcc: &Mfcc) -> Self {
        Self {
            method: mfcc.method,
            sample_rate: mfcc.sample_rate,
            window_len: mfcc.window_len,
            stride_len: mfcc.stride_len,
            window: mfcc.window,
            fft_len: mfcc.fft_len,
            spectrum: mfcc.spectrum,
            mel_bands: mfcc.mel_bands,
            coefficients: mfcc.coefficients,
            lower_hz: mfcc.lower_hz,
            upper_hz: mfcc.upper_hz,
            bins_per_rate: mfcc.bins_per_rate.unwrap_or(mfcc.fft_len),
            corners: mfcc.corners,
            log_floor: mfcc.log_floor,
            first: mfcc.first,
            lead_frames: mfcc.lead_frames,
        }
    }
}

/// Converts from the settings of an image.
impl From<&MfccSettings> for Mfcc {
    fn from(settings: &MfccSettings) -> Self {
        Self {
            method: settings.method,
            sample_rate: settings.sample_rate,
            window_len: settings.window_len,
            stride_len: settings.stride_len,
            window: settings.window,
            fft_len: settings.fft_len,
            spectrum: settings.spectrum,
            mel_bands: settings.mel_bands,
            lower_hz: settings.lower_hz,
            upper_hz: settings.upper_hz,
            bins_per_rate: Some(settings.bins_per_rate),
            corners: settings.corners,
            coefficients: settings.coefficients,
            log_floor: settings.log_floor,
            first: settings.first,
            lead_frames: settings.lead_frames,
        }
    }
}
