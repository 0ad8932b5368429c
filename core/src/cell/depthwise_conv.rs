//! A convolution of every channel by itself.
//!
//! # Equation
//!
//! ```text
//! y[row, col, f] = act(bias[f] + Σ weights[f, tap] · x[row · stride + tap · dilation - padding, …, c])
//! f = c · multiplier + k
//! ```
//!
//! # Tensors
//!
//! | name | shape | when |
//! |---|---|---|
//! | `weights` | `[hidden, kernel_height · kernel_width]` | always |
//! | `bias` | `[hidden]` | optional; else 0 |
//!
//! # Extents
//!
//! | name | what |
//! |---|---|
//! | `in_height`, `in_width`, `in_channels` | the image, `[height, width, channels]` |
//! | `kernel_height`, `kernel_width` | taps |
//! | `stride_height`, `stride_width` | from one position of the kernel to the next |
//! | `dilation_height`, `dilation_width` | from one tap to the next |
//! | `pad_top`, `pad_bottom`, `pad_left`, `pad_right` | zeros around the image |
//! | `out_height`, `out_width` | positions of the kernel |
//! | `multiplier` | filters of a channel, `hidden_size = multiplier · in_channels` |
//!
//! # Activations
//!
//! | name | default |
//! |---|---|
//! | `activation` | `identity` |
//!
//! # Known as
//!
//! Keras's `DepthwiseConv1D` and `DepthwiseConv2D`, and the first half of its `SeparableConv2D`.
//!
//! # Golden cases
//!
//! None of its own.

pub mod integer;

use super::patch::{self, COLS, IMAGE, IN_CHANNELS, LAST, PATCH, POSITIONED, POSITIONS, ROWS, TAPS};
use super::{ActivationSpec, CanonicalSpec, CellSpec, Dim, Io, Presence, Rule, TensorSpec};
use crate::activation::Activation;
use crate::kernel::Weight;
use crate::node::Node;

/// See the [module](self).
pub const SPEC: CellSpec = CellSpec {
    name: "depthwise_conv",
    gates: &[],
    extents: &patch::extents("multiplier"),
    rules: &[IMAGE, POSITIONED, ROWS, COLS, Rule::Equal(Dim::Hidden, Dim::Product(&[IN_CHANNELS, LAST]))],
    states: &[],
    work: &[PATCH],
    options: &[],
    params: &[],
    activations: &[ActivationSpec { name: "activation", default: Activation::Identity }],
    canonical: &[
        CanonicalSpec::matrix("weights", Dim::Hidden, TAPS),
        CanonicalSpec::vector("bias", Dim::Hidden).when(Presence::Optional),
    ],
    tensors: &[
        TensorSpec::matrix("weights", &["weights"], Dim::Hidden, TAPS).passes(POSITIONS),
        TensorSpec::vector("bias", &["bias"], Dim::Hidden),
    ],
};

/// One step. `x` is the image, `work` is `[channels · taps]`, `y` is `[out_height, out_width, hidden]`.
pub(crate) fn step<W: Weight>(node: &Node<'_>, io: Io<'_>) {
    patch::convolve::<W>(node, io, node.dim(&IN_CHANNELS), &Dim::Const(1));
}
