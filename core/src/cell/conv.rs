//! A convolution over an image, or along time: an image that is one pixel wide. Behind a [`window`](super::window) of
//! as many rows as the kernel has taps it streams.
//!
//! # Equation
//!
//! ```text
//! y[row, col, f] = act(bias[f] + Σ weights[f, tap, c] · x[row · stride + tap · dilation - padding, …, c])
//! ```
//!
//! c runs over the channels of the group of filter f.
//!
//! # Tensors
//!
//! | name | shape | when |
//! |---|---|---|
//! | `weights` | `[hidden, kernel_height · kernel_width · in_channels / groups]` | always |
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
//! | `groups` | parts of the channels and of the filters |
//!
//! `hidden_size` is the number of filters, `output_size` that of all positions.
//!
//! # Activations
//!
//! | name | default |
//! |---|---|
//! | `activation` | `identity` |
//!
//! # Known as
//!
//! `Conv1D` and `Conv2D` of Keras, `nn.Conv1d` and `nn.Conv2d` of PyTorch (after their channels were moved to the end).
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

/// Channels that a filter sees.
pub(super) const CHANNELS: Dim = Dim::Quotient(&[IN_CHANNELS, LAST]);
/// Columns of the weights.
pub(super) const OPERAND: Dim = Dim::Product(&[TAPS, CHANNELS]);

/// See the [module](self).
pub const SPEC: CellSpec = CellSpec {
    name: "conv",
    gates: &[],
    extents: &patch::extents("groups"),
    rules: &[IMAGE, POSITIONED, ROWS, COLS, Rule::Multiple(IN_CHANNELS, LAST), Rule::Multiple(Dim::Hidden, LAST)],
    states: &[],
    work: &[PATCH],
    options: &[],
    params: &[],
    activations: &[ActivationSpec { name: "activation", default: Activation::Identity }],
    canonical: &[
        CanonicalSpec::matrix("weights", Dim::Hidden, OPERAND),
        CanonicalSpec::vector("bias", Dim::Hidden).when(Presence::Optional),
    ],
    tensors: &[
        TensorSpec::matrix("weights", &["weights"], Dim::Hidden, OPERAND).passes(POSITIONS),
        TensorSpec::vector("bias", &["bias"], Dim::Hidden),
    ],
};

/// One step. `x` is the image, `work` is `[taps · channels]`, `y` is `[out_height, out_width, hidden]`.
pub(crate) fn step<W: Weight>(node: &Node<'_>, io: Io<'_>) {
    patch::convolve::<W>(node, io, node.dim(&LAST), &CHANNELS);
}
