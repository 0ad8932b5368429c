//! The FFT of a frame in 16 bits, in place, and the energies of its bins. Every rounding is that of kissfft in
//! TensorFlow Lite Micro.
//!
//! A point is a word: the real part in the low half, the imaginary part in the high half. Each stage divides its points
//! by 2 or 4 first. Sums wrap to 16 bits, as stores to `int16_t` do.

use crate::front_end::section::Halves;

/// Real and imaginary part, each within 16 bits.
type Complex = [i32; 2];

/// 1 / 2 and 1 / 4 in units of 2^-15, as kissfft rounds them.
const HALF: i32 = 32_767 / 2;
const QUARTER: i32 = 32_767 / 4;

/// A circle of `4 * quarter` points, given by the sines of its first quarter.
#[derive(Clone, Copy, Debug)]
pub struct Circle<'a> {
    /// sin(2π k / points) · 32767 for k = 0 to `quarter`; none is negative.
    pub sines: Halves<'a>,
    /// Number of points of a quarter, a power of two.
    pub quarter: usize,
}

impl Circle<'_> {
    /// cos and sin of 2π `index` / points.
    fn at(self, index: usize) -> [i32; 2] {
        let rest = index & self.quarter.wrapping_sub(1);
        let sine = |index: usize| self.sines.get(index).map_or(0, |&half| i32::from(i16::from_le_bytes(half)));
        let (sin, cos) = (sine(rest), sine(self.quarter - rest));
        match index >> self.quarter.trailing_zeros() & 3 {
            0 => [cos, sin],
            1 => [-sin, cos],
            2 => [-cos, -sin],
            _ => [sin, -cos],
        }
    }
}

/// Two values in a word; each wraps to 16 bits.
pub fn packed([re, im]: Complex) -> u32 {
    u32::from(re as u16) | (im as u32) << 16
}

fn unpacked(word: u32) -> Complex {
    [i32::from(word as i16), i32::from((word >> 16) as i16)]
}

fn wrapped([re, im]: Complex) -> Complex {
    [i32::from(re as i16), i32::from(im as i16)]
}

/// `value` · 2^-15, rounded to nearest, and halves up. Products of an i16 and a sine, and sums of two, do not overflow:
/// they are at most 2 · 32768 · 32767.
fn rounded(value: i32) -> i32 {
    i32::from(((value + (1 << 14)) >> 15) as i16)
}

fn scaled([re, im]: Complex, by: i32) -> Complex {
    [rounded(re * by), rounded(im * by)]
}

/// `point`, rotated backwards by an angle.
fn turned([re, im]: Complex, [cos, sin]: [i32; 2]) -> Complex {
    [rounded(re * cos + im * sin), rounded(im * cos - re * sin)]
}

fn sum([a, b]: Complex, [c, d]: Complex) -> Complex {
    wrapped([a + c, b + d])
}

fn difference([a, b]: Complex, [c, d]: Complex) -> Complex {
    wrapped([a - c, b - d])
}

/// The FFT of half as many points as the circle has, divided by their number, in place. The points are in bit-reversed
/// order.
pub fn fft(points: &mut [u32], circle: Circle<'_>) {
    let count = points.len();
    let mut quarter = 1;
    if count.trailing_zeros() & 1 == 1 {
        for [a, b] in points.as_chunks_mut().0 {
            let [even, odd] = [*a, *b].map(|word| scaled(unpacked(word), HALF));
            [*a, *b] = [packed(sum(even, odd)), packed(difference(even, odd))];
        }
        quarter = 2;
    }
    while quarter < count {
        // Shift from an index within the stage to an index on the circle.
        let step = count.trailing_zeros() - quarter.trailing_zeros() - 1;
        for k in 0..quarter {
            let angle = k << step;
            let turns = [circle.at(angle), circle.at(2 * angle), circle.at(3 * angle)];
            quads(points.get_mut(k..).unwrap_or_default(), quarter, turns);
        }
        quarter *= 4;
    }
}

/// Combines each group of four points at a distance of `quarter`. The second and the third point of a group are
/// swapped.
fn quads(mut points: &mut [u32], quarter: usize, turns: [[i32; 2]; 3]) {
    while let Some((first, rest)) = points.split_at_mut_checked(quarter)
        && let Some((third, rest)) = rest.split_at_mut_checked(quarter)
        && let Some((second, rest)) = rest.split_at_mut_checked(quarter)
        && let [first, ..] = first
        && let [second, ..] = second
        && let [third, ..] = third
        && let [fourth, ..] = rest
    {
        // In memory the results are in order.
        [*first, *third, *second, *fourth] = butterfly([*first, *second, *third, *fourth], turns);
        points = rest.get_mut(quarter..).unwrap_or_default();
    }
}

