//! Pools in the numeric `i8`: TFLite's `MAX_POOL_2D`, `AVERAGE_POOL_2D` and `MEAN`. With n taps inside the image:
//!
//! ```text
//! y = clip(max x)                                                   max
//! y = clip((Σ x + n · zero_point) / n - zero_point)                 average with a `factor` of 0
//! y = clip(Σ x · factor · 2^(shift - 31))                           average with another `factor`
//! ```
//!
//! The quotient is that of TFLite's integers, which include the zero point; it is rounded to nearest, halves away from
//! zero. The product is rounded twice.

use super::{AVERAGE, MAX, integer};
use crate::cell::i8::{Limits, factor, limit, multiplier, shift};
use crate::cell::patch::TAPS;
use crate::cell::prelude::*;

const NUMBERS: &[NumberSpec] = &[
    NumberSpec { name: "zero_point", least: -128, most: 127, usual: None },
    factor("factor"),
    shift("shift"),
    limit("least"),
    limit("most"),
];
const ZERO_POINT: usize = number(NUMBERS, "zero_point");
const FACTOR: usize = number(NUMBERS, "factor");
const LEAST: usize = number(NUMBERS, "least");

/// Largest number of taps for which the sum of the values, zero points included, has at most 31 bits.
const MOST_TAPS: usize = 1 << 22;

pub(super) const SPEC: IntegerSpec = IntegerSpec {
    options: 1 << MAX | 1 << AVERAGE,
    rules: &[Rule::AtMost(TAPS, Dim::Const(MOST_TAPS))],
    numbers: NUMBERS,
    quantization: Quantization::MOVE.on_host(),
    ..IntegerSpec::EMPTY
};

/// One step. `x` is the image, `y` is `[out_height, out_width, channels]`.
pub(crate) fn step(node: &Node<'_>, io: Io<'_, i16>) {
    let (zero_point, by, limits) = (node.number(ZERO_POINT), multiplier(node, FACTOR), Limits::of(node, LEAST));
    integer::pooled(node, io, |count| {
        let count = count as i32;
        move |average, sum| {
            limits.hold(match (average, by.factor) {
                (false, _) => sum,
                (true, 0) => divided(sum.wrapping_add(count.wrapping_mul(zero_point)), count).wrapping_sub(zero_point),
                (true, _) => by.of(sum),
            })
        }
    });
}

/// sum / count, rounded to nearest, halves away from zero.
fn divided(sum: i32, count: i32) -> i32 {
    let half = count / 2;
    let lifted = if sum > 0 { sum.wrapping_add(half) } else { sum.wrapping_sub(half) };
    lifted.checked_div(count).unwrap_or(0)
}
