//! The image section of the front end, read in place.

use super::frames::Frame;
use super::integer::{self, IntegerMfcc};
use super::settings::{First, FrontEndError, MelCorners, MfccSettings, Spectrum, Window};
use super::stream;
use crate::image::read::{f32_at, u32_at};

/// Byte offsets of the settings. The tables follow, every value 4 bytes, little-endian, in the order of [`Layout`].
pub(super) mod field {
    use core::ops::Range;

    pub const SAMPLE_RATE: Range<usize> = 0..4;
    pub const WINDOW_LEN: Range<usize> = 4..8;
    pub const STRIDE_LEN: Range<usize> = 8..12;
    pub const FFT_LEN: Range<usize> = 12..16;
    pub const MEL_BANDS: Range<usize> = 16..20;
    pub const COEFFICIENTS: Range<usize> = 20..24;
    pub const LOWER_HZ: Range<usize> = 24..28;
    pub const UPPER_HZ: Range<usize> = 28..32;
    pub const LOG_FLOOR: Range<usize> = 32..36;
    pub const BINS_PER_RATE: Range<usize> = 36..40;
    pub const LEAD_FRAMES: Range<usize> = 40..44;
    pub const OPTIONS: Range<usize> = 44..48;
    pub const TABLES: usize = 48;
}

/// Bits of the options.
pub(super) mod option {
    pub const RECTANGULAR: u32 = 1;
    pub const POWER: u32 = 1 << 1;
    pub const WHOLE_BINS: u32 = 1 << 2;
    pub const LOG_ENERGY: u32 = 1 << 3;
    /// The tables are those of integers.
    pub const INTEGER: u32 = 1 << 4;
    pub const ALL: u32 = RECTANGULAR | POWER | WHOLE_BINS | LOG_ENERGY | INTEGER;
}

/// Values in each table of floats, in the order of the section.
#[derive(Clone, Copy)]
pub(super) struct Layout {
    /// f32, for every sample of the frame that is heard: the window over 32768, so that samples of i16 become fractions,
    /// and for [`Power`](Spectrum::Power) over the root of `fft_len`. A rectangular window has one value.
    pub window: usize,
    /// u32, bins: band `b` falls over the bins `edge[b + 1]..edge[b + 2]` and rises over `edge[b]..edge[b + 1]`.
    pub edges: usize,
    /// f32, for every bin from `edge[0]` on: its share in the band that falls there; the rest is the next band's.
    pub weights: usize,
    /// f32 [dct_rows × mel_bands]: the last rows of the DCT-II, scaled by sqrt(2 / mel_bands).
    pub dct: usize,
}

impl Layout {
    /// Of settings that have passed [`MfccSettings::check`].
    pub const fn of(settings: &MfccSettings) -> Self {
        let bins = settings.bins();
        Self {
            window: match settings.window {
                Window::Rectangular => 1,
                Window::Hann => settings.heard_len(),
            },
            edges: settings.mel_bands as usize + 2,
            weights: bins.end - bins.start,
            dct: (settings.dct_rows() * settings.mel_bands) as usize,
        }
    }

    pub const fn section_len(self) -> usize {
        field::TABLES + 4 * (self.window + self.edges + self.weights + self.dct)
    }
}

impl MfccSettings {
    /// The bits of the options.
    #[cfg(feature = "libm")]
    pub(super) fn options(&self) -> u32 {
        let bits = [
            (self.window == Window::Rectangular, option::RECTANGULAR),
            (self.spectrum == Spectrum::Power, option::POWER),
            (self.corners == MelCorners::WholeBins, option::WHOLE_BINS),
            (self.first == First::LogEnergy, option::LOG_ENERGY),
        ];
        bits.into_iter().map(|(set, bit)| u32::from(set) * bit).sum()
    }

    /// Bytes of the section that holds these settings and their tables.
    ///
    /// # Errors
    /// If a setting is not within its limits.
    pub const fn section_len(&self) -> Result<usize, FrontEndError> {
        match self.check() {
            Ok(()) => Ok(Layout::of(self).section_len()),
            Err(error) => Err(error),
        }
    }
}

