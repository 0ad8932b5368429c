//! The embedding in the integer numerics.
//!
//! ```text
//! index = min(max((mulh(x · 2^16, multiplier) + 2^7) >> 8, 0), vocabulary - 1)
//! y = ⌊(start[index] + 2^15 · weights[index]) · multiplier[index] / 2^32⌋
//! ```

use super::VOCABULARY;
use crate::cell::prelude::*;
use crate::quant::{MAX, ONE, rescaled, saturate, scaled, start, whole};

const NUMBERS: &[NumberSpec] = &[NumberSpec::MULTIPLIER];
const MULTIPLIER: usize = number(NUMBERS, "multiplier");

const TENSORS: &[&str] = &["weights", "rows"];
const WEIGHTS: usize = index(TENSORS, "weights");
const ROWS: usize = index(TENSORS, "rows");

pub(super) const SPEC: IntegerSpec = IntegerSpec {
    // Every index is representable as a value.
    rules: &[Rule::AtMost(Dim::Extent(VOCABULARY), Dim::Const(MAX as usize))],
    numbers: NUMBERS,
    tensors: &[
        // The scale is that of a product with 1, although a step multiplies nothing.
        TensorSpec::matrix("weights", &["weights"], Dim::Extent(VOCABULARY), Dim::Output)
            .passes(&Dim::Const(0))
            .stored(Storage::Weights(Unit::Q15)),
        TensorSpec::vector("rows", &[], Dim::Extent(VOCABULARY)).stored(Storage::rows(WEIGHTS, &[Unit::Output])),
    ],
    quantization: QUANTIZATION.on_host(),
    ..IntegerSpec::EMPTY
}
.with_tensors_named(TENSORS);

const QUANTIZATION: Quantization = Quantization {
    reads: Reads::Index,
    output: &[(0, OutputScale::Measured)],
    numbers: Numbers::Indexed,
    ..Quantization::MOVE
};

/// One step. `x` is `[1]`, `y` is `[output]`.
pub(crate) fn step(node: &Node<'_>, io: Io<'_, i16>) {
    let &[x, ..] = io.x else { return };
    let last = node.extent(VOCABULARY).saturating_sub(1);
    let row = whole(rescaled(x, node.number(MULTIPLIER))).max(0).unsigned_abs();
    let row = last.min(row as usize);
    let Some(rows) = node.rows(ROWS, last.saturating_add(1)).get(row / 4) else { return };
    for (y, weight) in io.y.iter_mut().zip(node.weights_of_row(WEIGHTS, row)) {
        let sums = start(rows).map(|start| start.wrapping_add(weight * ONE));
        *y = scaled(rows, sums).get(row % 4).map_or(0, |&value| saturate(value));
    }
}
