//! What the front end computes, and the limits of each setting.

use core::ops::Range;

use crate::error::BufferTooSmall;

/// Most mel bands.
pub(super) const MOST_BANDS: usize = 128;

/// Mel-frequency cepstral coefficients. Which frameworks have which settings stands with [`Window`], [`Spectrum`],
/// [`MelCorners`] and [`First`].
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct MfccSettings {
    /// Hz.
    pub sample_rate: u32,
    /// Samples in a frame.
    pub window_len: u32,
    /// Samples from the start of one frame to the start of the next; may exceed the window.
    pub stride_len: u32,
    /// What the samples of a frame are multiplied by.
    pub window: Window,
    /// Points of the FFT: 256, 512, 1024 or 2048. A shorter frame is padded with zeros to this length; of a longer one
    /// only so many samples are heard, its first.
    pub fft_len: u32,
    /// What the mel bands add up.
    pub spectrum: Spectrum,
    /// Mel bands.
    pub mel_bands: u32,
    /// Coefficients of the DCT that are kept: the features of a frame.
    pub coefficients: u32,
    /// Lower edge of the first mel band, Hz.
    pub lower_hz: f32,
    /// Upper edge of the last mel band, Hz.
    pub upper_hz: f32,
    /// How many bins of the FFT the mel bands count from 0 Hz to the sample rate. That is `fft_len`; sonopy takes
    /// `fft_len` / 2 + 1, and so a bin for one of twice its frequency.
    pub bins_per_rate: u32,
    /// Where the corners of the mel bands lie.
    pub corners: MelCorners,
    /// Least value under the logarithm.
    pub log_floor: f32,
    /// What the first feature is.
    pub first: First,
    /// How many frames of zeros, zeros as features, come before the first: what the network heard in training where a
    /// clip was shorter than its window.
    pub lead_frames: u32,
}

/// What the samples of a frame are multiplied by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Window {
    /// The periodic Hann window (TensorFlow).
    #[default]
    Hann,
    /// 1 (sonopy).
    Rectangular,
}

/// What the mel bands add up of each bin `X` of the FFT, with samples from -1 to 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Spectrum {
    /// `|X|` (TensorFlow's `Mfcc`).
    #[default]
    Magnitude,
    /// `|X|²` / `fft_len` (sonopy).
    Power,
}

/// Where the corners of the mel bands lie, which are triangles from corner to corner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum MelCorners {
    /// Where the mel scale has them; the sides are straight in mel (TensorFlow).
    #[default]
    Exact,
    /// On the bin at or below, or the next that is free; the sides are straight in Hz (sonopy).
    WholeBins,
}

/// What the first feature is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum First {
    /// Coefficient 0 of the DCT (TensorFlow).
    #[default]
    Cepstrum,
    /// The logarithm of the frame's energy: of the sum of `|X|²` over every bin of the FFT, divided by `fft_len` if the
    /// spectrum is [`Power`](Spectrum::Power) (sonopy). Coefficient 0 has no place then.
    LogEnergy,
}

