//! Gated recurrent unit (Cho 2014), in both variants that frameworks have: the reset gate before the recurrent product
//! (TensorFlow's `GRUCell`, Keras with `reset_after=False`, ONNX with `linear_before_reset=0`) or after it (cuDNN,
//! PyTorch, Keras's default).
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
//! clipped: the arguments of r, z, n are clip(…, preact_clip)
//! ```
//!
//! With `low_rank` the recurrent weights multiply B h (`rank` elements) instead of h, and B (r ⊙ h) instead of r ⊙ h.
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
//! | `reset_after` | the reset gate is applied after the recurrent product |
//! | `low_rank` | the recurrent weights are the product of `recurrent_weights` and `recurrent_basis` |
//! | `masked` | the last input feature is a mask: where it is 0, state and output keep their values |
//! | `clipped` | the arguments of the activations are clipped to ±`preact_clip` |
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
//! | `preact_clip` | with `clipped`: bound of the activations' arguments |
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
//! `tf1__MultiRNNCell__*`, `tf1__HighwayWrapper__gru_*`, `tf1__OutputProjectionWrapper__*`, `tf1__SequenceLength__*`,
//! `tf1__BidirectionalRNN__*`, `tf1__StackBidirectionalRNN__*`, `keras2__Bidirectional__*gru_*`,
//! `keras3__Bidirectional__gru_*`.

#![expect(missing_docs, reason = "the options are described above")]

pub mod integer;

use core::cell;

use super::low_rank::{self, RANK};
use super::lstm;
use super::prelude::*;
use crate::kernel::Rows;
use crate::kernel::activations::{VECTORS, sigmoid_all};
use crate::tanh::{sigmoid, tanh};

const OPTIONS: &[&str] = &["reset_after", "low_rank", "masked", "clipped"];
pub const RESET_AFTER: u32 = option(OPTIONS, "reset_after");

const RESET_UPDATE: &[Gate] = &[Gate::Reset, Gate::Update];
const NEW: &[Gate] = &[Gate::New];

pub const LOW_RANK: u32 = option(OPTIONS, "low_rank");
pub const MASKED: u32 = option(OPTIONS, "masked");
pub const CLIPPED: u32 = option(OPTIONS, "clipped");

/// Columns of the recurrent weights.
const RECURRENT_COLS: Dim = Dim::Sum(&[Dim::When(LOW_RANK, &RANK), Dim::Unless(LOW_RANK, &Dim::Hidden)]);

pub(super) const SPEC: CellSpec = CellSpec {
    name: "gru",
    gates: &gate::GRU,
    extents: &[low_rank::EXTENT],
    rules: &[RECURRENT, low_rank::unused_unless(LOW_RANK)],
    states: &[StateSpec { name: "hidden", len: Dim::Hidden }],
    work: &[Dim::Hidden, Dim::Hidden, Dim::When(LOW_RANK, &RANK)],
    options: OPTIONS,
    params: &[ParamSpec::with("preact_clip", CLIPPED)],
    activations: &[ActivationSpec::sigmoid("gate_activation"), ActivationSpec::tanh("new_activation")],
    canonical: &[
        CanonicalSpec::matrix("input_weights", Dim::Hidden, Dim::Input).gated(),
        CanonicalSpec::matrix("recurrent_weights", Dim::Hidden, RECURRENT_COLS).gated(),
        CanonicalSpec::vector("input_bias", Dim::Hidden).gated().optional(),
        CanonicalSpec::vector("recurrent_bias", Dim::Hidden).gated().optional(),
        CanonicalSpec::matrix("recurrent_basis", RANK, Dim::Hidden).with(LOW_RANK),
    ],
    tensors: &[
        TensorSpec::matrix("gate_input_weights", &["input_weights"], Dim::Hidden, Dim::Input).gates(RESET_UPDATE),
        TensorSpec::matrix("gate_recurrent_weights", &["recurrent_weights"], Dim::Hidden, RECURRENT_COLS)
            .gates(RESET_UPDATE),
        TensorSpec::vector("gate_bias", &["input_bias", "recurrent_bias"], Dim::Hidden).gates(RESET_UPDATE),
        TensorSpec::matrix("new_input_weights", &["input_weights"], Dim::Hidden, Dim::Input).gates(NEW),
        TensorSpec::matrix("new_recurrent_weights", &["recurrent_weights"], Dim::Hidden, RECURRENT_COLS).gates(NEW),
        TensorSpec::vector("new_bias", &["input_bias", "recurrent_bias"], Dim::Hidden).gates(NEW).without(RESET_AFTER),
        TensorSpec::vector("new_input_bias", &["input_bias"], Dim::Hidden).gates(NEW).with(RESET_AFTER),
        TensorSpec::vector("new_recurrent_bias", &["recurrent_bias"], Dim::Hidden).gates(NEW).with(RESET_AFTER),
        TensorSpec::matrix("recurrent_basis", &["recurrent_basis"], RANK, Dim::Hidden).with(LOW_RANK),
    ],
    curves: &[Dim::Hidden; 3],
    ..CellSpec::EMPTY
};

