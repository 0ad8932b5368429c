//! The integer tables that a packer writes. They are computed in f64 with `libm` and rounded once, so that every host
//! writes the same bytes.

use core::f64::consts::{LN_10, TAU};

use super::section::{EMPHASIS_BITS, Layout, ONE};
use super::{GUARD_BITS, log};
use crate::front_end::section::option;
use crate::front_end::settings::{First, FrontEndError, LogMel, Method, MfccSettings, Spectrum};
use crate::quant::MAX;

/// 1.0 of the DCT over the scale. The high word of its product with a logarithm has [`GUARD_BITS`] fraction bits.
const DCT_ONE: f64 = (1_u64 << (32 - log::LN_BITS + GUARD_BITS)) as f64;
/// Smallest range of a feature (the scale is this over 32767), so that the DCT fits 32 bits.
const LEAST_REACH: f64 = 16.0;

impl MfccSettings {
    /// Length in bytes of the section that holds these settings and their integer tables.
    ///
    /// # Errors
    /// If a setting is out of range, or the method has other tables.
    pub const fn integer_section_len(&self) -> Result<usize, FrontEndError> {
        ok!(self.check_mfcc());
        Ok(Layout::of(self).section_len())
    }

    /// As [`write`](Self::write), in integers. The scale is chosen so that no sound has a feature beyond ±32767.
    ///
    /// # Errors
    /// As `write`; `section` must be as long as [`integer_section_len`](Self::integer_section_len).
    pub fn write_integer(&self, section: &mut [u8]) -> Result<usize, FrontEndError> {
        if let Method::LogMel(_) = self.method {
            return Err(FrontEndError::LogMel);
        }
        self.check_mfcc()?;
        let layout = Layout::of(self);
        let scale = self.scale(layout.window, self.edges()?.get(..layout.edges).unwrap_or_default());
        let energy = match self.first {
            First::Cepstrum => 0.0,
            First::LogEnergy => DCT_ONE / f64::from(scale),
        };
        self.write_words(scale, &[integer(energy)], section)
    }

    /// As [`write`](Self::write), for [`Method::LogMel`] in integers. A feature is a multiple of `scale`, from 0 to `most`
    /// times `scale`. Without a `zero_point` it is rounded to nearest. With the `zero_point` of an integer model it is
    /// rounded toward the zero point, as by a C cast to the integers of the model.
    ///
    /// # Errors
    /// As `write`, and if the scale is too fine or not above 0; `section` must be as long as
    /// [`integer_section_len`](Self::integer_section_len).
    pub fn write_log_mel(
        &self,
        scale: f32,
        zero_point: Option<i16>,
        most: u16,
        section: &mut [u8],
    ) -> Result<usize, FrontEndError> {
        let Method::LogMel(LogMel { emphasis, lowest_db, highest_db }) = self.method else {
            return Err(FrontEndError::LogMel);
        };
        let unit = f64::from(highest_db - lowest_db) * f64::from(scale);
        let guarded = f64::from(1_u32 << GUARD_BITS);
        let (gain, offset) = (10.0 / LN_10 / unit * DCT_ONE, -f64::from(lowest_db) / unit * guarded);
        // The sum of a product with this gain and the offset then fits too.
        if !(0.0 < scale && scale < f32::INFINITY && gain <= f64::from(i32::MAX)) {
            return Err(FrontEndError::Scale { found: scale });
        }
        let (half, middle) = match zero_point {
            Some(zero_point) => (0.0, -i32::from(zero_point)),
            None => (guarded / 2.0, i32::MIN),
        };
        let emphasis = integer(f64::from(emphasis) * f64::from(1_u32 << EMPHASIS_BITS));
        let words = [0, emphasis, integer(gain), integer(offset + half), middle, i32::from(most)];
        self.write_words(scale, &words, section)
    }

