//! Group LSTM (Kuchaiev and Ginsburg 2017, arXiv:1703.10722), as in TensorFlow's `GLSTMCell`: what comes in, h and the
//! units are cut into groups that do not see each other.
//!
//! # Equation
//!
//! ```text
//! i = σ(W_i x + R_i h + b_i)      W, R block-diagonal: group k reads part k of x and of h
//! f = σ(W_f x + R_f h + b_f)
//! g = tanh(W_g x + R_g h + b_g)
//! o = σ(W_o x + R_o h + b_o)
//! c' = f ⊙ c + i ⊙ g
//! m = o ⊙ act(c')              act = output_activation
//! h' = P m   with a projection, else m
//! ```
//!
//! The projection is a whole matrix: only there do groups meet. A forget bias that a framework adds at run time is
//! folded into `b_f` by the importer.
//!
//! # Tensors
//!
//! Blocks of rows in the order i, f, g, o.
//!
//! | name | shape | when |
//! |---|---|---|
//! | `input_weights` | `[4 · hidden, input / groups]` | always |
//! | `recurrent_weights` | `[4 · hidden, output / groups]` | always |
//! | `input_bias` | `[4 · hidden]` | optional |
//! | `projection_weights` | `[output, hidden]` | with `projection` |
//!
//! # Options
//!
//! | name | what |
//! |---|---|
//! | `projection` | what goes out, and comes back as h, is P m |
//!
//! # Extents
//!
//! | name | what |
//! |---|---|
//! | `groups` | how many; it divides the three sizes; 1 by default |
//!
//! # Activations
//!
//! * `output_activation`: of c' in m. Tanh by default.
//!
//! # Known as
//!
//! TensorFlow 1's `tf.contrib.rnn.GLSTMCell`.
//!
//! # Golden cases
//!
//! `tf1__GLSTMCell__*`.

use super::nas::project;
use super::{
    ActivationSpec, CanonicalSpec, CellSpec, Dim, ExtentSpec, Io, Presence, Rule, StateSpec, TensorSpec, copy,
};
use crate::activation::{Activation, sigmoid, tanh};
use crate::gate;
use crate::kernel::{Weight, accumulate};
use crate::node::Node;

/// Index of the option `projection`.
pub const PROJECTION: u32 = 0;

/// Index of the extent `groups`.
const GROUPS: usize = 0;
const INPUT_PART: Dim = Dim::Quotient(&[Dim::Input, Dim::Extent(GROUPS)]);
const OUTPUT_PART: Dim = Dim::Quotient(&[Dim::Output, Dim::Extent(GROUPS)]);
const HIDDEN_PART: Dim = Dim::Quotient(&[Dim::Hidden, Dim::Extent(GROUPS)]);

/// See the [module](self).
pub const SPEC: CellSpec = CellSpec {
    name: "glstm",
    gates: &gate::LSTM,
    extents: &[ExtentSpec::one("groups")],
    rules: &[
        Rule::EqualUnless(PROJECTION, Dim::Hidden, Dim::Output),
        Rule::Multiple(Dim::Input, Dim::Extent(GROUPS)),
        Rule::Multiple(Dim::Hidden, Dim::Extent(GROUPS)),
        Rule::Multiple(Dim::Output, Dim::Extent(GROUPS)),
    ],
    states: &[StateSpec { name: "hidden", len: Dim::Output }, StateSpec { name: "cell_state", len: Dim::Hidden }],
    work: &[Dim::Hidden],
    options: &["projection"],
    params: &[],
    activations: &[ActivationSpec { name: "output_activation", default: Activation::Tanh }],
    canonical: &[
        CanonicalSpec::matrix("input_weights", Dim::Hidden, INPUT_PART).gated(),
        CanonicalSpec::matrix("recurrent_weights", Dim::Hidden, OUTPUT_PART).gated(),
        CanonicalSpec::vector("input_bias", Dim::Hidden).gated().when(Presence::Optional),
        CanonicalSpec::matrix("projection_weights", Dim::Output, Dim::Hidden).when(Presence::With(PROJECTION)),
    ],
    tensors: &[
        TensorSpec::matrix("input_weights", &["input_weights"], Dim::Hidden, INPUT_PART).gates(&gate::LSTM),
        TensorSpec::matrix("recurrent_weights", &["recurrent_weights"], Dim::Hidden, OUTPUT_PART).gates(&gate::LSTM),
        TensorSpec::vector("bias", &["input_bias"], Dim::Hidden).gates(&gate::LSTM),
        TensorSpec::matrix("projection_weights", &["projection_weights"], Dim::Output, Dim::Hidden)
            .when(Presence::With(PROJECTION)),
    ],
};

/// Tensors of the spec by name.
mod tensor {
    pub const INPUT_WEIGHTS: usize = 0;
    pub const RECURRENT_WEIGHTS: usize = 1;
    pub const BIAS: usize = 2;
    pub const PROJECTION_WEIGHTS: usize = 3;
}

/// One step. `x` is `[input]`, `state` is `[output + hidden]` (h, c), `work` is `[hidden]`, `y` is `[output]`.
pub(crate) fn step<W: Weight>(node: &Node<'_>, io: Io<'_>) {
    let Io { x, state, work, y, .. } = io;
    let Some((hidden, cell)) = state.split_at_mut_checked(node.output_size) else { return };
    update::<W>(node, x, hidden, cell, work);
    if node.has(PROJECTION) {
        project(node.matrix::<W>(tensor::PROJECTION_WEIGHTS).blocks(), work, y);
    } else {
        copy(y, work);
    }
    copy(hidden, y);
}

/// Every unit, group after group: c to c', and m. A block of four rows holds the gates i, f, g, o of one unit.
fn update<W: Weight>(node: &Node<'_>, x: &[f32], hidden: &[f32], cell: &mut [f32], m: &mut [f32]) {
    // A part of no elements is none: the rules say that there is none.
    let part = |dim| node.dim(dim).max(1);
    let (x_part, h_part, units) = (part(&INPUT_PART), part(&OUTPUT_PART), part(&HIDDEN_PART));
    let input = node.matrix::<W>(tensor::INPUT_WEIGHTS).blocks();
    let recurrent = node.matrix::<W>(tensor::RECURRENT_WEIGHTS).blocks();
    let output = node.activation(0);
    let mut blocks = input.zip(recurrent).zip(node.vector(tensor::BIAS));
    let groups = x.chunks(x_part).zip(hidden.chunks(h_part)).zip(cell.chunks_mut(units).zip(m.chunks_mut(units)));
    for ((x, hidden), (cell, m)) in groups {
        for (c, m) in cell.iter_mut().zip(m) {
            let Some(((w, r), &b)) = blocks.next() else { return };
            let [i, f, g, o] = accumulate(accumulate(b, w, x), r, hidden);
            *c = sigmoid(f) * *c + sigmoid(i) * tanh(g);
            *m = sigmoid(o) * output.apply(*c);
        }
    }
}
