//! The settings and tables of TensorFlow Lite Micro's front end, in the same section.

use crate::front_end::section::{Halves, field};
use crate::front_end::settings::{FrontEndError, Method, MfccSettings};
use crate::image::read::{f32_at, slice, u16_at, u32_at};

/// Byte offsets after the settings. The tables follow: 16-bit values, little-endian, in the order of [`Tables`].
pub(super) mod more {
    use core::ops::Range;

    pub const SCALE: Range<usize> = 48..52;
    pub const MULTIPLIER: Range<usize> = 52..56;
    pub const ADDEND: Range<usize> = 56..60;
    pub const MOST: Range<usize> = 60..64;
    pub const SMOOTHING_EVEN: Range<usize> = 64..66;
    pub const SMOOTHING_ODD: Range<usize> = 66..68;
    pub const LEAST: Range<usize> = 68..70;
    pub const SMOOTHING_BITS: usize = 70;
    pub const SNR_SHIFT: usize = 71;
    pub const TABLES: usize = 72;
}

/// Values of the table of gains: those of 0 and 1, and three for each octave from 2 to 2^32.
pub(super) const GAINS: usize = 2 + 3 * 31;

/// Fraction bits of the smoothing factors and of the least share of the signal.
pub const SHARE_BITS: u32 = 14;
/// Fraction bits of the conversion to the input's scale.
pub const SCALE_BITS: u32 = 18;

/// The tables, all checked.
#[derive(Clone, Copy, Debug)]
pub struct Tables<'a> {
    /// The scale of the features as the bits of an f32, because this module computes nothing in floats.
    pub scale_bits: u32,
    /// Factor of a raw feature, · 2^[`SCALE_BITS`], and the term added to the product.
    pub multiplier: u32,
    pub addend: u32,
    /// Greatest integer feature.
    pub most: u32,
    /// Share of a new signal in the noise estimate of even and odd channels, · 2^14.
    pub smoothing: [u16; 2],
    /// Least share of the signal that the noise reduction keeps, · 2^14.
    pub least: u16,
    /// Fraction bits of the noise estimate.
    pub smoothing_bits: u8,
    /// Right shift of the product of signal and gain.
    pub snr_shift: u8,
    /// sin(2π k / fft_len) · 32767 for k = 0 to `fft_len` / 4.
    pub sines: Halves<'a>,
    /// Bins: channel `c` rises over `edge[c]..edge[c + 1]` and falls over `edge[c + 1]..edge[c + 2]`.
    pub edges: Halves<'a>,
    /// The window · 2^12, for every sample of the frame.
    pub window: Halves<'a>,
    /// [bins × 2]: the shares of a bin in the channel that falls there and in the next, · 2^12.
    pub weights: Halves<'a>,
    /// [`GAINS`] values, or none.
    pub gain: Halves<'a>,
}

/// 1.0 in the window and the weights.
pub(super) const ONE: u16 = 1 << 12;
/// One more than the greatest multiplier and addend.
pub(super) const FACTOR_END: u32 = 1 << 20;

/// Length of the section in bytes, for a number of bins.
pub(super) const fn section_len(settings: &MfccSettings, bins: usize) -> usize {
    let halves = settings.fft_len as usize / 4 + 1 + settings.mel_bands as usize + 2 + settings.window_len as usize;
    more::TABLES + 2 * (halves + 2 * bins + gains(settings))
}

const fn gains(settings: &MfccSettings) -> usize {
    match settings.method {
        Method::MicroWithoutGain => 0,
        Method::Mfcc | Method::LogMel(_) | Method::Micro => GAINS,
    }
}

