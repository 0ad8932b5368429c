//! The activations of [`tidegate::internals::curve`] on vectors of sums. The interpolation in the tanh table is computed as
//! `⌊(from · (2^s - part) + to · part) / 2^s⌋`, which equals `from + ⌊(to - from) part / 2^s⌋` and is one instruction.

use tidegate::internals::{
    curve::{BITS, Curve, PREACT_BITS},
    quant::ONE,
};

use super::simd::Integers;

/// tanh(x / 2). x has `shift` more fraction bits than the table.
#[inline(always)]
fn tanh_half<S: Integers>(simd: S, x: S::Vector, shift: u32) -> S::Vector {
    let values = simd.tanh_half(simd.shr(x, shift));
    let part = simd.and(x, simd.splat((1 << shift) - 1));
    // `part` in the upper half, 2^s - `part` in the lower one.
    let parts = simd.add(simd.sub(simd.shl(part, 16), part), simd.splat(1 << shift));
    simd.shr(simd.mul_halves(values, parts), shift)
}

/// Fraction bits of the table index: its step is 2^-5 in the argument of [`tanh_half`].
const TABLE_BITS: u32 = 5;

/// σ of sums with `bits` fraction bits, which are in [`BITS`]. The result has 15 fraction bits, from 0 to 1 inclusive.
#[inline(always)]
fn sigmoid_of<S: Integers>(simd: S, x: S::Vector, bits: u32) -> S::Vector {
    simd.shr(simd.add(tanh_half(simd, x, bits - TABLE_BITS), simd.splat(ONE + 1)), 1)
}

/// tanh of the same sums. The result has 15 fraction bits, between -1 and 1.
#[inline(always)]
fn tanh_of<S: Integers>(simd: S, x: S::Vector, bits: u32) -> S::Vector {
    tanh_half(simd, x, bits - 1 - TABLE_BITS)
}

/// σ of sums with [`PREACT_BITS`] fraction bits.
#[inline(always)]
pub(super) fn sigmoid<S: Integers>(simd: S, x: S::Vector) -> S::Vector {
    sigmoid_of(simd, x, PREACT_BITS)
}

/// tanh of sums with [`PREACT_BITS`] fraction bits.
#[inline(always)]
pub(super) fn tanh<S: Integers>(simd: S, x: S::Vector) -> S::Vector {
    tanh_of(simd, x, PREACT_BITS)
}

/// tanh of a value with 15 fraction bits.
#[inline(always)]
pub(super) fn tanh_of_cell<S: Integers>(simd: S, x: S::Vector) -> S::Vector {
    tanh_of(simd, x, 15)
}

/// Vector form of [`from_q15`](tidegate::internals::quant::from_q15).
#[inline(always)]
pub(super) fn from_q15<S: Integers>(simd: S, product: S::Vector) -> S::Vector {
    simd.shr(simd.add(product, simd.splat(ONE / 2)), 15)
}

/// Clamps `x` to `least..=most`.
#[inline(always)]
pub(super) fn clamp<S: Integers>(simd: S, x: S::Vector, least: i32, most: i32) -> S::Vector {
    simd.max(simd.min(x, simd.splat(most)), simd.splat(least))
}

/// An activation of a node, and the fraction bits of its argument.
#[derive(Clone, Copy)]
pub struct Activation<'m> {
    pub curve: Curve<'m>,
    pub bits: u32,
}

impl Activation<'_> {
    /// Vector form of [`Curve::apply`].
    #[inline(always)]
    pub fn apply<S: Integers>(self, simd: S, x: S::Vector) -> S::Vector {
        let Self { curve, bits } = self;
        let fine = BITS.contains(&bits.cast_signed());
        match curve {
            Curve::Identity => x,
            Curve::Relu => simd.max(x, simd.splat(0)),
            Curve::Sigmoid if fine => sigmoid_of(simd, x, bits),
            Curve::Tanh if fine => tanh_of(simd, x, bits),
            _ => {
                let mut lanes = simd.store(x);
                for lane in bytemuck::cast_slice_mut(bytemuck::bytes_of_mut(&mut lanes)) {
                    *lane = curve.apply(*lane, bits);
                }
                simd.load(&lanes)
            }
        }
    }

    /// Whether this is σ of sums with [`PREACT_BITS`] fraction bits.
    pub fn is_sigmoid(self) -> bool {
        matches!(self.curve, Curve::Sigmoid) && self.bits == PREACT_BITS
    }

    /// Whether this is tanh of sums with [`PREACT_BITS`] fraction bits.
    pub fn is_tanh(self) -> bool {
        matches!(self.curve, Curve::Tanh) && self.bits == PREACT_BITS
    }
}
