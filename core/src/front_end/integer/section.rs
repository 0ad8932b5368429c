//! The integer tables of a front end, in the same section.

use crate::front_end::section::{Halves, Table, check_edges, tables_at};
use crate::front_end::settings::{FrontEndError, Method, MfccSettings, Window};
use crate::image::read::u32_at;

/// Indices of the 32-bit words after the settings. The tables follow, little-endian, in the order of [`Layout`].
pub(in crate::front_end) mod more {
    pub const SCALE: usize = 0;
    pub const LOG_FLOOR: usize = 1;
    pub const ENERGY: usize = 2;
    pub const WORDS: usize = 3;
    /// The words of [`Method::LogMel`](crate::front_end::Method::LogMel).
    pub const EMPHASIS: usize = 3;
    pub const GAIN: usize = 4;
    pub const OFFSET: usize = 5;
    pub const MIDDLE: usize = 6;
    pub const MOST: usize = 7;
    pub const LOG_MEL_WORDS: usize = 8;
}

/// Values in each table, in the order of the section.
#[derive(Clone, Copy)]
pub(in crate::front_end) struct Layout {
    /// Byte offset of the words after the settings.
    pub words_at: usize,
    /// Number of these words.
    pub words: usize,
    /// u32: sin(2π k / fft_len) · 2^31, at most 2^31 - 1.
    pub sines: usize,
    /// u32, as in f32.
    pub edges: usize,
    /// i32 [dct_rows × mel_bands]: the DCT-II over the scale, · 2^18.
    pub dct: usize,
    /// u16, for every sample of the frame that is used: the window · 2^16, where 1.0 is 2^16 - 1. A rectangular window
    /// has one value.
    pub window: usize,
    /// u16, as in f32, · 2^15.
    pub weights: usize,
}

impl Layout {
    /// The layout for settings that have passed [`MfccSettings::check`].
    pub const fn of(settings: &MfccSettings) -> Self {
        let bins = settings.bins();
        Self {
            words_at: tables_at(settings),
            words: match settings.method {
                Method::LogMel(_) => more::LOG_MEL_WORDS,
                Method::Mfcc | Method::Micro | Method::MicroWithoutGain => more::WORDS,
            },
            sines: settings.fft_len as usize / 4 + 1,
            edges: settings.mel_bands as usize + 2,
            dct: (settings.dct_rows() * settings.mel_bands) as usize,
            window: match settings.window {
                Window::Rectangular => 1,
                Window::Hann | Window::Hamming => settings.heard_len(),
            },
            weights: bins.end - bins.start,
        }
    }

    /// Byte offset of the tables.
    pub const fn start(self) -> usize {
        self.words_at + 4 * self.words
    }

    pub const fn section_len(self) -> usize {
        self.start() + 4 * (self.sines + self.edges + self.dct) + 2 * (self.window + self.weights)
    }
}

/// 1.0 in weights.
pub(super) const ONE: u16 = 1 << 15;

/// The tables, all checked.
#[derive(Clone, Copy, Debug)]
pub(in crate::front_end) struct Tables<'a> {
    /// The scale as the bits of an f32, because this module computes nothing in floats.
    pub scale_bits: u32,
    /// ln of the floor, with [`LN_BITS`](super::log::LN_BITS) fraction bits.
    pub log_floor: i32,
    /// 1 / scale, · 2^18.
    pub energy: i32,
    pub log_mel: LogMelWords,
    pub sines: Table<'a>,
    pub edges: Table<'a>,
    pub dct: Table<'a>,
    pub window: Halves<'a>,
    pub weights: Halves<'a>,
}

/// The words of [`Method::LogMel`]; zeros for another method.
#[derive(Clone, Copy, Debug)]
pub(in crate::front_end) struct LogMelWords {
    /// Pre-emphasis with [`EMPHASIS_BITS`] fraction bits.
    pub emphasis: u32,
    /// Units of the feature per unit of the logarithm, · 2^18.
    pub gain: i32,
    /// The feature at a logarithm of 0, with [`GUARD_BITS`](super::GUARD_BITS) fraction bits.
    pub offset: i32,
    /// The feature toward which the others are rounded; the least i32 rounds all of them down.
    pub middle: i32,
    /// The greatest feature.
    pub most: i32,
}

