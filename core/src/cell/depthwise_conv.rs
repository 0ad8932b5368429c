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

pub mod i8;
pub mod integer;

use super::patch::{self, COLS, IMAGE, IN_CHANNELS, LAST, PATCH, POSITIONED, POSITIONS, ROWS, TAPS};
use super::prelude::*;

const CANONICAL: &[CanonicalSpec; 2] =
    &[CanonicalSpec::matrix("weights", Dim::Hidden, TAPS), CanonicalSpec::vector("bias", Dim::Hidden).optional()];

pub(super) const SPEC: CellSpec = CellSpec {
    name: "depthwise_conv",
    extents: &patch::extents("multiplier"),
    rules: &[IMAGE, POSITIONED, ROWS, COLS, Rule::Equal(Dim::Hidden, Dim::Product(&[IN_CHANNELS, LAST]))],
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
            i8: &[(&i8::SPEC, &Cell::integer(&SPEC, &i8::SPEC, i8::step))],
        }
    }
}

/// One step. `x` is the image, `work` is `[channels · taps]`, `y` is `[out_height, out_width, hidden]`.
pub(crate) fn step<W: Weight>(node: &Node<'_>, io: Io<'_>) {
    patch::convolve::<W>(node, io, node.dim(&IN_CHANNELS), &Dim::Const(1));
}
