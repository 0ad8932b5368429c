//! GTCRN (Rong et al., ICASSP 2024): a network from one spectrum to another.
//!
//! ```text
//! 512 samples, 256 new → √Hann → FFT → [257 × (re, im)] → network → inverse FFT → √Hann → overlap-add
//! ```

use tidegate::{Stft, StftError};

use super::network::{HopError, Step};

const FRAME: usize = 512;
/// New samples of a frame.
pub const HOP: usize = 256;
/// Numbers of a spectrum: a real and an imaginary part for each bin.
const SPECTRUM: usize = FRAME + 2;
/// Sizes of the input and of the output of the network.
pub const PORTS: [(&[usize], &[usize]); 1] = [(&[SPECTRUM], &[SPECTRUM])];

/// A stream of sound.
#[derive(Debug)]
pub struct Gtcrn<'b> {
    stft: Stft<'b, 'b>,
    noisy: [f32; SPECTRUM],
    clean: [f32; SPECTRUM],
}

impl<'b> Gtcrn<'b> {
    /// Elements of memory.
    pub const MEMORY_LEN: usize = FRAME + Stft::memory_len(FRAME);

    /// Starts a stream with silence before the first sample.
    ///
    /// # Errors
    /// If `memory` is shorter than [`MEMORY_LEN`](Self::MEMORY_LEN).
    pub fn new(memory: &'b mut [f32]) -> Result<Self, StftError> {
        let (window, memory) = memory.split_at_mut_checked(FRAME).unwrap_or_default();
        Stft::sqrt_hann(window);
        Ok(Self { stft: Stft::new(FRAME, HOP, window, memory)?, noisy: [0.0; SPECTRUM], clean: [0.0; SPECTRUM] })
    }

    /// Takes `HOP` samples and writes as many: those of the previous hop.
    ///
    /// # Errors
    /// If the network cannot be stepped.
    pub fn push(&mut self, noisy: &[f32], clean: &mut [f32], step: Step<'_>) -> Result<(), HopError> {
        self.stft.push(noisy);
        let Some(bins) = self.stft.analyze() else { return Ok(()) };
        // The last bin is stored as the imaginary part of the first.
        self.noisy[..FRAME].copy_from_slice(bins.as_flattened());
        (self.noisy[1], self.noisy[FRAME]) = (0.0, bins[0][1]);
        step(0, &self.noisy, &mut [&mut self.clean])?;
        bins.as_flattened_mut().copy_from_slice(&self.clean[..FRAME]);
        bins[0][1] = self.clean[FRAME];
        self.stft.invert();
        clean.copy_from_slice(self.stft.add());
        Ok(())
    }
}
