//! Chaos-free network (Laurent and von Brecht 2016, arXiv:1612.06212): two gates, and units that interact only through
//! the gates.
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

use super::prelude::*;

const CANONICAL: &[CanonicalSpec; 4] = &[
    CanonicalSpec::matrix("input_weights", Dim::Hidden, Dim::Input).gated(),
    CanonicalSpec::matrix("recurrent_weights", Dim::Hidden, Dim::Hidden).gated(),
    CanonicalSpec::vector("bias", Dim::Hidden).gated().optional(),
    CanonicalSpec::matrix("candidate_weights", Dim::Hidden, Dim::Input),
];

pub(super) const SPEC: CellSpec = CellSpec {
    name: "cfn",
    gates: &gate::CFN,
    rules: &[RECURRENT],
    states: &[StateSpec { name: "hidden", len: Dim::Hidden }],
    work: &[Dim::Hidden, Dim::Hidden],
    activations: &[ActivationSpec::sigmoid("gate_activation"), ActivationSpec::tanh("activation")],
    canonical: CANONICAL,
    tensors: &TensorSpec::each(CANONICAL, &gate::CFN),
    curves: &[Dim::Hidden; 4],
    ..CellSpec::EMPTY
};

/// W, R and b.
const SUMS: [usize; 3] = SPEC.tensors(["input_weights", "recurrent_weights", "bias"]);
const CANDIDATE_WEIGHTS: usize = SPEC.tensor("candidate_weights");

pub(super) const fn entry<W: Weight, K: Kernel>() -> Entry {
    const { Entry { spec: &SPEC, float: &[&Cell::float(&SPEC, step::<W>)], ..Entry::EMPTY } }
}

/// One step. `x` is `[input]`, `hidden` and `y` are `[hidden]`, `gates` is `[hidden]` of θ, η.
pub(crate) fn step<W: Weight>(node: &Node<'_>, io: Io<'_>) {
    let Io { x, state: hidden, work: gates, y, .. } = io;
    let (gate, activation) = (node.activation(0), node.activation(1));
    for (sums, gates) in sums_of_two::<W>(node, SUMS, x, hidden).zip(gates.chunks_mut(4)) {
        for (g, a) in gates.iter_mut().zip(sums) {
            *g = gate.apply(a);
        }
    }
    product::<W>(node, CANDIDATE_WEIGHTS, x, y);
    let (gates, _) = gates.as_chunks::<2>();
    for (&[theta, eta], (h, y)) in gates.iter().zip(hidden.iter_mut().zip(y)) {
        *h = theta * activation.apply(*h) + eta * activation.apply(*y);
        *y = *h;
    }
}