/// A table in flash: 32-bit words, little-endian. Read bytewise in the source, so no alignment can be wrong;
/// the section aligns every value to 4 bytes, so that a core without unaligned loads may be given one.
pub(super) type Table<'a> = &'a [[u8; 4]];

/// The tables in f32, all checked.
#[derive(Clone, Copy, Debug)]
pub(super) struct FloatTables<'a> {
    pub window: Table<'a>,
    pub edges: Table<'a>,
    pub weights: Table<'a>,
    pub dct: Table<'a>,
}

/// What the numbers are.
#[derive(Clone, Copy, Debug)]
pub(super) enum Tables<'a> {
    Float(FloatTables<'a>),
    Integer(integer::Tables<'a>),
}

/// The f32 features of a frame: `hear(mfcc, frame, work, features)`.
pub(super) type Hear = fn(&Mfcc<'_>, Frame<'_>, &mut [u32], &mut [f32]);

/// A front end: the settings and tables of an image section, all checked.
#[derive(Clone, Copy, Debug)]
pub struct Mfcc<'a> {
    settings: MfccSettings,
    pub(super) tables: Tables<'a>,
    /// A front end names the one that it needs, so that a firmware whose image is a constant does not contain the other.
    pub(super) hear: Hear,
}

impl<'a> Mfcc<'a> {
    /// The front end in a section's payload; borrows the tables.
    ///
    /// # Errors
    /// If the payload's length is not [`MfccSettings::section_len`], or
    /// [`integer_section_len`](MfccSettings::integer_section_len), a setting is not within its limits, or a table could lead
    /// to a feature that is not finite.
    pub const fn parse(payload: &'a [u8]) -> Result<Self, FrontEndError> {
        let (settings, integer) = match read_settings(payload) {
            Some(Ok(read)) => read,
            Some(Err(error)) => return Err(error),
            None => return Err(FrontEndError::SectionLen { needed: field::TABLES, given: payload.len() }),
        };
        if let Err(error) = settings.check() {
            return Err(error);
        }
        if integer {
            return match integer::Tables::parse(payload, &settings) {
                Ok(tables) => Ok(Self { settings, tables: Tables::Integer(tables), hear: stream::hear_integer }),
                Err(error) => Err(error),
            };
        }
        match FloatTables::parse(payload, &settings) {
            Ok(tables) => Ok(Self { settings, tables: Tables::Float(tables), hear: stream::hear_float }),
            Err(error) => Err(error),
        }
    }

    /// What the section says that it computes.
    pub const fn settings(&self) -> &MfccSettings {
        &self.settings
    }

    /// The front end of an [`IntegerFrontEnd`](super::IntegerFrontEnd); none if the section has tables of f32.
    pub const fn integer(&self) -> Option<IntegerMfcc<'a>> {
        match self.tables {
            Tables::Integer(tables) => Some(IntegerMfcc { settings: self.settings, tables }),
            Tables::Float(_) => None,
        }
    }

    /// What a unit of a feature in integers is worth; none if the section has tables of f32.
    pub const fn scale(&self) -> Option<f32> {
        match self.tables {
            Tables::Integer(tables) => Some(f32::from_bits(tables.scale_bits)),
            Tables::Float(_) => None,
        }
    }

    /// Words of memory that a [`FrontEnd`](super::FrontEnd) needs: the samples of a frame (two in a word), the FFT, the mel
    /// bands and the features.
    pub const fn memory_words(&self) -> usize {
        self.settings.memory_words()
    }
}