/// Samples of a frame, working memory, features.
pub(super) type Memory<'b> = (&'b mut [i16], &'b mut [u32], &'b mut [u32]);

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
    /// Not within 2 to 65,536 samples.
    WindowLen {
        /// What was found.
        found: u32,
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
    /// Not 0 <= lower < upper <= the frequency of the FFT's last bin, or no bin of the FFT lies between.
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
    /// Not within 0 to 4,096 frames.
    LeadFrames {
        /// What was found.
        found: u32,
    },
    /// Bits that stand for no option of this version.
    Options {
        /// What was found.
        found: u32,
    },
    /// The bins of the mel bands do not follow each other from the first bin to the last.
    MelEdge {
        /// Which of the `mel_bands` + 2 edges.
        edge: usize,
        /// What was found.
        found: u32,
    },
    /// A table holds a value that is not within -1 to 1, or the scale is not above 0.
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
            Self::WindowLen { found } => {
                write!(f, "front end: a window of {found} samples; 2 to 65536 are supported")
            }
            Self::StrideLen { found } => write!(f, "front end: a stride of {found} samples"),
            Self::MelBands { found } => write!(f, "front end: {found} mel bands; 2 to 128 are supported"),
            Self::Coefficients { found, mel_bands } => {
                write!(f, "front end: {found} coefficients of {mel_bands} mel bands")
            }
            Self::Band { lower_hz, upper_hz } => write!(f, "front end: mel bands from {lower_hz} to {upper_hz} Hz"),
            Self::LogFloor { found } => write!(f, "front end: a floor of {found:e} under the logarithm"),
            Self::LeadFrames { found } => write!(f, "front end: {found} frames of zeros; 0 to 4096 are supported"),
            Self::Options { found } => write!(f, "front end: the options {found:#x} are not known"),
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
        let Self { lower_hz, upper_hz, log_floor, lead_frames, .. } = *self;
        if !(1 <= sample_rate && sample_rate <= 192_000) {
            return Err(FrontEndError::SampleRate { found: sample_rate });
        }
        if !matches!(fft_len, 256 | 512 | 1024 | 2048) {
            return Err(FrontEndError::FftLen { found: fft_len });
        }
        if !(2 <= window_len && window_len <= 65_536) {
            return Err(FrontEndError::WindowLen { found: window_len });
        }
        if !(1 <= stride_len && stride_len <= 65_536) {
            return Err(FrontEndError::StrideLen { found: stride_len });
        }
        if !(2 <= mel_bands && mel_bands as usize <= MOST_BANDS) {
            return Err(FrontEndError::MelBands { found: mel_bands });
        }
        if !(1 <= coefficients && coefficients <= mel_bands) {
            return Err(FrontEndError::Coefficients { found: coefficients, mel_bands });
        }
        // Exact corners: half the sample rate, in the middle of the last bin. On whole bins: the end of the last bin.
        let most = match self.corners {
            MelCorners::Exact => fft_len / 2,
            MelCorners::WholeBins => fft_len / 2 + 1,
        };
        let ordered = 0.0 <= lower_hz && lower_hz < upper_hz && self.bins_at(upper_hz as f64) <= most as f64;
        let bins = self.bins();
        if !ordered || bins.start >= bins.end {
            return Err(FrontEndError::Band { lower_hz, upper_hz });
        }
        if !(1e-37 <= log_floor && log_floor <= 1.0) {
            return Err(FrontEndError::LogFloor { found: log_floor });
        }
        if lead_frames > 4096 {
            return Err(FrontEndError::LeadFrames { found: lead_frames });
        }
        Ok(())
    }

    /// How many samples of a frame are heard.
    pub(super) const fn heard_len(&self) -> usize {
        // `Ord::min` is not const.
        (if self.window_len < self.fft_len { self.window_len } else { self.fft_len }) as usize
    }

    /// Words that the samples of a frame take (two in a word), the FFT, the mel bands and the features.
    pub(super) const fn memory_words(&self) -> usize {
        (self.window_len.div_ceil(2) + self.fft_len + self.mel_bands + self.coefficients) as usize
    }

    /// The memory of a stream in its parts.
    pub(super) fn split<'b>(&self, memory: &'b mut [u32]) -> Result<Memory<'b>, BufferTooSmall> {
        let too_small = BufferTooSmall { needed: self.memory_words(), given: memory.len() };
        let window_len = self.window_len as usize;
        let (samples, rest) = memory.split_at_mut_checked(window_len.div_ceil(2)).ok_or(too_small)?;
        let (work, rest) = rest.split_at_mut_checked((self.fft_len + self.mel_bands) as usize).ok_or(too_small)?;
        let features = rest.get_mut(..self.coefficients as usize).ok_or(too_small)?;
        let samples = bytemuck::must_cast_slice_mut(samples).get_mut(..window_len).ok_or(too_small)?;
        Ok((samples, work, features))
    }

    /// How many bins of the FFT the mel bands count up to a frequency.
    pub(super) const fn bins_at(&self, hz: f64) -> f64 {
        hz * self.bins_per_rate as f64 / self.sample_rate as f64
    }

    /// The bins of the FFT that the mel bands use, at most 0 to `fft_len` / 2. With exact corners `start_index_` to
    /// `end_index_` of TensorFlow's `MfccMelFilterbank`, never bin 0.
    pub(super) const fn bins(&self) -> Range<usize> {
        let (lower, upper) = (self.bins_at(self.lower_hz as f64), self.bins_at(self.upper_hz as f64));
        match self.corners {
            MelCorners::Exact => (1.5 + lower) as usize..(upper as usize).saturating_add(1),
            MelCorners::WholeBins => lower as usize..upper as usize,
        }
    }

    /// How many coefficients the DCT gives: the last of the features.
    pub(super) const fn dct_rows(&self) -> u32 {
        match self.first {
            First::Cepstrum => self.coefficients,
            First::LogEnergy => self.coefficients - 1,
        }
    }
}
