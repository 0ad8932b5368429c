//! Independently recurrent LSTM (Gonnet and Deselaers 2019, arXiv:1903.08023): each unit reads only its own last hidden
//! state.
//!
//! # Equation
//!
//! ```text
//! i = σ(W_i x + u_i ⊙ h + b_i)
//! f = σ(W_f x + u_f ⊙ h + b_f)
//! g = tanh(W_g x + u_g ⊙ h + b_g)
//! o = σ(W_o x + u_o ⊙ h + b_o)
//! c' = f ⊙ c + i ⊙ g
//! h' = o ⊙ tanh(c')
//! ```
//!
//! Importers fold a forget bias that the framework adds at run time into `b_f`.
//!
//! # Tensors
//!
//! Blocks of rows in the order i, f, g, o.
//!
//! | name | shape | when |
//! |---|---|---|
//! | `input_weights` | `[4 · hidden, input]` | always |
//! | `recurrent_weights` | `[4 · hidden]`: u | always |
//! | `bias` | `[4 · hidden]` | optional |
//!
//! # Activations
//!
//! | name | default | of |
//! |---|---|---|
//! | `gate_activation` | `sigmoid` | i, f, o |
//! | `cell_activation` | `tanh` | g |
//! | `output_activation` | `tanh` | c' |
//!
//! # Known as
//!
//! TensorFlow 1's `tf.contrib.rnn.IndyLSTMCell`.
//!
//! # Golden cases
//!
//! `tf1__IndyLSTMCell__*`.

use super::lstm;
use super::prelude::*;

pub(super) const CANONICAL: &[CanonicalSpec; 3] = &[
    CanonicalSpec::matrix("input_weights", Dim::Hidden, Dim::Input).gated(),
    CanonicalSpec::vector("recurrent_weights", Dim::Hidden).gated(),
    CanonicalSpec::vector("bias", Dim::Hidden).gated().optional(),
];

pub(super) const SPEC: CellSpec = CellSpec {
    name: "indy_lstm",
    gates: &gate::LSTM,
    rules: &[RECURRENT],
    states: &[StateSpec { name: "hidden", len: Dim::Hidden }, StateSpec { name: "cell_state", len: Dim::Hidden }],
    activations: lstm::ACTIVATIONS,
    canonical: CANONICAL,
    tensors: &TensorSpec::each(CANONICAL, &gate::LSTM),
    curves: &[Dim::Hidden; 5],
    ..CellSpec::EMPTY
};

const INPUT_WEIGHTS: usize = SPEC.tensor("input_weights");
const RECURRENT_WEIGHTS: usize = SPEC.tensor("recurrent_weights");
const BIAS: usize = SPEC.tensor("bias");

pub(super) const fn entry<W: Weight, K: Kernel>() -> Entry {
    const { Entry { spec: &SPEC, float: &[&Cell::float(&SPEC, step::<W>)], ..Entry::EMPTY } }
}

/// One step. `x` is `[input]`, `state` is `[2 · hidden]` (h, c), `y` is `[hidden]`. A block of four rows holds the
/// gates i, f, g, o of one unit.
pub(crate) fn step<W: Weight>(node: &Node<'_>, io: Io<'_>) {
    let Io { x, state, y, .. } = io;
    let Some((hidden, cell)) = state.split_at_mut_checked(node.hidden_size) else { return };
    let (gate, candidate, output) = (node.activation(0), node.activation(1), node.activation(2));
    let input = node.matrix::<W>(INPUT_WEIGHTS).blocks().zip(node.vector(BIAS));
    let units = input.zip(node.vector(RECURRENT_WEIGHTS));
    for (((w, &b), u), ((h, c), y)) in units.zip(hidden.iter_mut().zip(cell).zip(y)) {
        let ([i, f, g, o], [u_i, u_f, u_g, u_o]) = (accumulate(b, w, x), u);
        let [i, f] = [gate.apply(i + u_i * *h), gate.apply(f + u_f * *h)];
        *c = f * *c + i * candidate.apply(g + u_g * *h);
        *y = gate.apply(o + u_o * *h) * output.apply(*c);
        *h = *y;
    }
}
