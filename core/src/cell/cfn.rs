//! Chaos-free network (Laurent and von Brecht 2016, arXiv:1612.06212): two gates, and units that are not mixed but
//! through the gates.
//!
//! # Equation
//!
//! ```text
//! θ = σ(W_θ x + R_θ h + b_θ)
//! η = σ(W_η x + R_η h + b_η)
//! h' = θ ⊙ tanh(h) + η ⊙ tanh(W x)
//! ```
//!
//! # Tensors
//!
//! Blocks of rows in the order θ, η.
//!
//! | name | shape | when |
//! |---|---|---|
//! | `input_weights` | `[2 · hidden, input]` | always |
//! | `recurrent_weights` | `[2 · hidden, hidden]` | always |
//! | `bias` | `[2 · hidden]` | optional |
//! | `candidate_weights` | `[hidden, input]`: W | always |
//!
//! # Activations
//!
//! | name | default | of |
//! |---|---|---|
//! | `gate_activation` | `sigmoid` | θ, η |
//! | `activation` | `tanh` | h, W x |
//!
//! # Known as
//!
//! TensorFlow 1's `tf.contrib.rnn.CFNCell`, which has 1 - η for η: as 1 - σ(a) is σ(-a), the importer negates W_η, R_η
//! and b_η.
//!
//! # Golden cases
//!
//! `tf1__CFNCell__*`.

use super::{ActivationSpec, CanonicalSpec, CellSpec, Dim, Io, Presence, RECURRENT, StateSpec, TensorSpec, copy};
use crate::activation::Activation;
use crate::gate;
use crate::kernel::{Weight, accumulate};
use crate::node::Node;

/// See the [module](self).
pub const SPEC: CellSpec = CellSpec {
    name: "cfn",
    gates: &gate::CFN,
    extents: &[],
    rules: &[RECURRENT],
    states: &[StateSpec { name: "hidden", len: Dim::Hidden }],
    work: &[Dim::Hidden, Dim::Hidden],
    options: &[],
    params: &[],
    activations: &[
        ActivationSpec { name: "gate_activation", default: Activation::Sigmoid },
        ActivationSpec { name: "activation", default: Activation::Tanh },
    ],
    canonical: &[
        CanonicalSpec::matrix("input_weights", Dim::Hidden, Dim::Input).gated(),
        CanonicalSpec::matrix("recurrent_weights", Dim::Hidden, Dim::Hidden).gated(),
        CanonicalSpec::vector("bias", Dim::Hidden).gated().when(Presence::Optional),
        CanonicalSpec::matrix("candidate_weights", Dim::Hidden, Dim::Input),
    ],
    tensors: &[
        TensorSpec::matrix("input_weights", &["input_weights"], Dim::Hidden, Dim::Input).gates(&gate::CFN),
        TensorSpec::matrix("recurrent_weights", &["recurrent_weights"], Dim::Hidden, Dim::Hidden).gates(&gate::CFN),
        TensorSpec::vector("bias", &["bias"], Dim::Hidden).gates(&gate::CFN),
        TensorSpec::matrix("candidate_weights", &["candidate_weights"], Dim::Hidden, Dim::Input),
    ],
};

/// Tensors of the spec by name.
mod tensor {
    pub const INPUT_WEIGHTS: usize = 0;
    pub const RECURRENT_WEIGHTS: usize = 1;
    pub const BIAS: usize = 2;
    pub const CANDIDATE_WEIGHTS: usize = 3;
}

/// One step. `x` is `[input]`, `hidden` and `y` are `[hidden]`, `gates` is `[hidden]` times θ, η.
pub(crate) fn step<W: Weight>(node: &Node<'_>, io: Io<'_>) {
    let Io { x, state: hidden, work: gates, y, .. } = io;
    let (gate, activation) = (node.activation(0), node.activation(1));
    let input = node.matrix::<W>(tensor::INPUT_WEIGHTS).blocks();
    let recurrent = node.matrix::<W>(tensor::RECURRENT_WEIGHTS).blocks();
    let blocks = input.zip(recurrent).zip(node.vector(tensor::BIAS));
    for (((w, r), &b), gates) in blocks.zip(gates.chunks_mut(4)) {
        for (g, a) in gates.iter_mut().zip(accumulate(accumulate(b, w, x), r, hidden)) {
            *g = gate.apply(a);
        }
    }
    for (w, y) in node.matrix::<W>(tensor::CANDIDATE_WEIGHTS).blocks().zip(y.chunks_mut(4)) {
        copy(y, &accumulate([0.0; 4], w, x));
    }
    let (gates, _) = gates.as_chunks::<2>();
    for (&[theta, eta], (h, y)) in gates.iter().zip(hidden.iter_mut().zip(y)) {
        *h = theta * activation.apply(*h) + eta * activation.apply(*y);
        *y = *h;
    }
}
