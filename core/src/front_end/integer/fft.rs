//! The FFT of a frame in 32 bits: half as many complex points as the frame has samples, in place, radix 4.
//!
//! Every stage halves as often as it doubles, so that no point exceeds the greatest sample by more than the roundings: from
//! samples of at most 2^29, complex points of at most 2^29.5, and every sum below stays within 32 bits. A rounding is a
//! floor; arithmetic wraps, for a table that is no sine may say anything.

use crate::front_end::section::Table;
use crate::quant::mulh;

/// Real and imaginary part.
pub type Complex = [i32; 2];

/// Where on the circle of `4 * quarter` points something is, from the sines of its first quarter.
#[derive(Clone, Copy, Debug)]
pub struct Circle<'a> {
    /// sin(2π k / points) · 2^31 for k = 0 to `quarter`, at most 2^31 - 1.
    pub sines: Table<'a>,
    /// Points of a quarter, a power of two.
    pub quarter: usize,
}

impl Circle<'_> {
    /// cos and sin of 2π `index` / points, in 2^-31.
    fn at(self, index: usize) -> [i32; 2] {
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

/// Half of `point` turned back by an angle.
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

/// The FFT of as many points as half the circle has, over their number, in place. They come in bit-reversed order.
pub fn fft(points: &mut [Complex], circle: Circle<'_>) {
    let count = points.len();
    let mut quarter = 1;
    if count.trailing_zeros() & 1 == 1 {
        for [a, b] in points.as_chunks_mut().0 {
            [*a, *b] = [halved(sum(*a, *b)), halved(difference(*a, *b))];
        }
        quarter = 2;
    }
    while quarter < count {
        // A step of a stage is so many of the circle.
        let step = count.trailing_zeros() - quarter.trailing_zeros() - 1;
        for k in 0..quarter {
            let angle = k << step;
            let angles = [circle.at(angle), circle.at(2 * angle), circle.at(3 * angle)];
            let mut at = k;
            while at < count {
                quad(points, at, quarter, (k > 0).then_some(&angles));
                at += 4 * quarter;
            }
        }
        quarter *= 4;
    }
}

/// Four points at a distance, of which the second and the third are in each other's place.
#[inline(always)]
fn quad(points: &mut [Complex], at: usize, quarter: usize, angles: Option<&[[i32; 2]; 3]>) {
    let places = [at, at + quarter, at + 2 * quarter, at + 3 * quarter];
    let [Some(a), Some(c), Some(b), Some(d)] = places.map(|place| points.get(place).copied()) else { return };
    let (a, [b, c, d]) = match angles {
        Some(&[once, twice, thrice]) => (halved(a), [turned(b, once), turned(c, twice), turned(d, thrice)]),
        None => (halved(a), [halved(b), halved(c), halved(d)]),
    };
    let (even, odd) = (sum(a, c), difference(a, c));
    let (both, [re, im]) = (sum(b, d), difference(b, d));
    let turned = [im, re.wrapping_neg()];
    let results = [sum(even, both), sum(odd, turned), difference(even, both), difference(odd, turned)];
    for (place, result) in places.into_iter().zip(results) {
        if let Some(point) = points.get_mut(place) {
            *point = halved(result);
        }
    }
}

/// Bin `bin` of the FFT of the real samples, over half their number; `points` are what [`fft`] gave.
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
