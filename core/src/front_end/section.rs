//! The bytes of the front end's image section: the settings, and the tables in f32, read in place.

use super::settings::{First, FrontEndError, LogMel, MelCorners, Method, MfccSettings, Spectrum, Window};
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
    /// With [`LOG_MEL`](super::option::LOG_MEL), three more settings precede the tables.
    pub const EMPHASIS: Range<usize> = 48..52;
    pub const LOWEST_DB: Range<usize> = 52..56;
    pub const HIGHEST_DB: Range<usize> = 56..60;
    pub const LOG_MEL_TABLES: usize = 60;
}

/// Bits of the options.
pub(super) mod option {
    pub const RECTANGULAR: u32 = 1;
    pub const POWER: u32 = 1 << 1;
    pub const WHOLE_BINS: u32 = 1 << 2;
    pub const LOG_ENERGY: u32 = 1 << 3;
    /// The tables contain integers.
    pub const INTEGER: u32 = 1 << 4;
    /// [`Method::LogMel`](super::Method::LogMel)
    pub const LOG_MEL: u32 = 1 << 5;
    /// The features and tables of [`Method::Micro`](super::Method::Micro).
    pub const MICRO: u32 = 1 << 6;
    pub const HAMMING: u32 = 1 << 7;
    /// [`Method::MicroWithoutGain`](super::Method::MicroWithoutGain). Bit 8 is reserved.
    pub const NO_GAIN: u32 = 1 << 9;
    pub const ALL: u32 = RECTANGULAR | POWER | WHOLE_BINS | LOG_ENERGY | INTEGER | LOG_MEL | MICRO | HAMMING | NO_GAIN;
}

/// Values in each table of floats, in the order of the section.
#[derive(Clone, Copy)]
pub(super) struct Layout {
    /// Byte offset of the tables.
    pub start: usize,
    /// f32, for every sample of the frame that is used: the window over 32768, which turns i16 samples into fractions;
    /// for [`Power`](Spectrum::Power) also over the root of `fft_len`. A rectangular window has one value.
    pub window: usize,
    /// u32, bins: band `b` rises over `edge[b]..edge[b + 1]` and falls over `edge[b + 1]..edge[b + 2]`.
    pub edges: usize,
    /// f32, for every bin from `edge[0]` on: its share in the band that falls there. The rest of it belongs to the next
    /// band.
    pub weights: usize,
    /// f32 [dct_rows × mel_bands]: the last rows of the DCT-II, scaled by sqrt(2 / mel_bands).
    pub dct: usize,
}

impl Layout {
    /// The layout for settings that have passed [`MfccSettings::check`].
    pub const fn of(settings: &MfccSettings) -> Self {
        let bins = settings.bins();
        Self {
            start: tables_at(settings),
            window: match settings.window {
                Window::Rectangular => 1,
                Window::Hann | Window::Hamming => settings.heard_len(),
            },
            edges: settings.mel_bands as usize + 2,
            weights: bins.end - bins.start,
            dct: (settings.dct_rows() * settings.mel_bands) as usize,
        }
    }

    pub const fn section_len(self) -> usize {
        self.start + 4 * (self.window + self.edges + self.weights + self.dct)
    }
}

/// Byte offset of the tables, which follow the settings.
pub(super) const fn tables_at(settings: &MfccSettings) -> usize {
    match settings.method {
        Method::LogMel(_) => field::LOG_MEL_TABLES,
        Method::Mfcc | Method::Micro | Method::MicroWithoutGain => field::TABLES,
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
            (matches!(self.method, Method::LogMel(_)), option::LOG_MEL),
            (self.window == Window::Hamming, option::HAMMING),
            (self.method.is_micro(), option::INTEGER | option::MICRO),
            (self.method == Method::MicroWithoutGain, option::NO_GAIN),
        ];
        bits.into_iter().map(|(set, bit)| u32::from(set) * bit).sum()
    }

    /// Bytes of the section that holds these settings and their tables.
    ///
    /// # Errors
    /// If a setting is out of range, or the method has no tables in f32.
    pub const fn section_len(&self) -> Result<usize, FrontEndError> {
        ok!(self.check_mfcc());
        Ok(Layout::of(self).section_len())
    }
}

/// A table in flash: little-endian 32-bit words. They are read as bytes, so the table needs no alignment. The section
/// aligns every value to 4 bytes, so that cores without unaligned loads can read whole words.
pub(super) type Table<'a> = &'a [[u8; 4]];

/// A table of 16-bit values.
pub(super) type Halves<'a> = &'a [[u8; 2]];

