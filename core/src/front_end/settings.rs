//! The settings of the front end and their limits.

use core::ops::Range;

use crate::error::BufferTooSmall;
use crate::text::{NEEDS_FLOATS, Text, error_of_text};

/// Maximum number of mel bands.
pub(super) const MOST_BANDS: usize = 128;

/// Settings for the features of a frame. [`Method`], [`Window`], [`Spectrum`], [`MelCorners`] and [`First`] say which
/// framework uses which setting.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct MfccSettings {
    /// The features that are computed.
    pub method: Method,
    /// Sample rate in Hz.
    pub sample_rate: u32,
    /// Number of samples in a frame.
    pub window_len: u32,
    /// Number of samples between the starts of two frames; may exceed the window.
    pub stride_len: u32,
    /// The window function.
    pub window: Window,
    /// Points of the FFT: 256, 512, 1024 or 2048. A shorter frame is padded with zeros; of a longer frame only the
    /// first `fft_len` samples are used.
    pub fft_len: u32,
    /// The spectrum that the mel bands sum.
    pub spectrum: Spectrum,
    /// Number of mel bands.
    pub mel_bands: u32,
    /// Number of features in a frame: the DCT coefficients that are kept, or one for each mel band.
    pub coefficients: u32,
    /// Lower edge of the first mel band in Hz.
    pub lower_hz: f32,
    /// Upper edge of the last mel band in Hz.
    pub upper_hz: f32,
    /// Number of FFT bins from 0 Hz to the sample rate as the mel bands count them, normally `fft_len`. sonopy uses
    /// `fft_len` / 2 + 1, and thus treats each bin as one of twice its frequency.
    pub bins_per_rate: u32,
    /// Positions of the corners of the mel bands.
    pub corners: MelCorners,
    /// Smallest argument of the logarithm.
    pub log_floor: f32,
    /// Meaning of the first feature.
    pub first: First,
    /// Number of frames whose features are all zero before the first frame, as the network saw them in training where a
    /// clip was shorter than its window.
    pub lead_frames: u32,
}

/// The features that are computed from the mel bands.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Method {
    /// Mel-frequency cepstral coefficients.
    #[default]
    Mfcc,
    /// The logarithms of the mel bands in decibels, mapped to 0 to 1 (MLPerf Tiny's streaming wake word). The spectrum is
    /// [`Power`](Spectrum::Power), `first` has its default, and there are as many features as mel bands.
    LogMel(LogMel),
    /// The logarithms of the mel bands after noise reduction and automatic gain control (PCAN), always computed in
    /// integers, bit for bit as TensorFlow Lite Micro's audio front end does (`micro_features`, ESPHome's
    /// microWakeWord). The Hann window is centered on the frame and not longer than the FFT; the spectrum is
    /// [`Magnitude`](Spectrum::Magnitude), the corners are [`Exact`](MelCorners::Exact), `bins_per_rate` is `fft_len`,
    /// `log_floor` is 1, and there are as many features as mel bands.
    Micro,
    /// [`Micro`](Self::Micro) without the gain control.
    MicroWithoutGain,
}

impl Method {
    /// Whether this is the front end of TensorFlow Lite Micro.
    pub(crate) const fn is_micro(self) -> bool {
        matches!(self, Self::Micro | Self::MicroWithoutGain)
    }
}

/// The settings of [`Method::LogMel`].
///
/// ```text
/// y[n] = x[n] - emphasis x[n - 1]                                           before the window
/// feature = (10 log₁₀ band - lowest_db) / (highest_db - lowest_db)          at least 0 and at most 1
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct LogMel {
    /// Pre-emphasis, from 0 to 1. The sample before the first one is 0.
    pub emphasis: f32,
    /// Level in decibels that is mapped to 0, at least -300.
    pub lowest_db: f32,
    /// Level in decibels that is mapped to 1; at least 20 above `lowest_db`, and at most 300.
    pub highest_db: f32,
}

/// The window function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Window {
    /// The periodic Hann window (TensorFlow).
    #[default]
    Hann,
    /// All ones (sonopy).
    Rectangular,
    /// The symmetric Hamming window, 0.54 - 0.46 cos(2π n / (`window_len` - 1)) (MLPerf Tiny).
    Hamming,
}

/// The spectrum that the mel bands sum, for each bin `X` of the FFT, with samples from -1 to 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Spectrum {
    /// `|X|` (TensorFlow's `Mfcc`).
    #[default]
    Magnitude,
    /// `|X|²` / `fft_len` (sonopy).
    Power,
}

/// Positions of the corners of the triangular mel bands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum MelCorners {
    /// At their exact mel frequencies; the sides are straight in mel (TensorFlow).
    #[default]
    Exact,
    /// On the bin at or below, or the next free bin; the sides are straight in Hz (sonopy).
    WholeBins,
}

