//! The sum, the difference or the product of two parts in the numeric `i8`: TFLite's `ADD`, `SUB` and `MUL` of two
//! computed values.
//!
//! ```text
//! y = clip((a + b) · factor · 2^(shift - 31))                    without `multiply` and `subtract`
//! y = clip((a - b) · factor · 2^(shift - 31))                    subtract
//!     a = x_1 · 2^20 · first_factor · 2^(first_shift - 31)
//!     b = x_2 · 2^20 · second_factor · 2^(second_shift - 31)
//! y = clip(x_1 · x_2 · factor · 2^(shift - 31))                  multiply
//! ```
//!
//! Each product is rounded twice.

use super::{ADD, MULTIPLY, SUBTRACT};
use crate::cell::i8::{Limits, factor, lifted, limit, multiplier, shift};
use crate::cell::prelude::*;

const NUMBERS: &[NumberSpec] = &[
    factor("first_factor"),
    shift("first_shift"),
    factor("second_factor"),
    shift("second_shift"),
    factor("factor"),
    shift("shift"),
    limit("least"),
    limit("most"),
];
const FIRST: usize = number(NUMBERS, "first_factor");
const SECOND: usize = number(NUMBERS, "second_factor");
const FACTOR: usize = number(NUMBERS, "factor");
const LEAST: usize = number(NUMBERS, "least");

pub(super) const SPEC: IntegerSpec = IntegerSpec {
    options: 1 << ADD | 1 << MULTIPLY | 1 << SUBTRACT,
    rules: &[Rule::Equal(Dim::Input, Dim::Product(&[Dim::Const(2), Dim::Output]))],
    numbers: NUMBERS,
    quantization: Quantization::MOVE.on_host(),
    ..IntegerSpec::EMPTY
};

/// One step. `x` is `[2 · output]`, `y` is `[output]`.
pub(crate) fn step(node: &Node<'_>, io: Io<'_, i16>) {
    let Io { x, y, .. } = io;
    let Some((first, second)) = x.split_at_checked(y.len()) else { return };
    let [of_first, of_second, whole] = [FIRST, SECOND, FACTOR].map(|index| multiplier(node, index));
    let (limits, multiply, subtract) = (Limits::of(node, LEAST), node.has(MULTIPLY), node.has(SUBTRACT));
    for ((y, &a), &b) in y.iter_mut().zip(first).zip(second) {
        let merged = if multiply {
            i32::from(a).wrapping_mul(b.into())
        } else {
            let (a, b) = (lifted(of_first, a), lifted(of_second, b));
            if subtract { a.wrapping_sub(b) } else { a.wrapping_add(b) }
        };
        *y = limits.hold(whole.of(merged));
    }
}