    /// Writes the settings, the words from `more::ENERGY` on, and the tables.
    fn write_words(&self, scale: f32, words: &[i32], section: &mut [u8]) -> Result<usize, FrontEndError> {
        let (needed, given) = (self.integer_section_len()?, section.len());
        let section = section.get_mut(..needed).ok_or(FrontEndError::SectionLen { needed, given })?;
        let edges = self.edges()?;
        let layout = Layout::of(self);
        let edges = edges.get(..layout.edges).unwrap_or_default();
        self.write_settings(section, self.options() | option::INTEGER);
        let log_floor = libm::log(f64::from(self.log_floor)) * f64::from(1_u32 << log::LN_BITS);
        let header = [scale.to_bits().cast_signed(), integer(log_floor)].into_iter().chain(words.iter().copied());
        let Some((_, tables)) = section.split_at_mut_checked(layout.words_at) else {
            return Err(FrontEndError::SectionLen { needed, given });
        };
        for (slot, word) in tables.as_chunks_mut().0.iter_mut().take(layout.words).zip(header) {
            *slot = word.to_le_bytes();
        }
        let Some((words, halves)) = tables
            .get_mut(4 * layout.words..)
            .and_then(|tables| tables.split_at_mut_checked(4 * (layout.sines + layout.edges + layout.dct)))
        else {
            return Err(FrontEndError::SectionLen { needed, given });
        };
        let scale = f64::from(scale);
        let sine = |k: usize| integer(libm::sin(TAU * k as f64 / f64::from(self.fft_len)) * 2_147_483_648.0);
        let dct = (self.coefficients - self.dct_rows()..self.coefficients)
            .flat_map(|k| (0..self.mel_bands).map(move |band| (k, band)))
            .map(|(k, band)| integer(self.dct(k, band) / scale * DCT_ONE));
        let values = (0..layout.sines).map(sine).chain(edges.iter().map(|&edge| edge as i32)).chain(dct);
        for (word, value) in words.as_chunks_mut().0.iter_mut().zip(values) {
            *word = i32::to_le_bytes(value);
        }
        let weights = self.bins().map(|bin| self.weight(bin, edges));
        // 2^16 saturates to the greatest u16.
        let window = (0..layout.window).map(|n| self.weight_of(n) * 65_536.0);
        let shares = window.chain(weights.map(|share| share * f64::from(ONE)));
        for (half, share) in halves.as_chunks_mut().0.iter_mut().zip(shares) {
            *half = u16::to_le_bytes(libm::round(share) as u16);
        }
        Ok(needed)
    }

    /// Real value of one unit of a feature: the greatest possible feature of any sound is 32767 units.
    fn scale(&self, weights: usize, edges: &[usize]) -> f32 {
        let points = f64::from(self.fft_len);
        // No bin exceeds the sum of the window, and all bins together do not exceed its energy.
        let heard = self.heard_len();
        let window = || (0..heard).map(|n| self.weight_of(if weights == 1 { 0 } else { n }));
        let bin: f64 = match self.spectrum {
            Spectrum::Magnitude => window().sum(),
            Spectrum::Power => libm::pow(window().sum(), 2.0) / points,
        };
        let energy: f64 = window().map(|weight| weight * weight).sum();
        let energy = if self.spectrum == Spectrum::Power { energy } else { energy * points };
        // A band is at most two edge distances wide.
        let width = edges.windows(3).map(|edges| edges.last().unwrap_or(&0) - edges.first().unwrap_or(&0)).max();
        let floor = libm::log(f64::from(self.log_floor));
        let most = |value: f64| libm::fmax(libm::log(value), 0.0);
        let high = most(bin * width.unwrap_or(0) as f64);
        let mut reach = LEAST_REACH;
        if self.first == First::LogEnergy {
            reach = libm::fmax(reach, libm::fmax(-floor, most(energy)));
        }
        for k in self.coefficients - self.dct_rows()..self.coefficients {
            let (mut least, mut greatest) = (0.0, 0.0);
            for band in 0..self.mel_bands {
                let weight = self.dct(k, band);
                let (low, high) = (weight * floor, weight * high);
                (least, greatest) = (least + libm::fmin(low, high), greatest + libm::fmax(low, high));
            }
            reach = libm::fmax(reach, libm::fmax(-least, greatest));
        }
        // Rounding may add a few units to the greatest feature.
        (reach / f64::from(MAX - 8)) as f32
    }
}

/// Rounds to nearest and saturates to i32.
fn integer(value: f64) -> i32 {
    libm::round(value) as i32
}