impl<'a> FloatTables<'a> {
    const fn parse(payload: &'a [u8], settings: &MfccSettings) -> Result<Self, FrontEndError> {
        let layout = Layout::of(settings);
        let wrong_len = Err(FrontEndError::SectionLen { needed: layout.section_len(), given: payload.len() });
        let Some((_, rest)) = payload.split_at_checked(field::TABLES) else { return wrong_len };
        let (words, odd) = rest.as_chunks();
        let Some((window, words)) = words.split_at_checked(layout.window) else { return wrong_len };
        let Some((edges, words)) = words.split_at_checked(layout.edges) else { return wrong_len };
        let Some((weights, words)) = words.split_at_checked(layout.weights) else { return wrong_len };
        let Some((dct, words)) = words.split_at_checked(layout.dct) else { return wrong_len };
        if !words.is_empty() || !odd.is_empty() {
            return wrong_len;
        }

        let edges_at = field::TABLES + 4 * layout.window;
        let weights_at = edges_at + 4 * layout.edges;
        if let Err(error) = check_values(window, field::TABLES) {
            return Err(error);
        }
        if let Err(error) = check_edges(edges, settings) {
            return Err(error);
        }
        if let Err(error) = check_values(weights, weights_at) {
            return Err(error);
        }
        if let Err(error) = check_values(dct, weights_at + 4 * layout.weights) {
            return Err(error);
        }
        Ok(Self { window, edges, weights, dct })
    }
}

/// The settings, and whether the tables are in integers.
const fn read_settings(payload: &[u8]) -> Option<Result<(MfccSettings, bool), FrontEndError>> {
    let Some(sample_rate) = u32_at(payload, field::SAMPLE_RATE) else { return None };
    let Some(window_len) = u32_at(payload, field::WINDOW_LEN) else { return None };
    let Some(stride_len) = u32_at(payload, field::STRIDE_LEN) else { return None };
    let Some(fft_len) = u32_at(payload, field::FFT_LEN) else { return None };
    let Some(mel_bands) = u32_at(payload, field::MEL_BANDS) else { return None };
    let Some(coefficients) = u32_at(payload, field::COEFFICIENTS) else { return None };
    let Some(lower_hz) = f32_at(payload, field::LOWER_HZ) else { return None };
    let Some(upper_hz) = f32_at(payload, field::UPPER_HZ) else { return None };
    let Some(log_floor) = f32_at(payload, field::LOG_FLOOR) else { return None };
    let Some(bins_per_rate) = u32_at(payload, field::BINS_PER_RATE) else { return None };
    let Some(lead_frames) = u32_at(payload, field::LEAD_FRAMES) else { return None };
    let Some(options) = u32_at(payload, field::OPTIONS) else { return None };
    if options & !option::ALL != 0 {
        return Some(Err(FrontEndError::Options { found: options }));
    }
    let window = if options & option::RECTANGULAR == 0 { Window::Hann } else { Window::Rectangular };
    let spectrum = if options & option::POWER == 0 { Spectrum::Magnitude } else { Spectrum::Power };
    let corners = if options & option::WHOLE_BINS == 0 { MelCorners::Exact } else { MelCorners::WholeBins };
    let first = if options & option::LOG_ENERGY == 0 { First::Cepstrum } else { First::LogEnergy };
    let settings = MfccSettings {
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
        bins_per_rate,
        corners,
        log_floor,
        first,
        lead_frames,
    };
    Some(Ok((settings, options & option::INTEGER != 0)))
}

/// Every value within -1 to 1, which no NaN is: the features are then finite for any sound.
const fn check_values(mut table: Table<'_>, mut offset: usize) -> Result<(), FrontEndError> {
    while let [value, rest @ ..] = table {
        let value = f32::from_le_bytes(*value);
        if !(-1.0 <= value && value <= 1.0) {
            return Err(FrontEndError::TableValue { offset });
        }
        table = rest;
        offset += 4;
    }
    Ok(())
}

/// From the first bin to one past the last, never backwards.
pub(super) const fn check_edges(mut edges: Table<'_>, settings: &MfccSettings) -> Result<(), FrontEndError> {
    let bins = settings.bins();
    let (mut edge, mut previous) = (0, bins.start);
    while let [bytes, rest @ ..] = edges {
        let found = u32::from_le_bytes(*bytes);
        let least = if rest.is_empty() { bins.end } else { previous };
        let most = if edge == 0 { bins.start } else { bins.end };
        if (found as usize) < least || found as usize > most {
            return Err(FrontEndError::MelEdge { edge, found });
        }
        (edge, previous, edges) = (edge + 1, found as usize, rest);
    }
    Ok(())
}
