//! The features of TensorFlow Lite Micro's audio front end (`micro_features`), bit for bit. `FORMAT.md` defines every
//! rounding.
//!
//! ```text
//! frame → window · 2^shift → FFT (16 bits) → energies → channels (64 bits) → √ → noise reduction → gain → 64 ln → i16
//! ```
//!
//! The noise estimate of each channel is kept from frame to frame, in the working memory after the FFT.
//!
//! | file | contents |
//! |---|---|
//! | `section.rs` | the tables in the section |
//! | `tables.rs` | the tables that a packer writes (feature `libm`) |
//! | `fft.rs` | the FFT and the energies of its bins |
//! | `channel.rs` | from the energy of a channel to its feature |

mod channel;
mod fft;
mod section;
#[cfg(feature = "libm")]
mod tables;

pub use section::Tables;

use super::frames::Frame;
use super::integer::{in_reversed_places, product};
use super::section::Halves;
use super::settings::MfccSettings;
use channel::{raw, slot};
use fft::{Circle, energies, fft};

/// Computes the features of a frame, each converted to an `F`. `work` is `[fft_len / 2 + mel_bands]`; its end holds the
/// noise estimates, which are 0 at the start of a stream.
pub fn extract<'f, F: 'f>(
    settings: &MfccSettings,
    tables: &Tables<'_>,
    frame: Frame<'_>,
    work: &mut [u32],
    features: impl Iterator<Item = &'f mut F>,
    made: impl Fn(i16) -> F,
) {
    let Some((points, estimates)) = work.split_at_mut_checked(settings.fft_len as usize / 2) else { return };
    let shift = window(tables.window, frame, points);
    let circle = Circle { sines: tables.sines, quarter: settings.fft_len as usize / 4 };
    fft(points, circle);
    energies(points, circle);
    let mut sides = Sides::new(points, tables);
    let (_, mut below) = sides.next();
    // The loss of the FFT's divisions in octaves, less half of the 12 fraction bits of the mel weights (root of their sum).
    let correction = settings.fft_len.trailing_zeros().wrapping_sub(6);
    for (index, (feature, estimate)) in features.zip(estimates).enumerate() {
        let (falling, rising) = sides.next();
        let energy = below.wrapping_add(falling);
        *feature = made(slot(raw(energy, shift, index, estimate, tables, correction), tables));
        below = rising;
    }
}

/// Multiplies the samples by the window, shifts them left as far as the loudest permits, and stores them in pairs in
/// bit-reversed order; the rest are zeros. Returns the shift.
fn window(mut weights: Halves<'_>, frame: Frame<'_>, points: &mut [u32]) -> u32 {
    points.fill(0);
    // In order: a point holds two samples, the first in its low half.
    let mut windowed = bytemuck::must_cast_slice_mut::<u32, i16>(points);
    let mut loudest = 0_i16;
    for samples in frame.pieces {
        let Some((own, later)) = weights.split_at_checked(samples.len().min(weights.len())) else { break };
        let Some((to, rest)) = windowed.split_at_mut_checked(own.len()) else { break };
        (weights, windowed) = (later, rest);
        for ((to, &sample), &weight) in to.iter_mut().zip(samples).zip(own) {
            *to = ((i32::from(sample) * i32::from(u16::from_le_bytes(weight))) >> 12) as i16;
            // As in C, -32768 is its own absolute value, so that it is never the loudest.
            loudest = loudest.max(to.wrapping_abs());
        }
    }
    let shift = loudest.leading_zeros() - 1;
    let shifted = |point: u32| (point << shift & 0xffff) | (point >> 16 << shift << 16);
    in_reversed_places(points, shifted);
    shift
}

/// The sides of the channels, from low to high frequencies.
struct Sides<'w, 'a> {
    energies: &'w [u32],
    weights: Halves<'a>,
    edges: Halves<'a>,
}

impl<'w, 'a> Sides<'w, 'a> {
    fn new(energies: &'w [u32], tables: &Tables<'a>) -> Self {
        let first = tables.edges.first().map_or(0, |&edge| usize::from(u16::from_le_bytes(edge)));
        Self { energies: energies.get(first..).unwrap_or_default(), weights: tables.weights, edges: tables.edges }
    }

    /// The energies of the bins between two edges, weighted for the channel that falls there and for the one that rises.
    fn next(&mut self) -> (u64, u64) {
        let &[from, to, ..] = self.edges else { return (0, 0) };
        let bins = usize::from(u16::from_le_bytes(to).saturating_sub(u16::from_le_bytes(from)));
        let (energies, later) = self.energies.split_at_checked(bins).unwrap_or_default();
        let (weights, others) = self.weights.split_at_checked(2 * bins).unwrap_or_default();
        (self.energies, self.weights) = (later, others);
        self.edges = self.edges.get(1..).unwrap_or_default();
        let mut sums = (0_u64, 0_u64);
        for (&energy, &[falling, rising]) in energies.iter().zip(weights.as_chunks().0) {
            sums.0 = sums.0.wrapping_add(product(energy, u16::from_le_bytes(falling)));
            sums.1 = sums.1.wrapping_add(product(energy, u16::from_le_bytes(rising)));
        }
        sums
    }
}
