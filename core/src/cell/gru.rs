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

/// `x` is `[input]`, `hidden` and `y` are `[hidden]`, `work` is `[2 · hidden + rank]` (r ⊙ h and z with the reset before, and
/// what the recurrent weights see with `low_rank`).
#[inline(always)]
fn step_by<W: Weight>(node: &Node<'_>, io: Io<'_>, gate: impl Fn(f32) -> f32, candidate: impl Fn(f32) -> f32) {
    let Io { x, state: hidden, work, y, .. } = io;
    if is_masked(node, MASKED, x) {
        return copy(y, hidden);
    }
    let Some((reset, rest)) = work.split_at_mut_checked(node.hidden_size) else { return };
    let Some((update, projected)) = rest.split_at_mut_checked(node.hidden_size) else { return };
    let operand = operand::<W>(node, hidden, projected);
    if node.has(RESET_AFTER) {
        reset_after::<W>(node, x, operand, hidden, y, gate, candidate);
    } else {
        gates::<W>(node, x, operand, hidden, reset, update, gate);
        let operand = self::operand::<W>(node, reset, projected);
        reset_before::<W>(node, x, operand, hidden, update, y, candidate);
    }
    copy(hidden, y);
}

/// What the recurrent weights see in place of `h`, which may be r ⊙ h.
fn operand<'w, W: Weight>(node: &Node<'_>, h: &'w [f32], projected: &'w mut [f32]) -> &'w [f32] {
    low_rank::operand::<W>(node, LOW_RANK, tensor::RECURRENT_BASIS, h, projected)
}

/// Units whose sums are taken before anything is made of them.
const UNITS: usize = 16;

/// Of r and z: a block of four rows has those of two units.
type GateSums = [[f32; 4]; UNITS / 2];

/// Of n: a block of four rows has four units.
type NewSums = [[f32; 4]; UNITS / 4];

/// Rows of r and z.
#[inline(always)]
fn gate_rows<'a, W: Weight>(node: &Node<'a>) -> Rows<'a, W> {
    Rows {
        bias: node.columns(tensor::GATE_BIAS),
        input: node.columns(tensor::GATE_INPUT_WEIGHTS),
        recurrent: node.columns(tensor::GATE_RECURRENT_WEIGHTS),
    }
}

/// h' of `hidden`, z and n.
#[inline(always)]
fn updated(hidden: f32, update: f32, new: f32) -> f32 {
    update * hidden + (1.0 - update) * new
}

/// r ⊙ h and z of every unit, of h and of what the recurrent weights see of it. By itself, as the others are: the stack holds
/// one of them.
#[inline(never)]
fn gates<W: Weight>(
    node: &Node<'_>,
    x: &[f32],
    operand: &[f32],
    hidden: &[f32],
    reset: &mut [f32],
    update: &mut [f32],
    gate: impl Fn(f32) -> f32,
) {
    let mut rows = gate_rows::<W>(node);
    let mut sums = GateSums::default();
    let units = reset.chunks_mut(UNITS).zip(update.chunks_mut(UNITS)).zip(hidden.chunks(UNITS));
    for ((reset, update), hidden) in units {
        let sums = rows.next(x, operand, hidden.len().div_ceil(2), &mut sums);
        let (sums, _) = sums.as_flattened().as_chunks();
        for (((r, z), &h), &[preact_r, preact_z]) in reset.iter_mut().zip(update).zip(hidden).zip(sums) {
            *r = gate(preact_r) * h;
            *z = gate(preact_z);
        }
    }
}

/// h' of every unit; `operand` is what the recurrent weights see of r ⊙ h.
#[inline(never)]
fn reset_before<W: Weight>(
    node: &Node<'_>,
    x: &[f32],
    operand: &[f32],
    hidden: &[f32],
    update: &[f32],
    y: &mut [f32],
    candidate: impl Fn(f32) -> f32,
) {
    let mut rows = Rows::<W> {
        bias: node.columns(tensor::NEW_BIAS),
        input: node.columns(tensor::NEW_INPUT_WEIGHTS),
        recurrent: node.columns(tensor::NEW_RECURRENT_WEIGHTS),
    };
    let mut sums = NewSums::default();
    for ((y, hidden), update) in y.chunks_mut(UNITS).zip(hidden.chunks(UNITS)).zip(update.chunks(UNITS)) {
        let sums = rows.next(x, operand, hidden.len().div_ceil(4), &mut sums);
        for (((y, &h), &z), &preact) in y.iter_mut().zip(hidden).zip(update).zip(sums.as_flattened()) {
            *y = updated(h, z, candidate(preact));
        }
    }
}

/// h' of every unit, of h and of what the recurrent weights see of it.
#[inline(never)]
fn reset_after<W: Weight>(
    node: &Node<'_>,
    x: &[f32],
    operand: &[f32],
    hidden: &[f32],
    y: &mut [f32],
    gate: impl Fn(f32) -> f32,
    candidate: impl Fn(f32) -> f32,
) {
    let mut rows = gate_rows::<W>(node);
    let mut of_input = Rows::<W> {
        bias: node.columns(tensor::NEW_INPUT_BIAS),
        input: node.columns(tensor::NEW_INPUT_WEIGHTS),
        recurrent: &[],
    };
    let mut of_hidden = Rows::<W> {
        bias: node.columns(tensor::NEW_RECURRENT_BIAS),
        input: &[],
        recurrent: node.columns(tensor::NEW_RECURRENT_WEIGHTS),
    };
    let (mut gates, mut from_input, mut from_hidden) = (GateSums::default(), NewSums::default(), NewSums::default());
    for (y, hidden) in y.chunks_mut(UNITS).zip(hidden.chunks(UNITS)) {
        let blocks = hidden.len().div_ceil(4);
        let gates = rows.next(x, operand, hidden.len().div_ceil(2), &mut gates);
        let from_input = of_input.next(x, &[], blocks, &mut from_input).as_flattened();
        let from_hidden = of_hidden.next(&[], operand, blocks, &mut from_hidden).as_flattened();
        let (gates, _) = gates.as_flattened().as_chunks();
        let sums = gates.iter().zip(from_input).zip(from_hidden);
        for ((y, &h), ((&[r, z], &a), &b)) in y.iter_mut().zip(hidden).zip(sums) {
            let new = candidate(a + gate(r) * b);
            *y = updated(h, gate(z), new);
        }
    }
}
