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
//! With `low_rank` the recurrent weights see B h, `rank` numbers, instead of h.
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
//! | `zeta` | ζ; EdgeML stores the number whose sigmoid it is |
//! | `nu` | ν; EdgeML stores the number whose sigmoid it is |
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
use super::{
    ActivationSpec, CanonicalSpec, CellSpec, Dim, Io, ParamSpec, Presence, RECURRENT, StateSpec, TensorSpec, copy,
};
use crate::activation::Activation;
use crate::kernel::{Weight, accumulate};
use crate::node::Node;

/// Index of the option `low_rank`.
pub const LOW_RANK: u32 = 0;

/// Columns of the recurrent weights.
const RECURRENT_COLS: Dim = Dim::Sum(&[Dim::When(LOW_RANK, &RANK), Dim::Unless(LOW_RANK, &Dim::Hidden)]);

/// See the [module](self).
pub const SPEC: CellSpec = CellSpec {
    name: "fast_grnn",
    gates: &[],
    extents: &[low_rank::EXTENT],
    rules: &[RECURRENT, low_rank::unused_unless(LOW_RANK)],
    states: &[StateSpec { name: "hidden", len: Dim::Hidden }],
    work: &[Dim::When(LOW_RANK, &RANK)],
    options: &["low_rank"],
    params: &[
        ParamSpec { name: "zeta", presence: Presence::Optional },
        ParamSpec { name: "nu", presence: Presence::Optional },
    ],
    activations: &[
        ActivationSpec { name: "gate_activation", default: Activation::Sigmoid },
        ActivationSpec { name: "candidate_activation", default: Activation::Tanh },
    ],
    canonical: &[
        CanonicalSpec::matrix("input_weights", Dim::Hidden, Dim::Input),
        CanonicalSpec::matrix("recurrent_weights", Dim::Hidden, RECURRENT_COLS),
        CanonicalSpec::vector("gate_bias", Dim::Hidden).when(Presence::Optional),
        CanonicalSpec::vector("candidate_bias", Dim::Hidden).when(Presence::Optional),
        CanonicalSpec::matrix("recurrent_basis", RANK, Dim::Hidden).when(Presence::With(LOW_RANK)),
    ],
    tensors: &[
        TensorSpec::matrix("input_weights", &["input_weights"], Dim::Hidden, Dim::Input),
        TensorSpec::matrix("recurrent_weights", &["recurrent_weights"], Dim::Hidden, RECURRENT_COLS),
        TensorSpec::vector("gate_bias", &["gate_bias"], Dim::Hidden),
        TensorSpec::vector("candidate_bias", &["candidate_bias"], Dim::Hidden),
        TensorSpec::matrix("recurrent_basis", &["recurrent_basis"], RANK, Dim::Hidden).when(Presence::With(LOW_RANK)),
    ],
};

/// Tensors of the spec by name.
mod tensor {
    pub const INPUT_WEIGHTS: usize = 0;
    pub const RECURRENT_WEIGHTS: usize = 1;
    pub const GATE_BIAS: usize = 2;
    pub const CANDIDATE_BIAS: usize = 3;
    pub const RECURRENT_BASIS: usize = 4;
}

/// One step. `x` is `[input]`, `hidden` and `y` are `[hidden]`, `work` is `[rank]` or empty.
pub(crate) fn step<W: Weight>(node: &Node<'_>, io: Io<'_>) {
    let Io { x, state: hidden, work, y, .. } = io;
    let (gate, candidate) = (node.activation(0), node.activation(1));
    let (zeta, nu) = (node.param(0), node.param(1));
    let operand = low_rank::operand::<W>(node, LOW_RANK, tensor::RECURRENT_BASIS, hidden, work);
    let input = node.matrix::<W>(tensor::INPUT_WEIGHTS).blocks();
    let recurrent = node.matrix::<W>(tensor::RECURRENT_WEIGHTS).blocks();
    let biases = node.vector(tensor::GATE_BIAS).iter().zip(node.vector(tensor::CANDIDATE_BIAS));
    for (((w, r), (b_z, b_c)), (h, y)) in input.zip(recurrent).zip(biases).zip(hidden.chunks(4).zip(y.chunks_mut(4))) {
        let shared = accumulate(accumulate([0.0; 4], w, x), r, operand);
        for (((&h, y), a), (b_z, b_c)) in h.iter().zip(y).zip(shared).zip(b_z.iter().zip(b_c)) {
            let z = gate.apply(a + b_z);
            *y = z * h + (zeta * (1.0 - z) + nu) * candidate.apply(a + b_c);
        }
    }
    copy(hidden, y);
}
