//! The FFT of a frame in 32 bits, in place, radix 4, over half as many complex points as the frame has samples.
//!
//! Every stage halves as often as it doubles, so that no point exceeds the greatest sample by more than the rounding
//! errors. Samples are at most 2^29, complex points therefore at most 2^29.5, and every sum fits 32 bits. Roundings are
//! floors. Arithmetic wraps, because a table of an untrusted image may not contain sines.

use crate::front_end::section::Table;
use crate::quant::mulh;

/// Real and imaginary part.
pub type Complex = [i32; 2];

/// A circle of `4 * quarter` points, given by the sines of its first quarter.
#[derive(Clone, Copy, Debug)]
pub struct Circle<'a> {
    /// sin(2π k / points) · 2^31 for k = 0 to `quarter`, at most 2^31 - 1.
    pub sines: Table<'a>,
    /// Number of points of a quarter, a power of two.
    pub quarter: usize,
}

impl Circle<'_> {
    /// cos and sin of 2π `index` / points, in units of 2^-31.
    #[cfg_attr(not(target_os = "none"), inline)]
    pub fn at(self, index: usize) -> [i32; 2] {
        let rest = index & self.quarter.wrapping_sub(1);
        let sine = |index: usize| self.sines.get(index).map_or(0, |&word| i32::from_le_bytes(word));
        let (sin, cos) = (sine(rest), sine(self.quarter - rest));
        match index >> self.quarter.trailing_zeros() & 3 {
            0 => [cos, sin],
            1 => [sin.wrapping_neg(), cos],
            2 => [cos.wrapping_neg(), sin.wrapping_neg()],
            _ => [sin, cos.wrapping_neg()],
        }
    }
}

/// Half of `point`, rotated backwards by an angle.
#[inline(always)]
fn turned([re, im]: Complex, [cos, sin]: [i32; 2]) -> Complex {
    [mulh(re, cos).wrapping_add(mulh(im, sin)), mulh(im, cos).wrapping_sub(mulh(re, sin))]
}

fn halved([re, im]: Complex) -> Complex {
    [re >> 1, im >> 1]
}

fn sum([a, b]: Complex, [c, d]: Complex) -> Complex {
    [a.wrapping_add(c), b.wrapping_add(d)]
}

fn difference([a, b]: Complex, [c, d]: Complex) -> Complex {
    [a.wrapping_sub(c), b.wrapping_sub(d)]
}

/// An implementation of the FFT. All implementations give the same bits.
pub trait Fft {
    /// Whether [`magnitudes`](Self::magnitudes) computes several at once.
    const WIDE: bool = false;

    /// Computes the FFT of half as many points as the circle has, divided by their number, in place. The points are in
    /// bit-reversed order.
    fn fft(points: &mut [Complex], circle: Circle<'_>);

    /// The magnitudes of [`SEVERAL`] [bins](bin): of the given one and those after it.
    fn magnitudes(_points: &[Complex], _circle: Circle<'_>, _first: usize) -> [u32; SEVERAL] {
        [0; SEVERAL]
    }
}

/// Bins that [`Fft::magnitudes`] computes at once.
pub const SEVERAL: usize = 8;

/// The portable implementation of [`Fft`].
#[derive(Debug)]
pub struct Plain;

impl Fft for Plain {
    fn fft(points: &mut [Complex], circle: Circle<'_>) {
        let mut quarter = first_stage(points);
        while quarter < points.len() {
            stage(points, circle, quarter);
            quarter *= 4;
        }
    }
}

/// Combines pairs of points, unless stages of four points suffice. Returns the distance of the points that the next stage
/// combines.
pub fn first_stage(points: &mut [Complex]) -> usize {
    if points.len().trailing_zeros() & 1 == 0 {
        return 1;
    }
    for [a, b] in points.as_chunks_mut().0 {
        [*a, *b] = [halved(sum(*a, *b)), halved(difference(*a, *b))];
    }
    2
}

/// Combines points at distances of `quarter`.
#[inline(always)]
pub fn stage(points: &mut [Complex], circle: Circle<'_>, quarter: usize) {
    let step = stride(points.len(), quarter);
    for k in 0..quarter {
        let points = points.get_mut(k..).unwrap_or_default();
        if k == 0 {
            quads(points, quarter, |[a, b, c, d]| [halved(a), halved(b), halved(c), halved(d)]);
            continue;
        }
        let angle = k << step;
        let [once, twice, thrice] = [circle.at(angle), circle.at(2 * angle), circle.at(3 * angle)];
        quads(points, quarter, |[a, b, c, d]| [halved(a), turned(b, once), turned(c, twice), turned(d, thrice)]);
    }
}

/// Shift from an index within a stage to an index on the circle.
pub fn stride(points: usize, quarter: usize) -> u32 {
    points.trailing_zeros() - quarter.trailing_zeros() - 1
}

/// Combines each group of four points at a distance of `quarter`, after `turned` has rotated and halved them. The
/// second and the third point of a group are swapped.
#[inline(always)]
fn quads(mut points: &mut [Complex], quarter: usize, turned: impl Fn([Complex; 4]) -> [Complex; 4]) {
    while let Some((first, rest)) = points.split_at_mut_checked(quarter)
        && let Some((third, rest)) = rest.split_at_mut_checked(quarter)
        && let Some((second, rest)) = rest.split_at_mut_checked(quarter)
        && let [first, ..] = first
        && let [second, ..] = second
        && let [third, ..] = third
        && let [fourth, ..] = rest
    {
        let [a, b, c, d] = turned([*first, *second, *third, *fourth]);
        let (even, odd) = (sum(a, c), difference(a, c));
        let (both, [re, im]) = (sum(b, d), difference(b, d));
        let across = [im, re.wrapping_neg()];
        *first = halved(sum(even, both));
        *third = halved(sum(odd, across));
        *second = halved(difference(even, both));
        *fourth = halved(difference(odd, across));
        points = rest.get_mut(quarter..).unwrap_or_default();
    }
}

/// Bin `bin` of the FFT of the real samples, divided by half their number; `points` is the result of [`Fft::fft`].
#[inline]
pub fn bin(points: &[Complex], circle: Circle<'_>, bin: usize) -> Complex {
    let mask = points.len().wrapping_sub(1);
    let (Some(&a), Some(&[re, im])) = (points.get(bin & mask), points.get(points.len().wrapping_sub(bin) & mask))
    else {
        return [0, 0];
    };
    let mirrored = [re, im.wrapping_neg()];
    let [re, im] = turned(difference(a, mirrored), circle.at(bin));
    sum(halved(sum(a, mirrored)), [im, re.wrapping_neg()])
}
