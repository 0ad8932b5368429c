//! The curves of TFLite's LSTM: vector forms of those of [`tidegate::internals::fixed`] for 16 bits.

use tidegate::internals::fixed::{EIGHTH, LINE, POWERS, THIRD, constant};

use super::super::Integers;
use super::round::{halved, saturated};

/// Integer bits of the argument of a gate.
const GATE_BITS: u32 = 3;
/// The greatest value.
const MOST: i32 = i16::MAX as i32;

/// 1 / (1 + e^-x) for x with [`GATE_BITS`] integer bits; the result has none.
#[inline(always)]
pub(super) fn sigmoid<S: Integers>(simd: S, x: S::Vector) -> S::Vector {
    let of_magnitude = saturated(simd, simd.shl(reciprocal(simd, exp(simd, negative(simd, x), GATE_BITS)), 1));
    // Below 0, 1 - y. The result for 0 is exactly 1/2.
    let is_negative = simd.shr(x, 31);
    let other = simd.sub(simd.splat(MOST), of_magnitude);
    let y = simd.add(of_magnitude, simd.and(simd.sub(other, of_magnitude), is_negative));
    let is_zero = zeros(simd, x);
    simd.add(y, simd.and(simd.sub(simd.splat(1 << 14), y), is_zero))
}

/// tanh(x) for x with `integer_bits`, at most 6; the result has none.
#[inline(always)]
pub(super) fn tanh<S: Integers>(simd: S, x: S::Vector, integer_bits: u32) -> S::Vector {
    // 2x has one integer bit more than x.
    let e = exp(simd, negative(simd, x), integer_bits + 1);
    let y = saturated(simd, simd.shl(simd.sub(reciprocal(simd, e), simd.splat(1 << 13)), 2));
    let is_negative = simd.shr(x, 31);
    let signed = simd.add(y, simd.and(simd.sub(simd.sub(simd.splat(0), y), y), is_negative));
    simd.sub(signed, simd.and(signed, zeros(simd, x)))
}

/// [`tanh`] for the argument of a gate.
#[inline(always)]
pub(super) fn tanh_of_gate<S: Integers>(simd: S, x: S::Vector) -> S::Vector {
    tanh(simd, x, GATE_BITS)
}

/// -|x|
#[inline(always)]
fn negative<S: Integers>(simd: S, x: S::Vector) -> S::Vector {
    simd.min(x, simd.sub(simd.splat(0), x))
}

/// All bits where x is 0, otherwise none.
#[inline(always)]
fn zeros<S: Integers>(simd: S, x: S::Vector) -> S::Vector {
    simd.shr(simd.sub(simd.max(x, simd.sub(simd.splat(0), x)), simd.splat(1)), 31)
}

/// a · b / 2^15, rounded to nearest, halves up. Both have 16 bits.
#[inline(always)]
fn product<S: Integers>(simd: S, a: S::Vector, b: S::Vector) -> S::Vector {
    let product = simd.mul_halves(simd.and(a, simd.splat(0xffff)), b);
    simd.shr(simd.add(product, simd.splat(1 << 14)), 15)
}

/// x / 2^by, rounded to nearest, halves away from zero. `by` is at least 1, and x is not the least value.
#[inline(always)]
pub(super) fn divided<S: Integers>(simd: S, x: S::Vector, by: u32) -> S::Vector {
    halved(simd, simd.shr(simd.add(x, simd.shr(x, 31)), by - 1))
}

/// e^x for x ≤ 0 with `integer_bits`, at least 1. The result has no integer bits and saturates at 1.
#[inline(always)]
fn exp<S: Integers>(simd: S, x: S::Vector, integer_bits: u32) -> S::Vector {
    let fraction_bits = 15 - integer_bits;
    let quarter_bits = fraction_bits - 2;
    let quarter = simd.splat(1 << quarter_bits);
    let below = simd.sub(simd.and(x, simd.splat((1 << quarter_bits) - 1)), quarter);
    let quarters = simd.shr(simd.sub(below, x), quarter_bits);
    let mut result = exp_of_quarter(simd, simd.shl(below, integer_bits));
    for (k, &power) in POWERS.iter().enumerate() {
        // The number of quarters has at most `integer_bits` + 2 bits.
        if k as u32 > integer_bits + 1 {
            break;
        }
        let is_set = simd.shr(simd.shl(quarters, 31 - k as u32), 31);
        let times = product(simd, result, simd.splat(constant::<16>(power)));
        result = simd.add(result, simd.and(simd.sub(times, result), is_set));
    }
    if integer_bits > 5 {
        // The powers above cover arguments down to -32.
        let is_below = simd.shr(simd.add(x, simd.splat(32 << fraction_bits)), 31);
        result = simd.sub(result, simd.and(result, is_below));
    }
    let is_zero = zeros(simd, x);
    simd.add(result, simd.and(simd.sub(simd.splat(MOST), result), is_zero))
}

/// e^x for x from -1/4 to below 0, without integer bits.
#[inline(always)]
fn exp_of_quarter<S: Integers>(simd: S, x: S::Vector) -> S::Vector {
    let eighth = simd.splat(constant::<16>(EIGHTH));
    let x = simd.add(x, simd.splat(1 << 12));
    let x2 = product(simd, x, x);
    let x3 = product(simd, x2, x);
    let x4 = product(simd, x2, x2);
    let third = product(simd, simd.add(divided(simd, x4, 2), x3), simd.splat(constant::<16>(THIRD)));
    let rest = divided(simd, simd.add(third, x2), 1);
    let sum = simd.add(eighth, product(simd, simd.add(x, rest), eighth));
    simd.min(sum, simd.splat(MOST))
}

/// 2 / (1 + x) for x from 0 to 1 without integer bits; the result has two.
#[inline(always)]
fn reciprocal<S: Integers>(simd: S, x: S::Vector) -> S::Vector {
    let one = simd.splat(1 << 13);
    let half_denominator = simd.shr(simd.add(x, simd.splat(1 << 15)), 1);
    let slope = simd.splat(constant::<16>(LINE[1]));
    let mut y = simd.add(simd.splat(constant::<16>(LINE[0])), product(simd, half_denominator, slope));
    for _ in 0..3 {
        let rest = simd.sub(one, product(simd, half_denominator, y));
        y = simd.add(y, saturated(simd, simd.shl(product(simd, y, rest), 2)));
    }
    y
}
