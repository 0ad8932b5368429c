//! Gated recurrent unit (Cho 2014), in both variants that frameworks have: the reset gate before the recurrent
//! product (TensorFlow's `GRUCell`, Keras with `reset_after=False`, ONNX with `linear_before_reset=0`) or after it
//! (cuDNN, PyTorch, Keras's default).
//!
//! # Equation
//!
//! ```text
//! r = σ(W_r x + R_r h + b_r)
//! z = σ(W_z x + R_z h + b_z)
//! n = tanh(W_n x + b_n + R_n (r ⊙ h))            reset before
//! n = tanh(W_n x + b_n + r ⊙ (R_n h + b_rn))     reset after
//! h' = z ⊙ h + (1 - z) ⊙ n
//!
//! clipped: r, z, n are made of clip(…, preact_clip)
//! ```
//!
//! With `low_rank` the recurrent weights see B h, `rank` numbers, instead of h, and B (r ⊙ h) instead of r ⊙ h.
//!
//! # Tensors
//!
//! Blocks of rows in the order r, z, n.
//!
//! | name | shape | when |
//! |---|---|---|
//! | `input_weights` | `[3 · hidden, input]` | always |
//! | `recurrent_weights` | `[3 · hidden, hidden]`, with `low_rank` `[3 · hidden, rank]` | always |
//! | `input_bias` | `[3 · hidden]` | optional |
//! | `recurrent_bias` | `[3 · hidden]` | optional |
//! | `recurrent_basis` | `[rank, hidden]` | with `low_rank` |
//!
//! # Options
//!
//! | name | what |
//! |---|---|
//! | `reset_after` | the reset gate comes after the recurrent product |
//! | `low_rank` | the recurrent weights are the product of `recurrent_weights` and `recurrent_basis` |
//! | `masked` | the last of the features that come in says whether the step counts: where it is 0, state and output stay |
//! | `clipped` | the activations see what `preact_clip` leaves |
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
//! | `preact_clip` | with `clipped`: what the activations see stays within plus and minus this |
//!
//! # Activations
//!
//! | name | default | of |
//! |---|---|---|
//! | `gate_activation` | `sigmoid` | r, z |
//! | `new_activation` | `tanh` | n |
//!
//! # Known as
//!
//! TensorFlow 1's `GRUCell`, `GRUBlockCell` and `CudnnCompatibleGRUCell`; Keras's and PyTorch's `GRU`, PyTorch's
//! `GRUCell`; EdgeML's `GRULRCell`; ONNX's `GRU`, with its `clip` (`clipped`).
//!
//! # Golden cases
//!
//! `tf1__GRUCell__*`, `tf1__CudnnCompatibleGRUCell__*`, `keras2__GRU__*`, `keras3__GRU__*`, `torch__GRU__*`,
//! `edgeml__GRULRCell__*`, `tf1__GRUBlockCell__*`, `tf1__GRUBlockCellV2__*`, `tf2ops__GRUBlockCell__*`,
//! `keras2__CuDNNGRU__*`, `tf1__CudnnParamsFormatConverter__gru_*`; with other cells or within wrappers:
//! `tf1__MultiRNNCell__*`, `tf1__HighwayWrapper__gru_*`, `tf1__OutputProjectionWrapper__*`,
//! `tf1__SequenceLength__*`, `tf1__BidirectionalRNN__*`, `tf1__StackBidirectionalRNN__*`,
//! `keras2__Bidirectional__*gru_*`, `keras3__Bidirectional__gru_*`.

pub mod integer;

use core::cell::Cell;

use super::low_rank::{self, RANK};
use super::{
    ActivationSpec, CanonicalSpec, CellSpec, Dim, Io, ParamSpec, Presence, RECURRENT, StateSpec, TensorSpec, copy,
    is_masked, lstm,
};
use crate::activation::Activation;
use crate::gate::{self, Gate};
use crate::kernel::{Rows, Weight};
use crate::node::Node;
use crate::tanh::{sigmoid, tanh};

/// Index of the option `reset_after`.
pub const RESET_AFTER: u32 = 0;

const RESET_UPDATE: &[Gate] = &[Gate::Reset, Gate::Update];
const NEW: &[Gate] = &[Gate::New];

