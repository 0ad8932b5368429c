//! The Elman cell in the integer numerics.
//!
//! ```text
//! h' = f(⌊(W x + R h + b) · multiplier / 2^32⌋)
//! ```
//!
//! The identity and ReLU are applied in the scale of the output; σ and tanh, which have 15 fraction bits, and tables to
//! `preact_bits` of them.

use super::MASKED;
use crate::cell::integer::{CHUNK, NO_SUMS, Pair};
use crate::cell::{CURVE, Dim, IntegerSpec, Io, NumberSpec, OTHER, Storage, TensorSpec, Unit, copy, is_masked};
use crate::kernel::Kernel;
use crate::node::Node;
use crate::quant::saturate;

/// Numbers of the spec by name.
mod number {
    pub const PREACT_BITS: usize = 0;
    pub const RECURRENT_FIRST: usize = 1;
    pub const TABLE_SHIFT: usize = 2;
}

/// Tensors of the spec by name.
mod tensor {
    use crate::cell::integer::PairTensors;

    pub const PAIR: PairTensors = PairTensors { input: 0, recurrent: 1, rows: 2 };
    pub const TABLE: usize = 3;
}

/// See the [module](self).
pub const SPEC: IntegerSpec = IntegerSpec {
    options: 1 << MASKED | 1 << OTHER | 1 << CURVE,
    rules: &[],
    numbers: &[
        NumberSpec::PREACT_BITS,
        NumberSpec::recurrent_first("recurrent_first"),
        NumberSpec::table_shift("table_shift"),
    ],
    work: &[],
    tensors: &[
        TensorSpec::matrix("input_weights", &["input_weights"], Dim::Hidden, Dim::Input),
        TensorSpec::matrix("recurrent_weights", &["recurrent_weights"], Dim::Hidden, Dim::Hidden)
            .stored(Storage::Weights(Unit::Output)),
        TensorSpec::vector("rows", &["input_bias", "recurrent_bias"], Dim::Hidden).stored(Storage::Rows {
            input: tensor::PAIR.input,
            recurrent: Some((tensor::PAIR.recurrent, number::RECURRENT_FIRST)),
            to: &[Unit::Before { activation: 0, bits: number::PREACT_BITS, after: &Unit::Output }],
        }),
        TensorSpec::table("table", 0),
    ],
};

/// One step. `x` is `[input]`, `state` (h) and `y` are `[hidden]`.
pub(crate) fn step<K: Kernel>(node: &Node<'_>, io: Io<'_, i16>) {
    let Io { x, state: hidden, y, .. } = io;
    if is_masked(node, MASKED, x) {
        return copy(y, hidden);
    }
    let activation = node.curve(0, tensor::TABLE, number::TABLE_SHIFT);
    let bits = node.number(number::PREACT_BITS).unsigned_abs();
    let (input, carried) = ((x, node.input_size), (&*hidden, node.hidden_size));
    let mut sums = NO_SUMS;
    let (first, rows) = (number::RECURRENT_FIRST, node.hidden_size);
    let Some(mut pair) = Pair::<K>::new(node, tensor::PAIR, first, rows, input, carried) else { return };
    for y in y.chunks_mut(4 * CHUNK) {
        for (sum, y) in pair.next(y.len().div_ceil(4), &mut sums).as_flattened().iter().zip(y) {
            *y = saturate(activation.apply(*sum, bits));
        }
    }
    copy(hidden, y);
}