/// The parameter of `clipped`.
const PREACT_CLIP: usize = SPEC.param("preact_clip");

const GATE_INPUT_WEIGHTS: usize = SPEC.tensor("gate_input_weights");
const GATE_RECURRENT_WEIGHTS: usize = SPEC.tensor("gate_recurrent_weights");
const GATE_BIAS: usize = SPEC.tensor("gate_bias");
const NEW_INPUT_WEIGHTS: usize = SPEC.tensor("new_input_weights");
const NEW_RECURRENT_WEIGHTS: usize = SPEC.tensor("new_recurrent_weights");
const NEW_BIAS: usize = SPEC.tensor("new_bias");
const NEW_INPUT_BIAS: usize = SPEC.tensor("new_input_bias");
const NEW_RECURRENT_BIAS: usize = SPEC.tensor("new_recurrent_bias");
const RECURRENT_BASIS: usize = SPEC.tensor("recurrent_basis");

pub(super) const fn entry<W: Weight, K: Kernel>() -> Entry {
    const {
        Entry {
            spec: &SPEC,
            float: &[&Cell::float(&SPEC, step::<W>), &Cell::float(&SPEC, step_any::<W>).when(1 << CLIPPED)],
            integer: &[
                (&integer::SPEC, &Cell::integer_whole(&SPEC, integer::step::<K>)),
                (&integer::SPEC, &Cell::integer_whole(&SPEC, integer::step_any::<K>).when(integer::RARE)),
            ],
            ..Entry::EMPTY
        }
    }
}

/// One step without `clipped`.
pub(crate) fn step<W: Weight>(node: &Node<'_>, io: Io<'_>) {
    let usual = node.activations_are([Activation::Sigmoid, Activation::Tanh]);
    // The same bits in less time.
    if VECTORS && usual {
        return step_by::<W>(node, io, sigmoid_all, |gate| gate, tanh);
    }
    // The same bits in fewer instructions, at the cost of flash.
    if cfg!(feature = "dsp") && usual {
        return step_by::<W>(node, io, |_| (), sigmoid, tanh);
    }
    // A limit of 0 clips nothing: the same bits, without a third copy of the code.
    if VECTORS {
        return step_any::<W>(node, io);
    }
    let [gate, candidate] = [0, 1].map(|index| node.activation(index));
    step_by::<W>(node, io, |_| (), |a| gate.apply(a), |a| candidate.apply(a));
}

/// One step with any options.
pub(crate) fn step_any<W: Weight>(node: &Node<'_>, io: Io<'_>) {
    let limit = node.param(PREACT_CLIP);
    let [gate, candidate] = [0, 1].map(|index| node.activation(index));
    let clipped = |activation: Activation| move |a| activation.apply(lstm::clip(a, limit));
    step_by::<W>(node, io, |_| (), clipped(gate), clipped(candidate));
}

