//! The cell found by neural architecture search (Zoph and Le 2017, arXiv:1611.01578), as in TensorFlow's `NASCell`.
//!
//! # Equation
//!
//! ```text
//! a_k = W_k x    b_k = R_k h + b_Rk                          k = 0 ... 7
//! l_0 = σ(a_0 + b_0)    l_1 = relu(a_1 + b_1)    l_2 = σ(a_2 + b_2)       l_3 = relu(a_3 ⊙ b_3)
//! l_4 = tanh(a_4 + b_4) l_5 = σ(a_5 + b_5)       l_6 = tanh(a_6 + b_6)    l_7 = σ(a_7 + b_7)
//! c' = tanh(tanh(l_0 ⊙ l_1) + c) ⊙ tanh(l_2 + l_3)
//! m = tanh(c' ⊙ tanh(tanh(l_4 ⊙ l_5) + σ(l_6 + l_7)))
//! h' = P m   with a projection, otherwise m
//! ```
//!
//! The bias belongs to the recurrent product alone; block 3 multiplies the input.
//!
//! # Tensors
//!
//! Blocks of rows in the order 0 to 7.
//!
//! | name | shape | when |
//! |---|---|---|
//! | `input_weights` | `[8 · hidden, input]` | always |
//! | `recurrent_weights` | `[8 · hidden, output]` | always |
//! | `recurrent_bias` | `[8 · hidden]` | optional |
//! | `projection_weights` | `[output, hidden]` | with `projection` |
//!
//! # Options
//!
//! | name | what |
//! |---|---|
//! | `projection` | the output, which is also the h of the next step, is P m |
//!
//! # Known as
//!
//! TensorFlow 1's `tf.contrib.rnn.NASCell`.
//!
//! # Golden cases
//!
//! `tf1__NASCell__*`.

use super::prelude::*;
use crate::activation::{relu, sigmoid, tanh};

const OPTIONS: &[&str] = &["projection"];
const PROJECTION: u32 = option(OPTIONS, "projection");

const CANONICAL: &[CanonicalSpec; 4] = &[
    CanonicalSpec::matrix("input_weights", Dim::Hidden, Dim::Input).gated(),
    CanonicalSpec::matrix("recurrent_weights", Dim::Hidden, Dim::Output).gated(),
    CanonicalSpec::vector("recurrent_bias", Dim::Hidden).gated().optional(),
    CanonicalSpec::matrix("projection_weights", Dim::Output, Dim::Hidden).with(PROJECTION),
];

pub(super) const SPEC: CellSpec = CellSpec {
    name: "nas",
    gates: &gate::NAS,
    rules: &[Rule::EqualUnless(PROJECTION, Dim::Hidden, Dim::Output)],
    states: &[StateSpec { name: "hidden", len: Dim::Output }, StateSpec { name: "cell_state", len: Dim::Hidden }],
    work: &[Dim::Hidden],
    options: OPTIONS,
    canonical: CANONICAL,
    tensors: &TensorSpec::each(CANONICAL, &gate::NAS),
    curves: &[Dim::Hidden; 13],
    ..CellSpec::EMPTY
};

const INPUT_WEIGHTS: usize = SPEC.tensor("input_weights");
const RECURRENT_WEIGHTS: usize = SPEC.tensor("recurrent_weights");
const RECURRENT_BIAS: usize = SPEC.tensor("recurrent_bias");
const PROJECTION_WEIGHTS: usize = SPEC.tensor("projection_weights");

pub(super) const fn entry<W: Weight, K: Kernel>() -> Entry {
    const { Entry { spec: &SPEC, float: &[&Cell::float(&SPEC, step::<W>)], ..Entry::EMPTY } }
}

/// One step. `x` is `[input]`, `state` is `[output + hidden]` (h, c), `work` is `[hidden]`, `y` is `[output]`.
pub(crate) fn step<W: Weight>(node: &Node<'_>, io: Io<'_>) {
    let Io { x, state, work, y, .. } = io;
    let Some((hidden, cell)) = state.split_at_mut_checked(node.output_size) else { return };
    if node.has(PROJECTION) {
        update::<W>(node, x, hidden, cell, work);
        product::<W>(node, PROJECTION_WEIGHTS, work, y);
    } else {
        update::<W>(node, x, hidden, cell, y);
    }
    copy(hidden, y);
}

/// Updates every unit: c to c', and writes m. Two blocks of four rows hold the eight blocks of one unit.
fn update<W: Weight>(node: &Node<'_>, x: &[f32], hidden: &[f32], cell: &mut [f32], m: &mut [f32]) {
    let input = node.matrix::<W>(INPUT_WEIGHTS).blocks();
    let recurrent = node.matrix::<W>(RECURRENT_WEIGHTS).blocks();
    let mut halves = input.zip(recurrent).zip(node.vector(RECURRENT_BIAS)).map(|((w, r), &bias)| {
        let (a, b) = (accumulate([0.0; 4], w, x), accumulate(bias, r, hidden));
        (a, b)
    });
    for (c, m) in cell.iter_mut().zip(m) {
        let (Some((a_low, b_low)), Some((a_high, b_high))) = (halves.next(), halves.next()) else { return };
        let ([a0, a1, a2, a3], [b0, b1, b2, b3]) = (a_low, b_low);
        let ([a4, a5, a6, a7], [b4, b5, b6, b7]) = (a_high, b_high);
        let (l0, l1, l2, l3) = (sigmoid(a0 + b0), relu(a1 + b1), sigmoid(a2 + b2), relu(a3 * b3));
        let (l4, l5, l6, l7) = (tanh(a4 + b4), sigmoid(a5 + b5), tanh(a6 + b6), sigmoid(a7 + b7));
        *c = tanh(tanh(l0 * l1) + *c) * tanh(l2 + l3);
        *m = tanh(*c * tanh(tanh(l4 * l5) + sigmoid(l6 + l7)));
    }
}