/// Index of the option `low_rank`.
pub const LOW_RANK: u32 = 1;
/// Index of the option `masked`.
pub const MASKED: u32 = 2;
/// Index of the option `clipped`.
pub const CLIPPED: u32 = 3;

/// Columns of the recurrent weights.
const RECURRENT_COLS: Dim = Dim::Sum(&[Dim::When(LOW_RANK, &RANK), Dim::Unless(LOW_RANK, &Dim::Hidden)]);

/// See the [module](self).
pub const SPEC: CellSpec = CellSpec {
    name: "gru",
    gates: &gate::GRU,
    extents: &[low_rank::EXTENT],
    rules: &[RECURRENT, low_rank::unused_unless(LOW_RANK)],
    states: &[StateSpec { name: "hidden", len: Dim::Hidden }],
    work: &[Dim::Hidden, Dim::Hidden, Dim::When(LOW_RANK, &RANK)],
    options: &["reset_after", "low_rank", "masked", "clipped"],
    params: &[ParamSpec { name: "preact_clip", presence: Presence::With(CLIPPED) }],
    activations: &[
        ActivationSpec { name: "gate_activation", default: Activation::Sigmoid },
        ActivationSpec { name: "new_activation", default: Activation::Tanh },
    ],
    canonical: &[
        CanonicalSpec::matrix("input_weights", Dim::Hidden, Dim::Input).gated(),
        CanonicalSpec::matrix("recurrent_weights", Dim::Hidden, RECURRENT_COLS).gated(),
        CanonicalSpec::vector("input_bias", Dim::Hidden).gated().when(Presence::Optional),
        CanonicalSpec::vector("recurrent_bias", Dim::Hidden).gated().when(Presence::Optional),
        CanonicalSpec::matrix("recurrent_basis", RANK, Dim::Hidden).when(Presence::With(LOW_RANK)),
    ],
    tensors: &[
        TensorSpec::matrix("gate_input_weights", &["input_weights"], Dim::Hidden, Dim::Input).gates(RESET_UPDATE),
        TensorSpec::matrix("gate_recurrent_weights", &["recurrent_weights"], Dim::Hidden, RECURRENT_COLS)
            .gates(RESET_UPDATE),
        TensorSpec::vector("gate_bias", &["input_bias", "recurrent_bias"], Dim::Hidden).gates(RESET_UPDATE),
        TensorSpec::matrix("new_input_weights", &["input_weights"], Dim::Hidden, Dim::Input).gates(NEW),
        TensorSpec::matrix("new_recurrent_weights", &["recurrent_weights"], Dim::Hidden, RECURRENT_COLS).gates(NEW),
        TensorSpec::vector("new_bias", &["input_bias", "recurrent_bias"], Dim::Hidden)
            .gates(NEW)
            .when(Presence::Without(RESET_AFTER)),
        TensorSpec::vector("new_input_bias", &["input_bias"], Dim::Hidden).gates(NEW).when(Presence::With(RESET_AFTER)),
        TensorSpec::vector("new_recurrent_bias", &["recurrent_bias"], Dim::Hidden)
            .gates(NEW)
            .when(Presence::With(RESET_AFTER)),
        TensorSpec::matrix("recurrent_basis", &["recurrent_basis"], RANK, Dim::Hidden).when(Presence::With(LOW_RANK)),
    ],
};

/// The number of `clipped`.
const PREACT_CLIP: usize = 0;

/// Tensors of the spec by name.
mod tensor {
    pub const GATE_INPUT_WEIGHTS: usize = 0;
    pub const GATE_RECURRENT_WEIGHTS: usize = 1;
    pub const GATE_BIAS: usize = 2;
    pub const NEW_INPUT_WEIGHTS: usize = 3;
    pub const NEW_RECURRENT_WEIGHTS: usize = 4;
    pub const NEW_BIAS: usize = 5;
    pub const NEW_INPUT_BIAS: usize = 6;
    pub const NEW_RECURRENT_BIAS: usize = 7;
    pub const RECURRENT_BASIS: usize = 8;
}

/// One step without `clipped`.
pub(crate) fn step<W: Weight>(node: &Node<'_>, io: Io<'_>) {
    // The same numbers in fewer instructions, and more flash.
    if cfg!(feature = "dsp") && node.activations_are([Activation::Sigmoid, Activation::Tanh]) {
        return step_by::<W>(node, io, sigmoid, tanh);
    }
    let [gate, candidate] = [0, 1].map(|index| node.activation(index));
    step_by::<W>(node, io, |a| gate.apply(a), |a| candidate.apply(a));
}

