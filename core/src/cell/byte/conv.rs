//! The convolution in the numeric `i8`: TFLite's `CONV_2D`.
//!
//! ```text
//! y[row, col, f] = clip((start[f] + Σ weights[f, tap, c] x[…, c]) · factor[f] · 2^(shift[f] - 31))
//! ```
//!
//! Padding is 0, which stands for TFLite's zero point. The limits are those of the [dense layer](super::dense).

use super::{Limits, limit, requantized};
use crate::cell::conv::{CHANNELS, OPERAND};
use crate::cell::patch::integer::at_positions;
use crate::cell::patch::{LAST, POSITIONS};
use crate::cell::{Dim, IntegerSpec, Io, Storage, TensorSpec};
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
    rules: &[],
    numbers: &[limit("least"), limit("most")],
    work: &[OPERAND],
    tensors: &[
        TensorSpec::matrix("weights", &["weights"], Dim::Hidden, OPERAND).passes(POSITIONS),
        TensorSpec::vector("rows", &["bias"], Dim::Hidden).stored(Storage::Requantized { of: tensor::WEIGHTS }),
    ],
};

/// One step. `x` is the image, `work` is `[taps · channels of a group]`, `y` is `[out_height, out_width, hidden]`.
pub(crate) fn step<K: Kernel>(node: &Node<'_>, io: Io<'_, i16>) {
    let limits = Limits::of(node, 0);
    let Some(blocks) = node.weights::<K>(tensor::WEIGHTS, node.dim(&OPERAND)) else { return };
    let rows = node.rows(tensor::ROWS, node.hidden_size);
    at_positions::<K>(node, io, (node.dim(&LAST), &CHANNELS), |first, seen, y| {
        // A block may have filters of two groups or more.
        let mut others = first % 4;
        let rows = rows.iter().skip(first / 4).take((others + y.len()).div_ceil(4));
        let mut y = y.iter_mut();
        for (rows, block) in rows.zip(blocks.skip(first / 4)) {
            let values = requantized(rows, K::dot(start(rows), block, seen));
            for (value, y) in values.into_iter().skip(others).zip(y.by_ref()) {
                *y = limits.hold(value);
            }
            others = 0;
        }
    });
}