/// Meaning of the first feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum First {
    /// Coefficient 0 of the DCT (TensorFlow).
    #[default]
    Cepstrum,
    /// The logarithm of the frame's energy, which is the sum of `|X|²` over every bin of the FFT, divided by `fft_len`
    /// if the spectrum is [`Power`](Spectrum::Power) (sonopy). It replaces coefficient 0.
    LogEnergy,
}

/// The samples of a frame, working memory, and features.
pub(super) type Memory<'b> = (&'b mut [i16], &'b mut [u32], &'b mut [u32]);

/// Why settings or a section are not a valid front end.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
#[expect(missing_docs, reason = "the variants say what their fields hold")]
pub enum FrontEndError {
    /// The section has tables in f32, and this build has neither the feature `libm` nor `micromath`.
    NoFloats,
    /// The section, or the buffer for it, is not as long as its settings require. Lengths are in bytes; `needed` is
    /// the length of the settings if the section ends within them.
    SectionLen { needed: usize, given: usize },
    /// The sample rate is not between 1 and 192,000 Hz.
    SampleRate { found: u32 },
    /// The FFT does not have 256, 512, 1024 or 2048 points.
    FftLen { found: u32 },
    /// The window is not between 2 and 65,536 samples long.
    WindowLen { found: u32 },
    /// The stride is not between 1 and 65,536 samples.
    StrideLen { found: u32 },
    /// The number of mel bands is not between 2 and 128.
    MelBands { found: u32 },
    /// There are no coefficients, or more than mel bands.
    Coefficients { found: u32, mel_bands: u32 },
    /// The edges do not satisfy 0 <= lower < upper <= the frequency of the last FFT bin, or no FFT bin lies between
    /// them.
    Band { lower_hz: f32, upper_hz: f32 },
    /// The floor is not between 1e-37 and 1.
    LogFloor { found: f32 },
    /// The number of leading frames is not between 0 and 4,096.
    LeadFrames { found: u32 },
    /// An option bit is unknown to this version, or needs another bit.
    Options { found: u32 },
    /// The bins of the mel bands do not increase from the first bin to the last: the index among the `mel_bands` + 2
    /// edges, and the bin found there.
    MelEdge { edge: usize, found: u32 },
    /// The settings, or the tables to be written, do not belong to [`Method::Micro`].
    Micro,
    /// The settings, or the tables to be written, do not belong to [`Method::LogMel`].
    LogMel,
    /// No multiplier converts the features to this scale of the input.
    Scale { found: f32 },
    /// A table value is not between its limits (in f32 -1 and 1), or the scale is not positive. `offset` is in the section.
    TableValue { offset: usize },
}

impl FrontEndError {
    pub(crate) const fn text(&self) -> Text {
        let text = Text::NEW.text("front end: ");
        match *self {
            Self::NoFloats => text.text("a section in f32 ").text(NEEDS_FLOATS),
            Self::SectionLen { needed, given } => text.with("the section has {} bytes, but needs {}", &[given, needed]),
            Self::SampleRate { found } => {
                text.with("a sample rate of {} Hz; 1 to 192000 are supported", &[found as usize])
            }
            Self::FftLen { found } => {
                text.with("an FFT of {} points; 256, 512, 1024, 2048 are supported", &[found as usize])
            }
            Self::WindowLen { found } => {
                text.with("a window of {} samples; 2 to 65536 are supported", &[found as usize])
            }
            Self::StrideLen { found } => {
                text.with("a stride of {} samples; 1 to 65536 are supported", &[found as usize])
            }
            Self::MelBands { found } => text.with("{} mel bands; 2 to 128 are supported", &[found as usize]),
            Self::Coefficients { found, mel_bands } => {
                text.with("{} coefficients from {} mel bands", &[found as usize, mel_bands as usize])
            }
            Self::Band { lower_hz, upper_hz } => {
                text.text("mel bands from ").float(lower_hz).text(" to ").float(upper_hz).text(" Hz")
            }
            Self::LogFloor { found } => {
                text.text("a floor of ").float(found).text(" under the logarithm; 1e-37 to 1 are supported")
            }
            Self::LeadFrames { found } => {
                text.with("{} leading frames of zeros; 0 to 4096 are supported", &[found as usize])
            }
            Self::Options { found } => text.text("the options 0x").hex(found).text(" are not known"),
            Self::MelEdge { edge, found } => {
                text.with("mel edge {} is at bin {}, out of order", &[edge, found as usize])
            }
            Self::Micro => text.text(
                "the method micro takes a Hann window no longer than the FFT, magnitudes, exact corners, as many \
                 features as mel bands, bins_per_rate = fft_len and log_floor = 1",
            ),
            Self::LogMel => text.text(
                "the method log_mel takes powers, no energy, as many features as mel bands, an emphasis from 0 to 1, and at \
                 least 20 dB between the lowest and the highest",
            ),
            Self::Scale { found } => {
                text.text("no multiplier converts the features to the scale ").float(found).text(" of the input")
            }
            Self::TableValue { offset } => text.with("the table value at byte {} is out of range", &[offset]),
        }
    }
}

