//! The 42 features of a frame, and the filter that keeps the harmonics of a voice (Valin 2018, "A hybrid DSP/deep learning
//! approach to real-time full-band speech enhancement", 3.2 and 3.4).

use std::f64::consts::{FRAC_PI_2, PI};
use std::sync::Arc;

use rustfft::Fft;
use rustfft::num_complex::Complex32;

use super::pitch::{PAST, Pitch};
use super::{BANDS, BINS, CENTERS, FRAME, fft, of_bins};

/// Bark-frequency cepstral coefficients (22), their first and second differences in time, the cepstrum of the pitch
/// correlations (6 each), the period and how much the spectrum varies.
pub const FEATURES: usize = BANDS + 3 * FEW + 2;
/// Coefficients with differences.
const FEW: usize = 6;
/// Frames that the variation is measured over.
const CEPSTRA: usize = 8;

/// A stream of frames.
pub struct Features {
    /// The newest samples, oldest first.
    past: [f32; PAST],
    high_pass: [f32; 2],
    pitch: Pitch,
    /// The cepstra of the last frames that were not silent, newest first.
    cepstra: [[f32; BANDS]; CEPSTRA],
    /// The window of the analysis and of the synthesis.
    pub window: [f32; 2 * FRAME],
    cosines: [[f32; BANDS]; BANDS],
    forward: Arc<dyn Fft<f32>>,
}

/// A frame and the one before it, as spectra.
pub struct Frame {
    /// The input of the network, or `None` for a silent frame.
    pub features: Option<[f32; FEATURES]>,
    /// The spectrum, divided by 480.
    pub bins: [Complex32; BINS],
    energies: [f32; BANDS],
    /// The same of the samples one pitch period ago.
    delayed: [Complex32; BINS],
    delayed_energies: [f32; BANDS],
    /// The correlation of each band with itself one pitch period earlier, from -1 to 1.
    correlations: [f32; BANDS],
}

impl Default for Features {
    fn default() -> Self {
        let cosine = |j: usize, i: usize| {
            let angle = (i as f64 + 0.5) * j as f64 * PI / BANDS as f64;
            if j == 0 { angle.cos() as f32 * 0.5_f32.sqrt() } else { angle.cos() as f32 }
        };
        Self {
            past: [0.0; PAST],
            high_pass: [0.0; 2],
            pitch: Pitch::default(),
            cepstra: [[0.0; BANDS]; CEPSTRA],
            window: std::array::from_fn(window),
            cosines: std::array::from_fn(|j| std::array::from_fn(|i| cosine(j, i))),
            forward: fft(rustfft::FftDirection::Forward),
        }
    }
}

impl Features {
    /// Analyzes a frame: samples with the range of 16-bit integers.
    pub fn push(&mut self, samples: &[f32]) -> Frame {
        self.past.copy_within(FRAME.., 0);
        for (kept, x) in self.past[PAST - FRAME..].iter_mut().zip(samples) {
            *kept = high_pass(&mut self.high_pass, *x);
        }
        let (bins, energies) = self.spectrum(0);
        let period = self.pitch.find(&self.past);
        let (delayed, delayed_energies) = self.spectrum(period);
        let mut correlations = products(&bins, &delayed);
        for ((value, x), p) in correlations.iter_mut().zip(energies).zip(delayed_energies) {
            *value /= (0.001 + x * p).sqrt();
        }
        let mut frame = Frame { features: None, bins, energies, delayed, delayed_energies, correlations };
        if energies.iter().sum::<f32>() >= 0.04 {
            frame.features = Some(self.features(&frame, period));
        }
        frame
    }

    /// The spectrum of the two frames that end `ago` samples before the newest one, and the energies of its bands.
    fn spectrum(&self, ago: usize) -> ([Complex32; BINS], [f32; BANDS]) {
        let end = PAST - ago;
        let windowed = self.past[end - 2 * FRAME..end].iter().zip(&self.window).map(|(x, w)| Complex32::from(x * w));
        let mut values: Vec<Complex32> = windowed.collect();
        self.forward.process(&mut values);
        let bins = std::array::from_fn(|bin| values[bin] * (1.0 / FRAME as f32));
        (bins, products(&bins, &bins))
    }

