//! The tables that a packer writes: in f64 by `libm`, rounded once to f32, so every host writes the same bytes.

use core::f64::consts::PI;

use super::section::{Layout, field};
use super::settings::{FrontEndError, MfccSettings};

impl MfccSettings {
    /// Writes the section that [`Mfcc::parse`](super::Mfcc::parse) reads to the start of `section`; returns its
    /// length in bytes.
    ///
    /// # Errors
    /// If a setting is not within its limits, or `section` is shorter than [`section_len`](Self::section_len).
    pub fn write(&self, section: &mut [u8]) -> Result<usize, FrontEndError> {
        let (needed, given) = (self.section_len()?, section.len());
        let too_short = FrontEndError::SectionLen { needed, given };
        let (settings, tables) = section
            .get_mut(..needed)
            .and_then(|section| section.split_at_mut_checked(field::TABLES))
            .ok_or(too_short)?;
        for (field, value) in [
            (field::SAMPLE_RATE, self.sample_rate),
            (field::WINDOW_LEN, self.window_len),
            (field::STRIDE_LEN, self.stride_len),
            (field::FFT_LEN, self.fft_len),
            (field::MEL_BANDS, self.mel_bands),
            (field::COEFFICIENTS, self.coefficients),
            (field::LOWER_HZ, self.lower_hz.to_bits()),
            (field::UPPER_HZ, self.upper_hz.to_bits()),
            (field::LOG_FLOOR, self.log_floor.to_bits()),
        ] {
            settings[field].copy_from_slice(&value.to_le_bytes());
        }
        let layout = Layout::of(self);
        let window = (0..layout.window).map(|n| (self.window(n) as f32).to_bits());
        let edges = (0..layout.edges).map(|edge| self.edge(edge) as u32);
        let weights = self.bins().map(|bin| (self.weight(bin) as f32).to_bits());
        let dct = (0..self.coefficients)
            .flat_map(|k| (0..self.mel_bands).map(move |band| (self.dct(k, band) as f32).to_bits()));
        for (word, bits) in tables.as_chunks_mut().0.iter_mut().zip(window.chain(edges).chain(weights).chain(dct)) {
            *word = u32::to_le_bytes(bits);
        }
        Ok(needed)
    }

    /// Hann(n) / 32768, periodic. (TensorFlow: `GetPeriodicHann`)
    fn window(&self, n: usize) -> f64 {
        (0.5 - 0.5 * libm::cos(2.0 * PI * n as f64 / f64::from(self.window_len))) / 32768.0
    }

    /// Mel of a bin of the FFT. (TensorFlow: `MfccMelFilterbank::FreqToMel`)
    fn mel(&self, bin: usize) -> f64 {
        mel(bin as f64 * self.hz_per_bin())
    }

    /// Mel of the corner `k`: 0 is the lower edge, `k` the center of band `k` - 1. (TensorFlow: `center_frequencies_`)
    fn corner(&self, k: usize) -> f64 {
        let (low, high) = (mel(f64::from(self.lower_hz)), mel(f64::from(self.upper_hz)));
        let spacing = (high - low) / f64::from(self.mel_bands + 1);
        low + spacing * k as f64
    }

    /// The first bin past the corner `edge`, so that a bin on a corner belongs below it. (TensorFlow: `band_mapper_`)
    fn edge(&self, edge: usize) -> usize {
        let (first, last) = (*self.bins().start(), *self.bins().end());
        if edge == 0 {
            return first;
        }
        // The topmost band ends where the bins do, whatever rounding makes of the last corner.
        if edge > self.mel_bands as usize {
            return last + 1;
        }
        let corner = self.corner(edge);
        self.bins().find(|&bin| corner < self.mel(bin)).unwrap_or(last + 1)
    }

    /// The share of a bin that falls to the band whose center is below it. (TensorFlow: `weights_`)
    fn weight(&self, bin: usize) -> f64 {
        let mel = self.mel(bin);
        let below = (1..=self.mel_bands as usize).take_while(|&k| self.corner(k) < mel).last().unwrap_or(0);
        let (low, high) = (self.corner(below), self.corner(below + 1));
        // Within 0 to 1 but for rounding at the ends.
        ((high - mel) / (high - low)).clamp(0.0, 1.0)
    }

    /// Row `k`, column `band` of the DCT-II. (TensorFlow: `MfccDct`)
    fn dct(&self, k: u32, band: u32) -> f64 {
        let bands = f64::from(self.mel_bands);
        libm::sqrt(2.0 / bands) * libm::cos(f64::from(k) * PI / bands * (f64::from(band) + 0.5))
    }
}

fn mel(hz: f64) -> f64 {
    1127.0 * libm::log1p(hz / 700.0)
}
