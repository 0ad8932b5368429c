//! FastRNN: the simple recurrent cell with a weighted residual connection of two trained scalars (Kusupati et al.,
//! "FastGRNN: A Fast, Accurate, Stable and Tiny Kilobyte Sized Gated Recurrent Neural Network", 2018).
//!
//! # Equation
//!
//! ```text
//! c = tanh(W x + R h + b)
//! h' = β h + α c
//! ```
//!
//! With `low_rank` the recurrent weights multiply B h (`rank` elements) instead of h.
//!
//! # Tensors
//!
//! | name | shape | when |
//! |---|---|---|
//! | `input_weights` | `[hidden, input]` | always |
//! | `recurrent_weights` | `[hidden, hidden]`, with `low_rank` `[hidden, rank]` | always |
//! | `input_bias` | `[hidden]` | optional |
//! | `recurrent_bias` | `[hidden]` | optional |
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
//! # Parameters
//!
//! | name | what |
//! |---|---|
//! | `alpha` | α; EdgeML stores the logit of α |
//! | `beta` | β; EdgeML stores the logit of β |
//!
//! # Activations
//!
//! | name | default | of |
//! |---|---|---|
//! | `activation` | `tanh` | c |
//!
//! # Known as
//!
//! EdgeML's `FastRNNCell`.
//!
//! # Golden cases
//!
//! `edgeml__FastRNNCell__*`.

pub mod integer;

use super::elman;
use super::low_rank::{self, RANK};
use super::prelude::*;

const OPTIONS: &[&str] = &["low_rank"];
const LOW_RANK: u32 = option(OPTIONS, "low_rank");

// The tensors are those of the Elman cell, which has the same first option.
const _: () = assert!(LOW_RANK == elman::LOW_RANK);

pub(super) const SPEC: CellSpec = CellSpec {
    name: "fast_rnn",
    extents: &[low_rank::EXTENT],
    rules: &[RECURRENT, low_rank::unused_unless(LOW_RANK)],
    states: &[StateSpec { name: "hidden", len: Dim::Hidden }],
    work: &[Dim::When(LOW_RANK, &RANK)],
    options: OPTIONS,
    params: &[ParamSpec::optional("alpha"), ParamSpec::optional("beta")],
    activations: &[ActivationSpec::tanh("activation")],
    canonical: elman::SPEC.canonical,
    tensors: elman::SPEC.tensors,
    curves: &[Dim::Hidden],
    ..CellSpec::EMPTY
};

/// W, R and b.
const SUMS: [usize; 3] = SPEC.tensors(["input_weights", "recurrent_weights", "bias"]);
const RECURRENT_BASIS: usize = SPEC.tensor("recurrent_basis");

pub(super) const fn entry<W: Weight, K: Kernel>() -> Entry {
    const {
        Entry {
            spec: &SPEC,
            float: &[&Cell::float(&SPEC, step::<W>)],
            integer: &[(&integer::SPEC, &Cell::integer(&SPEC, &integer::SPEC, integer::step::<K>))],
            ..Entry::EMPTY
        }
    }
}

/// One step. `x` is `[input]`, `hidden` and `y` are `[hidden]`, `work` is `[rank]` or empty.
pub(crate) fn step<W: Weight>(node: &Node<'_>, io: Io<'_>) {
    let Io { x, state: hidden, work, y, .. } = io;
    let activation = node.activation(0);
    let (alpha, beta) = (node.param(0), node.param(1));
    let operand = low_rank::operand::<W>(node, LOW_RANK, RECURRENT_BASIS, hidden, work);
    let sums = sums_of_two::<W>(node, SUMS, x, operand);
    for (sums, (h, y)) in sums.zip(hidden.chunks(4).zip(y.chunks_mut(4))) {
        for ((&h, y), a) in h.iter().zip(y).zip(sums) {
            *y = beta * h + alpha * activation.apply(a);
        }
    }
    copy(hidden, y);
}
