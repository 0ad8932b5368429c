//! DTLN (Westhausen and Meyer, Interspeech 2020): the first network masks the magnitudes of a spectrum, the second one
//! changes the frame in time.
//!
//! ```text
//! 512 samples, 128 new → FFT → |X| → network 1 → X · mask → inverse FFT → network 2 → overlap-add
//! ```
//!
//! There is no window and no scaling. The output is delayed by 384 samples.

use tidegate::{Stft, StftError};

use super::network::{HopError, Step};

const FRAME: usize = 512;
/// New samples of a frame.
pub const HOP: usize = 128;
const BINS: usize = FRAME / 2 + 1;
/// Sizes of the input and of the output of each network.
pub const PORTS: [(&[usize], &[usize]); 2] = [(&[BINS], &[BINS]), (&[FRAME], &[FRAME])];

/// A stream of sound.
#[derive(Debug)]
pub struct Dtln<'b> {
    stft: Stft<'static, 'b>,
    magnitudes: [f32; BINS],
    mask: [f32; BINS],
    block: [f32; FRAME],
}

impl<'b> Dtln<'b> {
    /// Elements of memory.
    pub const MEMORY_LEN: usize = Stft::memory_len(FRAME);

    /// Starts a stream with silence before the first sample.
    ///
    /// # Errors
    /// If `memory` is shorter than [`MEMORY_LEN`](Self::MEMORY_LEN).
    pub fn new(memory: &'b mut [f32]) -> Result<Self, StftError> {
        let stft = Stft::new(FRAME, HOP, &[], memory)?;
        Ok(Self { stft, magnitudes: [0.0; BINS], mask: [0.0; BINS], block: [0.0; FRAME] })
    }

    /// Takes `HOP` samples and writes as many.
    ///
    /// # Errors
    /// If a network cannot be stepped.
    pub fn push(&mut self, noisy: &[f32], clean: &mut [f32], step: Step<'_>) -> Result<(), HopError> {
        self.stft.push(noisy);
        let Some(bins) = self.stft.analyze() else { return Ok(()) };
        for (magnitude, [re, im]) in self.magnitudes.iter_mut().zip(&*bins) {
            *magnitude = (re * re + im * im).sqrt();
        }
        let [dc, nyquist] = bins[0];
        (self.magnitudes[0], self.magnitudes[BINS - 1]) = (dc.abs(), nyquist.abs());
        step(0, &self.magnitudes, &mut [&mut self.mask])?;
        for ([re, im], mask) in bins.iter_mut().zip(self.mask) {
            (*re, *im) = (*re * mask, *im * mask);
        }
        bins[0] = [dc * self.mask[0], nyquist * self.mask[BINS - 1]];
        let frame = self.stft.invert();
        step(1, frame, &mut [&mut self.block])?;
        frame.copy_from_slice(&self.block);
        clean.copy_from_slice(self.stft.add());
        Ok(())
    }
}
