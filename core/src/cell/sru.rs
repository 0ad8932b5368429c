//! Simple recurrent unit (Lei et al. 2018, arXiv:1709.02755): no product with the last state, and a highway of the
//! input around the cell.
//!
//! # Equation
//!
//! ```text
//! g = W_g x + b_g
//! f = σ(W_f x + b_f + v_f ⊙ c)
//! r = σ(W_r x + b_r + v_r ⊙ c)
//! c' = f ⊙ c + (1 - f) ⊙ g
//! y = r ⊙ act(c') + (1 - r) ⊙ s
//! s = W_s x                            with the option highway
//! s = highway_scale · in[skip..]       without it: a feature for each unit, from feature skip of all that comes in
//! s = 0                                with the option no_highway
//! ```
//!
//! Without the option `cell_gates` there is no v ⊙ c. Both gates read the old c. x is all that comes in, or with the
//! option `residual` its first `features`: behind them is what only the highway reads, as where a layer normalization
//! is on the way to the matrices and not on the highway.
//!
//! # Tensors
//!
//! Blocks of rows in the order g, f, r.
//!
//! | name | shape | when |
//! |---|---|---|
//! | `input_weights` | `[3 · hidden, x]` | always |
//! | `bias` | `[3 · hidden]` | optional |
//! | `forget_peephole` | `[hidden]`: v_f | with `cell_gates` |
//! | `reset_peephole` | `[hidden]`: v_r | with `cell_gates` |
//! | `highway_weights` | `[hidden, x]`: W_s | with `highway` |
//!
//! # Options
//!
//! | name | what |
//! |---|---|
//! | `cell_gates` | the gates read the cell state |
//! | `highway` | the highway has a projection of its own |
//! | `no_highway` | there is none |
//! | `residual` | the matrices read only the first `features` that come in |
//!
//! # Extents
//!
//! | name | what |
//! |---|---|
//! | `features` | of x, with `residual` |
//! | `skip` | where a highway without a projection begins |
//!
//! The `skip` of the backward half of a bidirectional layer is its number of units.
//!
//! # Parameters
//!
//! | name | what |
//! |---|---|
//! | `highway_scale` | of a highway without a projection |
//!
//! # Activations
//!
//! | name | default | of |
//! |---|---|---|
//! | `gate_activation` | `sigmoid` | f, r |
//! | `output_activation` | `tanh` | c' |
//!
//! # Known as
//!
//! TensorFlow 1's `tf.contrib.rnn.SRUCell` (`highway`); asappresearch's `sru.SRU` (`cell_gates`, and `highway` where
//! the sizes differ; `no_highway` without its `has_skip_term`; `output_activation` is the identity without its
//! `use_tanh`).
//!
//! # Golden cases
//!
//! `tf1__SRUCell__*`, `sru__SRU__*`.

use super::{
    ActivationSpec, CanonicalSpec, CellSpec, Dim, ExtentSpec, Io, ParamSpec, Presence, RECURRENT, Rule, StateSpec,
    TensorSpec, copy,
};
use crate::activation::Activation;
use crate::gate;
use crate::kernel::{Weight, accumulate};
use crate::node::Node;

/// Index of the option `cell_gates`.
pub const CELL_GATES: u32 = 0;
/// Index of the option `highway`.
pub const HIGHWAY: u32 = 1;
/// Index of the option `no_highway`.
pub const NO_HIGHWAY: u32 = 2;
/// Index of the option `residual`.
pub const RESIDUAL: u32 = 3;

/// Index of the extent `features`.
const FEATURES: usize = 0;
/// Index of the extent `skip`.
const SKIP: usize = 1;
/// Features of x.
const X: Dim = Dim::Sum(&[Dim::When(RESIDUAL, &Dim::Extent(FEATURES)), Dim::Unless(RESIDUAL, &Dim::Input)]);
/// The end of what a highway without a projection reads.
const SKIP_END: Dim = Dim::Unless(HIGHWAY, &Dim::Unless(NO_HIGHWAY, &Dim::Sum(&[Dim::Extent(SKIP), Dim::Hidden])));

