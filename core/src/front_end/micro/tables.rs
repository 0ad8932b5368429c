//! The tables that a packer writes. TensorFlow Lite Micro computes them in f32, and its bits follow from the order of
//! those operations, so that they are repeated here. Functions are computed in f64 and rounded to f32, or by `libm`'s
//! `log1pf`, which has the bits of newlib's and glibc's.

use core::f64::consts::TAU;

use super::section::SCALE_BITS;
use super::section::{FACTOR_END, GAINS, ONE, more, section_len};
use crate::front_end::settings::{FrontEndError, MOST_BANDS, Method, MfccSettings};

/// Real value of a raw feature of 1: features are divided by 25.6 in training (`FEATURE_SCALE`).
const RAW: f64 = 10.0 / 256.0;
/// Greatest raw feature: 64 ln 2^32.
const MOST_RAW: u32 = 1420;
/// Shares of a new signal in the noise estimate of even and odd channels, and the least share of the signal:
/// 0.025, 0.06 and 0.05 (`micro_features`), · 2^14, rounded down.
const SMOOTHING: [u16; 2] = [409, 983];
const LEAST: u16 = 819;
const SMOOTHING_BITS: u8 = 10;
/// Strength, offset and fraction bits of the gain (PCAN).
const STRENGTH: f32 = 0.95;
const OFFSET: f32 = 80.0;
const GAIN_BITS: u32 = 21;
/// Fraction bits of the signal-to-noise ratio.
const SNR_BITS: u32 = 12;

type Edges = [usize; MOST_BANDS + 2];

impl MfccSettings {
    /// Real value of one unit of the features of [`Method::Micro`] before they are converted to the scale of an input.
    pub const MICRO_SCALE: f32 = RAW as f32;

    /// Length in bytes of the section that holds these settings of [`Method::Micro`] and their tables.
    ///
    /// # Errors
    /// If a setting is out of range, or the mel bands reach half the sample rate.
    pub fn micro_section_len(&self) -> Result<usize, FrontEndError> {
        let edges = self.micro_edges()?;
        Ok(section_len(self, self.bins_between(&edges)))
    }

    /// As [`write`](Self::write), for [`Method::Micro`]. A feature is rounded to the nearest multiple of `scale`, halves
    /// up, and is at most `most` times it.
    ///
    /// # Errors
    /// As `write`, and if no multiplier converts every feature exactly; `section` must be as long as
    /// [`micro_section_len`](Self::micro_section_len).
    pub fn write_micro(&self, scale: f32, most: u16, section: &mut [u8]) -> Result<usize, FrontEndError> {
        let edges = self.micro_edges()?;
        let (needed, given) = (section_len(self, self.bins_between(&edges)), section.len());
        let section = section.get_mut(..needed).ok_or(FrontEndError::SectionLen { needed, given })?;
        let (multiplier, addend) = conversion(scale, most).ok_or(FrontEndError::Scale { found: scale })?;
        self.write_settings(section, self.options());
        let Some((settings, tables)) = section.split_at_mut_checked(more::TABLES) else {
            return Err(FrontEndError::SectionLen { needed, given });
        };
        for (field, value) in [
            (more::SCALE, scale.to_bits()),
            (more::MULTIPLIER, multiplier),
            (more::ADDEND, addend),
            (more::MOST, u32::from(most)),
        ] {
            settings[field].copy_from_slice(&value.to_le_bytes());
        }
        let [even, odd] = SMOOTHING;
        for (field, value) in [(more::SMOOTHING_EVEN, even), (more::SMOOTHING_ODD, odd), (more::LEAST, LEAST)] {
            settings[field].copy_from_slice(&value.to_le_bytes());
        }
        settings[more::SMOOTHING_BITS] = SMOOTHING_BITS;
        settings[more::SNR_SHIFT] = (GAIN_BITS - SNR_BITS - self.correction()) as u8;

        let edges = edges.get(..self.mel_bands as usize + 2).unwrap_or_default();
        let sine = |k: u32| (0.5 + 32_767.0 * libm::sin(TAU * f64::from(k) / f64::from(self.fft_len))) as i16;
        let sines = (0..=self.fft_len / 4).map(sine);
        let window = (0..self.window_len).map(|n| self.micro_window(n));
        let weights = edges.windows(2).enumerate().flat_map(|(side, edges)| self.side(side, edges));
        let gain = (self.method == Method::Micro).then(|| self.gains());
        let halves = sines.chain(edges.iter().map(|&edge| edge as i16)).chain(window).chain(weights.flatten());
        let halves = halves.chain(gain.into_iter().flatten());
        for (half, value) in tables.as_chunks_mut().0.iter_mut().zip(halves) {
            *half = value.to_le_bytes();
        }
        Ok(needed)
    }

    /// Octaves that the FFT's divisions lose, less half of the 12 fraction bits of the mel weights, of which a root is taken.
    fn correction(&self) -> u32 {
        self.fft_len.trailing_zeros() - 6
    }

    fn bins_between(&self, edges: &Edges) -> usize {
        let last = edges.get(self.mel_bands as usize + 1).unwrap_or(&0);
        last.saturating_sub(edges[0])
    }

    /// The Hann window, centered between two samples. (`WindowPopulateState`)
    fn micro_window(&self, n: u32) -> i16 {
        let step = core::f32::consts::PI * 2.0 / self.window_len as f32;
        let cos = libm::cos(f64::from(step * (n as f32 + 0.5))) as f32;
        rounded((0.5 - 0.5 * cos) * f32::from(ONE))
    }

