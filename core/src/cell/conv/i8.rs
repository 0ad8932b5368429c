//! The convolution in the numeric `i8`: TFLite's `CONV_2D`.
//!
//! ```text
//! y[row, col, f] = clip((start[f] + Σ weights[f, tap, c] x[…, c]) · factor[f] · 2^(shift[f] - 31))
//! ```
//!
//! Padding is 0, which stands for TFLite's zero point. The limits are those of the [dense layer](crate::cell::dense::i8).

use crate::cell::conv::{CHANNELS, OPERAND};
use crate::cell::i8::{Limits, limit, requantized};
use crate::cell::patch::integer::at_positions;
use crate::cell::patch::{LAST, POSITIONS};
use crate::cell::prelude::*;
use crate::fixed::Multiplier;
use crate::quant::start;

const TENSORS: &[&str] = &["weights", "rows"];
const WEIGHTS: usize = index(TENSORS, "weights");
const ROWS: usize = index(TENSORS, "rows");

pub(super) const SPEC: IntegerSpec = IntegerSpec {
    numbers: &[limit("least"), limit("most")],
    work: &[OPERAND],
    tensors: &[
        TensorSpec::matrix("weights", &["weights"], Dim::Hidden, OPERAND).passes(&POSITIONS),
        TensorSpec::vector("rows", &["bias"], Dim::Hidden).stored(Storage::Requantized { of: WEIGHTS }),
    ],
    quantization: Quantization::LIMITS.on_host(),
    ..IntegerSpec::EMPTY
}
.with_tensors_named(TENSORS);

/// One step. `x` is the image, `work` is `[taps · channels of a group]`, `y` is `[out_height, out_width, hidden]`.
pub(crate) fn step<K: Kernel>(node: &Node<'_>, io: Io<'_, i16>) {
    let limits = Limits::of(node, 0);
    let Some(blocks) = node.weights::<K>(WEIGHTS, node.dim(&OPERAND)) else { return };
    let rows = node.rows(ROWS, node.hidden_size);
    at_positions::<K>(node, io, (node.dim(&LAST), &CHANNELS), |first, seen, y| {
        // A block may hold filters of several groups.
        let mut others = first % 4;
        let rows = rows.iter().skip(first / 4).take((others + y.len()).div_ceil(4));
        let mut y = y.iter_mut();
        for (rows, block) in rows.zip(blocks.skip(first / 4)) {
            let values = requantized(rows, K::dot(start(rows), block, seen), Multiplier::of);
            for (value, y) in values.into_iter().skip(others).zip(y.by_ref()) {
                *y = limits.hold(value);
            }
            others = 0;
        }
    });
}
