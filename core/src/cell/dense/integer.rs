//! The dense layer in the integer numerics.
//!
//! ```text
//! y = f(⌊(start + W x) · multiplier / 2^32⌋)           b is in `start`
//! ```
//!
//! The identity and ReLU are applied in the scale of the output; σ and tanh, which have 15 fraction bits, and tables to
//! `preact_bits` of them.

use super::{COLS, GROUPS};
use crate::cell::integer::{CHUNK, NO_SUMS, Single};
use crate::cell::{CURVE, Dim, IntegerSpec, Io, NumberSpec, OTHER, Rule, Storage, TensorSpec, Unit};
use crate::kernel::Kernel;
use crate::node::Node;
use crate::quant::saturate;

/// Numbers of the spec by name.
mod number {
    pub const PREACT_BITS: usize = 0;
    pub const TABLE_SHIFT: usize = 1;
}

/// Tensors of the spec by name.
mod tensor {
    pub const WEIGHTS: usize = 0;
    pub const ROWS: usize = 1;
    pub const TABLE: usize = 2;
}

/// See the [module](self).
pub const SPEC: IntegerSpec = IntegerSpec {
    options: 1 << OTHER | 1 << CURVE,
    rules: &[Rule::Equal(Dim::Extent(GROUPS), Dim::Const(1))],
    numbers: &[NumberSpec::PREACT_BITS, NumberSpec::table_shift("table_shift")],
    work: &[],
    tensors: &[
        TensorSpec::matrix("weights", &["weights"], Dim::Output, COLS),
        TensorSpec::vector("rows", &["bias"], Dim::Output).stored(Storage::Rows {
            input: tensor::WEIGHTS,
            recurrent: None,
            to: &[Unit::Before { activation: 0, bits: number::PREACT_BITS, after: &Unit::Output }],
        }),
        TensorSpec::table("table", 0),
    ],
};

/// One step. `x` is `[input]`, `y` is `[output]`.
pub(crate) fn step<K: Kernel>(node: &Node<'_>, io: Io<'_, i16>) {
    let Io { x, y, .. } = io;
    let activation = node.curve(0, tensor::TABLE, number::TABLE_SHIFT);
    let bits = node.number(number::PREACT_BITS).unsigned_abs();
    let mut sums = NO_SUMS;
    let input = (x, node.input_size);
    let Some(mut single) = Single::<K>::new(node, tensor::WEIGHTS, tensor::ROWS, node.output_size, input) else {
        return;
    };
    for y in y.chunks_mut(4 * CHUNK) {
        for (sum, y) in single.next(y.len().div_ceil(4), &mut sums).as_flattened().iter().zip(y) {
            *y = saturate(activation.apply(*sum, bits));
        }
    }
}
