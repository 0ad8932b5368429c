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
//! With `low_rank` the recurrent weights see B h, `rank` numbers, instead of h.
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
//! | `alpha` | α; EdgeML stores the number whose sigmoid it is |
//! | `beta` | β; EdgeML stores the number whose sigmoid it is |
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
    name: "fast_rnn",
    gates: &[],
    extents: &[low_rank::EXTENT],
    rules: &[RECURRENT, low_rank::unused_unless(LOW_RANK)],
    states: &[StateSpec { name: "hidden", len: Dim::Hidden }],
    work: &[Dim::When(LOW_RANK, &RANK)],
    options: &["low_rank"],
    params: &[
        ParamSpec { name: "alpha", presence: Presence::Optional },
        ParamSpec { name: "beta", presence: Presence::Optional },
    ],
    activations: &[ActivationSpec { name: "activation", default: Activation::Tanh }],
    canonical: &[
        CanonicalSpec::matrix("input_weights", Dim::Hidden, Dim::Input),
        CanonicalSpec::matrix("recurrent_weights", Dim::Hidden, RECURRENT_COLS),
        CanonicalSpec::vector("input_bias", Dim::Hidden).when(Presence::Optional),
        CanonicalSpec::vector("recurrent_bias", Dim::Hidden).when(Presence::Optional),
        CanonicalSpec::matrix("recurrent_basis", RANK, Dim::Hidden).when(Presence::With(LOW_RANK)),
    ],
    tensors: &[
        TensorSpec::matrix("input_weights", &["input_weights"], Dim::Hidden, Dim::Input),
        TensorSpec::matrix("recurrent_weights", &["recurrent_weights"], Dim::Hidden, RECURRENT_COLS),
        TensorSpec::vector("bias", &["input_bias", "recurrent_bias"], Dim::Hidden),
        TensorSpec::matrix("recurrent_basis", &["recurrent_basis"], RANK, Dim::Hidden).when(Presence::With(LOW_RANK)),
    ],
};

/// Tensors of the spec by name.
mod tensor {
    pub const INPUT_WEIGHTS: usize = 0;
    pub const RECURRENT_WEIGHTS: usize = 1;
    pub const BIAS: usize = 2;
    pub const RECURRENT_BASIS: usize = 3;
}

/// One step. `x` is `[input]`, `hidden` and `y` are `[hidden]`, `work` is `[rank]` or empty.
pub(crate) fn step<W: Weight>(node: &Node<'_>, io: Io<'_>) {
    let Io { x, state: hidden, work, y, .. } = io;
    let activation = node.activation(0);
    let (alpha, beta) = (node.param(0), node.param(1));
    let operand = low_rank::operand::<W>(node, LOW_RANK, tensor::RECURRENT_BASIS, hidden, work);
    let input = node.matrix::<W>(tensor::INPUT_WEIGHTS).blocks();
    let recurrent = node.matrix::<W>(tensor::RECURRENT_WEIGHTS).blocks();
    let blocks = input.zip(recurrent).zip(node.vector(tensor::BIAS));
    for (((w, r), &b), (h, y)) in blocks.zip(hidden.chunks(4).zip(y.chunks_mut(4))) {
        let preact = accumulate(accumulate(b, w, x), r, operand);
        for ((&h, y), a) in h.iter().zip(y).zip(preact) {
            *y = beta * h + alpha * activation.apply(a);
        }
    }
    copy(hidden, y);
}