    fn features(&mut self, frame: &Frame, period: usize) -> [f32; FEATURES] {
        let (mut highest, mut follower) = (-2.0_f32, -2.0_f32);
        let levels = frame.energies.map(|energy| {
            let level = (0.01 + energy).log10().max(highest - 7.0).max(follower - 1.5);
            highest = highest.max(level);
            follower = (follower - 1.5).max(level);
            level
        });
        let mut cepstrum = self.cepstrum(&levels);
        cepstrum[0] -= 12.0;
        cepstrum[1] -= 4.0;
        self.cepstra.rotate_right(1);
        self.cepstra[0] = cepstrum;
        let [now, before, earlier, ..] = &self.cepstra;
        let mut of_pitch = self.cepstrum(&frame.correlations);
        of_pitch[0] -= 1.3;
        of_pitch[1] -= 0.9;

        let mut features = [0.0; FEATURES];
        features[..BANDS].copy_from_slice(&cepstrum);
        for i in 0..FEW {
            features[i] = now[i] + before[i] + earlier[i];
            features[BANDS + i] = now[i] - earlier[i];
            features[BANDS + FEW + i] = now[i] - 2.0 * before[i] + earlier[i];
            features[BANDS + 2 * FEW + i] = of_pitch[i];
        }
        features[FEATURES - 2] = 0.01 * (period as f32 - 300.0);
        features[FEATURES - 1] = self.variation() - 2.1;
        features
    }

    /// The discrete cosine transform of values of bands.
    fn cepstrum(&self, bands: &[f32; BANDS]) -> [f32; BANDS] {
        let scale = (2.0 / BANDS as f64).sqrt();
        self.cosines.each_ref().map(|row| {
            let sum: f32 = bands.iter().zip(row).map(|(x, cosine)| x * cosine).sum();
            (f64::from(sum) * scale) as f32
        })
    }

    /// The mean squared distance of a cepstrum to the one that is nearest.
    fn variation(&self) -> f32 {
        let distance = |i: usize, j: usize| -> f32 {
            self.cepstra[i].iter().zip(&self.cepstra[j]).map(|(a, b)| (a - b) * (a - b)).sum()
        };
        let nearest = |i: usize| (0..CEPSTRA).filter(|&j| j != i).map(|j| distance(i, j)).reduce(f32::min);
        (0..CEPSTRA).filter_map(nearest).sum::<f32>() / CEPSTRA as f32
    }
}

impl Frame {
    /// Adds the spectrum of one period ago, in bands that are more periodic than their gains say, and restores the energy of
    /// each band.
    pub fn filter_pitch(&mut self, gains: &[f32; BANDS]) {
        let strength = |band: usize| {
            let (like, gain) = (self.correlations[band], gains[band]);
            let (like_squared, gain_squared) = (like * like, gain * gain);
            let share = if like > gain {
                1.0
            } else {
                like_squared * (1.0 - gain_squared) / (0.001 + gain_squared * (1.0 - like_squared))
            };
            share.clamp(0.0, 1.0).sqrt() * (self.energies[band] / (1e-8 + self.delayed_energies[band])).sqrt()
        };
        let strengths = of_bins(&std::array::from_fn(strength));
        for ((bin, delayed), strength) in self.bins.iter_mut().zip(&self.delayed).zip(strengths) {
            *bin += delayed * strength;
        }
        let energies = products(&self.bins, &self.bins);
        let restored = of_bins(&std::array::from_fn(|band| (self.energies[band] / (1e-8 + energies[band])).sqrt()));
        for (bin, gain) in self.bins.iter_mut().zip(restored) {
            *bin *= gain;
        }
    }
}

/// Two zeros at 0 Hz and two poles near it, as a transposed direct form II.
fn high_pass(state: &mut [f32; 2], x: f32) -> f32 {
    // RNNoise rounds these to f32, which moves the poles.
    const POLES: [f32; 2] = [-1.99599, 0.99600];
    let [first, second] = POLES.map(f64::from);
    let x = f64::from(x);
    let y = x + f64::from(state[0]);
    state[0] = (f64::from(state[1]) - 2.0 * x - first * y) as f32;
    state[1] = (x - second * y) as f32;
    y as f32
}

/// The Vorbis window over two frames. The squares of overlapping windows add up to 1.
fn window(at: usize) -> f32 {
    let rise = (FRAC_PI_2 * (at.min(2 * FRAME - 1 - at) as f64 + 0.5) / FRAME as f64).sin();
    (FRAC_PI_2 * rise * rise).sin() as f32
}

/// The real parts of products of bins, summed over triangular bands.
fn products(x: &[Complex32; BINS], y: &[Complex32; BINS]) -> [f32; BANDS] {
    let mut sums = [0.0; BANDS];
    for (band, &[from, to]) in CENTERS.array_windows().enumerate() {
        let width = (to - from) as f32;
        for ((x, y), j) in x[from..to].iter().zip(&y[from..to]).zip(0_u16..) {
            let share = f32::from(j) / width;
            let product = x.re * y.re + x.im * y.im;
            sums[band] += (1.0 - share) * product;
            sums[band + 1] += share * product;
        }
    }
    // Half of the first band and half of the last one are missing.
    sums[0] *= 2.0;
    sums[BANDS - 1] *= 2.0;
    sums
}
