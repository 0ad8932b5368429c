//! Update gate RNN: one gate divides the new state between the old state and the candidate (Collins, Sohl-Dickstein and
//! Sussillo, "Capacity and Trainability in Recurrent Neural Networks", 2017).
//!
//! # Equation
//!
//! ```text
//! g = σ(W_g x + R_g h + b_g)
//! c = tanh(W_c x + R_c h + b_c)
//! h' = g ⊙ h + (1 - g) ⊙ c
//! ```
//!
//! With `low_rank` the recurrent weights multiply B h (`rank` elements) instead of h. Importers fold a forget bias that
//! the framework adds at run time into `b_g`.
//!
//! # Tensors
//!
//! Blocks of rows in the order g, c.
//!
//! | name | shape | when |
//! |---|---|---|
//! | `input_weights` | `[2 · hidden, input]` | always |
//! | `recurrent_weights` | `[2 · hidden, hidden]`, with `low_rank` `[2 · hidden, rank]` | always |
//! | `input_bias` | `[2 · hidden]` | optional |
//! | `recurrent_bias` | `[2 · hidden]` | optional |
//! | `recurrent_basis` | `[rank, hidden]` | with `low_rank` |
//!
//! # Options
//!
//! | name | what |
//! |---|---|
//! | `low_rank` | the recurrent weights are the product of `recurrent_weights` and `recurrent_basis` |
//!
//! # Extents
//!
//! | name | what |
//! |---|---|
//! | `rank` | rows of the basis; 1 without `low_rank` |
//!
//! # Activations
//!
//! | name | default | of |
//! |---|---|---|
//! | `gate_activation` | `sigmoid` | g |
//! | `candidate_activation` | `tanh` | c |
//!
//! # Known as
//!
//! TensorFlow 1's `tf.contrib.rnn.UGRNNCell`; EdgeML's `UGRNNLRCell`.
//!
//! # Golden cases
//!
//! `tf1__UGRNNCell__*`, `tf1__BidirectionalRNN__static_lens_stack_ugrnn_*`, `edgeml__UGRNNLRCell__*`.

use super::low_rank::{self, RANK};
use super::prelude::*;

const OPTIONS: &[&str] = &["low_rank"];
const LOW_RANK: u32 = option(OPTIONS, "low_rank");

/// Columns of the recurrent weights.
const RECURRENT_COLS: Dim = Dim::Sum(&[Dim::When(LOW_RANK, &RANK), Dim::Unless(LOW_RANK, &Dim::Hidden)]);

pub(super) const SPEC: CellSpec = CellSpec {
    name: "ugrnn",
    gates: &gate::UGRNN,
    extents: &[low_rank::EXTENT],
    rules: &[RECURRENT, low_rank::unused_unless(LOW_RANK)],
    states: &[StateSpec { name: "hidden", len: Dim::Hidden }],
    work: &[Dim::When(LOW_RANK, &RANK)],
    options: OPTIONS,
    activations: &[ActivationSpec::sigmoid("gate_activation"), ActivationSpec::tanh("candidate_activation")],
    canonical: &[
        CanonicalSpec::matrix("input_weights", Dim::Hidden, Dim::Input).gated(),
        CanonicalSpec::matrix("recurrent_weights", Dim::Hidden, RECURRENT_COLS).gated(),
        CanonicalSpec::vector("input_bias", Dim::Hidden).gated().optional(),
        CanonicalSpec::vector("recurrent_bias", Dim::Hidden).gated().optional(),
        CanonicalSpec::matrix("recurrent_basis", RANK, Dim::Hidden).with(LOW_RANK),
    ],
    tensors: &[
        TensorSpec::matrix("input_weights", &["input_weights"], Dim::Hidden, Dim::Input).gates(&gate::UGRNN),
        TensorSpec::matrix("recurrent_weights", &["recurrent_weights"], Dim::Hidden, RECURRENT_COLS)
            .gates(&gate::UGRNN),
        TensorSpec::vector("bias", &["input_bias", "recurrent_bias"], Dim::Hidden).gates(&gate::UGRNN),
        TensorSpec::matrix("recurrent_basis", &["recurrent_basis"], RANK, Dim::Hidden).with(LOW_RANK),
    ],
    curves: &[Dim::Hidden; 2],
    ..CellSpec::EMPTY
};

const INPUT_WEIGHTS: usize = SPEC.tensor("input_weights");
const RECURRENT_WEIGHTS: usize = SPEC.tensor("recurrent_weights");
const BIAS: usize = SPEC.tensor("bias");
const RECURRENT_BASIS: usize = SPEC.tensor("recurrent_basis");

pub(super) const fn entry<W: Weight, K: Kernel>() -> Entry {
    const { Entry { spec: &SPEC, float: &[&Cell::float(&SPEC, step::<W>)], ..Entry::EMPTY } }
}

/// One step. `x` is `[input]`, `hidden` and `y` are `[hidden]`, `work` is `[rank]` or empty. A block of four rows
/// holds g, c of two units.
pub(crate) fn step<W: Weight>(node: &Node<'_>, io: Io<'_>) {
    let Io { x, state: hidden, work, y, .. } = io;
    let (gate, candidate) = (node.activation(0), node.activation(1));
    let operand = low_rank::operand::<W>(node, LOW_RANK, RECURRENT_BASIS, hidden, work);
    let input = node.matrix::<W>(INPUT_WEIGHTS).blocks();
    let recurrent = node.matrix::<W>(RECURRENT_WEIGHTS).blocks();
    let blocks = input.zip(recurrent).zip(node.vector(BIAS));
    for (((w, r), &b), (h, y)) in blocks.zip(hidden.chunks(2).zip(y.chunks_mut(2))) {
        let [g0, c0, g1, c1] = accumulate(accumulate(b, w, x), r, operand);
        for ((&h, y), (g, c)) in h.iter().zip(y).zip([(g0, c0), (g1, c1)]) {
            let g = gate.apply(g);
            *y = g * h + (1.0 - g) * candidate.apply(c);
        }
    }
    copy(hidden, y);
}
