//! The features computed in integers: no floating point, and the same bits on every target. `FORMAT.md` defines every
//! rounding.
//!
//! ```text
//! frame · 2^shift → window → FFT (32 bits) → |bin| or |bin|² → mel bands (64 bits) → ln (24 fraction bits) → DCT → i16
//!                                                                                                          → · gain → i16
//! ```
//!
//! The shift scales the loudest sample of a frame to 15 bits, and the logarithm compensates it, so that quiet frames
//! have the same precision as loud ones.
//!
//! | file | contents |
//! |---|---|
//! | `section.rs` | the tables in the section |
//! | `tables.rs` | the tables that a packer writes (feature `libm`) |
//! | `fft.rs` | the FFT |
//! | `log.rs` | magnitude and logarithm, with their error bounds |

mod fft;
mod log;
mod section;
#[cfg(feature = "libm")]
mod tables;

pub use fft::{Circle, Complex, Fft, Plain, SEVERAL, bin, first_stage, stage, stride};
pub use log::{LN_MAX_ERROR, MAGNITUDE_MAX_ERROR, TURNS};
pub(super) use section::Tables;

use core::marker::PhantomData;

use super::frames::Frame;
use super::section::Halves;
use super::settings::{First, MfccSettings, Spectrum};
use crate::quant::{NO_LONG_MULTIPLY, mulh, saturate};
use log::{LN_GAIN, ln, magnitude};
use section::{EMPHASIS_BITS, LogMelWords, ONE};

/// Fraction bits of a feature before it is rounded.
const GUARD_BITS: u32 = 10;

/// Computes the features of a frame, each converted to an `F`.
pub(super) fn extract<'f, T: Fft, F: 'f>(
    settings: &MfccSettings,
    tables: &Tables<'_>,
    frame: Frame<'_>,
    work: &mut [u32],
    mut features: impl Iterator<Item = &'f mut F>,
    made: impl Fn(i16) -> F,
) {
    let Some((points, bands)) = split(settings, work) else { return };
    let shift = window(tables.window, settings.heard_len(), frame, points);
    let spectrum = Bins::<T>::new(points, settings, tables);
    let points_log = settings.fft_len.trailing_zeros() as i32;
    if settings.first == First::LogEnergy {
        let scale = if settings.spectrum == Spectrum::Power { points_log } else { 2 * points_log };
        let energy = log_of(spectrum.energy(), scale - 60 - 2 * shift, 0, tables.log_floor);
        if let Some(feature) = features.next() {
            *feature = made(rounded(1 << (GUARD_BITS - 1), mulh(energy, tables.energy)));
        }
    }
    let (exponent, gain) = match settings.spectrum {
        Spectrum::Magnitude => (points_log - 45 - shift, LN_GAIN),
        Spectrum::Power => (points_log - 60 - 2 * shift, 0),
    };
    spectrum.mel(settings.spectrum, tables, bands, |sum| log_of(sum, exponent, gain, tables.log_floor));
    // Compensates the average loss of the floors of all products, and adds half a unit.
    let start = (1 << (GUARD_BITS - 1)) + settings.mel_bands as i32 / 2;
    let mut rows = tables.dct;
    for feature in features {
        let (row, rest) = rows.split_at_checked(bands.len()).unwrap_or_default();
        let products = row.iter().zip(&*bands).map(|(&weight, &band)| mulh(band, i32::from_le_bytes(weight)));
        *feature = made(rounded(0, products.fold(start, i32::wrapping_add)));
        rows = rest;
    }
}

/// Computes the features of a frame of [`Method::LogMel`](super::Method::LogMel), each converted to an `F`.
pub(super) fn extract_log_mel<'f, T: Fft, F: 'f>(
    settings: &MfccSettings,
    tables: &Tables<'_>,
    frame: Frame<'_>,
    work: &mut [u32],
    features: impl Iterator<Item = &'f mut F>,
    made: impl Fn(i16) -> F,
) {
    let Some((points, bands)) = split(settings, work) else { return };
    let shift = emphasized_window(tables, settings.heard_len(), frame, points);
    let spectrum = Bins::<T>::new(points, settings, tables);
    let exponent = settings.fft_len.trailing_zeros() as i32 - 60 - 2 * shift;
    spectrum.mel(Spectrum::Power, tables, bands, |sum| log_of(sum, exponent, 0, tables.log_floor));
    let &LogMelWords { gain, offset, middle, most, .. } = &tables.log_mel;
    for (feature, &band) in features.zip(&*bands) {
        let value = mulh(band, gain).wrapping_add(offset);
        // Rounds toward the middle. `clamp` would contain a panic.
        let is_below = i64::from(value) < i64::from(middle) << GUARD_BITS;
        let value = value.saturating_add(if is_below { (1 << GUARD_BITS) - 1 } else { 0 }) >> GUARD_BITS;
        *feature = made(saturate(value.min(most).max(0)));
    }
}

