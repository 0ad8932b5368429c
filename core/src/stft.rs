//! The short-time Fourier transform of a stream, and its inverse by overlap-add: for networks that change the spectrum of
//! a sound frame by frame, such as those that suppress noise.
//!
//! ```text
//! samples → frame of `len` every `hop` → window → FFT → bins → inverse FFT → frame → window → overlap-add → samples
//! ```

use crate::error::BufferTooSmall;
use crate::rfft::rfft;
use crate::text::{Text, error_of_text};

/// Why an [`Stft`] cannot start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
#[expect(missing_docs, reason = "the variants say what their fields hold")]
pub enum StftError {
    /// A frame does not have 256, 512, 1024 or 2048 samples.
    Len { found: usize },
    /// The hop does not divide the frame.
    Hop { found: usize, len: usize },
    /// The window is neither empty nor as long as a frame.
    Window { found: usize, len: usize },
    /// The memory is shorter than [`Stft::memory_len`].
    Memory(BufferTooSmall),
}

impl StftError {
    const fn text(&self) -> Text {
        let text = Text::NEW.text("STFT: ");
        match *self {
            Self::Len { found } => text.with("frames of {} samples; 256, 512, 1024, 2048 are supported", &[found]),
            Self::Hop { found, len } => text.with("a hop of {} samples does not divide a frame of {}", &[found, len]),
            Self::Window { found, len } => text.with("a window of {} samples for frames of {}", &[found, len]),
            Self::Memory(BufferTooSmall { needed, given }) => {
                text.with("the memory has {} elements, but {} are needed", &[given, needed])
            }
        }
    }
}

error_of_text!(StftError);

/// A stream of samples whose spectrum is changed frame by frame. Every `hop` samples, a frame takes the last `len`
/// samples; the samples before the first one are zeros. The same window multiplies a frame before its FFT and after the
/// inverse FFT. The output is delayed by `len - hop` samples.
///
/// ```
/// # fn suppress(bins: &mut [[f32; 2]]) {}
/// # fn play(samples: &[f32]) {}
/// # fn show(stft: &mut tidegate::Stft, mut samples: &[f32]) {
/// while !samples.is_empty() {
///     let taken = stft.push(samples);
///     samples = &samples[taken..];
///     if let Some(bins) = stft.analyze() {
///         suppress(bins);
///         let _frame = stft.invert();
///         play(stft.add());
///     }
/// }
/// # }
/// ```
#[derive(Debug)]
pub struct Stft<'w, 'b> {
    /// `[len]`; empty if all weights are 1.
    window: &'w [f32],
    hop: usize,
    /// `[len]`, a ring of the last samples.
    input: &'b mut [f32],
    /// `[len]`: bins, or samples.
    frame: &'b mut [f32],
    /// `[len]`, a ring of the sums of all frames.
    output: &'b mut [f32],
    /// Position of the oldest sample in `input`.
    oldest: usize,
    /// Number of samples since the last frame.
    fresh: usize,
    /// Position of the samples in `output` that the last frame finished.
    finished: usize,
}

impl<'w, 'b> Stft<'w, 'b> {
    /// Elements of memory for frames of `len` samples.
    pub const fn memory_len(len: usize) -> usize {
        3 * len
    }

    /// Starts with zeros. A frame has `len` samples (256, 512, 1024 or 2048), of which `hop` are new; `window` has a
    /// weight for each of them, or is empty. `memory` is borrowed until the stream is dropped.
    ///
    /// # Errors
    /// If `len` is not supported, `hop` does not divide it, `window` has another length, or `memory` is shorter than
    /// [`memory_len`](Self::memory_len).
    pub fn new(len: usize, hop: usize, window: &'w [f32], memory: &'b mut [f32]) -> Result<Self, StftError> {
        if !matches!(len, 256 | 512 | 1024 | 2048) {
            return Err(StftError::Len { found: len });
        }
        if !len.is_multiple_of(hop) {
            return Err(StftError::Hop { found: hop, len });
        }
        if !window.is_empty() && window.len() != len {
            return Err(StftError::Window { found: window.len(), len });
        }
        let too_small = StftError::Memory(BufferTooSmall { needed: Self::memory_len(len), given: memory.len() });
        let (input, rest) = memory.split_at_mut_checked(len).ok_or(too_small)?;
        let (frame, rest) = rest.split_at_mut_checked(len).ok_or(too_small)?;
        let output = rest.get_mut(..len).ok_or(too_small)?;
        let mut stft = Self { window, hop, input, frame, output, oldest: 0, fresh: 0, finished: 0 };
        stft.reset();
        Ok(stft)
    }