/// `x` is `[input]`, `hidden` and `y` are `[hidden]`, `work` is `[2 · hidden + rank]`: the sums, and with `low_rank`
/// the operand of the recurrent weights. `y` holds z until h' is written. `gates` changes all sums of the gates in place,
/// and then `gate` each of them.
#[inline(always)]
fn step_by<W: Weight>(
    node: &Node<'_>,
    io: Io<'_>,
    gates: impl Fn(&mut [f32]),
    gate: impl Fn(f32) -> f32,
    candidate: impl Fn(f32) -> f32,
) {
    let Io { x, state: hidden, work, y, .. } = io;
    if is_masked(node, MASKED, x) {
        return copy(y, hidden);
    }
    let Some((sums, projected)) = work.split_at_mut_checked(2 * node.hidden_size) else { return };
    let operand = operand::<W>(node, hidden, projected);
    rows::<W>(node, GATE_BIAS, GATE_INPUT_WEIGHTS, GATE_RECURRENT_WEIGHTS).all(x, operand, sums);
    gates(sums);
    // r of unit k replaces element k. The sums of r and z of this unit are elements 2k and 2k + 1, which are never before k.
    let cells = cell::Cell::from_mut(&mut *sums).as_slice_of_cells();
    for ((sums, reset), update) in cells.as_chunks::<2>().0.iter().zip(cells).zip(y.iter_mut()) {
        let [r, z] = [gate(sums[0].get()), gate(sums[1].get())];
        reset.set(r);
        *update = z;
    }
    let Some((reset, sums)) = sums.split_at_mut_checked(node.hidden_size) else { return };
    if node.has(RESET_AFTER) {
        let of_hidden = rows::<W>(node, NEW_RECURRENT_BIAS, NONE, NEW_RECURRENT_WEIGHTS);
        of_hidden.all(&[], operand, sums);
        for (sum, &r) in sums.iter_mut().zip(reset.iter()) {
            *sum *= r;
        }
        rows::<W>(node, NEW_INPUT_BIAS, NEW_INPUT_WEIGHTS, NONE).all(x, &[], reset);
        for ((y, h), (&mut a, &mut b)) in y.iter_mut().zip(hidden).zip(reset.iter_mut().zip(sums)) {
            *h = updated(*h, *y, candidate(a + b));
            *y = *h;
        }
    } else {
        for (r, &h) in reset.iter_mut().zip(hidden.iter()) {
            *r *= h;
        }
        let operand = self::operand::<W>(node, reset, projected);
        rows::<W>(node, NEW_BIAS, NEW_INPUT_WEIGHTS, NEW_RECURRENT_WEIGHTS).all(x, operand, sums);
        for ((y, h), &mut sum) in y.iter_mut().zip(hidden).zip(sums) {
            *h = updated(*h, *y, candidate(sum));
            *y = *h;
        }
    }
}

/// The operand of the recurrent weights, from `h`, which may be r ⊙ h.
fn operand<'w, W: Weight>(node: &Node<'_>, h: &'w [f32], projected: &'w mut [f32]) -> &'w [f32] {
    low_rank::operand::<W>(node, LOW_RANK, RECURRENT_BASIS, h, projected)
}

/// The index that no tensor has.
const NONE: usize = usize::MAX;

/// The rows of the tensors with these indices.
#[inline(always)]
fn rows<'a, W: Weight>(node: &Node<'a>, bias: usize, input: usize, recurrent: usize) -> Rows<'a, W> {
    let matrix = |index| if index == NONE { &[][..] } else { node.columns(index) };
    Rows { bias: node.columns(bias), input: matrix(input), recurrent: matrix(recurrent) }
}

/// h' from `hidden`, z and n.
#[inline(always)]
fn updated(hidden: f32, update: f32, new: f32) -> f32 {
    update * hidden + (1.0 - update) * new
}
