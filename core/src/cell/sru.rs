//! Simple recurrent unit (Lei et al. 2018, arXiv:1709.02755): no matrix product with the last state, and a highway from
//! the input to the output.
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
//! s = highway_scale · in[skip..]       without it: one feature per unit, from feature `skip` of the whole input
//! s = 0                                with the option no_highway
//! ```
//!
//! Without the option `cell_gates` the terms v ⊙ c are absent. Both gates read the old c. x is the whole input, or with
//! the option `residual` its first `features`; only the highway reads the rest. This supports a layer normalization in
//! front of the matrices that the highway bypasses.
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
//! | `highway` | the highway has its own projection |
//! | `no_highway` | there is no highway |
//! | `residual` | the matrices read only the first `features` of the input |
//!
//! # Extents
//!
//! | name | what |
//! |---|---|
//! | `features` | number of features of x, with `residual` |
//! | `skip` | first feature that a highway without a projection reads |
//!
//! The `skip` of the backward half of a bidirectional layer is its number of units.
//!
//! # Parameters
//!
//! | name | what |
//! |---|---|
//! | `highway_scale` | factor of a highway without a projection |
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

use super::prelude::*;

const OPTIONS: &[&str] = &["cell_gates", "highway", "no_highway", "residual"];
const CELL_GATES: u32 = option(OPTIONS, "cell_gates");
const HIGHWAY: u32 = option(OPTIONS, "highway");
const NO_HIGHWAY: u32 = option(OPTIONS, "no_highway");
const RESIDUAL: u32 = option(OPTIONS, "residual");

const EXTENTS: &[ExtentSpec] = &[ExtentSpec::zero("features"), ExtentSpec::zero("skip")];
const FEATURES: usize = extent(EXTENTS, "features");
const SKIP: usize = extent(EXTENTS, "skip");
/// Features of x.
const X: Dim = Dim::Sum(&[Dim::When(RESIDUAL, &Dim::Extent(FEATURES)), Dim::Unless(RESIDUAL, &Dim::Input)]);
/// End of the features that a highway without a projection reads.
const SKIP_END: Dim = Dim::Unless(HIGHWAY, &Dim::Unless(NO_HIGHWAY, &Dim::Sum(&[Dim::Extent(SKIP), Dim::Hidden])));

const CANONICAL: &[CanonicalSpec; 5] = &[
    CanonicalSpec::matrix("input_weights", Dim::Hidden, X).gated(),
    CanonicalSpec::vector("bias", Dim::Hidden).gated().optional(),
    CanonicalSpec::vector("forget_peephole", Dim::Hidden).with(CELL_GATES),
    CanonicalSpec::vector("reset_peephole", Dim::Hidden).with(CELL_GATES),
    CanonicalSpec::matrix("highway_weights", Dim::Hidden, X).with(HIGHWAY),
];

pub(super) const SPEC: CellSpec = CellSpec {
    name: "sru",
    gates: &gate::SRU,
    extents: EXTENTS,
    rules: &[
        RECURRENT,
        Rule::OneOf { options: &[HIGHWAY, NO_HIGHWAY], least: 0 },
        Rule::AtMost(Dim::When(RESIDUAL, &Dim::Const(1)), Dim::Extent(FEATURES)),
        Rule::AtMost(Dim::Extent(FEATURES), Dim::When(RESIDUAL, &Dim::Input)),
        Rule::AtMost(SKIP_END, Dim::Input),
    ],
    states: &[StateSpec { name: "cell_state", len: Dim::Hidden }],
    work: &[Dim::Hidden, Dim::Hidden, Dim::Hidden],
    options: OPTIONS,
    params: &[ParamSpec { name: "highway_scale", presence: Presence::Without(HIGHWAY) }],
    activations: &[ActivationSpec::sigmoid("gate_activation"), ActivationSpec::tanh("output_activation")],
    canonical: CANONICAL,
    tensors: &TensorSpec::each(CANONICAL, &gate::SRU),
    curves: &[Dim::Hidden; 3],
    ..CellSpec::EMPTY
};

const INPUT: [usize; 2] = SPEC.tensors(["input_weights", "bias"]);
const FORGET_PEEPHOLE: usize = SPEC.tensor("forget_peephole");
const RESET_PEEPHOLE: usize = SPEC.tensor("reset_peephole");
const HIGHWAY_WEIGHTS: usize = SPEC.tensor("highway_weights");

pub(super) const fn entry<W: Weight, K: Kernel>() -> Entry {
    const { Entry { spec: &SPEC, float: &[&Cell::float(&SPEC, step::<W>)], ..Entry::EMPTY } }
}

/// One step. The input is `[input]`, `cell` and `y` are `[hidden]`, `preacts` is `[hidden]` of g, f, r.
pub(crate) fn step<W: Weight>(node: &Node<'_>, io: Io<'_>) {
    let Io { x: incoming, state: cell, work: preacts, y, .. } = io;
    let Some((x, _)) = incoming.split_at_checked(node.dim(&X)) else { return };
    let (gate, output) = (node.activation(0), node.activation(1));
    for (sums, preacts) in sums::<W>(node, INPUT, x).zip(preacts.chunks_mut(4)) {
        copy(preacts, &sums);
    }
    highway::<W>(node, incoming, x, y);
    let mut peepholes = node.elements(FORGET_PEEPHOLE).iter().zip(node.elements(RESET_PEEPHOLE));
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
        product::<W>(node, HIGHWAY_WEIGHTS, x, y);
    } else if node.has(NO_HIGHWAY) {
        y.fill(0.0);
    } else {
        let (scale, skipped) = (node.param(0), incoming.iter().skip(node.extent(SKIP)));
        for (y, s) in y.iter_mut().zip(skipped) {
            *y = s * scale;
        }
    }
}
