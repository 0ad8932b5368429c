//! Softmax in the numeric `i8`: that of TFLite's reference kernels.
//!
//! ```text
//! e = exp((x - max x) · factor · 2^(lift - 31))      31 fraction bits, of what has 26
//! y = clip(e / Σ e · 2^8)                            8 fraction bits
//! ```
//!
//! What is below the maximum by more than `reach` counts for nothing. FORMAT.md has the roundings.

use super::{MOST, factor};
use crate::cell::{Dim, IntegerSpec, Io, NumberSpec, Rule};
use crate::fixed::{Multiplier, exp, halved, product, reciprocal_of_more};
use crate::node::Node;

/// Numbers of the spec by name.
mod number {
    pub const FACTOR: usize = 0;
    pub const LIFT: usize = 1;
    pub const REACH: usize = 2;
}

/// So many that a quotient has its bits.
const MOST_FEATURES: usize = 511;

/// Integer bits of what the exponential takes, and of the sum of what it gives.
const DIFFERENCE_BITS: u32 = 5;
const SUM_BITS: u32 = 12;
/// Fraction bits of what comes out.
const OUTPUT_BITS: u32 = 8;

/// See the [module](self).
pub const SPEC: IntegerSpec = IntegerSpec {
    options: 0,
    rules: &[Rule::AtMost(Dim::Input, Dim::Const(MOST_FEATURES))],
    numbers: &[
        factor("factor"),
        NumberSpec::up_to("lift", Multiplier::MOST_SHIFT),
        NumberSpec::up_to("reach", i32::MAX),
    ],
    work: &[],
    tensors: &[],
};

/// One step. `x` and `y` have the same length.
pub(crate) fn step(node: &Node<'_>, io: Io<'_, i16>) {
    let Io { x, y, .. } = io;
    let x = x.get(..node.input_size).unwrap_or_default();
    let multiplier = Multiplier { factor: node.number(number::FACTOR), shift: node.number(number::LIFT) };
    let reach = node.number(number::REACH);
    let max = x.iter().fold(i16::MIN, |max, &x| max.max(x));
    // None where it counts for nothing. Whatever goes in, no exponent is above 0.
    let power = |x: i16| {
        let below = i32::from(x) - i32::from(max);
        (below >= -reach).then(|| exp::<32>(multiplier.of(below).min(0), DIFFERENCE_BITS))
    };
    let sum = x.iter().filter_map(|&x| power(x)).fold(0_i32, |sum, e| sum.wrapping_add(halved(e, SUM_BITS)));
    // 1 is among them, so that the sum is above 0.
    let headroom = sum.leading_zeros();
    let beyond_one = (sum.cast_unsigned() << (headroom & 31)).wrapping_sub(1 << 31).cast_signed();
    let share = reciprocal_of_more::<32>(beyond_one);
    let bits = (SUM_BITS + 31 - OUTPUT_BITS).wrapping_sub(headroom);
    for (y, &x) in y.iter_mut().zip(x) {
        let e = power(x).map_or(0, |e| halved(product::<32>(share, e), bits));
        *y = e.clamp(0, MOST) as i16;
    }
}