/// The FFT of four points, after the last three are turned; in order.
#[inline]
fn butterfly(words: [u32; 4], [once, twice, thrice]: [[i32; 2]; 3]) -> [u32; 4] {
    let [a, b, c, d] = words.map(|word| scaled(unpacked(word), QUARTER));
    let [b, c, d] = [turned(b, once), turned(c, twice), turned(d, thrice)];
    let (even, odd) = (sum(a, c), difference(a, c));
    let (both, [re, im]) = (sum(b, d), difference(b, d));
    let across = [im, -re];
    [sum(even, both), sum(odd, across), difference(even, both), difference(odd, across)].map(packed)
}

/// Replaces point k, from 1 on, by the energy of bin k of the FFT of the real samples; `points` is the result of [`fft`].
pub fn energies(points: &mut [u32], circle: Circle<'_>) {
    let count = points.len();
    for k in 1..=count / 2 {
        let mirror = count - k;
        let (Some(&a), Some(&b)) = (points.get(k), points.get(mirror)) else { return };
        let [re, im] = unpacked(b);
        let (a, b) = (scaled(unpacked(a), HALF), scaled(wrapped([re, -im]), HALF));
        let ([re, im], [cos, sin]) = (difference(a, b), circle.at(k));
        let across = [rounded(im * cos - re * sin), rounded(-re * cos - im * sin)];
        let [re, im] = sum(a, b);
        let energy = |re: i32, im: i32| {
            let [re, im] = wrapped([re >> 1, im >> 1]);
            re.unsigned_abs().pow(2) + im.unsigned_abs().pow(2)
        };
        let [across_re, across_im] = across;
        for (place, energy) in
            [(k, energy(re + across_re, im + across_im)), (mirror, energy(re - across_re, across_im - im))]
        {
            if let Some(point) = points.get_mut(place) {
                *point = energy;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec::Vec;

    use super::*;
    use crate::front_end::integer::in_reversed_places;

    fn sines(points: usize) -> Vec<[u8; 2]> {
        let sine = |k| (0.5 + 32_767.0 * (core::f64::consts::TAU * f64::from(k) / points as f64).sin()).floor();
        (0..=points as u32 / 4).map(|k| i16::to_le_bytes(sine(k) as i16)).collect()
    }

    fn energies_of(samples: &[i16], sines: &[[u8; 2]]) -> Vec<u32> {
        let pairs = samples.as_chunks().0.iter();
        let mut points: Vec<u32> = pairs.map(|&[re, im]| packed([i32::from(re), i32::from(im)])).collect();
        in_reversed_places(&mut points, |point| point);
        let circle = Circle { sines, quarter: samples.len() / 4 };
        fft(&mut points, circle);
        energies(&mut points, circle);
        points
    }

    fn random(state: &mut u32) -> i16 {
        *state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (*state >> 16) as i16
    }

    /// The error of a bin's magnitude is that of a few roundings, far below one unit per stage.
    #[test]
    fn bins_are_those_of_the_discrete_fourier_transform() {
        let mut state = 5;
        for points in [256, 512, 1024, 2048] {
            let samples: Vec<i16> = (0..points).map(|_| random(&mut state)).collect();
            let found = energies_of(&samples, &sines(points));
            let mut worst = 0.0_f64;
            for (k, &energy) in found.iter().enumerate().skip(1) {
                let (mut re, mut im) = (0.0, 0.0);
                for (n, &sample) in samples.iter().enumerate() {
                    let angle = core::f64::consts::TAU * ((n * k) % points) as f64 / points as f64;
                    re += f64::from(sample) * angle.cos();
                    im -= f64::from(sample) * angle.sin();
                }
                let exact = re.hypot(im) / points as f64;
                worst = worst.max((f64::from(energy).sqrt() - exact).abs());
            }
            std::println!("{points} points: {worst:.2}");
            assert!(worst < 4.0, "{points} points: {worst}");
        }
    }

    /// Samples at full scale, and tables that are not sines: nothing overflows 32 bits, which a debug build would report.
    #[test]
    fn no_input_and_no_table_overflows() {
        let mut state = 9;
        for round in 0..200 {
            let table = if round % 2 == 0 { sines(256) } else { std::vec![i16::MAX.to_le_bytes(); 65] };
            let ends = [[i16::MIN, i16::MAX], [i16::MIN, i16::MIN], [-32_767, 32_767]][round % 3];
            let samples: Vec<i16> = (0..256).map(|_| ends[usize::from(random(&mut state) < 0)]).collect();
            assert_eq!(energies_of(&samples, &table).len(), 128);
        }
    }
}
