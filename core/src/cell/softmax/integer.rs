//! Softmax in the integer numerics.
//!
//! ```text
//! t = ⌊(max x - x) · 2^14 · multiplier / 2^32⌋ · 2^lift     15 fraction bits: (max x - x) / ln 2
//! e = 2^-t                                                  15 fraction bits
//! y = ⌊e · ⌊2^31 / Σ e⌋ / 2^16⌋                             15 fraction bits
//! ```

use crate::cell::prelude::*;
use crate::quant::{mulh, saturate};

const NUMBERS: &[NumberSpec] = &[NumberSpec::MULTIPLIER, NumberSpec::up_to("lift", 15)];
const MULTIPLIER: usize = number(NUMBERS, "multiplier");
const LIFT: usize = number(NUMBERS, "lift");

pub(super) const SPEC: IntegerSpec = IntegerSpec {
    // The sum of the exponentials fits 32 bits.
    rules: &[Rule::AtMost(Dim::Input, Dim::Const((1 << 16) - 1))],
    numbers: NUMBERS,
    quantization: QUANTIZATION.on_host(),
    ..IntegerSpec::EMPTY
};

const QUANTIZATION: Quantization =
    Quantization { output: &[(0, OutputScale::Q15)], numbers: Numbers::Exponents, ..Quantization::MOVE };

/// 2^(-k / 64) · 2^15, rounded to nearest.
#[rustfmt::skip]
const POWERS: [u16; 65] = [
    32_768, 32_415, 32_066, 31_720, 31_379, 31_041, 30_706, 30_376, 30_048, 29_725, 29_405, 29_088, 28_774, 28_464,
    28_158, 27_855, 27_554, 27_258, 26_964, 26_674, 26_386, 26_102, 25_821, 25_543, 25_268, 24_995, 24_726, 24_460,
    24_196, 23_936, 23_678, 23_423, 23_170, 22_921, 22_674, 22_430, 22_188, 21_949, 21_713, 21_479, 21_247, 21_019,
    20_792, 20_568, 20_347, 20_127, 19_911, 19_696, 19_484, 19_274, 19_066, 18_861, 18_658, 18_457, 18_258, 18_061,
    17_867, 17_674, 17_484, 17_296, 17_109, 16_925, 16_743, 16_562, 16_384,
];

/// One step. `x` and `y` have the same length. `y` first holds e, which is unsigned: 1.0 needs 16 bits.
pub(crate) fn step(node: &Node<'_>, io: Io<'_, i16>) {
    let Io { x, y, .. } = io;
    let x = x.get(..node.input_size).unwrap_or_default();
    let (multiplier, lift) = (node.number(MULTIPLIER), node.number(LIFT).unsigned_abs() & 15);
    let max = x.iter().fold(i16::MIN, |max, &x| max.max(x));
    let mut sum = 0_u32;
    for (y, &x) in y.iter_mut().zip(x) {
        let below = i32::from(max) - i32::from(x);
        let e = power(mulh(below << 14, multiplier).unsigned_abs(), lift);
        sum = sum.wrapping_add(e);
        *y = (e as u16).cast_signed();
    }
    let share = (1_u32 << 31).checked_div(sum).unwrap_or(0);
    for y in y {
        let e = u32::from(y.cast_unsigned());
        *y = saturate((e.wrapping_mul(share) >> 16).cast_signed());
    }
}

/// 2^-(t · 2^lift). t and the result have 15 fraction bits. Interpolates linearly between the powers of the table.
fn power(t: u32, lift: u32) -> u32 {
    const FRACTION: u32 = 15;
    const STEP: u32 = 9;
    let t = u64::from(t) << lift;
    let (whole, fraction) = (t >> FRACTION, t as u32 & ((1 << FRACTION) - 1));
    if whole > u64::from(FRACTION) {
        return 0;
    }
    let (index, part) = (fraction >> STEP, fraction & ((1 << STEP) - 1));
    match POWERS.get(index as usize..) {
        Some(&[from, to, ..]) => {
            let value = u32::from(from) - ((u32::from(from - to) * part) >> STEP);
            (value + ((1 << whole) >> 1)) >> whole
        }
        _ => 0,
    }
}
