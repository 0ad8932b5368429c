//! Gains or biases in the numeric `i8`: TFLite's `MUL` and `ADD` by a constant.
//!
//! ```text
//! y = clip(x · gain · factor · 2^(shift - 31))                                  with gains
//! y = clip((x · 2^20 · input_factor · 2^(input_shift - 31) + addend) · factor · 2^(shift - 31))      without
//! ```
//!
//! The channels repeat. Each product is rounded twice.

use super::{CHANNELS, GAIN};
use crate::cell::i8::{Limits, factor, lifted, limit, multiplier, shift};
use crate::cell::prelude::*;

const NUMBERS: &[NumberSpec] =
    &[factor("input_factor"), shift("input_shift"), factor("factor"), shift("shift"), limit("least"), limit("most")];
const INPUT_FACTOR: usize = number(NUMBERS, "input_factor");
const FACTOR: usize = number(NUMBERS, "factor");
const LEAST: usize = number(NUMBERS, "least");

const TENSORS: &[&str] = &["gain", "addends"];
const GAINS: usize = index(TENSORS, "gain");
const ADDENDS: usize = index(TENSORS, "addends");

pub(super) const SPEC: IntegerSpec = IntegerSpec {
    options: 1 << GAIN,
    numbers: NUMBERS,
    tensors: &[
        TensorSpec::vector("gain", &["gain"], Dim::Extent(CHANNELS)).with(GAIN).stored(Storage::Values),
        TensorSpec::vector("addends", &["bias"], Dim::Extent(CHANNELS)).without(GAIN).stored(Storage::Addends),
    ],
    quantization: Quantization::MOVE.on_host(),
    ..IntegerSpec::EMPTY
}
.with_tensors_named(TENSORS);

/// One step. `x` and `y` have the same length.
pub(crate) fn step(node: &Node<'_>, io: Io<'_, i16>) {
    let (whole, limits) = (multiplier(node, FACTOR), Limits::of(node, LEAST));
    if node.has(GAIN) {
        let product = |x: i16, gain: i16| i32::from(x).wrapping_mul(gain.into());
        each(node, io, node.integers(GAINS), |x, gain| limits.hold(whole.of(product(x, gain))));
    } else {
        let input = multiplier(node, INPUT_FACTOR);
        let sum = |x: i16, addend: i32| lifted(input, x).wrapping_add(addend);
        each(node, io, node.words(ADDENDS), |x, addend| limits.hold(whole.of(sum(x, addend))));
    }
}

/// The result of `of` for each element and the constant of its channel.
#[inline(always)]
fn each<C: Copy>(node: &Node<'_>, io: Io<'_, i16>, constants: &[C], of: impl Fn(i16, C) -> i16) {
    let size = node.extent(CHANNELS).max(1);
    for (y, x) in io.y.chunks_mut(size).zip(io.x.chunks(size)) {
        for ((y, &x), &constant) in y.iter_mut().zip(x).zip(constants) {
            *y = of(x, constant);
        }
    }
}