/// One step with any options.
pub(crate) fn step_any<W: Weight>(node: &Node<'_>, io: Io<'_>) {
    let limit = node.param(PREACT_CLIP);
    let [gate, candidate] = [0, 1].map(|index| node.activation(index));
    step_by::<W>(node, io, |a| gate.apply(lstm::clip(a, limit)), |a| candidate.apply(lstm::clip(a, limit)));
}

/// `x` is `[input]`, `hidden` and `y` are `[hidden]`, `work` is `[2 · hidden + rank]`: sums, and with `low_rank` what the
/// recurrent weights see. Until it has h', `y` has z.
#[inline(always)]
fn step_by<W: Weight>(node: &Node<'_>, io: Io<'_>, gate: impl Fn(f32) -> f32, candidate: impl Fn(f32) -> f32) {
    let Io { x, state: hidden, work, y, .. } = io;
    if is_masked(node, MASKED, x) {
        return copy(y, hidden);
    }
    let Some((sums, projected)) = work.split_at_mut_checked(2 * node.hidden_size) else { return };
    let operand = operand::<W>(node, hidden, projected);
    rows::<W>(node, tensor::GATE_BIAS, tensor::GATE_INPUT_WEIGHTS, tensor::GATE_RECURRENT_WEIGHTS)
        .all(x, operand, sums);
    // r to the first half of the sums, of which r and z of a unit lie side by side, no earlier than where r goes.
    let cells = Cell::from_mut(&mut *sums).as_slice_of_cells();
    for ((sums, reset), update) in cells.as_chunks::<2>().0.iter().zip(cells).zip(y.iter_mut()) {
        let [r, z] = [gate(sums[0].get()), gate(sums[1].get())];
        reset.set(r);
        *update = z;
    }
    let Some((reset, sums)) = sums.split_at_mut_checked(node.hidden_size) else { return };
    if node.has(RESET_AFTER) {
        let of_hidden = rows::<W>(node, tensor::NEW_RECURRENT_BIAS, NONE, tensor::NEW_RECURRENT_WEIGHTS);
        of_hidden.all(&[], operand, sums);
        for (sum, &r) in sums.iter_mut().zip(reset.iter()) {
            *sum *= r;
        }
        rows::<W>(node, tensor::NEW_INPUT_BIAS, tensor::NEW_INPUT_WEIGHTS, NONE).all(x, &[], reset);
        for ((y, h), (&mut a, &mut b)) in y.iter_mut().zip(hidden).zip(reset.iter_mut().zip(sums)) {
            *h = updated(*h, *y, candidate(a + b));
            *y = *h;
        }
    } else {
        for (r, &h) in reset.iter_mut().zip(hidden.iter()) {
            *r *= h;
        }
        let operand = self::operand::<W>(node, reset, projected);
        rows::<W>(node, tensor::NEW_BIAS, tensor::NEW_INPUT_WEIGHTS, tensor::NEW_RECURRENT_WEIGHTS)
            .all(x, operand, sums);
        for ((y, h), &mut sum) in y.iter_mut().zip(hidden).zip(sums) {
            *h = updated(*h, *y, candidate(sum));
            *y = *h;
        }
    }
}

/// What the recurrent weights see in place of `h`, which may be r ⊙ h.
fn operand<'w, W: Weight>(node: &Node<'_>, h: &'w [f32], projected: &'w mut [f32]) -> &'w [f32] {
    low_rank::operand::<W>(node, LOW_RANK, tensor::RECURRENT_BASIS, h, projected)
}

/// The index of no tensor.
const NONE: usize = usize::MAX;

/// Rows by the indices of their tensors.
#[inline(always)]
fn rows<'a, W: Weight>(node: &Node<'a>, bias: usize, input: usize, recurrent: usize) -> Rows<'a, W> {
    let matrix = |index| if index == NONE { &[][..] } else { node.columns(index) };
    Rows { bias: node.columns(bias), input: matrix(input), recurrent: matrix(recurrent) }
}

/// h' of `hidden`, z and n.
#[inline(always)]
fn updated(hidden: f32, update: f32, new: f32) -> f32 {
    update * hidden + (1.0 - update) * new
}