/// The tables in f32, all checked.
#[derive(Clone, Copy, Debug)]
pub(super) struct FloatTables<'a> {
    pub window: Table<'a>,
    pub edges: Table<'a>,
    pub weights: Table<'a>,
    pub dct: Table<'a>,
}

impl<'a> FloatTables<'a> {
    pub const fn parse(payload: &'a [u8], settings: &MfccSettings) -> Result<Self, FrontEndError> {
        let layout = Layout::of(settings);
        let wrong_len = Err(FrontEndError::SectionLen { needed: layout.section_len(), given: payload.len() });
        let Some((_, rest)) = payload.split_at_checked(layout.start) else { return wrong_len };
        let (words, odd) = rest.as_chunks();
        let Some((window, words)) = words.split_at_checked(layout.window) else { return wrong_len };
        let Some((edges, words)) = words.split_at_checked(layout.edges) else { return wrong_len };
        let Some((weights, words)) = words.split_at_checked(layout.weights) else { return wrong_len };
        let Some((dct, words)) = words.split_at_checked(layout.dct) else { return wrong_len };
        if !words.is_empty() || !odd.is_empty() {
            return wrong_len;
        }

        let edges_at = layout.start + 4 * layout.window;
        let weights_at = edges_at + 4 * layout.edges;
        ok!(check_values(window, layout.start));
        ok!(check_edges(edges, settings));
        ok!(check_values(weights, weights_at));
        ok!(check_values(dct, weights_at + 4 * layout.weights));
        Ok(Self { window, edges, weights, dct })
    }
}

/// The settings, and whether the tables contain integers.
pub(super) const fn read_settings(payload: &[u8]) -> Option<Result<(MfccSettings, bool), FrontEndError>> {
    let options = some!(u32_at(payload, field::OPTIONS));
    const GAINLESS: u32 = option::MICRO | option::NO_GAIN;
    let method = match options & (option::LOG_MEL | GAINLESS) {
        0 => Some(Method::Mfcc),
        option::LOG_MEL => Some(Method::LogMel(LogMel {
            emphasis: some!(f32_at(payload, field::EMPHASIS)),
            lowest_db: some!(f32_at(payload, field::LOWEST_DB)),
            highest_db: some!(f32_at(payload, field::HIGHEST_DB)),
        })),
        option::MICRO => Some(Method::Micro),
        GAINLESS => Some(Method::MicroWithoutGain),
        _ => None,
    };
    let window = match options & (option::RECTANGULAR | option::HAMMING) {
        0 => Some(Window::Hann),
        option::RECTANGULAR => Some(Window::Rectangular),
        option::HAMMING => Some(Window::Hamming),
        _ => None,
    };
    let integer = options & option::INTEGER != 0;
    let (method, window) = match (method, window) {
        (Some(method), Some(window)) if options & !option::ALL == 0 && (integer || !method.is_micro()) => {
            (method, window)
        }
        _ => return Some(Err(FrontEndError::Options { found: options })),
    };
    let settings = MfccSettings {
        method,
        sample_rate: some!(u32_at(payload, field::SAMPLE_RATE)),
        window_len: some!(u32_at(payload, field::WINDOW_LEN)),
        stride_len: some!(u32_at(payload, field::STRIDE_LEN)),
        window,
        fft_len: some!(u32_at(payload, field::FFT_LEN)),
        spectrum: if options & option::POWER == 0 { Spectrum::Magnitude } else { Spectrum::Power },
        mel_bands: some!(u32_at(payload, field::MEL_BANDS)),
        coefficients: some!(u32_at(payload, field::COEFFICIENTS)),
        lower_hz: some!(f32_at(payload, field::LOWER_HZ)),
        upper_hz: some!(f32_at(payload, field::UPPER_HZ)),
        bins_per_rate: some!(u32_at(payload, field::BINS_PER_RATE)),
        corners: if options & option::WHOLE_BINS == 0 { MelCorners::Exact } else { MelCorners::WholeBins },
        log_floor: some!(f32_at(payload, field::LOG_FLOOR)),
        first: if options & option::LOG_ENERGY == 0 { First::Cepstrum } else { First::LogEnergy },
        lead_frames: some!(u32_at(payload, field::LEAD_FRAMES)),
    };
    Some(Ok((settings, integer)))
}

/// Checks that every value is within -1 to 1, which excludes NaN. The features are then finite for any sound.
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

/// Checks that the edges start at the first bin, end one past the last, and never decrease.
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
