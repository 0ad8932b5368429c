//! Independently recurrent GRU: the gated recurrent unit with the reset gate before the recurrent product, in which
//! each unit reads only its own last state (Gonnet and Deselaers 2019, arXiv:1903.08023, do this to the LSTM).
//!
//! # Equation
//!
//! ```text
//! r = σ(W_r x + u_r ⊙ h + b_r)
//! z = σ(W_z x + u_z ⊙ h + b_z)
//! n = tanh(W_n x + u_n ⊙ r ⊙ h + b_n)
//! h' = z ⊙ h + (1 - z) ⊙ n
//! ```
//!
//! # Tensors
//!
//! Blocks of rows in the order r, z, n.
//!
//! | name | shape | when |
//! |---|---|---|
//! | `input_weights` | `[3 · hidden, input]` | always |
//! | `recurrent_weights` | `[3 · hidden]`: u | always |
//! | `bias` | `[3 · hidden]` | optional |
//!
//! # Activations
//!
//! | name | default | of |
//! |---|---|---|
//! | `gate_activation` | `sigmoid` | r, z |
//! | `new_activation` | `tanh` | n |
//!
//! # Known as
//!
//! TensorFlow 1's `tf.contrib.rnn.IndyGRUCell`.
//!
//! # Golden cases
//!
//! `tf1__IndyGRUCell__*`.

use super::indy_lstm::CANONICAL;
use super::prelude::*;

pub(super) const SPEC: CellSpec = CellSpec {
    name: "indy_gru",
    gates: &gate::GRU,
    rules: &[RECURRENT],
    states: &[StateSpec { name: "hidden", len: Dim::Hidden }],
    work: &[Dim::Hidden, Dim::Hidden, Dim::Hidden],
    activations: &[ActivationSpec::sigmoid("gate_activation"), ActivationSpec::tanh("new_activation")],
    canonical: CANONICAL,
    tensors: &TensorSpec::each(CANONICAL, &gate::GRU),
    curves: &[Dim::Hidden; 3],
    ..CellSpec::EMPTY
};

const INPUT: [usize; 2] = SPEC.tensors(["input_weights", "bias"]);
const RECURRENT_WEIGHTS: usize = SPEC.tensor("recurrent_weights");

pub(super) const fn entry<W: Weight, K: Kernel>() -> Entry {
    const { Entry { spec: &SPEC, float: &[&Cell::float(&SPEC, step::<W>)], ..Entry::EMPTY } }
}

/// One step. `x` is `[input]`, `hidden` and `y` are `[hidden]`, `preacts` is `[hidden]` of r, z, n.
pub(crate) fn step<W: Weight>(node: &Node<'_>, io: Io<'_>) {
    let Io { x, state: hidden, work: preacts, y, .. } = io;
    let (gate, new) = (node.activation(0), node.activation(1));
    for (sums, preacts) in sums::<W>(node, INPUT, x).zip(preacts.chunks_mut(4)) {
        copy(preacts, &sums);
    }
    let (preacts, _) = preacts.as_chunks::<3>();
    let (recurrent, _) = node.elements(RECURRENT_WEIGHTS).as_chunks::<3>();
    for ((&[r, z, n], &[u_r, u_z, u_n]), (h, y)) in preacts.iter().zip(recurrent).zip(hidden.iter_mut().zip(y)) {
        let [r, z] = [gate.apply(r + u_r * *h), gate.apply(z + u_z * *h)];
        let n = new.apply(n + u_n * (r * *h));
        *h = z * *h + (1.0 - z) * n;
        *y = *h;
    }
}
