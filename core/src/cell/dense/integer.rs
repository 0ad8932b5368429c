//! The dense layer in the integer numerics.
//!
//! ```text
//! y = f(⌊(start + W x) · multiplier / 2^32⌋)           `start` includes b
//! ```
//!
//! The identity and ReLU are applied in the scale of the output. The argument of any other activation has `preact_bits`
//! fraction bits; σ and tanh return 15 fraction bits.

use super::{COLS, GROUPS};
use crate::cell::integer::{CHUNK, NO_SUMS, Single};
use crate::cell::prelude::*;
use crate::curve::Curve;
use crate::quant::saturate;

const NUMBERS: &[NumberSpec] = &[NumberSpec::PREACT_BITS, NumberSpec::table_shift("table_shift")];
const PREACT_BITS: usize = number(NUMBERS, "preact_bits");
const TABLE_SHIFT: usize = number(NUMBERS, "table_shift");

const TENSORS: &[&str] = &["weights", "rows", "table"];
const WEIGHTS: usize = index(TENSORS, "weights");
const ROWS: usize = index(TENSORS, "rows");
const TABLE: usize = index(TENSORS, "table");

pub(super) const SPEC: IntegerSpec = IntegerSpec {
    options: 1 << OTHER | 1 << WIDE | 1 << CURVE,
    rules: &[Rule::Equal(Dim::Extent(GROUPS), Dim::Const(1))],
    numbers: NUMBERS,
    tensors: &[
        TensorSpec::matrix("weights", &["weights"], Dim::Output, COLS),
        TensorSpec::vector("rows", &["bias"], Dim::Output)
            .stored(Storage::rows(WEIGHTS, &[Unit::Before { activation: 0, bits: PREACT_BITS, after: &Unit::Output }])),
        TensorSpec::table("table", 0),
    ],
    quantization: Quantization::LAYER.on_host(),
    ..IntegerSpec::EMPTY
}
.with_tensors_named(TENSORS);

/// One step. `x` is `[input]`, `y` is `[output]`.
pub(crate) fn step<K: Kernel>(node: &Node<'_>, io: Io<'_, i16>) {
    step_with::<K, false>(node, io);
}

/// [`step`] with weights of 8 or 16 bits.
pub(crate) fn step_any<K: Kernel>(node: &Node<'_>, io: Io<'_, i16>) {
    step_with::<K, true>(node, io);
}

#[inline(always)]
fn step_with<K: Kernel, const ANY: bool>(node: &Node<'_>, io: Io<'_, i16>) {
    let Io { x, y, .. } = io;
    // Most layers without a recurrence have the identity, which takes no search.
    let is_plain = node.activations_are([Activation::Identity]) && !node.has(CURVE);
    let activation = if is_plain { Curve::Identity } else { node.curve(0, TABLE, TABLE_SHIFT) };
    let bits = node.number(PREACT_BITS).unsigned_abs();
    let mut sums = NO_SUMS;
    let input = (x, node.input_size);
    let Some(mut single) = Single::<K, ANY>::new(node, WEIGHTS, ROWS, node.output_size, input) else {
        return;
    };
    for y in y.chunks_mut(4 * CHUNK) {
        for (sum, y) in single.next(y.len().div_ceil(4), &mut sums).as_flattened().iter().zip(y) {
            *y = saturate(activation.apply(*sum, bits));
        }
    }
}