impl<'a> Tables<'a> {
    /// Reads and checks the tables of a payload whose settings are within their limits.
    pub const fn parse(payload: &'a [u8], settings: &MfccSettings) -> Result<Self, FrontEndError> {
        let cut_off = Err(FrontEndError::SectionLen { needed: section_len(settings, 0), given: payload.len() });
        let (Some(scale), Some(multiplier), Some(addend), Some(most)) = (
            f32_at(payload, more::SCALE),
            u32_at(payload, more::MULTIPLIER),
            u32_at(payload, more::ADDEND),
            u32_at(payload, more::MOST),
        ) else {
            return cut_off;
        };
        let (Some(even), Some(odd), Some(least), Some(&[smoothing_bits, snr_shift])) = (
            u16_at(payload, more::SMOOTHING_EVEN),
            u16_at(payload, more::SMOOTHING_ODD),
            u16_at(payload, more::LEAST),
            pair(payload, more::SMOOTHING_BITS),
        ) else {
            return cut_off;
        };
        let Some((_, tables)) = payload.split_at_checked(more::TABLES) else { return cut_off };
        let (halves, odd_byte) = tables.as_chunks();
        let (sines_len, edges_len) = (settings.fft_len as usize / 4 + 1, settings.mel_bands as usize + 2);
        let Some((sines, halves)) = halves.split_at_checked(sines_len) else { return cut_off };
        let Some((edges, halves)) = halves.split_at_checked(edges_len) else { return cut_off };
        let Some((window, halves)) = halves.split_at_checked(settings.window_len as usize) else { return cut_off };
        let bins = ok!(check_edges(edges, settings.fft_len / 2));
        let needed = section_len(settings, bins);
        let wrong_len = Err(FrontEndError::SectionLen { needed, given: payload.len() });
        let Some((weights, gain)) = halves.split_at_checked(2 * bins) else { return wrong_len };
        if gain.len() != gains(settings) || !odd_byte.is_empty() {
            return wrong_len;
        }

        let window_at = more::TABLES + 2 * (sines_len + edges_len);
        ok!(check_most(sines, i16::MAX as u16, more::TABLES));
        ok!(check_most(window, ONE, window_at));
        ok!(check_most(weights, ONE, window_at + 2 * window.len()));
        let one = 1 << SHARE_BITS;
        let limits = [
            (0.0 < scale && scale < f32::INFINITY, more::SCALE.start),
            (multiplier < FACTOR_END, more::MULTIPLIER.start),
            (addend < FACTOR_END, more::ADDEND.start),
            (most <= i16::MAX as u32, more::MOST.start),
            (even <= one, more::SMOOTHING_EVEN.start),
            (odd <= one, more::SMOOTHING_ODD.start),
            (least <= one, more::LEAST.start),
            (smoothing_bits <= 15, more::SMOOTHING_BITS),
            (snr_shift <= 31, more::SNR_SHIFT),
        ];
        let mut limits: &[(bool, usize)] = &limits;
        while let [(holds, offset), rest @ ..] = limits {
            if !*holds {
                return Err(FrontEndError::TableValue { offset: *offset });
            }
            limits = rest;
        }
        let (scale_bits, smoothing) = (scale.to_bits(), [even, odd]);
        Ok(Self {
            scale_bits,
            multiplier,
            addend,
            most,
            smoothing,
            least,
            smoothing_bits,
            snr_shift,
            sines,
            edges,
            window,
            weights,
            gain,
        })
    }
}

const fn pair(payload: &[u8], start: usize) -> Option<&[u8; 2]> {
    match slice(payload, start, 2) {
        Some(bytes) => bytes.first_chunk(),
        None => None,
    }
}

/// Checks that the edges do not decrease and are between bin 1 and `end`. Returns the number of bins between the first
/// and the last.
const fn check_edges(mut edges: Halves<'_>, end: u32) -> Result<usize, FrontEndError> {
    let (mut edge, mut first, mut last) = (0, None, 1);
    while let [bytes, rest @ ..] = edges {
        let found = u16::from_le_bytes(*bytes);
        if found < last || found as u32 > end {
            return Err(FrontEndError::MelEdge { edge, found: found as u32 });
        }
        if first.is_none() {
            first = Some(found);
        }
        (edge, last, edges) = (edge + 1, found, rest);
    }
    match first {
        Some(first) => Ok((last - first) as usize),
        None => Ok(0),
    }
}

/// Checks that no value, read without a sign, is above `most`.
const fn check_most(mut table: Halves<'_>, most: u16, mut offset: usize) -> Result<(), FrontEndError> {
    while let [value, rest @ ..] = table {
        if u16::from_le_bytes(*value) > most {
            return Err(FrontEndError::TableValue { offset });
        }
        (table, offset) = (rest, offset + 2);
    }
    Ok(())
}

const _: () = assert!(more::SCALE.start == field::TABLES);
