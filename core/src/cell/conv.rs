//! A convolution over an image, or along time: an image that is one pixel wide. After a [`window`](super::window) with
//! as many rows as the kernel has taps it runs as a stream.
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
//! | `bias` | `[hidden]` | optional, otherwise 0 |
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
//! `hidden_size` is the number of filters, `output_size` the number of outputs at all positions.
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

pub mod i8;
pub mod integer;

use super::patch::{self, COLS, IMAGE, IN_CHANNELS, LAST, PATCH, POSITIONED, POSITIONS, ROWS, TAPS};
use super::prelude::*;

/// Channels that a filter reads.
pub(super) const CHANNELS: Dim = Dim::Quotient(&[IN_CHANNELS, LAST]);
/// Columns of the weights.
pub(super) const OPERAND: Dim = Dim::Product(&[TAPS, CHANNELS]);

const CANONICAL: &[CanonicalSpec; 2] =
    &[CanonicalSpec::matrix("weights", Dim::Hidden, OPERAND), CanonicalSpec::vector("bias", Dim::Hidden).optional()];

pub(super) const SPEC: CellSpec = CellSpec {
    name: "conv",
    extents: &patch::extents("groups"),
    rules: &[IMAGE, POSITIONED, ROWS, COLS, Rule::Multiple(IN_CHANNELS, LAST), Rule::Multiple(Dim::Hidden, LAST)],
    work: &[PATCH],
    activations: &[ActivationSpec { name: "activation", default: Activation::Identity }],
    canonical: CANONICAL,
    tensors: &TensorSpec::each_in_passes(CANONICAL, &[], &POSITIONS),
    curves: &[Dim::Output],
    ..CellSpec::EMPTY
};

pub(super) const fn entry<W: Weight, K: Kernel>() -> Entry {
    const {
        Entry {
            spec: &SPEC,
            float: &[&Cell::float(&SPEC, step::<W>)],
            integer: &[(&integer::SPEC, &Cell::integer(&SPEC, &integer::SPEC, integer::step::<K>))],
            i8: &[(&i8::SPEC, &Cell::integer(&SPEC, &i8::SPEC, i8::step::<K>))],
        }
    }
}

/// One step. `x` is the image, `work` is `[taps · channels]`, `y` is `[out_height, out_width, hidden]`.
pub(crate) fn step<W: Weight>(node: &Node<'_>, io: Io<'_>) {
    patch::convolve::<W>(node, io, node.dim(&LAST), &CHANNELS);
}
