//! The tables that a packer writes. They are computed in f64 with `libm` and rounded once to f32, so that every host
//! writes the same bytes.

use core::f64::consts::PI;

use super::section::{Layout, field};
use super::settings::{FrontEndError, LogMel, MOST_BANDS, MelCorners, Method, MfccSettings, Spectrum, Window};

impl MfccSettings {
    /// Writes the section that [`Mfcc::parse`](super::Mfcc::parse) reads to the start of `section` and returns its
    /// length in bytes.
    ///
    /// # Errors
    /// If a setting is out of range, if there are too many mel bands for their bins, or if `section` is shorter than
    /// [`section_len`](Self::section_len).
    pub fn write(&self, section: &mut [u8]) -> Result<usize, FrontEndError> {
        let (needed, given) = (self.section_len()?, section.len());
        let section = section.get_mut(..needed).ok_or(FrontEndError::SectionLen { needed, given })?;
        let edges = self.edges()?;
        self.write_settings(section, self.options());
        let layout = Layout::of(self);
        let Some((_, tables)) = section.split_at_mut_checked(layout.start) else {
            return Err(FrontEndError::SectionLen { needed, given });
        };
        let window = (0..layout.window).map(|n| (self.window(n) as f32).to_bits());
        let edges = edges.get(..layout.edges).unwrap_or_default();
        let weights = self.bins().map(|bin| (self.weight(bin, edges) as f32).to_bits());
        let edges = edges.iter().map(|&edge| edge as u32);
        let dct = (self.coefficients - self.dct_rows()..self.coefficients)
            .flat_map(|k| (0..self.mel_bands).map(move |band| (self.dct(k, band) as f32).to_bits()));
        for (word, bits) in tables.as_chunks_mut().0.iter_mut().zip(window.chain(edges).chain(weights).chain(dct)) {
            *word = u32::to_le_bytes(bits);
        }
        Ok(needed)
    }

    /// Writes the settings to the start of a section that is long enough.
    pub(super) fn write_settings(&self, section: &mut [u8], options: u32) {
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
            (field::BINS_PER_RATE, self.bins_per_rate),
            (field::LEAD_FRAMES, self.lead_frames),
            (field::OPTIONS, options),
        ] {
            section[field].copy_from_slice(&value.to_le_bytes());
        }
        if let Method::LogMel(LogMel { emphasis, lowest_db, highest_db }) = self.method {
            for (field, value) in
                [(field::EMPHASIS, emphasis), (field::LOWEST_DB, lowest_db), (field::HIGHEST_DB, highest_db)]
            {
                section[field].copy_from_slice(&value.to_le_bytes());
            }
        }
    }

    /// Window weight of sample `n` (Hann: TensorFlow's `GetPeriodicHann`).
    pub(super) fn weight_of(&self, n: usize) -> f64 {
        match self.window {
            Window::Hann => 0.5 - 0.5 * libm::cos(2.0 * PI * n as f64 / f64::from(self.window_len)),
            Window::Rectangular => 1.0,
            Window::Hamming => 0.54 - 0.46 * libm::cos(2.0 * PI * n as f64 / f64::from(self.window_len - 1)),
        }
    }

    /// Window weight of sample `n`, including the conversion of an i16 to a fraction.
    fn window(&self, n: usize) -> f64 {
        let weight = self.weight_of(n);
        match self.spectrum {
            Spectrum::Magnitude => weight / 32768.0,
            Spectrum::Power => weight / 32768.0 / libm::sqrt(f64::from(self.fft_len)),
        }
    }

    /// Mel of a bin of the FFT. (TensorFlow: `MfccMelFilterbank::FreqToMel`)
    fn mel(&self, bin: usize) -> f64 {
        mel(bin as f64 * f64::from(self.sample_rate) / f64::from(self.bins_per_rate))
    }

    /// Mel of the corner `k`: 0 is the lower edge, `k` the center of band `k` - 1. (TensorFlow: `center_frequencies_`)
    fn corner(&self, k: usize) -> f64 {
        let (low, high) = (mel(f64::from(self.lower_hz)), mel(f64::from(self.upper_hz)));
        let spacing = (high - low) / f64::from(self.mel_bands + 1);
        low + spacing * k as f64
    }

    /// The first bin past each corner, so that a bin on a corner belongs to the band below (TensorFlow:
    /// `band_mapper_`), or the corner's own bin (sonopy: `grid_indices`).
    pub(super) fn edges(&self) -> Result<[usize; MOST_BANDS + 2], FrontEndError> {
        let (bins, bands) = (self.bins(), self.mel_bands as usize);
        let mut edges = [bins.start; MOST_BANDS + 2];
        for k in 1..=bands {
            let corner = self.corner(k);
            edges[k] = match self.corners {
                MelCorners::Exact => bins.clone().find(|&bin| corner < self.mel(bin)).unwrap_or(bins.end),
                MelCorners::WholeBins => match (self.bins_at(hz(corner)) as usize).max(edges[k - 1] + 1) {
                    found if found < bins.end => found,
                    found => return Err(FrontEndError::MelEdge { edge: k, found: found as u32 }),
                },
            };
        }
        // The last band ends with the bins, however the last corner was rounded.
        edges[bands + 1] = bins.end;
        Ok(edges)
    }

    /// The share of a bin that belongs to the band whose center is below it (TensorFlow: `weights_`).
    pub(super) fn weight(&self, bin: usize, edges: &[usize]) -> f64 {
        let (low, high, at) = match self.corners {
            MelCorners::Exact => {
                let mel = self.mel(bin);
                let below = (1..=self.mel_bands as usize).take_while(|&k| self.corner(k) < mel).last().unwrap_or(0);
                (self.corner(below), self.corner(below + 1), mel)
            }
            MelCorners::WholeBins => {
                let below = edges.partition_point(|&edge| edge <= bin);
                let edge = |k: usize| edges.get(k).map_or(0.0, |&edge| edge as f64);
                (edge(below.saturating_sub(1)), edge(below), bin as f64)
            }
        };
        // Already between 0 and 1, except for rounding at the ends.
        ((high - at) / (high - low)).clamp(0.0, 1.0)
    }

    /// Row `k`, column `band` of the DCT-II. (TensorFlow: `MfccDct`)
    pub(super) fn dct(&self, k: u32, band: u32) -> f64 {
        let bands = f64::from(self.mel_bands);
        libm::sqrt(2.0 / bands) * libm::cos(f64::from(k) * PI / bands * (f64::from(band) + 0.5))
    }
}

fn mel(hz: f64) -> f64 {
    1127.0 * libm::log1p(hz / 700.0)
}

fn hz(mel: f64) -> f64 {
    700.0 * libm::expm1(mel / 1127.0)
}
