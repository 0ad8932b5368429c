//! The convolution in the integer numerics.
//!
//! ```text
//! y[row, col, f] = act(⌊(start[f] + Σ weights[f, tap, c] x[…, c]) · multiplier[f] / 2^32⌋)         `start` includes the bias
//! ```
//!
//! Activations are applied as in the [dense layer](crate::cell::dense::integer).

use super::{CHANNELS, OPERAND};
use crate::cell::patch::{LAST, integer as patch};
use crate::cell::prelude::*;

pub(super) const SPEC: IntegerSpec = IntegerSpec {
    options: patch::OPTIONS,
    numbers: &patch::NUMBERS,
    work: &[OPERAND],
    tensors: &patch::tensors(OPERAND),
    quantization: Quantization::LAYER.on_host(),
    ..IntegerSpec::EMPTY
}
.with_tensors_named(patch::TENSORS);

/// One step. `x` is the image, `work` is `[taps · channels of a group]`, `y` is `[out_height, out_width, hidden]`.
pub(crate) fn step<K: Kernel>(node: &Node<'_>, io: Io<'_, i16>) {
    patch::convolve::<K>(node, io, node.dim(&LAST), &CHANNELS);
}