/// Fraction bits of the pre-emphasis.
pub(super) const EMPHASIS_BITS: u32 = 14;

impl<'a> Tables<'a> {
    /// Reads and checks the tables of a payload whose settings are within their limits.
    pub const fn parse(payload: &'a [u8], settings: &MfccSettings) -> Result<Self, FrontEndError> {
        let layout = Layout::of(settings);
        let wrong_len = Err(FrontEndError::SectionLen { needed: layout.section_len(), given: payload.len() });
        let (Some(scale), Some(log_floor), Some(energy), Some((_, rest))) = (
            word(payload, &layout, more::SCALE),
            word(payload, &layout, more::LOG_FLOOR),
            word(payload, &layout, more::ENERGY),
            payload.split_at_checked(layout.start()),
        ) else {
            return wrong_len;
        };
        let scale = f32::from_bits(scale);
        if payload.len() != layout.section_len() {
            return wrong_len;
        }
        let Some((words, halves)) = rest.split_at_checked(4 * (layout.sines + layout.edges + layout.dct)) else {
            return wrong_len;
        };
        let ((words, _), (halves, _)) = (words.as_chunks(), halves.as_chunks());
        let Some((sines, words)) = words.split_at_checked(layout.sines) else { return wrong_len };
        let Some((edges, dct)) = words.split_at_checked(layout.edges) else { return wrong_len };
        let Some((window, weights)) = halves.split_at_checked(layout.window) else { return wrong_len };

        if !(0.0 < scale && scale < f32::INFINITY) {
            return Err(FrontEndError::TableValue { offset: layout.words_at });
        }
        let log_mel = ok!(log_mel(payload, &layout));
        ok!(check_sines(sines, layout.start()));
        ok!(check_edges(edges, settings));
        ok!(check_shares(weights, payload.len() - 2 * weights.len()));
        let (log_floor, energy) = (log_floor.cast_signed(), energy.cast_signed());
        Ok(Self { scale_bits: scale.to_bits(), log_floor, energy, log_mel, sines, edges, dct, window, weights })
    }
}

/// Word `index` after the settings; `None` if the payload or the method does not have it.
const fn word(payload: &[u8], layout: &Layout, index: usize) -> Option<u32> {
    if index >= layout.words {
        return None;
    }
    let at = layout.words_at + 4 * index;
    u32_at(payload, at..at + 4)
}

/// Reads and checks the words of [`Method::LogMel`].
const fn log_mel(payload: &[u8], layout: &Layout) -> Result<LogMelWords, FrontEndError> {
    let (Some(emphasis), Some(gain), Some(offset), Some(middle), Some(most)) = (
        word(payload, layout, more::EMPHASIS),
        word(payload, layout, more::GAIN),
        word(payload, layout, more::OFFSET),
        word(payload, layout, more::MIDDLE),
        word(payload, layout, more::MOST),
    ) else {
        return Ok(LogMelWords { emphasis: 0, gain: 0, offset: 0, middle: 0, most: 0 });
    };
    if emphasis > 1 << EMPHASIS_BITS {
        return Err(FrontEndError::TableValue { offset: layout.words_at + 4 * more::EMPHASIS });
    }
    if most > i16::MAX as u32 {
        return Err(FrontEndError::TableValue { offset: layout.words_at + 4 * more::MOST });
    }
    let (gain, offset, middle) = (gain.cast_signed(), offset.cast_signed(), middle.cast_signed());
    Ok(LogMelWords { emphasis, gain, offset, middle, most: most.cast_signed() })
}

/// Checks that every value is below 2^31.
const fn check_sines(mut table: Table<'_>, mut offset: usize) -> Result<(), FrontEndError> {
    while let [value, rest @ ..] = table {
        if u32::from_le_bytes(*value) > i32::MAX as u32 {
            return Err(FrontEndError::TableValue { offset });
        }
        table = rest;
        offset += 4;
    }
    Ok(())
}

/// Checks that every value is at most 1.0.
const fn check_shares(mut table: Halves<'_>, mut offset: usize) -> Result<(), FrontEndError> {
    while let [value, rest @ ..] = table {
        if u16::from_le_bytes(*value) > ONE {
            return Err(FrontEndError::TableValue { offset });
        }
        table = rest;
        offset += 2;
    }
    Ok(())
}
