//! Softmax in the numeric `i8`: that of TFLite's reference kernels.
//!
//! ```text
//! e = exp((x - max x) · factor · 2^(lift - 31))      31 fraction bits, from an argument of 26
//! y = clip(e / Σ e · 2^8)                            8 fraction bits
//! ```
//!
//! A value below the maximum by more than `reach` is ignored. FORMAT.md defines the roundings.

use crate::cell::i8::{MOST, factor};
use crate::cell::prelude::*;
use crate::fixed::{Multiplier, exp, halved, product, reciprocal_of_more};

const NUMBERS: &[NumberSpec] =
    &[factor("factor"), NumberSpec::up_to("lift", Multiplier::MOST_SHIFT), NumberSpec::up_to("reach", i32::MAX)];
const FACTOR: usize = number(NUMBERS, "factor");
const LIFT: usize = number(NUMBERS, "lift");
const REACH: usize = number(NUMBERS, "reach");

/// Maximum number of features for which the quotient keeps all of its bits.
const MOST_FEATURES: usize = 511;

/// Integer bits of the argument of the exponential, and of the sum of its results.
const DIFFERENCE_BITS: u32 = 5;
const SUM_BITS: u32 = 12;
/// Fraction bits of the output.
const OUTPUT_BITS: u32 = 8;

pub(super) const SPEC: IntegerSpec = IntegerSpec {
    rules: &[Rule::AtMost(Dim::Input, Dim::Const(MOST_FEATURES))],
    numbers: NUMBERS,
    ..IntegerSpec::EMPTY
};

/// One step. `x` and `y` have the same length.
pub(crate) fn step(node: &Node<'_>, io: Io<'_, i16>) {
    let Io { x, y, .. } = io;
    let x = x.get(..node.input_size).unwrap_or_default();
    let multiplier = Multiplier { factor: node.number(FACTOR), shift: node.number(LIFT) };
    let reach = node.number(REACH);
    let max = x.iter().fold(i16::MIN, |max, &x| max.max(x));
    // `None` for a value that is ignored. For any input, no exponent is above 0.
    let power = |x: i16| {
        let below = i32::from(x) - i32::from(max);
        (below >= -reach).then(|| exp::<32>(multiplier.of(below).min(0), DIFFERENCE_BITS))
    };
    let sum = x.iter().filter_map(|&x| power(x)).fold(0_i32, |sum, e| sum.wrapping_add(halved(e, SUM_BITS)));
    // The exponential of the maximum is 1, so the sum is above 0.
    let headroom = sum.leading_zeros();
    let beyond_one = (sum.cast_unsigned() << (headroom & 31)).wrapping_sub(1 << 31).cast_signed();
    let share = reciprocal_of_more::<32>(beyond_one);
    let bits = (SUM_BITS + 31 - OUTPUT_BITS).wrapping_sub(headroom);
    for (y, &x) in y.iter_mut().zip(x) {
        let e = power(x).map_or(0, |e| halved(product::<32>(share, e), bits));
        *y = e.clamp(0, MOST) as i16;
    }
}