    /// Mel of a bin of the FFT.
    fn micro_mel(&self, bin: usize) -> f32 {
        mel(bin as f32 * self.hz_per_bin())
    }

    fn hz_per_bin(&self) -> f32 {
        0.5 * self.sample_rate as f32 / (self.fft_len / 2) as f32
    }

    /// Mel of the corner `k`: 0 is the lower edge, `k` the center of channel `k` - 1.
    /// (`FilterbankPopulateState`: `center_mel_freqs`)
    fn micro_corner(&self, k: usize) -> f32 {
        let (low, high) = (mel(self.lower_hz), mel(self.upper_hz));
        let spacing = (high - low) / (self.mel_bands + 1) as f32;
        if k == 0 { low } else { low + spacing * k as f32 }
    }

    /// The first bin past each corner.
    fn micro_edges(&self) -> Result<Edges, FrontEndError> {
        self.check()?;
        if !self.method.is_micro() {
            return Err(FrontEndError::Micro);
        }
        let mut bin = (1.5 + self.lower_hz / self.hz_per_bin()) as usize;
        let mut edges = [bin; MOST_BANDS + 2];
        let end = self.fft_len as usize / 2;
        for (k, edge) in edges.iter_mut().enumerate().take(self.mel_bands as usize + 2).skip(1) {
            let corner = self.micro_corner(k);
            while bin <= end && self.micro_mel(bin) <= corner {
                bin += 1;
            }
            if bin > end {
                return Err(FrontEndError::MelEdge { edge: k, found: bin as u32 });
            }
            *edge = bin;
        }
        Ok(edges)
    }

    /// The shares of the bins of a side: in the channel that falls there, and in the one that rises.
    fn side(&self, side: usize, edges: &[usize]) -> impl Iterator<Item = [i16; 2]> {
        let (below, center) = (self.micro_corner(side), self.micro_corner(side + 1));
        let bins = edges.first().copied().unwrap_or(0)..edges.last().copied().unwrap_or(0);
        bins.map(move |bin| {
            let share = (center - self.micro_mel(bin)) / (center - below);
            [share, 1.0 - share].map(|share| rounded(share * f32::from(ONE)))
        })
    }

    /// The gains for noise of 0 and 1, then a parabola for each octave. (`PcanGainControlPopulateState`)
    fn gains(&self) -> [i16; GAINS] {
        let gain = |noise: u32| i32::from(self.gain(noise));
        let mut gains = [0; GAINS];
        let [zero, one, octaves @ ..] = &mut gains;
        (*zero, *one) = (self.gain(0), self.gain(1));
        for (parabola, octave) in octaves.as_chunks_mut().0.iter_mut().zip(1..) {
            let start = 1_u32 << octave;
            let rise = |noise: u32| gain(noise) - gain(start);
            let (half, whole) = (rise(start + start / 2), rise(start + (start - 1) + u32::from(octave < 31)));
            let slope = 4 * half - whole;
            *parabola = [gain(start), slope, whole - slope].map(|value| value as i16);
        }
        gains
    }

    /// The gain for a noise estimate. (`PcanGainLookupFunction`)
    fn gain(&self, noise: u32) -> i16 {
        // Fraction bits of the estimate, less those that the FFT loses.
        let bits = u32::from(SMOOTHING_BITS) - self.correction();
        let noise = noise as f32 / (1 << bits) as f32;
        let power = libm::pow(f64::from(noise + OFFSET), -f64::from(STRENGTH)) as f32;
        // `as` saturates.
        ((1 << GAIN_BITS) as f32 * power + 0.5) as i16
    }
}

fn mel(hz: f32) -> f32 {
    1127.0 * libm::log1pf(hz / 700.0)
}

fn rounded(value: f32) -> i16 {
    libm::floorf(value + 0.5) as i16
}

/// The multiplier and the addend that convert every raw feature to the nearest multiple of `scale`: the middle of the
/// addends that do, for the multiplier that is nearest to the quotient of the scales.
fn conversion(scale: f32, most: u16) -> Option<(u32, u32)> {
    let scale = f64::from(scale);
    if !(0.0 < scale && scale < f64::INFINITY) {
        return None;
    }
    // Exact: half the distance to a tie is more than an f64 rounds, because `scale` has 24 bits.
    let wanted = |raw: u32| (f64::from(raw) * RAW / scale + 0.5).min(f64::from(most)) as i64;
    let nearest = libm::round(RAW / scale * f64::from(1 << SCALE_BITS));
    let nearest = if nearest < f64::from(FACTOR_END) { nearest as i64 } else { return None };
    (0..=60).flat_map(|distance| [nearest + distance, nearest - distance]).find_map(|multiplier| {
        let (mut least, mut end) = (0, i64::from(FACTOR_END));
        for raw in 0..=MOST_RAW {
            let slot = wanted(raw);
            least = least.max((slot << SCALE_BITS) - i64::from(raw) * multiplier);
            if slot < i64::from(most) {
                end = end.min(((slot + 1) << SCALE_BITS) - i64::from(raw) * multiplier);
            }
        }
        let fits = least < end && (0..i64::from(FACTOR_END)).contains(&multiplier);
        fits.then_some((multiplier as u32, ((least + end) / 2) as u32))
    })
}