    /// Writes the square root of the periodic Hann window. With a hop of half a frame, the squares of overlapping windows
    /// add up to 1.
    #[cfg(feature = "libm")]
    pub fn sqrt_hann(window: &mut [f32]) {
        let len = window.len() as f64;
        for (n, weight) in window.iter_mut().enumerate() {
            *weight = libm::sin(core::f64::consts::PI * n as f64 / len) as f32;
        }
    }

    /// Accepts samples until a frame is complete; returns the number of accepted samples, which is 0 while a frame waits
    /// for [`analyze`](Self::analyze).
    pub fn push(&mut self, samples: &[f32]) -> usize {
        let missing = self.hop.saturating_sub(self.fresh);
        let slots = self.input.iter_mut().skip(self.oldest).take(missing);
        let taken = slots.zip(samples).map(|(slot, &sample)| *slot = sample).count();
        self.fresh += taken;
        self.oldest = (self.oldest + taken) & self.input.len().wrapping_sub(1);
        taken
    }

    /// The spectrum of the next frame, `[len / 2]` bins of a real and an imaginary part, if `hop` samples have been pushed
    /// since the last one. Bin `len / 2` is real; it is stored as the imaginary part of bin 0, which is real too. The FFT
    /// is not scaled.
    pub fn analyze(&mut self) -> Option<&mut [[f32; 2]]> {
        if self.fresh < self.hop {
            return None;
        }
        self.fresh = 0;
        let (late, early) = self.input.split_at_checked(self.oldest)?;
        for (slot, &sample) in self.frame.iter_mut().zip(early.iter().chain(late)) {
            *slot = sample;
        }
        multiply(self.frame, self.window);
        let _ = rfft(self.frame);
        Some(self.frame.as_chunks_mut().0)
    }

    /// Transforms the bins of [`analyze`](Self::analyze), as the caller has changed them, back to a frame, `[len]` samples.
    pub fn invert(&mut self) -> &mut [f32] {
        // For x' = Re X - Im X, with the other half mirrored, the FFT of x' gives x in the same form.
        unfold(self.frame);
        let _ = rfft(self.frame);
        unfold(self.frame);
        let scale = 1.0 / self.frame.len() as f32;
        self.frame.iter_mut().for_each(|sample| *sample *= scale);
        self.frame
    }

    /// Multiplies the frame by the window and adds it to the sound. Returns the `hop` samples that this frame completes.
    pub fn add(&mut self) -> &[f32] {
        multiply(self.frame, self.window);
        if let Some(last) = self.output.get_mut(self.finished..).and_then(|last| last.get_mut(..self.hop)) {
            last.fill(0.0);
        }
        self.finished = (self.finished + self.hop) & self.output.len().wrapping_sub(1);
        let (late, early) = self.output.split_at_mut_checked(self.finished).unwrap_or_default();
        for (sum, &sample) in early.iter_mut().chain(late).zip(&*self.frame) {
            *sum += sample;
        }
        self.output.get(self.finished..).and_then(|sound| sound.get(..self.hop)).unwrap_or(&[])
    }

    /// Starts again with zeros.
    pub fn reset(&mut self) {
        (self.oldest, self.fresh, self.finished) = (0, 0, 0);
        self.input.fill(0.0);
        self.frame.fill(0.0);
        self.output.fill(0.0);
    }
}

/// Multiplies a frame by the window; an empty one is all ones.
fn multiply(frame: &mut [f32], window: &[f32]) {
    for (sample, weight) in frame.iter_mut().zip(window) {
        *sample *= weight;
    }
}

/// Turns the bins of a real FFT into the values of the discrete Hartley transform, in place: `H[k] = Re X[k] - Im X[k]`
/// for k from 0 to N - 1, where `X[N - k]` is the conjugate of `X[k]`.
fn unfold(bins: &mut [f32]) {
    for [re, im] in bins.as_chunks_mut().0.iter_mut().skip(1) {
        (*re, *im) = (*re - *im, *re + *im);
    }
    // H[k] is at 2k, and H[N - k] at 2k + 1. Rotating all bits of an index equals reversing all of them, and then all but
    // the first.
    reverse_bits(bins);
    let (first, second) = bins.split_at_mut_checked(bins.len() / 2).unwrap_or_default();
    reverse_bits(first);
    reverse_bits(second);
    if let [_, mirrored @ ..] = second {
        mirrored.reverse();
    }
}

/// Moves each element to the index with the bits in reverse order. The length is a power of two of at least 2.
fn reverse_bits(values: &mut [f32]) {
    let unused = values.len().leading_zeros() + 1;
    for index in 0..values.len() {
        let other = index.reverse_bits() >> (unused & (usize::BITS - 1));
        if index < other
            && let Ok([a, b]) = values.get_disjoint_mut([index, other])
        {
            core::mem::swap(a, b);
        }
    }
}