/// The points of the FFT and the mel bands.
fn split<'w>(settings: &MfccSettings, work: &'w mut [u32]) -> Option<(&'w mut [Complex], &'w mut [i32])> {
    let (points, bands) = work.split_at_mut_checked(settings.fft_len as usize)?;
    let points: &mut [i32] = bytemuck::must_cast_slice_mut(points);
    Some((points.as_chunks_mut().0, bytemuck::must_cast_slice_mut(bands)))
}

fn rounded(start: i32, sum: i32) -> i16 {
    saturate(start.wrapping_add(sum) >> GUARD_BITS)
}

/// The greater of the floor and ln(`sum` · 2^`exponent`) - `gain`.
fn log_of(sum: u64, exponent: i32, gain: i32, floor: i32) -> i32 {
    if sum == 0 { floor } else { ln(sum, exponent).wrapping_sub(gain).max(floor) }
}

/// Shifts the used samples left as far as the loudest permits, multiplies them by the window, and stores them. Returns
/// the shift.
fn window(weights: Halves<'_>, heard_len: usize, frame: Frame<'_>, points: &mut [Complex]) -> i32 {
    // The bits that differ from the sign; one more is reserved for the sign.
    let mut bits = 0_i16;
    for samples in heard(frame, heard_len) {
        bits = samples.iter().fold(bits, |bits, &sample| bits | sample ^ sample >> 15);
    }
    let shift = bits.leading_zeros().saturating_sub(1);
    // The factors are at most 2^15 and less than 2^16, so the sum is below 2^31.
    let value = |_, sample, weight| ((i32::from(sample) << shift).wrapping_mul(weight) + 2) >> 2;
    store(points, weights, heard_len, frame, value);
    shift as i32
}

/// [`window`] after the pre-emphasis, whose values have 14 more bits. Returns the shift that samples would have.
fn emphasized_window(tables: &Tables<'_>, heard_len: usize, frame: Frame<'_>, points: &mut [Complex]) -> i32 {
    let emphasis = tables.log_mel.emphasis.cast_signed();
    // At most 2^30.
    let emphasized =
        |before: i16, sample: i16| (i32::from(sample) << EMPHASIS_BITS) - i32::from(before).wrapping_mul(emphasis);
    let (mut bits, mut before) = (0, frame.before);
    for samples in heard(frame, heard_len) {
        for &sample in samples {
            let value = emphasized(before, sample);
            bits |= value ^ value >> 31;
            before = sample;
        }
    }
    let shift = bits.leading_zeros().saturating_sub(2);
    // At most 2^29.
    let value = |before, sample, weight: i32| mulh(emphasized(before, sample) << shift, weight << 15);
    store(points, tables.window, heard_len, frame, value);
    shift as i32 - 1
}

/// The used samples of a frame.
fn heard(frame: Frame<'_>, heard_len: usize) -> [&[i16]; 2] {
    let [straight, wrapped] = frame.pieces;
    let straight = straight.get(..heard_len).unwrap_or(straight);
    [straight, wrapped.get(..heard_len.saturating_sub(straight.len())).unwrap_or(wrapped)]
}

/// Stores a value for each used sample in pairs in bit-reversed order; the rest are zeros. `value` takes the sample before,
/// the sample, and its weight. The weight of a rectangular window repeats.
fn store(
    points: &mut [Complex],
    mut weights: Halves<'_>,
    heard_len: usize,
    frame: Frame<'_>,
    value: impl Fn(i16, i16, i32) -> i32,
) {
    points.fill([0, 0]);
    let (mut places, mut before) = (points.as_flattened_mut(), frame.before);
    let mut put = |place: &mut i32, sample: i16, weight: [u8; 2]| {
        *place = value(before, sample, i32::from(u16::from_le_bytes(weight)));
        before = sample;
    };
    for samples in heard(frame, heard_len) {
        let Some((own, others)) = places.split_at_mut_checked(samples.len()) else { break };
        places = others;
        let pairs = own.iter_mut().zip(samples);
        if let &[weight] = weights {
            pairs.for_each(|(place, &sample)| put(place, sample, weight));
        } else {
            let (own, later) = weights.split_at_checked(samples.len()).unwrap_or((weights, &[]));
            weights = later;
            pairs.zip(own).for_each(|((place, &sample), &weight)| put(place, sample, weight));
        }
    }
    in_reversed_places(points, |point| point);
}

/// Applies `made` to each point and moves the result to the position whose index has the same bits in reverse order. The
/// number of points is a power of two.
#[inline(always)]
pub(super) fn in_reversed_places<P: Copy>(points: &mut [P], made: impl Fn(P) -> P) {
    // x86 has no instruction that reverses bits. There the reversed index is counted up too, with carries to its low bits.
    const BY_COUNTING: bool = cfg!(any(target_arch = "x86", target_arch = "x86_64"));
    let unused = points.len().leading_zeros() + 1;
    let mut counted = 0;
    for index in 0..points.len() {
        let reversed = if BY_COUNTING { counted } else { index.reverse_bits().wrapping_shr(unused) };
        if BY_COUNTING {
            let kept = points.len().wrapping_shr((index + 1).trailing_zeros() + 1);
            counted ^= points.len().wrapping_sub(kept);
        }
        if index > reversed {
            continue;
        }
        // `swap` would contain a panic.
        let (Some(&point), Some(&other)) = (points.get(index), points.get(reversed)) else { return };
        for (place, point) in [(reversed, point), (index, other)] {
            if let Some(to) = points.get_mut(place) {
                *to = made(point);
            }
        }
    }
}

