//! A row of a table in the integer numerics.
//!
//! ```text
//! index = min(max((mulh(x · 2^16, multiplier) + 2^7) >> 8, 0), vocabulary - 1)
//! y = ⌊(start[index] + 2^15 · weights[index]) · multiplier[index] / 2^32⌋
//! ```

use super::VOCABULARY;
use crate::cell::{Dim, IntegerSpec, Io, NumberSpec, Rule, Storage, TensorSpec, Unit};
use crate::node::Node;
use crate::quant::{MAX, ONE, rescaled, saturate, scaled, start, whole};

/// Numbers of the spec by name.
mod number {
    pub const MULTIPLIER: usize = 0;
}

/// Tensors of the spec by name.
mod tensor {
    pub const WEIGHTS: usize = 0;
    pub const ROWS: usize = 1;
}

/// See the [module](self).
pub const SPEC: IntegerSpec = IntegerSpec {
    options: 0,
    // So that every index is a value.
    rules: &[Rule::AtMost(Dim::Extent(VOCABULARY), Dim::Const(MAX as usize))],
    numbers: &[NumberSpec { name: "multiplier", least: 1, most: i32::MAX, usual: None }],
    work: &[],
    tensors: &[
        // As if each were multiplied with 1. Nothing is, in a step.
        TensorSpec::matrix("weights", &["weights"], Dim::Extent(VOCABULARY), Dim::Output)
            .passes(Dim::Const(0))
            .stored(Storage::Weights(Unit::Q15)),
        TensorSpec::vector("rows", &[], Dim::Extent(VOCABULARY)).stored(Storage::Rows {
            input: tensor::WEIGHTS,
            recurrent: None,
            to: &[Unit::Output],
        }),
    ],
};

/// One step. `x` is `[1]`, `y` is `[output]`.
pub(crate) fn step(node: &Node<'_>, io: Io<'_, i16>) {
    let &[x, ..] = io.x else { return };
    let last = node.extent(VOCABULARY).saturating_sub(1);
    let row = whole(rescaled(x, node.number(number::MULTIPLIER))).max(0).unsigned_abs();
    let row = last.min(row as usize);
    let Some(rows) = node.rows(tensor::ROWS, last.saturating_add(1)).get(row / 4) else { return };
    for (y, weight) in io.y.iter_mut().zip(node.weights_of_row(tensor::WEIGHTS, row)) {
        let sums = start(rows).map(|start| start.wrapping_add(weight * ONE));
        *y = scaled(rows, sums).get(row % 4).map_or(0, |&value| saturate(value));
    }
}
