//! What the front end computes, and the limits of each setting.

use core::ops::RangeInclusive;

/// Mel-frequency cepstral coefficients, as TensorFlow's `AudioSpectrogram` and `Mfcc` define them.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct MfccSettings {
    /// Hz.
    pub sample_rate: u32,
    /// Samples in a frame.
    pub window_len: u32,
    /// Samples from the start of one frame to the start of the next; may exceed the window.
    pub stride_len: u32,
    /// Points of the FFT: 256, 512, 1024 or 2048. The frame is padded with zeros to this length.
    pub fft_len: u32,
    /// Mel bands.
    pub mel_bands: u32,
    /// Coefficients of the DCT that are kept: the features of a frame.
    pub coefficients: u32,
    /// Lower edge of the first mel band, Hz.
    pub lower_hz: f32,
    /// Upper edge of the last mel band, Hz.
    pub upper_hz: f32,
    /// Least value under the logarithm.
    pub log_floor: f32,
}

/// Why settings or a section's bytes are not a front end.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum FrontEndError {
    /// The section does not have the length that its settings ask for, or the buffer for it is shorter. Bytes.
    SectionLen {
        /// The length that the settings ask for; where these are cut off, theirs.
        needed: usize,
        /// The length of the slice.
        given: usize,
    },
    /// Not within 1 to 192,000 Hz.
    SampleRate {
        /// What was found, Hz.
        found: u32,
    },
    /// Not 256, 512, 1024 or 2048 points.
    FftLen {
        /// What was found.
        found: u32,
    },
    /// Fewer than 2 samples, or more than the FFT has points.
    WindowLen {
        /// What was found.
        found: u32,
        /// Points of the FFT.
        fft_len: u32,
    },
    /// Not within 1 to 65,536 samples.
    StrideLen {
        /// What was found.
        found: u32,
    },
    /// Not within 2 to 128 bands.
    MelBands {
        /// What was found.
        found: u32,
    },
    /// None, or more than there are mel bands.
    Coefficients {
        /// What was found.
        found: u32,
        /// How many there are.
        mel_bands: u32,
    },
    /// Not 0 <= lower < upper <= half the sample rate, or no bin of the FFT lies between.
    Band {
        /// Lower edge, Hz.
        lower_hz: f32,
        /// Upper edge, Hz.
        upper_hz: f32,
    },
    /// Not within 1e-37 to 1.
    LogFloor {
        /// What was found.
        found: f32,
    },
    /// The bins of the mel bands do not follow each other from the first bin to the last.
    MelEdge {
        /// Which of the `mel_bands` + 2 edges.
        edge: usize,
        /// What was found.
        found: u32,
    },
    /// A table holds a value that is not within -1 to 1.
    TableValue {
        /// Where in the section, bytes.
        offset: usize,
    },
}

impl core::fmt::Display for FrontEndError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match *self {
            Self::SectionLen { needed, given } => write!(f, "front end: {given} bytes, {needed} are needed"),
            Self::SampleRate { found } => write!(f, "front end: a sample rate of {found} Hz"),
            Self::FftLen { found } => {
                write!(f, "front end: an FFT of {found} points; 256, 512, 1024, 2048 are supported")
            }
            Self::WindowLen { found, fft_len } => {
                write!(f, "front end: a window of {found} samples, an FFT of {fft_len}")
            }
            Self::StrideLen { found } => write!(f, "front end: a stride of {found} samples"),
            Self::MelBands { found } => write!(f, "front end: {found} mel bands; 2 to 128 are supported"),
            Self::Coefficients { found, mel_bands } => {
                write!(f, "front end: {found} coefficients of {mel_bands} mel bands")
            }
            Self::Band { lower_hz, upper_hz } => write!(f, "front end: mel bands from {lower_hz} to {upper_hz} Hz"),
            Self::LogFloor { found } => write!(f, "front end: a floor of {found:e} under the logarithm"),
            Self::MelEdge { edge, found } => write!(f, "front end: mel edge {edge} at bin {found}"),
            Self::TableValue { offset } => write!(f, "front end: the table value at byte {offset} exceeds 1"),
        }
    }
}

impl core::error::Error for FrontEndError {}

impl MfccSettings {
    /// Whether every setting is within its limits.
    ///
    /// # Errors
    /// Names the first setting that is not.
    pub const fn check(&self) -> Result<(), FrontEndError> {
        let Self { sample_rate, window_len, stride_len, fft_len, mel_bands, coefficients, .. } = *self;
        let Self { lower_hz, upper_hz, log_floor, .. } = *self;
        if !(1 <= sample_rate && sample_rate <= 192_000) {
            return Err(FrontEndError::SampleRate { found: sample_rate });
        }
        if !matches!(fft_len, 256 | 512 | 1024 | 2048) {
            return Err(FrontEndError::FftLen { found: fft_len });
        }
        if !(2 <= window_len && window_len <= fft_len) {
            return Err(FrontEndError::WindowLen { found: window_len, fft_len });
        }
        if !(1 <= stride_len && stride_len <= 65_536) {
            return Err(FrontEndError::StrideLen { found: stride_len });
        }
        if !(2 <= mel_bands && mel_bands <= 128) {
            return Err(FrontEndError::MelBands { found: mel_bands });
        }
        if !(1 <= coefficients && coefficients <= mel_bands) {
            return Err(FrontEndError::Coefficients { found: coefficients, mel_bands });
        }
        let ordered = 0.0 <= lower_hz && lower_hz < upper_hz && upper_hz as f64 <= 0.5 * sample_rate as f64;
        if !ordered || *self.bins().start() > *self.bins().end() {
            return Err(FrontEndError::Band { lower_hz, upper_hz });
        }
        if !(1e-37 <= log_floor && log_floor <= 1.0) {
            return Err(FrontEndError::LogFloor { found: log_floor });
        }
        Ok(())
    }

    /// From one bin of the FFT to the next, Hz. Exact: `fft_len` is a power of two.
    pub(super) const fn hz_per_bin(&self) -> f64 {
        self.sample_rate as f64 / self.fft_len as f64
    }

    /// The bins of the FFT that the mel bands use: never bin 0, at most bin `fft_len` / 2.
    /// `start_index_` to `end_index_` of TensorFlow's `MfccMelFilterbank`.
    pub(super) const fn bins(&self) -> RangeInclusive<usize> {
        let first = 1.5 + self.lower_hz as f64 / self.hz_per_bin();
        let last = self.upper_hz as f64 / self.hz_per_bin();
        RangeInclusive::new(first as usize, last as usize)
    }
}
