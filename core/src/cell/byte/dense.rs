//! The dense layer in the numeric `i8`: TFLite's `FULLY_CONNECTED`.
//!
//! ```text
//! y = clip((start + W x) · factor · 2^(shift - 31))        start, factor and shift of each row
//! ```
//!
//! The limits are those of 8 bits, or of the activation: ReLU has 0 for the least.

use super::{Limits, limit, requantized};
use crate::cell::dense::{COLS, GROUPS};
use crate::cell::{Dim, IntegerSpec, Io, Rule, Storage, TensorSpec};
use crate::kernel::Kernel;
use crate::node::Node;
use crate::quant::start;

/// Tensors of the spec by name.
mod tensor {
    pub const WEIGHTS: usize = 0;
    pub const ROWS: usize = 1;
}

/// See the [module](self).
pub const SPEC: IntegerSpec = IntegerSpec {
    options: 0,
    rules: &[Rule::Equal(Dim::Extent(GROUPS), Dim::Const(1))],
    numbers: &[limit("least"), limit("most")],
    work: &[],
    tensors: &[
        TensorSpec::matrix("weights", &["weights"], Dim::Output, COLS),
        TensorSpec::vector("rows", &["bias"], Dim::Output).stored(Storage::Requantized { of: tensor::WEIGHTS }),
    ],
};

/// One step. `x` is `[input]`, `y` is `[output]`.
pub(crate) fn step<K: Kernel>(node: &Node<'_>, io: Io<'_, i16>) {
    let Io { x, y, .. } = io;
    let limits = Limits::of(node, 0);
    let x = K::operand(x, node.input_size);
    let rows = node.rows(tensor::ROWS, node.output_size);
    let Some(blocks) = node.weights::<K>(tensor::WEIGHTS, node.input_size) else { return };
    for ((rows, block), y) in rows.iter().zip(blocks).zip(y.chunks_mut(4)) {
        for (value, y) in requantized(rows, K::dot(start(rows), block, x)).into_iter().zip(y) {
            *y = limits.hold(value);
        }
    }
}
