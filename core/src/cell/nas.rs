//! The cell that neural architecture search found (Zoph and Le 2017, arXiv:1611.01578), as in TensorFlow's `NASCell`.
//!
//! # Equation
//!
//! ```text
//! a_k = W_k x    b_k = R_k h + b_Rk                          k = 0 ... 7
//! l_0 = σ(a_0 + b_0)    l_1 = relu(a_1 + b_1)    l_2 = σ(a_2 + b_2)       l_3 = relu(a_3 ⊙ b_3)
//! l_4 = tanh(a_4 + b_4) l_5 = σ(a_5 + b_5)       l_6 = tanh(a_6 + b_6)    l_7 = σ(a_7 + b_7)
//! c' = tanh(tanh(l_0 ⊙ l_1) + c) ⊙ tanh(l_2 + l_3)
//! m = tanh(c' ⊙ tanh(tanh(l_4 ⊙ l_5) + σ(l_6 + l_7)))
//! h' = P m   with a projection, else m
//! ```
//!
//! The bias belongs to the recurrent product alone: in block 3 it multiplies what comes in.
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
//! | `projection` | what goes out, and comes back as h, is P m |
//!
//! # Known as
//!
//! TensorFlow 1's `tf.contrib.rnn.NASCell`.
//!
//! # Golden cases
//!
//! `tf1__NASCell__*`.

use super::{CanonicalSpec, CellSpec, Dim, Io, Presence, Rule, StateSpec, TensorSpec, copy};
use crate::activation::{relu, sigmoid, tanh};
use crate::gate;
use crate::kernel::{Weight, accumulate};
use crate::node::Node;

/// Index of the option `projection`.
pub const PROJECTION: u32 = 0;

/// See the [module](self).
pub const SPEC: CellSpec = CellSpec {
    name: "nas",
    gates: &gate::NAS,
    extents: &[],
    rules: &[Rule::EqualUnless(PROJECTION, Dim::Hidden, Dim::Output)],
    states: &[StateSpec { name: "hidden", len: Dim::Output }, StateSpec { name: "cell_state", len: Dim::Hidden }],
    work: &[Dim::Hidden],
    options: &["projection"],
    params: &[],
    activations: &[],
    canonical: &[
        CanonicalSpec::matrix("input_weights", Dim::Hidden, Dim::Input).gated(),
        CanonicalSpec::matrix("recurrent_weights", Dim::Hidden, Dim::Output).gated(),
        CanonicalSpec::vector("recurrent_bias", Dim::Hidden).gated().when(Presence::Optional),
        CanonicalSpec::matrix("projection_weights", Dim::Output, Dim::Hidden).when(Presence::With(PROJECTION)),
    ],
    tensors: &[
        TensorSpec::matrix("input_weights", &["input_weights"], Dim::Hidden, Dim::Input).gates(&gate::NAS),
        TensorSpec::matrix("recurrent_weights", &["recurrent_weights"], Dim::Hidden, Dim::Output).gates(&gate::NAS),
        TensorSpec::vector("recurrent_bias", &["recurrent_bias"], Dim::Hidden).gates(&gate::NAS),
        TensorSpec::matrix("projection_weights", &["projection_weights"], Dim::Output, Dim::Hidden)
            .when(Presence::With(PROJECTION)),
    ],
};

/// Tensors of the spec by name.
mod tensor {
    pub const INPUT_WEIGHTS: usize = 0;
    pub const RECURRENT_WEIGHTS: usize = 1;
    pub const RECURRENT_BIAS: usize = 2;
    pub const PROJECTION_WEIGHTS: usize = 3;
}

/// One step. `x` is `[input]`, `state` is `[output + hidden]` (h, c), `work` is `[hidden]`, `y` is `[output]`.
pub(crate) fn step<W: Weight>(node: &Node<'_>, io: Io<'_>) {
    let Io { x, state, work, y, .. } = io;
    let Some((hidden, cell)) = state.split_at_mut_checked(node.output_size) else { return };
    if node.has(PROJECTION) {
        update::<W>(node, x, hidden, cell, work);
        project(node.matrix::<W>(tensor::PROJECTION_WEIGHTS).blocks(), work, y);
    } else {
        update::<W>(node, x, hidden, cell, y);
    }
    copy(hidden, y);
}

/// Every unit: c to c', and m. Two blocks of four rows hold the eight blocks of one unit.
fn update<W: Weight>(node: &Node<'_>, x: &[f32], hidden: &[f32], cell: &mut [f32], m: &mut [f32]) {
    let input = node.matrix::<W>(tensor::INPUT_WEIGHTS).blocks();
    let recurrent = node.matrix::<W>(tensor::RECURRENT_WEIGHTS).blocks();
    let mut halves = input.zip(recurrent).zip(node.vector(tensor::RECURRENT_BIAS)).map(|((w, r), &bias)| {
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

/// y = P m
pub(super) fn project<'a, W: Weight>(blocks: impl Iterator<Item = &'a [[W; 4]]>, m: &[f32], y: &mut [f32]) {
    for (p, y) in blocks.zip(y.chunks_mut(4)) {
        copy(y, &accumulate([0.0; 4], p, m));
    }
}
