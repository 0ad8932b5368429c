//! The convolution of every channel by itself in the integer numerics: as [`conv`](crate::cell::conv::integer), each channel
//! a group.

use crate::cell::patch::{IN_CHANNELS, TAPS, integer as patch};
use crate::cell::{Dim, IntegerSpec, Io};
use crate::kernel::Kernel;
use crate::node::Node;

/// See the [module](self).
pub const SPEC: IntegerSpec = IntegerSpec {
    options: patch::OPTIONS,
    rules: &[],
    numbers: &patch::NUMBERS,
    work: &[TAPS],
    tensors: &patch::tensors(TAPS),
};

/// One step. `x` is the image, `work` is `[taps]`, `y` is `[out_height, out_width, hidden]`.
pub(crate) fn step<K: Kernel>(node: &Node<'_>, io: Io<'_, i16>) {
    patch::convolve::<K>(node, io, node.dim(&IN_CHANNELS), &Dim::Const(1));
}
