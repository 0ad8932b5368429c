//! Independently recurrent neural network (Li et al. 2018, arXiv:1803.04831): a simple recurrent cell in which each
//! unit reads only its own last state.
//!
//! # Equation
//!
//! ```text
//! h' = act(W x + u ⊙ h + b)
//! ```
//!
//! # Tensors
//!
//! | name | shape | when |
//! |---|---|---|
//! | `input_weights` | `[hidden, input]` | always |
//! | `recurrent_weights` | `[hidden]`: u | always |
//! | `bias` | `[hidden]` | optional |
//!
//! # Activations
//!
//! | name | default | of |
//! |---|---|---|
//! | `activation` | `tanh`; the paper has relu | h' |
//!
//! # Known as
//!
//! TensorFlow 1's `tf.contrib.rnn.IndRNNCell`.
//!
//! # Golden cases
//!
//! `tf1__IndRNNCell__*`.

use super::prelude::*;

const CANONICAL: &[CanonicalSpec; 3] = &[
    CanonicalSpec::matrix("input_weights", Dim::Hidden, Dim::Input),
    CanonicalSpec::vector("recurrent_weights", Dim::Hidden),
    CanonicalSpec::vector("bias", Dim::Hidden).optional(),
];

pub(super) const SPEC: CellSpec = CellSpec {
    name: "indrnn",
    rules: &[RECURRENT],
    states: &[StateSpec { name: "hidden", len: Dim::Hidden }],
    activations: &[ActivationSpec::tanh("activation")],
    canonical: CANONICAL,
    tensors: &TensorSpec::each(CANONICAL, &[]),
    curves: &[Dim::Hidden],
    ..CellSpec::EMPTY
};

const INPUT: [usize; 2] = SPEC.tensors(["input_weights", "bias"]);
const RECURRENT_WEIGHTS: usize = SPEC.tensor("recurrent_weights");

pub(super) const fn entry<W: Weight, K: Kernel>() -> Entry {
    const { Entry { spec: &SPEC, float: &[&Cell::float(&SPEC, step::<W>)], ..Entry::EMPTY } }
}

/// One step. `x` is `[input]`, `hidden` and `y` are `[hidden]`.
pub(crate) fn step<W: Weight>(node: &Node<'_>, io: Io<'_>) {
    let Io { x, state: hidden, y, .. } = io;
    let activation = node.activation(0);
    let blocks = sums::<W>(node, INPUT, x).zip(node.vector(RECURRENT_WEIGHTS));
    for ((sums, u), (y, hidden)) in blocks.zip(y.chunks_mut(4).zip(hidden.chunks(4))) {
        for (((y, h), u), a) in y.iter_mut().zip(hidden).zip(u).zip(sums) {
            *y = activation.apply(a + u * h);
        }
    }
    copy(hidden, y);
}
