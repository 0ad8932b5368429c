//! Independently recurrent neural network (Li et al. 2018, arXiv:1803.04831): a simple recurrent cell of which each
//! unit sees of the last state only itself.
//!
//! # Equation
//!
//! ```text
//! h' = act(W x + u ⊙ h + b)
//! ```
//!
//! # Tensors
//!
//! | name | shape | when |
//! |---|---|---|
//! | `input_weights` | `[hidden, input]` | always |
//! | `recurrent_weights` | `[hidden]`: u | always |
//! | `bias` | `[hidden]` | optional |
//!
//! # Activations
//!
//! | name | default | of |
//! |---|---|---|
//! | `activation` | `tanh`; the paper has relu | h' |
//!
//! # Known as
//!
//! TensorFlow 1's `tf.contrib.rnn.IndRNNCell`.
//!
//! # Golden cases
//!
//! `tf1__IndRNNCell__*`.

use super::{ActivationSpec, CanonicalSpec, CellSpec, Dim, Io, Presence, RECURRENT, StateSpec, TensorSpec, copy};
use crate::activation::Activation;
use crate::kernel::{Weight, accumulate};
use crate::node::Node;

/// See the [module](self).
pub const SPEC: CellSpec = CellSpec {
    name: "indrnn",
    gates: &[],
    extents: &[],
    rules: &[RECURRENT],
    states: &[StateSpec { name: "hidden", len: Dim::Hidden }],
    work: &[],
    options: &[],
    params: &[],
    activations: &[ActivationSpec { name: "activation", default: Activation::Tanh }],
    canonical: &[
        CanonicalSpec::matrix("input_weights", Dim::Hidden, Dim::Input),
        CanonicalSpec::vector("recurrent_weights", Dim::Hidden),
        CanonicalSpec::vector("bias", Dim::Hidden).when(Presence::Optional),
    ],
    tensors: &[
        TensorSpec::matrix("input_weights", &["input_weights"], Dim::Hidden, Dim::Input),
        TensorSpec::vector("recurrent_weights", &["recurrent_weights"], Dim::Hidden),
        TensorSpec::vector("bias", &["bias"], Dim::Hidden),
    ],
};

/// Tensors of the spec by name.
mod tensor {
    pub const INPUT_WEIGHTS: usize = 0;
    pub const RECURRENT_WEIGHTS: usize = 1;
    pub const BIAS: usize = 2;
}

/// One step. `x` is `[input]`, `hidden` and `y` are `[hidden]`.
pub(crate) fn step<W: Weight>(node: &Node<'_>, io: Io<'_>) {
    let Io { x, state: hidden, y, .. } = io;
    let activation = node.activation(0);
    let input = node.matrix::<W>(tensor::INPUT_WEIGHTS).blocks().zip(node.vector(tensor::BIAS));
    let blocks = input.zip(node.vector(tensor::RECURRENT_WEIGHTS));
    for (((w, &b), u), (y, hidden)) in blocks.zip(y.chunks_mut(4).zip(hidden.chunks(4))) {
        for (((y, h), u), a) in y.iter_mut().zip(hidden).zip(u).zip(accumulate(b, w, x)) {
            *y = activation.apply(a + u * h);
        }
    }
    copy(hidden, y);
}
