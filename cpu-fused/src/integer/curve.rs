//! σ and tanh of [`tidegate::curve`], of a vector of sums. What lies between two values of the table is
//! `⌊(from · (2^s - part) + to · part) / 2^s⌋`: the same as `from + ⌊(to - from) part / 2^s⌋`, and one instruction.

use tidegate::curve::PREACT_BITS;
use tidegate::quant::ONE;

use super::simd::Integers;

/// tanh(x / 2) where x has `shift` fraction bits more than the table.
#[inline(always)]
fn tanh_half<S: Integers>(simd: S, x: S::Vector, shift: u32) -> S::Vector {
    let values = simd.tanh_half(simd.shr(x, shift));
    let part = simd.and(x, simd.splat((1 << shift) - 1));
    // The part in the upper half, what is left of the step in the lower one.
    let parts = simd.add(simd.sub(simd.shl(part, 16), part), simd.splat(1 << shift));
    simd.shr(simd.mul_halves(values, parts), shift)
}

/// Fraction bits of the table: its steps are 2^-5 of what [`tanh_half`] takes.
const TABLE_BITS: u32 = 5;

/// σ of sums with [`PREACT_BITS`] fraction bits: 15 of them, from 0 to 1 inclusive.
#[inline(always)]
pub(super) fn sigmoid<S: Integers>(simd: S, x: S::Vector) -> S::Vector {
    simd.shr(simd.add(tanh_half(simd, x, PREACT_BITS - TABLE_BITS), simd.splat(ONE + 1)), 1)
}

/// tanh of sums with [`PREACT_BITS`] fraction bits: 15 of them, between -1 and 1.
#[inline(always)]
pub(super) fn tanh<S: Integers>(simd: S, x: S::Vector) -> S::Vector {
    tanh_half(simd, x, PREACT_BITS - 1 - TABLE_BITS)
}

/// tanh of what has 15 fraction bits.
#[inline(always)]
pub(super) fn tanh_of_cell<S: Integers>(simd: S, x: S::Vector) -> S::Vector {
    tanh_half(simd, x, 15 - 1 - TABLE_BITS)
}

/// [`from_q15`](tidegate::quant::from_q15)
#[inline(always)]
pub(super) fn from_q15<S: Integers>(simd: S, product: S::Vector) -> S::Vector {
    simd.shr(simd.add(product, simd.splat(ONE / 2)), 15)
}