/// The result of the FFT.
struct Bins<'p, 'a, T> {
    points: &'p mut [Complex],
    circle: Circle<'a>,
    by: PhantomData<T>,
}

impl<'p, 'a, T: Fft> Bins<'p, 'a, T> {
    /// Transforms points in bit-reversed order.
    fn new(points: &'p mut [Complex], settings: &MfccSettings, tables: &Tables<'a>) -> Self {
        let circle = Circle { sines: tables.sines, quarter: settings.fft_len as usize / 4 };
        T::fft(points, circle);
        Self { points, circle, by: PhantomData }
    }

    /// The sum of the squares of every bin.
    fn energy(&self) -> u64 {
        let squares = (0..=self.points.len()).map(|place| power(bin(self.points, self.circle, place)));
        squares.fold(0, u64::wrapping_add)
    }

    /// Computes the mel bands.
    ///
    /// ```text
    /// band[b] = Σ S[k] · (1 - weight[k])  for k in edge[b]..edge[b+1],  S[k] = |X[k]| or |X[k]|²
    ///         + Σ S[k] · weight[k]        for k in edge[b+1]..edge[b+2]
    /// ```
    fn mel(&self, of_bin: Spectrum, tables: &Tables<'_>, bands: &mut [i32], log: impl Fn(u64) -> i32) {
        let edge = |bytes: &[u8; 4]| u32::from_le_bytes(*bytes) as usize;
        let mut edges = tables.edges.iter().map(edge);
        let (mut place, mut weights) = (edges.next().unwrap_or(0), tables.weights.iter());
        // The magnitudes of the bins before `until`.
        let (mut sizes, mut until) = ([0; SEVERAL], 0);
        let mut share = |end: usize| {
            let (mut falling, mut all) = (0_u64, 0_u64);
            while place < end {
                let weight = weights.next().map_or(0, |&weight| u16::from_le_bytes(weight));
                let (weighted, size) = if T::WIDE && of_bin == Spectrum::Magnitude {
                    if place >= until {
                        (sizes, until) = (T::magnitudes(self.points, self.circle, place), place + SEVERAL);
                    }
                    of_magnitude(sizes.get(place + SEVERAL - until).copied().unwrap_or(0), weight)
                } else {
                    let value = bin(self.points, self.circle, place);
                    match of_bin {
                        Spectrum::Magnitude => of_magnitude(magnitude(value), weight),
                        Spectrum::Power => {
                            let size = power(value);
                            (share_of(size, weight), size)
                        }
                    }
                };
                (falling, all) = (falling.wrapping_add(weighted), all.wrapping_add(size));
                place += 1;
            }
            (falling, all.wrapping_sub(falling))
        };
        let (_, mut below) = share(edges.next().unwrap_or(0));
        for (band, end) in bands.iter_mut().zip(edges) {
            let (falling, rising) = share(end);
            *band = log(below.wrapping_add(falling));
            below = rising;
        }
    }
}

/// The weighted magnitude of a bin, and the unweighted one.
#[inline(always)]
fn of_magnitude(size: u32, weight: u16) -> (u64, u64) {
    (product(size, weight), u64::from(size) * u64::from(ONE))
}

/// re² + im²
fn power([re, im]: Complex) -> u64 {
    square(re.unsigned_abs()).wrapping_add(square(im.unsigned_abs()))
}

// A 64-bit product is a function call on Armv6-M. There the same product is computed from halves.

fn square(x: u32) -> u64 {
    if NO_LONG_MULTIPLY {
        let (high, low) = (x >> 16, x & 0xffff);
        let middle = u64::from(high * low);
        (u64::from(high * high) << 32).wrapping_add(middle << 17).wrapping_add(u64::from(low * low))
    } else {
        u64::from(x) * u64::from(x)
    }
}

#[cfg_attr(not(target_os = "none"), inline)]
pub(super) fn product(x: u32, weight: u16) -> u64 {
    let weight = u32::from(weight);
    if NO_LONG_MULTIPLY {
        (u64::from((x >> 16) * weight) << 16) + u64::from((x & 0xffff) * weight)
    } else {
        u64::from(x) * u64::from(weight)
    }
}

/// `x` · `weight` / 2^15, rounded down.
fn share_of(x: u64, weight: u16) -> u64 {
    (product((x >> 32) as u32, weight) << 17).wrapping_add(product(x as u32, weight) >> 15)
}
