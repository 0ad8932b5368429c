//! `HARD_SWISH` of int8 in the fixed point of TFLite's reference kernel, `HardSwish` in `reference/hard_swish.h`.

use super::integers::{Counts, LIMITS, Multiplier};

/// The output for each of TFLite's integers, the least first, relative to the output's zero point; `None` if a quotient of
/// the scales is beyond the kernel.
pub fn table(input: Counts, output: Counts) -> Option<Vec<i32>> {
    let of = HardSwish::of(input, output)?;
    let clamped = |y: i32| y.saturating_add(output.zero_point).clamp(LIMITS[0], LIMITS[1]) - output.zero_point;
    Some((LIMITS[0]..=LIMITS[1]).map(|integer| clamped(of.apply(integer - input.zero_point))).collect())
}

/// The kernel for inputs and outputs of some scales.
#[derive(Clone, Copy, Debug)]
struct HardSwish {
    /// From 1/128 of the input's scale to 3/2^15, in which ±3 are the limits of i16.
    gate: Narrow,
    /// From 1/128 of the input's scale to the output's scale.
    output: Narrow,
}

/// A [`Multiplier`] whose factor has 16 bits.
#[derive(Clone, Copy, Debug)]
struct Narrow {
    factor: i32,
    shift: i32,
}

impl Narrow {
    fn of(scale: f32) -> Option<Self> {
        let Multiplier { factor, shift } = Multiplier::of(scale.into())?;
        let factor = factor.checked_add(1 << 15).map_or(i32::from(i16::MAX), |sum| sum >> 16);
        Some(Self { factor: factor.min(i16::MAX.into()), shift })
    }
}

impl HardSwish {
    fn of(input: Counts, output: Counts) -> Option<Self> {
        let fine = input.scale / 128.0;
        let this = Self { gate: Narrow::of(fine / (3.0 / 32768.0))?, output: Narrow::of(fine / output.scale)? };
        (this.output.shift <= 0).then_some(this)
    }

    /// The output for `x`; both are relative to their zero points, and the output is not clamped.
    fn apply(self, x: i32) -> i32 {
        let Self { gate, output } = self;
        let x = saturated(x << 7);
        let value = rounded_high(x, output.factor);
        let left = gate.shift.max(0);
        let mut share = if left > 0 { left_by(x, left - 1) } else { x };
        share = rounded_high(share, gate.factor);
        if left > 0 {
            share = left_by(share, 1);
        }
        share = right_by(share, -gate.shift);
        // From ±1 to 0 to 1.
        share = (share + (1 << 15)) >> 1;
        right_by(saturated(share * value / (1 << 15)), -output.shift)
    }
}

fn saturated(x: i32) -> i32 {
    x.clamp(i16::MIN.into(), i16::MAX.into())
}

/// The high half of twice the product, rounded to the nearest, and up at a half.
fn rounded_high(a: i32, b: i32) -> i32 {
    let product = a * b;
    let half = if product >= 0 { 1 << 14 } else { 1 - (1 << 14) };
    saturated((product + half) / (1 << 15))
}

fn left_by(x: i32, bits: i32) -> i32 {
    saturated(x << bits.min(15))
}

/// A quotient by 2^bits, rounded to the nearest and away from 0 at a half; `x` itself where `bits` is not positive.
fn right_by(x: i32, bits: i32) -> i32 {
    let bits = bits.clamp(0, 31);
    let mask = ((1_i64 << bits) - 1) as i32;
    (x >> bits) + i32::from(x & mask > (mask >> 1) + i32::from(x < 0))
}
