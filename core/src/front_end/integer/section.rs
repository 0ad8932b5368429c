//! The integer tables of a front end, in the same section.

use crate::front_end::section::{Halves, Table, check_edges, field};
use crate::front_end::settings::{FrontEndError, MfccSettings, Window};
use crate::image::read::{f32_at, u32_at};

/// Byte offsets after the settings. The tables follow, little-endian, in the order of [`Layout`].
pub(in crate::front_end) mod more {
    use core::ops::Range;

    pub const SCALE: Range<usize> = 48..52;
    pub const LOG_FLOOR: Range<usize> = 52..56;
    pub const ENERGY: Range<usize> = 56..60;
    pub const TABLES: usize = 60;
}

/// Values in each table, in the order of the section.
#[derive(Clone, Copy)]
pub(in crate::front_end) struct Layout {
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
            sines: settings.fft_len as usize / 4 + 1,
            edges: settings.mel_bands as usize + 2,
            dct: (settings.dct_rows() * settings.mel_bands) as usize,
            window: match settings.window {
                Window::Rectangular => 1,
                Window::Hann => settings.heard_len(),
            },
            weights: bins.end - bins.start,
        }
    }

    pub const fn section_len(self) -> usize {
        more::TABLES + 4 * (self.sines + self.edges + self.dct) + 2 * (self.window + self.weights)
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
    pub sines: Table<'a>,
    pub edges: Table<'a>,
    pub dct: Table<'a>,
    pub window: Halves<'a>,
    pub weights: Halves<'a>,
}

impl<'a> Tables<'a> {
    /// Reads and checks the tables of a payload whose settings are within their limits.
    pub const fn parse(payload: &'a [u8], settings: &MfccSettings) -> Result<Self, FrontEndError> {
        let layout = Layout::of(settings);
        let wrong_len = Err(FrontEndError::SectionLen { needed: layout.section_len(), given: payload.len() });
        let (Some(scale), Some(log_floor), Some(energy), Some((_, rest))) = (
            f32_at(payload, more::SCALE),
            u32_at(payload, more::LOG_FLOOR),
            u32_at(payload, more::ENERGY),
            payload.split_at_checked(more::TABLES),
        ) else {
            return wrong_len;
        };
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
            return Err(FrontEndError::TableValue { offset: more::SCALE.start });
        }
        ok!(check_sines(sines));
        ok!(check_edges(edges, settings));
        ok!(check_shares(weights, payload.len() - 2 * weights.len()));
        let (log_floor, energy) = (log_floor.cast_signed(), energy.cast_signed());
        Ok(Self { scale_bits: scale.to_bits(), log_floor, energy, sines, edges, dct, window, weights })
    }
}

/// Checks that every value is below 2^31.
const fn check_sines(mut table: Table<'_>) -> Result<(), FrontEndError> {
    let mut offset = more::TABLES;
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

const _: () = assert!(more::SCALE.start == field::TABLES);
