//! The depthwise convolution in the integer numerics: [`conv`](crate::cell::conv::integer) with one group for each
//! channel.

use crate::cell::patch::{IN_CHANNELS, TAPS, integer as patch};
use crate::cell::prelude::*;

pub(super) const SPEC: IntegerSpec = IntegerSpec {
    options: patch::OPTIONS,
    numbers: &patch::NUMBERS,
    work: &[TAPS],
    tensors: &patch::tensors(TAPS),
    quantization: Quantization::LAYER.on_host(),
    ..IntegerSpec::EMPTY
}
.with_tensors_named(patch::TENSORS);

/// One step. `x` is the image, `work` is `[taps]`, `y` is `[out_height, out_width, hidden]`.
pub(crate) fn step<K: Kernel>(node: &Node<'_>, io: Io<'_, i16>) {
    patch::convolve::<K>(node, io, node.dim(&IN_CHANNELS), &Dim::Const(1));
}
