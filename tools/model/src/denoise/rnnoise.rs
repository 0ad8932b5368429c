//! RNNoise 0.1 (Valin 2018): gains for 22 bands of a spectrum, from 42 features of a frame of 10 ms at 48 kHz.
//!
//! ```text
//! 960 samples, 480 new → FFT → pitch, 42 features → network → pitch filter, gains → inverse FFT → overlap-add
//! ```
//!
//! Features and pitch filter are in `features`, gains and synthesis below. RNNoise does not step its network for a silent
//! frame.

mod features;
mod pitch;

use std::sync::Arc;

use features::{FEATURES, Features};
use rustfft::algorithm::butterflies::{Butterfly5, Butterfly6, Butterfly32};
use rustfft::algorithm::{MixedRadix, MixedRadixSmall};
use rustfft::num_complex::Complex32;
use rustfft::{Fft, FftDirection};

use super::network::{HopError, Step};

/// Samples per frame: 10 ms.
pub const FRAME: usize = 480;
/// Frequency bands, each with a gain.
pub const BANDS: usize = 22;
/// Frequency bins of 50 Hz, for a frame and the one before it.
const BINS: usize = FRAME + 1;
/// The center bin of each band. Above the last one, 20 kHz, the output is zero.
const CENTERS: [usize; BANDS] =
    [0, 4, 8, 12, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 112, 136, 160, 192, 240, 312, 400];
/// Minimum ratio between the gains of consecutive frames.
const DECAY: f32 = 0.6;
/// Sizes of the input and of the outputs of the network.
pub const PORTS: [(&[usize], &[usize]); 1] = [(&[FEATURES], &[BANDS, 1])];

/// The network's output for a frame.
#[derive(Clone, Copy, Debug)]
pub struct Heard {
    /// Share of speech in each band, 0 to 1.
    pub gains: [f32; BANDS],
    /// Probability of speech.
    pub voice: f32,
}

/// A stream of sound.
pub struct Rnnoise {
    features: Box<Features>,
    gains: [f32; BANDS],
    /// The second half of the last synthesis window.
    tail: [f32; FRAME],
    inverse: Arc<dyn Fft<f32>>,
}

impl Default for Rnnoise {
    fn default() -> Self {
        Self { features: Box::default(), gains: [0.0; BANDS], tail: [0.0; FRAME], inverse: fft(FftDirection::Inverse) }
    }
}

impl Rnnoise {
    /// Takes [`FRAME`] samples and writes as many: those of the previous frame. Returns the output of the network, or `None`
    /// for a silent frame, for which the network is not stepped.
    ///
    /// # Errors
    /// If the network cannot be stepped.
    pub fn push(&mut self, noisy: &[f32], clean: &mut [f32], step: Step<'_>) -> Result<Option<Heard>, HopError> {
        // RNNoise's samples have the range of 16-bit integers.
        let samples: Vec<f32> = noisy.iter().map(|sample| sample * 32_768.0).collect();
        let mut frame = self.features.push(&samples);
        let mut heard = None;
        if let Some(features) = &frame.features {
            let (mut gains, mut voice) = ([0.0; BANDS], [0.0]);
            step(0, features, &mut [&mut gains, &mut voice])?;
            heard = Some(Heard { gains, voice: voice[0] });
            frame.filter_pitch(&gains);
            for (last, gain) in self.gains.iter_mut().zip(gains) {
                *last = gain.max(DECAY * *last);
            }
            for (bin, gain) in frame.bins.iter_mut().zip(of_bins(&self.gains)) {
                *bin *= gain;
            }
        }
        // The spectrum is divided by 480; this inverse transform of 960 bins is not scaled. The bins above the middle mirror
        // those below, so the sound is real.
        let bins = &frame.bins;
        let mirrored = bins[1..FRAME].iter().rev().map(Complex32::conj);
        let mut sound: Vec<Complex32> = bins.iter().copied().chain(mirrored).collect();
        self.inverse.process(&mut sound);
        let (first, second) = sound.split_at(FRAME);
        let (rising, falling) = self.features.window.split_at(FRAME);
        for (((y, tail), &x), w) in clean.iter_mut().zip(&self.tail).zip(first).zip(rising) {
            *y = (x.re / 2.0 * w + tail) / 32_768.0;
        }
        for ((tail, &x), w) in self.tail.iter_mut().zip(second).zip(falling) {
            *tail = x.re / 2.0 * w;
        }
        Ok(heard)
    }
}

/// The FFT of 960 = 32 · 5 · 6 values. With a planner, this crate would contain all algorithms of `rustfft`.
fn fft(direction: FftDirection) -> Arc<dyn Fft<f32>> {
    let of_30 = MixedRadixSmall::new(Arc::new(Butterfly5::new(direction)), Arc::new(Butterfly6::new(direction)));
    Arc::new(MixedRadix::new(Arc::new(Butterfly32::new(direction)), Arc::new(of_30)))
}

/// Interpolates linearly between the centers of bands.
fn of_bins(bands: &[f32; BANDS]) -> [f32; BINS] {
    let mut bins = [0.0; BINS];
    for (&[from, to], &[low, high]) in CENTERS.array_windows().zip(bands.array_windows()) {
        let width = (to - from) as f32;
        for (bin, j) in bins[from..to].iter_mut().zip(0_u16..) {
            let share = f32::from(j) / width;
            *bin = (1.0 - share) * low + share * high;
        }
    }
    bins
}
