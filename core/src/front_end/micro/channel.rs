//! From the energy of a channel to its feature: root, noise reduction, gain control, logarithm.

use super::section::{SCALE_BITS, SHARE_BITS, Tables};
use crate::front_end::section::Halves;

/// A feature of the channel `index`, before its conversion to the scale of the input: the logarithm of its energy, at
/// most 1420. `estimate` is the current noise estimate, which is updated; `shift` is the left shift of the samples.
pub fn raw(energy: u64, shift: u32, index: usize, estimate: &mut u32, tables: &Tables<'_>, correction: u32) -> u32 {
    let signal = denoised(root(energy) >> shift, index, estimate, tables);
    let signal = match tables.gain {
        [] => signal,
        gains => controlled(signal, gain(*estimate, gains), tables.snr_shift),
    };
    logarithm(signal << correction)
}

/// A raw feature as an integer in the scale of the input.
pub fn slot(raw: u32, tables: &Tables<'_>) -> i16 {
    // Below 1421 · 2^20 + 2^20.
    (raw.wrapping_mul(tables.multiplier).wrapping_add(tables.addend) >> SCALE_BITS).min(tables.most) as i16
}

/// √`value`, rounded to nearest, but not beyond 2^16 - 1 or 2^32 - 1.
#[inline(never)]
fn root(value: u64) -> u32 {
    let (mut root, mut rest) = (0_u64, value);
    // The highest power of four that is not above the value.
    let mut bit = 1 << ((63 - (value | 1).leading_zeros()) & !1);
    while bit > 0 {
        let trial = root + bit;
        root >>= 1;
        if rest >= trial {
            rest -= trial;
            root += bit;
        }
        bit >>= 2;
    }
    let last = if value >> 32 == 0 { 0xffff } else { 0xffff_ffff };
    (root + u64::from(rest > root && root != last)) as u32
}

/// Subtracts the noise from the signal and updates its estimate, a mean that forgets exponentially.
fn denoised(signal: u32, index: usize, estimate: &mut u32, tables: &Tables<'_>) -> u32 {
    let [even, odd] = tables.smoothing;
    let share = u64::from(if index & 1 == 0 { even } else { odd });
    let scaled = signal << tables.smoothing_bits;
    let mean = u64::from(scaled) * share + u64::from(*estimate) * ((1 << SHARE_BITS) - share);
    *estimate = (mean >> SHARE_BITS) as u32;
    let least = ((u64::from(signal) * u64::from(tables.least)) >> SHARE_BITS) as u32;
    ((scaled - scaled.min(*estimate)) >> tables.smoothing_bits).max(least)
}

/// The gain for a noise estimate: a parabola in each octave.
fn gain(noise: u32, gains: Halves<'_>) -> i16 {
    let value = |index: usize| gains.get(index).map_or(0, |&half| i16::from_le_bytes(half));
    if noise < 2 {
        return value(noise as usize);
    }
    let octave = 31 - noise.leading_zeros();
    let first = 3 * octave as usize - 1;
    // The ten bits after the leading one.
    let position = (noise << (31 - octave) >> 21 & 0x3ff) as i32;
    let [start, slope, bend] = [0, 1, 2].map(|k| i32::from(value(first + k)));
    let rise = (((bend * position) >> 5) + (slope << 5)) * position;
    (((rise + (1 << 14)) >> 15) + start) as i16
}

/// The signal times the gain, compressed: a square below 2, then a line (with 12 fraction bits).
fn controlled(signal: u32, gain: i16, shift: u8) -> u32 {
    let product = u64::from(signal).wrapping_mul(u64::from(i32::from(gain).cast_unsigned()));
    let snr = (product >> shift) as u32;
    if snr < 2 << 12 { (snr * snr) >> 20 } else { (snr >> 6) - 64 }
}

/// Positions of [`LOG2`] in an octave.
const STEPS: usize = 128;
/// log2(1 + k / 128) - k / 128, · 2^16, rounded to nearest.
static LOG2: [u16; STEPS + 1] = steps();

/// Computed in integers so that it is the same on every host: the logarithm's bits by repeated squaring.
const fn steps() -> [u16; STEPS + 1] {
    // Fraction bits of the squared number, and bits of the logarithm.
    const ONE: u128 = 1 << 62;
    const BITS: u32 = 32;
    let mut steps = [0; STEPS + 1];
    let mut k = 0;
    while k < STEPS {
        let mut x = ONE + ONE / STEPS as u128 * k as u128;
        let (mut log, mut bit) = (0_u64, 0);
        while bit < BITS {
            x = x * x / ONE;
            log <<= 1;
            if x >= 2 * ONE {
                x /= 2;
                log |= 1;
            }
            bit += 1;
        }
        let chord = (k as u64) << (BITS - STEPS.ilog2());
        steps[k] = ((log - chord + (1 << (BITS - 17))) >> (BITS - 16)) as u16;
        k += 1;
    }
    steps
}

/// 64 ln(`value`), rounded; 0 for values below 2.
fn logarithm(value: u32) -> u32 {
    /// ln 2 · 2^16
    const LN_2: u64 = 45_426;
    if value < 2 {
        return 0;
    }
    let octave = 31 - value.leading_zeros();
    let fraction = value << (31 - octave) << 1 >> 16;
    let (from, to) = match LOG2.get(fraction as usize >> 9..) {
        Some(&[from, to, ..]) => (i32::from(from), i32::from(to)),
        // The step is always in the table.
        _ => (0, 0),
    };
    let above = from + (((to - from) * (fraction & 0x1ff) as i32) >> 16);
    let log2 = (octave << 16) + fraction + above.cast_unsigned();
    let ln = ((LN_2 * u64::from(log2) + (1 << 15)) >> 16) as u32;
    ((ln << 6) + (1 << 15)) >> 16
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;

    #[test]
    fn roots_are_the_nearest_integers() {
        let look = |value: u64| {
            let exact = (0..=1)
                .map(|more| value.isqrt() + more)
                .min_by_key(|&root| (u128::from(root) * u128::from(root)).abs_diff(u128::from(value)));
            let last = if value >> 32 == 0 { 0xffff } else { 0xffff_ffff };
            assert_eq!(u64::from(root(value)), exact.unwrap().min(last), "{value}");
        };
        for root in 0..1_u64 << 16 {
            for square in [root * root, (root * root) << 20, (root * root) << 32] {
                [square.saturating_sub(1), square, square + 1, square + root].into_iter().for_each(look);
            }
        }
        (0..64).for_each(|bit| [1 << bit, (1 << bit) - 1, u64::MAX >> bit].into_iter().for_each(look));
    }

    #[test]
    fn the_table_of_logarithms_has_the_rounded_values() {
        for (k, &step) in LOG2.iter().enumerate() {
            let x = k as f64 / STEPS as f64;
            assert_eq!(f64::from(step), ((x.ln_1p() / core::f64::consts::LN_2 - x) * 65_536.0).round(), "{k}");
        }
    }

    #[test]
    fn logarithms_are_within_a_unit() {
        let near = |value: u32| {
            let exact = 64.0 * f64::from(value).ln();
            assert!((f64::from(logarithm(value)) - exact).abs() < 1.0, "{value}: {} for {exact}", logarithm(value));
        };
        (2..1 << 20).for_each(near);
        (20..32).for_each(|bit| (0..1 << 12).for_each(|part| near((1 << bit) + (part << (bit - 12)))));
        assert_eq!([0, 1, 2, u32::MAX].map(logarithm), [0, 0, 44, 1420]);
    }
}
