//! The Elman cell in the integer numerics.
//!
//! ```text
//! h' = f(⌊(W x + R h + b) · multiplier / 2^32⌋)
//! ```
//!
//! The identity and ReLU are applied in the scale of the output. The argument of any other activation has `preact_bits`
//! fraction bits; σ and tanh return 15 fraction bits.

use super::MASKED;
use crate::cell::integer::{CHUNK, NO_SUMS, Pair, PairTensors};
use crate::cell::prelude::*;
use crate::quant::saturate;

const NUMBERS: &[NumberSpec] =
    &[NumberSpec::PREACT_BITS, NumberSpec::recurrent_first("recurrent_first"), NumberSpec::table_shift("table_shift")];
const PREACT_BITS: usize = number(NUMBERS, "preact_bits");
const RECURRENT_FIRST: usize = number(NUMBERS, "recurrent_first");
const TABLE_SHIFT: usize = number(NUMBERS, "table_shift");

const TENSORS: &[&str] = &["input_weights", "recurrent_weights", "rows", "table"];
const PAIR: PairTensors = PairTensors::named(TENSORS, ["input_weights", "recurrent_weights", "rows"]);
const TABLE: usize = index(TENSORS, "table");

pub(super) const SPEC: IntegerSpec = IntegerSpec {
    options: 1 << MASKED | 1 << OTHER | 1 << WIDE | 1 << CURVE,
    numbers: NUMBERS,
    tensors: &[
        TensorSpec::matrix("input_weights", &["input_weights"], Dim::Hidden, Dim::Input),
        TensorSpec::matrix("recurrent_weights", &["recurrent_weights"], Dim::Hidden, Dim::Hidden)
            .stored(Storage::Weights(Unit::Output)),
        TensorSpec::vector("rows", &["input_bias", "recurrent_bias"], Dim::Hidden).stored(Storage::rows_of_two(
            PAIR.input,
            PAIR.recurrent,
            RECURRENT_FIRST,
            &[Unit::Before { activation: 0, bits: PREACT_BITS, after: &Unit::Output }],
        )),
        TensorSpec::table("table", 0),
    ],
    quantization: QUANTIZATION.on_host(),
    ..IntegerSpec::EMPTY
}
.with_tensors_named(TENSORS);

const QUANTIZATION: Quantization =
    Quantization { summed: Some(1 << MASKED), wide_sums: Some(1 << MASKED), ..Quantization::LAYER };

/// One step. `x` is `[input]`, `state` (h) and `y` are `[hidden]`.
pub(crate) fn step<K: Kernel>(node: &Node<'_>, io: Io<'_, i16>) {
    let Io { x, state: hidden, y, .. } = io;
    if is_masked(node, MASKED, x) {
        return copy(y, hidden);
    }
    let activation = node.curve(0, TABLE, TABLE_SHIFT);
    let bits = node.number(PREACT_BITS).unsigned_abs();
    let (input, carried) = ((x, node.input_size), (&*hidden, node.hidden_size));
    let mut sums = NO_SUMS;
    let (first, rows) = (RECURRENT_FIRST, node.hidden_size);
    let Some(mut pair) = Pair::<K, true>::new(node, PAIR, first, rows, input, carried) else { return };
    for y in y.chunks_mut(4 * CHUNK) {
        for (sum, y) in pair.next(y.len().div_ceil(4), &mut sums).as_flattened().iter().zip(y) {
            *y = saturate(activation.apply(*sum, bits));
        }
    }
    copy(hidden, y);
}
