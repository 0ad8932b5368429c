//! Group LSTM (Kuchaiev and Ginsburg 2017, arXiv:1703.10722), as in TensorFlow's `GLSTMCell`: the input, h and the
//! units are divided into independent groups.
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
//! h' = P m   with a projection, otherwise m
//! ```
//!
//! The projection is a full matrix and the only connection between groups. Importers fold a forget bias that the
//! framework adds at run time into `b_f`.
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
//! | `projection` | the output, which is also the h of the next step, is P m |
//!
//! # Extents
//!
//! | name | what |
//! |---|---|
//! | `groups` | number of groups, which divides the three sizes; 1 by default |
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

use super::prelude::*;
use crate::activation::{sigmoid, tanh};

const OPTIONS: &[&str] = &["projection"];
const PROJECTION: u32 = option(OPTIONS, "projection");

const EXTENTS: &[ExtentSpec] = &[ExtentSpec::one("groups")];
const GROUPS: usize = extent(EXTENTS, "groups");
const INPUT_PART: Dim = Dim::Quotient(&[Dim::Input, Dim::Extent(GROUPS)]);
const OUTPUT_PART: Dim = Dim::Quotient(&[Dim::Output, Dim::Extent(GROUPS)]);
const HIDDEN_PART: Dim = Dim::Quotient(&[Dim::Hidden, Dim::Extent(GROUPS)]);

pub(super) const SPEC: CellSpec = CellSpec {
    name: "glstm",
    gates: &gate::LSTM,
    extents: EXTENTS,
    rules: &[
        Rule::EqualUnless(PROJECTION, Dim::Hidden, Dim::Output),
        Rule::Multiple(Dim::Input, Dim::Extent(GROUPS)),
        Rule::Multiple(Dim::Hidden, Dim::Extent(GROUPS)),
        Rule::Multiple(Dim::Output, Dim::Extent(GROUPS)),
    ],
    states: &[StateSpec { name: "hidden", len: Dim::Output }, StateSpec { name: "cell_state", len: Dim::Hidden }],
    work: &[Dim::Hidden],
    options: OPTIONS,
    activations: &[ActivationSpec::tanh("output_activation")],
    canonical: &[
        CanonicalSpec::matrix("input_weights", Dim::Hidden, INPUT_PART).gated(),
        CanonicalSpec::matrix("recurrent_weights", Dim::Hidden, OUTPUT_PART).gated(),
        CanonicalSpec::vector("input_bias", Dim::Hidden).gated().optional(),
        CanonicalSpec::matrix("projection_weights", Dim::Output, Dim::Hidden).with(PROJECTION),
    ],
    tensors: &[
        TensorSpec::matrix("input_weights", &["input_weights"], Dim::Hidden, INPUT_PART).gates(&gate::LSTM),
        TensorSpec::matrix("recurrent_weights", &["recurrent_weights"], Dim::Hidden, OUTPUT_PART).gates(&gate::LSTM),
        TensorSpec::vector("bias", &["input_bias"], Dim::Hidden).gates(&gate::LSTM),
        TensorSpec::matrix("projection_weights", &["projection_weights"], Dim::Output, Dim::Hidden).with(PROJECTION),
    ],
    curves: &[Dim::Hidden; 5],
    ..CellSpec::EMPTY
};

const INPUT_WEIGHTS: usize = SPEC.tensor("input_weights");
const RECURRENT_WEIGHTS: usize = SPEC.tensor("recurrent_weights");
const BIAS: usize = SPEC.tensor("bias");
const PROJECTION_WEIGHTS: usize = SPEC.tensor("projection_weights");

pub(super) const fn entry<W: Weight, K: Kernel>() -> Entry {
    const { Entry { spec: &SPEC, float: &[&Cell::float(&SPEC, step::<W>)], ..Entry::EMPTY } }
}

/// One step. `x` is `[input]`, `state` is `[output + hidden]` (h, c), `work` is `[hidden]`, `y` is `[output]`.
pub(crate) fn step<W: Weight>(node: &Node<'_>, io: Io<'_>) {
    let Io { x, state, work, y, .. } = io;
    let Some((hidden, cell)) = state.split_at_mut_checked(node.output_size) else { return };
    update::<W>(node, x, hidden, cell, work);
    if node.has(PROJECTION) {
        product::<W>(node, PROJECTION_WEIGHTS, work, y);
    } else {
        copy(y, work);
    }
    copy(hidden, y);
}

/// Updates every unit, group after group: c to c', and writes m. A block of four rows holds the gates i, f, g, o of one
/// unit.
fn update<W: Weight>(node: &Node<'_>, x: &[f32], hidden: &[f32], cell: &mut [f32], m: &mut [f32]) {
    // The rules exclude empty parts; `max` prevents a division by zero.
    let part = |dim| node.dim(dim).max(1);
    let (x_part, h_part, units) = (part(&INPUT_PART), part(&OUTPUT_PART), part(&HIDDEN_PART));
    let input = node.matrix::<W>(INPUT_WEIGHTS).blocks();
    let recurrent = node.matrix::<W>(RECURRENT_WEIGHTS).blocks();
    let output = node.activation(0);
    let mut blocks = input.zip(recurrent).zip(node.vector(BIAS));
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