error_of_text!(FrontEndError);

impl MfccSettings {
    /// Checks that every setting is within its limits.
    ///
    /// # Errors
    /// Names the first setting out of range.
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
        // Exact corners may reach half the sample rate, in the middle of the last bin; corners on whole bins, the end
        // of the last bin.
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
        if self.method.is_micro() && !self.fits_micro() {
            return Err(FrontEndError::Micro);
        }
        match self.method {
            Method::LogMel(log_mel) if !self.fits(&log_mel) => Err(FrontEndError::LogMel),
            _ => Ok(()),
        }
    }

    /// As [`check`](Self::check), for tables of MFCCs and of logarithms.
    pub(super) const fn check_mfcc(&self) -> Result<(), FrontEndError> {
        if self.method.is_micro() { Err(FrontEndError::Micro) } else { self.check() }
    }

    /// Whether the settings that [`Method::Micro`] prescribes have the prescribed values.
    const fn fits_micro(&self) -> bool {
        matches!(
            (self.window, self.spectrum, self.corners, self.first),
            (Window::Hann, Spectrum::Magnitude, MelCorners::Exact, First::Cepstrum)
        ) && self.window_len <= self.fft_len
            && self.bins_per_rate == self.fft_len
            && self.coefficients == self.mel_bands
            && self.log_floor == 1.0
    }

    /// Whether the settings fit those of [`Method::LogMel`].
    const fn fits(&self, log_mel: &LogMel) -> bool {
        let &LogMel { emphasis, lowest_db, highest_db } = log_mel;
        let in_order = -300.0 <= lowest_db && lowest_db + 20.0 <= highest_db && highest_db <= 300.0;
        matches!((self.spectrum, self.first), (Spectrum::Power, First::Cepstrum))
            && self.coefficients == self.mel_bands
            && 0.0 <= emphasis
            && emphasis <= 1.0
            && in_order
    }

    /// Number of samples of a frame that enter the FFT.
    pub(super) const fn heard_len(&self) -> usize {
        // `Ord::min` is not const.
        (if self.window_len < self.fft_len { self.window_len } else { self.fft_len }) as usize
    }

    /// Words of the FFT, and of the mel bands or their noise estimates. A word of [`Method::Micro`] holds two samples.
    const fn work_words(&self) -> u32 {
        self.mel_bands + if self.method.is_micro() { self.fft_len / 2 } else { self.fft_len }
    }

    /// Words of memory for the samples of a frame (two per word), the FFT, the mel bands and the features.
    pub(super) const fn memory_words(&self) -> usize {
        (self.window_len.div_ceil(2) + self.work_words() + self.coefficients) as usize
    }

    /// Splits a stream's memory into its parts.
    pub(super) fn split<'b>(&self, memory: &'b mut [u32]) -> Result<Memory<'b>, BufferTooSmall> {
        let too_small = BufferTooSmall { needed: self.memory_words(), given: memory.len() };
        let window_len = self.window_len as usize;
        let (samples, rest) = memory.split_at_mut_checked(window_len.div_ceil(2)).ok_or(too_small)?;
        let (work, rest) = rest.split_at_mut_checked(self.work_words() as usize).ok_or(too_small)?;
        let features = rest.get_mut(..self.coefficients as usize).ok_or(too_small)?;
        let samples = bytemuck::must_cast_slice_mut(samples).get_mut(..window_len).ok_or(too_small)?;
        Ok((samples, work, features))
    }

    /// Position of a frequency in FFT bins, as the mel bands count them.
    pub(super) const fn bins_at(&self, hz: f64) -> f64 {
        hz * self.bins_per_rate as f64 / self.sample_rate as f64
    }

    /// The FFT bins that the mel bands use, at most 0 to `fft_len` / 2. With exact corners these are `start_index_` to
    /// `end_index_` of TensorFlow's `MfccMelFilterbank`, which never include bin 0.
    pub(super) const fn bins(&self) -> Range<usize> {
        let (lower, upper) = (self.bins_at(self.lower_hz as f64), self.bins_at(self.upper_hz as f64));
        match self.corners {
            MelCorners::Exact => (1.5 + lower) as usize..(upper as usize).saturating_add(1),
            MelCorners::WholeBins => lower as usize..upper as usize,
        }
    }

    /// Number of coefficients computed by the DCT: the last features.
    pub(super) const fn dct_rows(&self) -> u32 {
        match (self.method, self.first) {
            (Method::LogMel(_), _) => 0,
            (_, First::Cepstrum) => self.coefficients,
            (_, First::LogEnergy) => self.coefficients - 1,
        }
    }
}