/// See the [module](self).
pub const SPEC: CellSpec = CellSpec {
    name: "sru",
    gates: &gate::SRU,
    extents: &[ExtentSpec::zero("features"), ExtentSpec::zero("skip")],
    rules: &[
        RECURRENT,
        Rule::OneOf { options: &[HIGHWAY, NO_HIGHWAY], least: 0 },
        Rule::AtMost(Dim::When(RESIDUAL, &Dim::Const(1)), Dim::Extent(FEATURES)),
        Rule::AtMost(Dim::Extent(FEATURES), Dim::When(RESIDUAL, &Dim::Input)),
        Rule::AtMost(SKIP_END, Dim::Input),
    ],
    states: &[StateSpec { name: "cell_state", len: Dim::Hidden }],
    work: &[Dim::Hidden, Dim::Hidden, Dim::Hidden],
    options: &["cell_gates", "highway", "no_highway", "residual"],
    params: &[ParamSpec { name: "highway_scale", presence: Presence::Without(HIGHWAY) }],
    activations: &[
        ActivationSpec { name: "gate_activation", default: Activation::Sigmoid },
        ActivationSpec { name: "output_activation", default: Activation::Tanh },
    ],
    canonical: &[
        CanonicalSpec::matrix("input_weights", Dim::Hidden, X).gated(),
        CanonicalSpec::vector("bias", Dim::Hidden).gated().when(Presence::Optional),
        CanonicalSpec::vector("forget_peephole", Dim::Hidden).when(Presence::With(CELL_GATES)),
        CanonicalSpec::vector("reset_peephole", Dim::Hidden).when(Presence::With(CELL_GATES)),
        CanonicalSpec::matrix("highway_weights", Dim::Hidden, X).when(Presence::With(HIGHWAY)),
    ],
    tensors: &[
        TensorSpec::matrix("input_weights", &["input_weights"], Dim::Hidden, X).gates(&gate::SRU),
        TensorSpec::vector("bias", &["bias"], Dim::Hidden).gates(&gate::SRU),
        TensorSpec::vector("forget_peephole", &["forget_peephole"], Dim::Hidden).when(Presence::With(CELL_GATES)),
        TensorSpec::vector("reset_peephole", &["reset_peephole"], Dim::Hidden).when(Presence::With(CELL_GATES)),
        TensorSpec::matrix("highway_weights", &["highway_weights"], Dim::Hidden, X).when(Presence::With(HIGHWAY)),
    ],
};

/// Tensors of the spec by name.
mod tensor {
    pub const INPUT_WEIGHTS: usize = 0;
    pub const BIAS: usize = 1;
    pub const FORGET_PEEPHOLE: usize = 2;
    pub const RESET_PEEPHOLE: usize = 3;
    pub const HIGHWAY_WEIGHTS: usize = 4;
}

/// One step. What comes in is `[input]`, `cell` and `y` are `[hidden]`, `preacts` is `[hidden]` times g, f, r.
pub(crate) fn step<W: Weight>(node: &Node<'_>, io: Io<'_>) {
    let Io { x: incoming, state: cell, work: preacts, y, .. } = io;
    let Some((x, _)) = incoming.split_at_checked(node.dim(&X)) else { return };
    let (gate, output) = (node.activation(0), node.activation(1));
    let blocks = node.matrix::<W>(tensor::INPUT_WEIGHTS).blocks().zip(node.vector(tensor::BIAS));
    for ((w, &b), preacts) in blocks.zip(preacts.chunks_mut(4)) {
        copy(preacts, &accumulate(b, w, x));
    }
    highway::<W>(node, incoming, x, y);
    let mut peepholes = node.elements(tensor::FORGET_PEEPHOLE).iter().zip(node.elements(tensor::RESET_PEEPHOLE));
    let (preacts, _) = preacts.as_chunks::<3>();
    for (&[g, mut f, mut r], (c, y)) in preacts.iter().zip(cell.iter_mut().zip(y)) {
        if let Some((v_f, v_r)) = peepholes.next() {
            f += v_f * *c;
            r += v_r * *c;
        }
        let [f, r] = [gate.apply(f), gate.apply(r)];
        *c = f * *c + (1.0 - f) * g;
        *y = r * output.apply(*c) + (1.0 - r) * *y;
    }
}

/// s of every unit.
fn highway<W: Weight>(node: &Node<'_>, incoming: &[f32], x: &[f32], y: &mut [f32]) {
    if node.has(HIGHWAY) {
        for (w, y) in node.matrix::<W>(tensor::HIGHWAY_WEIGHTS).blocks().zip(y.chunks_mut(4)) {
            copy(y, &accumulate([0.0; 4], w, x));
        }
    } else if node.has(NO_HIGHWAY) {
        y.fill(0.0);
    } else {
        let (scale, skipped) = (node.param(0), incoming.iter().skip(node.extent(SKIP)));
        for (y, s) in y.iter_mut().zip(skipped) {
            *y = s * scale;
        }
    }
}
