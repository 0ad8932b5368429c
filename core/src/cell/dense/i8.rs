//! The dense layer in the numeric `i8`: TFLite's `FULLY_CONNECTED`.
//!
//! ```text
//! y = clip((start + W x) · factor · 2^(shift - 31))        start, factor and shift of each row
//! ```
//!
//! The product is rounded once, as LiteRT does since version 1.3. Earlier interpreters rounded twice.
//!
//! The limits of the clip are those of 8 bits or those of the activation: for ReLU the least value is 0.

use crate::cell::dense::{COLS, GROUPS};
use crate::cell::i8::{Limits, limit, requantized};
use crate::cell::prelude::*;
use crate::fixed::Multiplier;
use crate::quant::start;

const TENSORS: &[&str] = &["weights", "rows"];
const WEIGHTS: usize = index(TENSORS, "weights");
const ROWS: usize = index(TENSORS, "rows");

pub(super) const SPEC: IntegerSpec = IntegerSpec {
    rules: &[Rule::Equal(Dim::Extent(GROUPS), Dim::Const(1))],
    numbers: &[limit("least"), limit("most")],
    tensors: &[
        TensorSpec::matrix("weights", &["weights"], Dim::Output, COLS),
        TensorSpec::vector("rows", &["bias"], Dim::Output).stored(Storage::Requantized { of: WEIGHTS }),
    ],
    quantization: Quantization::LIMITS.on_host(),
    ..IntegerSpec::EMPTY
}
.with_tensors_named(TENSORS);

/// One step. `x` is `[input]`, `y` is `[output]`.
pub(crate) fn step<K: Kernel>(node: &Node<'_>, io: Io<'_, i16>) {
    let Io { x, y, .. } = io;
    let limits = Limits::of(node, 0);
    let x = K::operand(x, node.input_size);
    let rows = node.rows(ROWS, node.output_size);
    let Some(blocks) = node.weights::<K>(WEIGHTS, node.input_size) else { return };
    for ((rows, block), y) in rows.iter().zip(blocks).zip(y.chunks_mut(4)) {
        for (value, y) in requantized(rows, K::dot(start(rows), block, x), Multiplier::once).into_iter().zip(y) {
            *y = limits.hold(value);
        }
    }
}
