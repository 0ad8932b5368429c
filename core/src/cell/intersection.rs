//! Intersection RNN (Collins, Sohl-Dickstein and Sussillo 2017, arXiv:1611.09913, "+RNN"): a gate over time for the
//! state, and a gate over depth for the output, which is not the state.
//!
//! # Equation
//!
//! ```text
//! z = σ(W_z x + R_z h + b_z)
//! n = tanh(W_n x + R_n h + b_n)
//! g = σ(W_g x + R_g h + b_g)
//! m = relu(W_m x + R_m h + b_m)
//! h' = z ⊙ h + (1 - z) ⊙ n
//! y = g ⊙ x + (1 - g) ⊙ m
//! ```
//!
//! There are as many units as features come in; where a framework projects the input first, that is a `dense` node. A
//! forget bias that a framework adds at run time is folded into `b_z` and `b_g` by the importer.
//!
//! # Tensors
//!
//! Blocks of rows in the order z, n, g, m.
//!
//! | name | shape | when |
//! |---|---|---|
//! | `input_weights` | `[4 · hidden, input]` | always |
//! | `recurrent_weights` | `[4 · hidden, hidden]` | always |
//! | `bias` | `[4 · hidden]` | optional |
//!
//! # Activations
//!
//! | name | default | of |
//! |---|---|---|
//! | `gate_activation` | `sigmoid` | z, g |
//! | `new_activation` | `tanh` | n |
//! | `output_activation` | `relu` | m |
//!
//! # Known as
//!
//! TensorFlow 1's `tf.contrib.rnn.IntersectionRNNCell`.
//!
//! # Golden cases
//!
//! `tf1__IntersectionRNNCell__*`.

use super::{ActivationSpec, CanonicalSpec, CellSpec, Dim, Io, Presence, RECURRENT, Rule, StateSpec, TensorSpec, copy};
use crate::activation::Activation;
use crate::gate;
use crate::kernel::{Weight, accumulate};
use crate::node::Node;

/// See the [module](self).
pub const SPEC: CellSpec = CellSpec {
    name: "intersection",
    gates: &gate::INTERSECTION,
    extents: &[],
    rules: &[RECURRENT, Rule::Equal(Dim::Input, Dim::Hidden)],
    states: &[StateSpec { name: "hidden", len: Dim::Hidden }],
    work: &[Dim::Hidden],
    options: &[],
    params: &[],
    activations: &[
        ActivationSpec { name: "gate_activation", default: Activation::Sigmoid },
        ActivationSpec { name: "new_activation", default: Activation::Tanh },
        ActivationSpec { name: "output_activation", default: Activation::Relu },
    ],
    canonical: &[
        CanonicalSpec::matrix("input_weights", Dim::Hidden, Dim::Input).gated(),
        CanonicalSpec::matrix("recurrent_weights", Dim::Hidden, Dim::Hidden).gated(),
        CanonicalSpec::vector("bias", Dim::Hidden).gated().when(Presence::Optional),
    ],
    tensors: &[
        TensorSpec::matrix("input_weights", &["input_weights"], Dim::Hidden, Dim::Input).gates(&gate::INTERSECTION),
        TensorSpec::matrix("recurrent_weights", &["recurrent_weights"], Dim::Hidden, Dim::Hidden)
            .gates(&gate::INTERSECTION),
        TensorSpec::vector("bias", &["bias"], Dim::Hidden).gates(&gate::INTERSECTION),
    ],
};

/// Tensors of the spec by name.
mod tensor {
    pub const INPUT_WEIGHTS: usize = 0;
    pub const RECURRENT_WEIGHTS: usize = 1;
    pub const BIAS: usize = 2;
}

/// One step. `x`, `hidden`, `next` and `y` are `[hidden]`. A block of four rows holds z, n, g, m of one unit.
pub(crate) fn step<W: Weight>(node: &Node<'_>, io: Io<'_>) {
    let Io { x, state: hidden, work: next, y, .. } = io;
    let (gate, new, output) = (node.activation(0), node.activation(1), node.activation(2));
    let input = node.matrix::<W>(tensor::INPUT_WEIGHTS).blocks();
    let recurrent = node.matrix::<W>(tensor::RECURRENT_WEIGHTS).blocks();
    let units = input.zip(recurrent).zip(node.vector(tensor::BIAS));
    for (((w, r), &b), ((&x_k, &h), (next, y))) in units.zip(x.iter().zip(hidden.iter()).zip(next.iter_mut().zip(y))) {
        let [z, n, g, m] = accumulate(accumulate(b, w, x), r, hidden);
        let (z, g) = (gate.apply(z), gate.apply(g));
        *next = z * h + (1.0 - z) * new.apply(n);
        *y = g * x_k + (1.0 - g) * output.apply(m);
    }
    copy(hidden, next);
}
