//! The simple recurrent cell of Elman, "Finding Structure in Time", 1990. As in TensorFlow's `BasicRNNCell`, PyTorch's
//! `RNN`, Keras's `SimpleRNN` and cuDNN.
//!
//! # Equation
//!
//! ```text
//! h' = act(W x + R h + b)
//! ```
//!
//! With `low_rank` the recurrent weights multiply B h (`rank` elements) instead of h. With `clipped` the argument of
//! the activation is clip(W x + R h + b, preact_clip).
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
//! | `masked` | the last input feature is a mask: where it is 0, state and output keep their values |
//! | `clipped` | the argument of the activation is clipped to ±`preact_clip` |
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
//! | `preact_clip` | with `clipped`: bound of the activation's argument |
//!
//! # Activations
//!
//! | name | default | of |
//! |---|---|---|
//! | `activation` | `tanh` | h' |
//!
//! # Known as
//!
//! TensorFlow 1's `BasicRNNCell`; PyTorch's `RNN` and `RNNCell`; Keras's `SimpleRNN`; cuDNN's `RNN_TANH` and
//! `RNN_RELU`; ONNX's `RNN`, with its `clip` (`clipped`).
//!
//! # Golden cases
//!
//! `tf1__BasicRNNCell__*`, `keras2__SimpleRNN__*`, `keras3__SimpleRNN__*`, `torch__RNN__*`, `torch__RNNCell__*`,
//! `tf1__CudnnParamsFormatConverter__tanh_*`, `tf1__MultiRNNCell__*`.

#![expect(missing_docs, reason = "the options are described above")]

pub mod integer;

use super::low_rank::{self, RANK};
use super::lstm;
use super::prelude::*;

const OPTIONS: &[&str] = &["low_rank", "masked", "clipped"];
pub const LOW_RANK: u32 = option(OPTIONS, "low_rank");
pub const MASKED: u32 = option(OPTIONS, "masked");
pub const CLIPPED: u32 = option(OPTIONS, "clipped");

/// Columns of the recurrent weights.
pub(super) const RECURRENT_COLS: Dim = Dim::Sum(&[Dim::When(LOW_RANK, &RANK), Dim::Unless(LOW_RANK, &Dim::Hidden)]);

pub(super) const SPEC: CellSpec = CellSpec {
    name: "elman",
    extents: &[low_rank::EXTENT],
    rules: &[RECURRENT, low_rank::unused_unless(LOW_RANK)],
    states: &[StateSpec { name: "hidden", len: Dim::Hidden }],
    work: &[Dim::When(LOW_RANK, &RANK)],
    options: OPTIONS,
    params: &[ParamSpec::with("preact_clip", CLIPPED)],
    activations: &[ActivationSpec::tanh("activation")],
    canonical: &[
        CanonicalSpec::matrix("input_weights", Dim::Hidden, Dim::Input),
        CanonicalSpec::matrix("recurrent_weights", Dim::Hidden, RECURRENT_COLS),
        CanonicalSpec::vector("input_bias", Dim::Hidden).optional(),
        CanonicalSpec::vector("recurrent_bias", Dim::Hidden).optional(),
        CanonicalSpec::matrix("recurrent_basis", RANK, Dim::Hidden).with(LOW_RANK),
    ],
    tensors: &[
        TensorSpec::matrix("input_weights", &["input_weights"], Dim::Hidden, Dim::Input),
        TensorSpec::matrix("recurrent_weights", &["recurrent_weights"], Dim::Hidden, RECURRENT_COLS),
        TensorSpec::vector("bias", &["input_bias", "recurrent_bias"], Dim::Hidden),
        TensorSpec::matrix("recurrent_basis", &["recurrent_basis"], RANK, Dim::Hidden).with(LOW_RANK),
    ],
    curves: &[Dim::Hidden],
    ..CellSpec::EMPTY
};

/// W, R and b.
const SUMS: [usize; 3] = SPEC.tensors(["input_weights", "recurrent_weights", "bias"]);
const RECURRENT_BASIS: usize = SPEC.tensor("recurrent_basis");

/// The parameter of `clipped`.
const PREACT_CLIP: usize = SPEC.param("preact_clip");

pub(super) const fn entry<W: Weight, K: Kernel>() -> Entry {
    const {
        Entry {
            spec: &SPEC,
            float: &[&Cell::float(&SPEC, step::<W>), &Cell::float(&SPEC, step_any::<W>).when(1 << CLIPPED)],
            integer: &[(&integer::SPEC, &Cell::integer_whole(&SPEC, integer::step::<K>))],
            ..Entry::EMPTY
        }
    }
}

/// One step without `clipped`.
pub(crate) fn step<W: Weight>(node: &Node<'_>, io: Io<'_>) {
    step_by::<W>(node, io, |a| a);
}

/// One step with any options.
pub(crate) fn step_any<W: Weight>(node: &Node<'_>, io: Io<'_>) {
    let limit = node.param(PREACT_CLIP);
    step_by::<W>(node, io, |a| lstm::clip(a, limit));
}

/// `x` is `[input]`, `hidden` and `y` are `[hidden]`, `work` is `[rank]` or empty. `clip` is applied to the argument of
/// the activation.
#[inline(always)]
fn step_by<W: Weight>(node: &Node<'_>, io: Io<'_>, clip: impl Fn(f32) -> f32) {
    let Io { x, state: hidden, work, y, .. } = io;
    if is_masked(node, MASKED, x) {
        return copy(y, hidden);
    }
    let activation = node.activation(0);
    let operand = low_rank::operand::<W>(node, LOW_RANK, RECURRENT_BASIS, hidden, work);
    for (sums, y) in sums_of_two::<W>(node, SUMS, x, operand).zip(y.chunks_mut(4)) {
        for (y, a) in y.iter_mut().zip(sums) {
            *y = activation.apply(clip(a));
        }
    }
    copy(hidden, y);
}
