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

use super::prelude::*;

const CANONICAL: &[CanonicalSpec; 5] = &[
    CanonicalSpec::matrix("input_weights", Dim::Hidden, Dim::Input),
    CanonicalSpec::vector("input_bias", Dim::Hidden).optional(),
    CanonicalSpec::matrix("latent_weights", Dim::Hidden, Dim::Hidden),
    CanonicalSpec::matrix("recurrent_weights", Dim::Hidden, Dim::Hidden),
    CanonicalSpec::vector("bias", Dim::Hidden).optional(),
];

pub(super) const SPEC: CellSpec = CellSpec {
    name: "minimal_rnn",
    rules: &[RECURRENT],
    states: &[StateSpec { name: "hidden", len: Dim::Hidden }],
    work: &[Dim::Hidden],
    activations: &[ActivationSpec::sigmoid("gate_activation"), ActivationSpec::tanh("activation")],
    canonical: CANONICAL,
    tensors: &TensorSpec::each(CANONICAL, &[]),
    curves: &[Dim::Hidden; 2],
    ..CellSpec::EMPTY
};

const INPUT: [usize; 2] = SPEC.tensors(["input_weights", "input_bias"]);
const GATE: [usize; 3] = SPEC.tensors(["latent_weights", "recurrent_weights", "bias"]);

pub(super) const fn entry<W: Weight, K: Kernel>() -> Entry {
    const { Entry { spec: &SPEC, float: &[&Cell::float(&SPEC, step::<W>)], ..Entry::EMPTY } }
}

/// One step. `x` is `[input]`, `hidden`, `z` and `y` are `[hidden]`.
pub(crate) fn step<W: Weight>(node: &Node<'_>, io: Io<'_>) {
    let Io { x, state: hidden, work: z, y, .. } = io;
    let (gate, activation) = (node.activation(0), node.activation(1));
    for (sums, z) in sums::<W>(node, INPUT, x).zip(z.chunks_mut(4)) {
        for (z, a) in z.iter_mut().zip(sums) {
            *z = activation.apply(a);
        }
    }
    for (sums, y) in sums_of_two::<W>(node, GATE, z, hidden).zip(y.chunks_mut(4)) {
        for (u, a) in y.iter_mut().zip(sums) {
            *u = gate.apply(a);
        }
    }
    for ((y, &h), &z) in y.iter_mut().zip(hidden.iter()).zip(z.iter()) {
        *y = *y * h + (1.0 - *y) * z;
    }
    copy(hidden, y);
}
