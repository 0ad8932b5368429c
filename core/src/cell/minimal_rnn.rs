//! Minimal RNN (Chen 2017, arXiv:1711.06788): one gate that mixes the state with a latent form of the input.
//!
//! # Equation
//!
//! ```text
//! z = act(W x + b_z)
//! u = σ(U_z z + U_h h + b)
//! h' = u ⊙ h + (1 - u) ⊙ z
//! ```
//!
//! # Tensors
//!
//! | name | shape | when |
//! |---|---|---|
//! | `input_weights` | `[hidden, input]`: W | always |
//! | `input_bias` | `[hidden]`: b_z | optional |
//! | `latent_weights` | `[hidden, hidden]`: U_z | always |
//! | `recurrent_weights` | `[hidden, hidden]`: U_h | always |
//! | `bias` | `[hidden]`: b | optional |
//!
//! # Activations
//!
//! | name | default | of |
//! |---|---|---|
//! | `gate_activation` | `sigmoid` | u |
//! | `activation` | `tanh` | z |
//!
//! # Known as
//!
//! TensorFlow 1's `tf.contrib.rnn.MinimalRNNCell`, which has no `input_bias`.
//!
//! # Golden cases
//!
//! `tf1__MinimalRNNCell__*`.

use super::{ActivationSpec, CanonicalSpec, CellSpec, Dim, Io, Presence, RECURRENT, StateSpec, TensorSpec, copy};
use crate::activation::Activation;
use crate::kernel::{Weight, accumulate};
use crate::node::Node;

/// See the [module](self).
pub const SPEC: CellSpec = CellSpec {
    name: "minimal_rnn",
    gates: &[],
    extents: &[],
    rules: &[RECURRENT],
    states: &[StateSpec { name: "hidden", len: Dim::Hidden }],
    work: &[Dim::Hidden],
    options: &[],
    params: &[],
    activations: &[
        ActivationSpec { name: "gate_activation", default: Activation::Sigmoid },
        ActivationSpec { name: "activation", default: Activation::Tanh },
    ],
    canonical: &[
        CanonicalSpec::matrix("input_weights", Dim::Hidden, Dim::Input),
        CanonicalSpec::vector("input_bias", Dim::Hidden).when(Presence::Optional),
        CanonicalSpec::matrix("latent_weights", Dim::Hidden, Dim::Hidden),
        CanonicalSpec::matrix("recurrent_weights", Dim::Hidden, Dim::Hidden),
        CanonicalSpec::vector("bias", Dim::Hidden).when(Presence::Optional),
    ],
    tensors: &[
        TensorSpec::matrix("input_weights", &["input_weights"], Dim::Hidden, Dim::Input),
        TensorSpec::vector("input_bias", &["input_bias"], Dim::Hidden),
        TensorSpec::matrix("latent_weights", &["latent_weights"], Dim::Hidden, Dim::Hidden),
        TensorSpec::matrix("recurrent_weights", &["recurrent_weights"], Dim::Hidden, Dim::Hidden),
        TensorSpec::vector("bias", &["bias"], Dim::Hidden),
    ],
};

/// Tensors of the spec by name.
mod tensor {
    pub const INPUT_WEIGHTS: usize = 0;
    pub const INPUT_BIAS: usize = 1;
    pub const LATENT_WEIGHTS: usize = 2;
    pub const RECURRENT_WEIGHTS: usize = 3;
    pub const BIAS: usize = 4;
}

/// One step. `x` is `[input]`, `hidden`, `z` and `y` are `[hidden]`.
pub(crate) fn step<W: Weight>(node: &Node<'_>, io: Io<'_>) {
    let Io { x, state: hidden, work: z, y, .. } = io;
    let (gate, activation) = (node.activation(0), node.activation(1));
    let blocks = node.matrix::<W>(tensor::INPUT_WEIGHTS).blocks().zip(node.vector(tensor::INPUT_BIAS));
    for ((w, &b), z) in blocks.zip(z.chunks_mut(4)) {
        for (z, a) in z.iter_mut().zip(accumulate(b, w, x)) {
            *z = activation.apply(a);
        }
    }
    let latent = node.matrix::<W>(tensor::LATENT_WEIGHTS).blocks();
    let recurrent = node.matrix::<W>(tensor::RECURRENT_WEIGHTS).blocks();
    let blocks = latent.zip(recurrent).zip(node.vector(tensor::BIAS));
    for (((l, r), &b), y) in blocks.zip(y.chunks_mut(4)) {
        for (u, a) in y.iter_mut().zip(accumulate(accumulate(b, l, z), r, hidden)) {
            *u = gate.apply(a);
        }
    }
    for ((y, &h), &z) in y.iter_mut().zip(hidden.iter()).zip(z.iter()) {
        *y = *y * h + (1.0 - *y) * z;
    }
    copy(hidden, y);
}
