//! FastGRNN: a gate and a candidate that share one matrix for the input and one for the state (Kusupati et al.,
//! "FastGRNN: A Fast, Accurate, Stable and Tiny Kilobyte Sized Gated Recurrent Neural Network", 2018).
//!
//! # Equation
//!
//! ```text
//! a = W x + R h
//! z = σ(a + b_z)
//! c = tanh(a + b_c)
//! h' = z ⊙ h + (ζ (1 - z) + ν) ⊙ c
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
//! | `gate_bias` | `[hidden]` | optional |
//! | `candidate_bias` | `[hidden]` | optional |
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
//! | `zeta` | ζ; EdgeML stores the logit of ζ |
//! | `nu` | ν; EdgeML stores the logit of ν |
//!
//! # Activations
//!
//! | name | default | of |
//! |---|---|---|
//! | `gate_activation` | `sigmoid` | z |
//! | `candidate_activation` | `tanh` | c |
//!
//! # Known as
//!
//! EdgeML's `FastGRNNCell`.
//!
//! # Golden cases
//!
//! `edgeml__FastGRNNCell__*`.

pub mod integer;

use super::low_rank::{self, RANK};
use super::prelude::*;

const OPTIONS: &[&str] = &["low_rank"];
const LOW_RANK: u32 = option(OPTIONS, "low_rank");

/// Columns of the recurrent weights.
const RECURRENT_COLS: Dim = Dim::Sum(&[Dim::When(LOW_RANK, &RANK), Dim::Unless(LOW_RANK, &Dim::Hidden)]);

const CANONICAL: &[CanonicalSpec; 5] = &[
    CanonicalSpec::matrix("input_weights", Dim::Hidden, Dim::Input),
    CanonicalSpec::matrix("recurrent_weights", Dim::Hidden, RECURRENT_COLS),
    CanonicalSpec::vector("gate_bias", Dim::Hidden).optional(),
    CanonicalSpec::vector("candidate_bias", Dim::Hidden).optional(),
    CanonicalSpec::matrix("recurrent_basis", RANK, Dim::Hidden).with(LOW_RANK),
];

pub(super) const SPEC: CellSpec = CellSpec {
    name: "fast_grnn",
    extents: &[low_rank::EXTENT],
    rules: &[RECURRENT, low_rank::unused_unless(LOW_RANK)],
    states: &[StateSpec { name: "hidden", len: Dim::Hidden }],
    work: &[Dim::When(LOW_RANK, &RANK)],
    options: OPTIONS,
    params: &[ParamSpec::optional("zeta"), ParamSpec::optional("nu")],
    activations: &[ActivationSpec::sigmoid("gate_activation"), ActivationSpec::tanh("candidate_activation")],
    canonical: CANONICAL,
    tensors: &TensorSpec::each(CANONICAL, &[]),
    curves: &[Dim::Hidden; 2],
    ..CellSpec::EMPTY
};

const INPUT_WEIGHTS: usize = SPEC.tensor("input_weights");
const RECURRENT_WEIGHTS: usize = SPEC.tensor("recurrent_weights");
const GATE_BIAS: usize = SPEC.tensor("gate_bias");
const CANDIDATE_BIAS: usize = SPEC.tensor("candidate_bias");
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
    let (gate, candidate) = (node.activation(0), node.activation(1));
    let (zeta, nu) = (node.param(0), node.param(1));
    let operand = low_rank::operand::<W>(node, LOW_RANK, RECURRENT_BASIS, hidden, work);
    let input = node.matrix::<W>(INPUT_WEIGHTS).blocks();
    let recurrent = node.matrix::<W>(RECURRENT_WEIGHTS).blocks();
    let biases = node.vector(GATE_BIAS).iter().zip(node.vector(CANDIDATE_BIAS));
    for (((w, r), (b_z, b_c)), (h, y)) in input.zip(recurrent).zip(biases).zip(hidden.chunks(4).zip(y.chunks_mut(4))) {
        let shared = accumulate(accumulate([0.0; 4], w, x), r, operand);
        for (((&h, y), a), (b_z, b_c)) in h.iter().zip(y).zip(shared).zip(b_z.iter().zip(b_c)) {
            let z = gate.apply(a + b_z);
            *y = z * h + (zeta * (1.0 - z) + nu) * candidate.apply(a + b_c);
        }
    }
    copy(hidden, y);
}
