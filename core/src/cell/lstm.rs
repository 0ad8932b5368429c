//! Long short-term memory (Hochreiter and Schmidhuber 1997; Gers 2000 for the forget gate and the peepholes;
//! Sak 2014 for the projection), as in TensorFlow's `LSTMCell`, Keras, PyTorch and cuDNN.
//!
//! # Equation
//!
//! ```text
//! i = σ(W_i x + R_i h + b_i + p_i ⊙ c)              coupled: i = 1 - f
//! f = σ(W_f x + R_f h + b_f + p_f ⊙ c)              input_forget: f = 1 - i
//! g = tanh(W_g x + R_g h + b_g)
//! c' = clip(f ⊙ c + i ⊙ g, cell_clip)               cell_norm: clip(N(f ⊙ c + i ⊙ g) ⊙ γ_c + β_c, cell_clip)
//! o = σ(W_o x + R_o h + b_o + p_o ⊙ c')
//! m = o ⊙ tanh(c')                                  output_norm: o ⊙ tanh(N(c') ⊙ γ_o + β_o)
//! h' = clip(P m, projection_clip)                   without a projection: m
//!
//! gate_norm:  N(W_k x + R_k h) ⊙ γ_k + b_k          for W_k x + R_k h + b_k; k = i, f, g, o, each by itself
//! joint_norm: N(W x) ⊙ γ_x + N(R h) ⊙ γ_h + b       for W x + R h + b, over all four gates at once
//! N(a) = (a - mean a) / √(variance a + epsilon)     variance of the population
//! clipped:    i, f, g, o are made of clip(…, preact_clip)
//! ```
//!
//! A forget bias that a framework adds at run time is folded into `b_f` by the importer, and so are the biases of the
//! gates' normalizations (Ba 2016). A clip of 0 is none. With `low_rank` the recurrent weights see B h, `rank`
//! numbers, instead of h.
//!
//! # Tensors
//!
//! Blocks of rows in the order i, f, g, o.
//!
//! | name | shape | when |
//! |---|---|---|
//! | `input_weights` | `[4 · hidden, input]` | always |
//! | `recurrent_weights` | `[4 · hidden, output]`, with `low_rank` `[4 · hidden, rank]` | always |
//! | `input_bias` | `[4 · hidden]` | optional |
//! | `recurrent_bias` | `[4 · hidden]` | optional |
//! | `input_peephole` | `[hidden]` | with `peephole` |
//! | `forget_peephole` | `[hidden]` | with `peephole` |
//! | `output_peephole` | `[hidden]` | with `peephole` |
//! | `projection_weights` | `[output, hidden]` | with `projection` |
//! | `recurrent_basis` | `[rank, output]` | with `low_rank` |
//! | `gate_gain` | `[4 · hidden]`: γ_k | with `gate_norm` |
//! | `input_gain` | `[4 · hidden]`: γ_x | with `joint_norm` |
//! | `recurrent_gain` | `[4 · hidden]`: γ_h | with `joint_norm` |
//! | `cell_gain` | `[hidden]`: γ_c | with `cell_norm` |
//! | `cell_bias` | `[hidden]`: β_c | with `cell_norm` |
//! | `output_gain` | `[hidden]`: γ_o | with `output_norm` |
//! | `output_bias` | `[hidden]`: β_o | with `output_norm` |
//!
//! # Options
//!
//! | name | what |
//! |---|---|
//! | `peephole` | the gates see the cell state |
//! | `projection` | h is P m, of `output` features |
//! | `low_rank` | the recurrent weights are the product of `recurrent_weights` and `recurrent_basis` |
//! | `coupled` | what the forget gate does not keep, enters; not with `joint_norm` |
//! | `gate_norm` | each gate is normalized over the units; not with `joint_norm` |
//! | `joint_norm` | what comes from x, and what comes from h, is normalized over all gates and units |
//! | `cell_norm` | the cell state is normalized, and carried so |
//! | `output_norm` | the cell state is normalized where the output sees it, and carried as it is |
//! | `masked` | the last of the features that come in says whether the step counts: where it is 0, state and output stay |
//! | `input_forget` | what enters is forgotten; neither with `coupled` nor with `joint_norm` |
//! | `clipped` | the activations of i, f, g and o see what `preact_clip` leaves, their peepholes included |
//!
//! With `input_forget` the weights of the forget gate mean nothing and should be 0; with `coupled` those of the input gate;
//! `joint_norm` would count them.
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
//! | `cell_clip` | c stays within plus and minus this |
//! | `projection_clip` | the projected h stays within plus and minus this |
//! | `epsilon` | of every normalization; where it is 0, equal numbers have none |
//! | `preact_clip` | with `clipped`: what the activations of i, f, g and o see stays within plus and minus this |
//!
//! # Activations
//!
//! | name | default | of |
//! |---|---|---|
//! | `gate_activation` | `sigmoid` | i, f, o |
//! | `cell_activation` | `tanh` | g |
//! | `output_activation` | `tanh` | c' in m |
//!
//! # Known as
//!
//! TensorFlow 1's `BasicLSTMCell`, `LSTMCell`, `LSTMBlockCell`, `CudnnCompatibleLSTMCell`, `WeightNormLSTMCell` (its
//! norms folded into the weights), `CoupledInputForgetGateLSTMCell` (`coupled`), `LayerNormBasicLSTMCell` and
//! `LayerNormLSTMCell` (`gate_norm` and `cell_norm`); Keras's and PyTorch's `LSTM`, PyTorch's `LSTMCell`; EdgeML's
//! `LSTMLRCell`; `lstm` and `lnlstm` (`joint_norm` and `output_norm`) of OpenAI's baselines; ONNX's `LSTM`, with its
//! `clip` (`clipped`) and `input_forget`.
//!
//! # Golden cases
//!
//! `tf1__BasicLSTMCell__*`, `tf1__LSTMCell__*`, `tf1__LSTMBlockCell__*`, `tf1__CudnnCompatibleLSTMCell__*`,
//! `tf1__WeightNormLSTMCell__*`, `tf1__CoupledInputForgetGateLSTMCell__*`, `tf1__LayerNormBasicLSTMCell__*`,
//! `tf1__LayerNormLSTMCell__*`, `keras2__LSTM__*`, `keras3__LSTM__*`, `torch__LSTM__*`, `torch__LSTMCell__*`,
//! `xlstm__sLSTMCell__lstm_*`, `edgeml__LSTMLRCell__*`, `baselines__lstm__*`, `baselines__lnlstm__*`,
//! `tf1__LSTMBlockFusedCell__*`, `tf2ops__BlockLSTM__*`, `tf2ops__BlockLSTMV2__*`, `tf2ops__LSTMBlockCell__*`,
//! `keras2__CuDNNLSTM__*`, `tf1__CudnnParamsFormatConverter__lstm_*`; with other cells or within wrappers:
//! `tf1__MultiRNNCell__*`, `tf1__HighwayWrapper__lstm_*`,
//! `tf1__InputProjectionWrapper__lstm_*`, `tf1__OutputProjectionWrapper__*`, `tf1__ResidualWrapper__*`,
//! `tf1__SequenceLength__*_lstm_*`,
//! `tf1__BidirectionalRNN__*`, `tf1__StackBidirectionalRNN__*`, `tf1__TimeReversedFusedRNN__*`,
//! `keras2__Bidirectional__lstm_*`, `keras3__Bidirectional__lstm_*`.

pub mod integer;
mod normalized;

/// The options of [`step_in_passes`].
pub(super) use normalized::OPTIONS as IN_PASSES;

use core::iter;

use super::low_rank::{self, RANK};
use super::{
    ActivationSpec, CanonicalSpec, CellSpec, Dim, Io, ParamSpec, Presence, Rule, StateSpec, TensorSpec, copy, is_masked,
};
use crate::activation::Activation;
use crate::gate;
use crate::kernel::{Rows, Weight, accumulate};
use crate::node::Node;
use crate::tanh::{sigmoid, tanh};

/// Index of the option `peephole`.
pub const PEEPHOLE: u32 = 0;
/// Index of the option `projection`.
pub const PROJECTION: u32 = 1;
/// Index of the option `low_rank`.
pub const LOW_RANK: u32 = 2;
/// Index of the option `coupled`.
pub const COUPLED: u32 = 3;
/// Index of the option `gate_norm`.
pub const GATE_NORM: u32 = 4;
/// Index of the option `joint_norm`.
pub const JOINT_NORM: u32 = 5;
/// Index of the option `cell_norm`.
pub const CELL_NORM: u32 = 6;
/// Index of the option `output_norm`.
pub const OUTPUT_NORM: u32 = 7;
/// Index of the option `masked`.
pub const MASKED: u32 = 8;
/// Index of the option `input_forget`.
pub const INPUT_FORGET: u32 = 9;
/// Index of the option `clipped`.
pub const CLIPPED: u32 = 10;

/// Elements of B h.
const PROJECTED: Dim = Dim::When(LOW_RANK, &RANK);
/// Columns of the recurrent weights.
const RECURRENT_COLS: Dim = Dim::Sum(&[PROJECTED, Dim::Unless(LOW_RANK, &Dim::Output)]);

/// See the [module](self).
pub const SPEC: CellSpec = CellSpec {
    name: "lstm",
    gates: &gate::LSTM,
    extents: &[low_rank::EXTENT],
    rules: &[
        Rule::EqualUnless(PROJECTION, Dim::Hidden, Dim::Output),
        low_rank::unused_unless(LOW_RANK),
        Rule::OneOf { options: &[GATE_NORM, JOINT_NORM], least: 0 },
        Rule::OneOf { options: &[COUPLED, INPUT_FORGET, JOINT_NORM], least: 0 },
    ],
    states: &[StateSpec { name: "hidden", len: Dim::Output }, StateSpec { name: "cell_state", len: Dim::Hidden }],
    work: &[
        Dim::Hidden,
        PROJECTED,
        Dim::When(GATE_NORM, &Dim::Product(&[Dim::Const(4), Dim::Hidden])),
        Dim::When(JOINT_NORM, &Dim::Product(&[Dim::Const(8), Dim::Hidden])),
    ],
    options: &[
        "peephole",
        "projection",
        "low_rank",
        "coupled",
        "gate_norm",
        "joint_norm",
        "cell_norm",
        "output_norm",
        "masked",
        "input_forget",
        "clipped",
    ],
    params: &[
        ParamSpec { name: "cell_clip", presence: Presence::Optional },
        ParamSpec { name: "projection_clip", presence: Presence::With(PROJECTION) },
        ParamSpec { name: "epsilon", presence: Presence::Optional },
        ParamSpec { name: "preact_clip", presence: Presence::With(CLIPPED) },
    ],
    activations: &[
        ActivationSpec { name: "gate_activation", default: Activation::Sigmoid },
        ActivationSpec { name: "cell_activation", default: Activation::Tanh },
        ActivationSpec { name: "output_activation", default: Activation::Tanh },
    ],
    canonical: &[
        CanonicalSpec::matrix("input_weights", Dim::Hidden, Dim::Input).gated(),
        CanonicalSpec::matrix("recurrent_weights", Dim::Hidden, RECURRENT_COLS).gated(),
        CanonicalSpec::vector("input_bias", Dim::Hidden).gated().when(Presence::Optional),
        CanonicalSpec::vector("recurrent_bias", Dim::Hidden).gated().when(Presence::Optional),
        CanonicalSpec::vector("input_peephole", Dim::Hidden).when(Presence::With(PEEPHOLE)),
        CanonicalSpec::vector("forget_peephole", Dim::Hidden).when(Presence::With(PEEPHOLE)),
        CanonicalSpec::vector("output_peephole", Dim::Hidden).when(Presence::With(PEEPHOLE)),
        CanonicalSpec::matrix("projection_weights", Dim::Output, Dim::Hidden).when(Presence::With(PROJECTION)),
        CanonicalSpec::matrix("recurrent_basis", RANK, Dim::Output).when(Presence::With(LOW_RANK)),
        CanonicalSpec::vector("gate_gain", Dim::Hidden).gated().when(Presence::With(GATE_NORM)),
        CanonicalSpec::vector("input_gain", Dim::Hidden).gated().when(Presence::With(JOINT_NORM)),
        CanonicalSpec::vector("recurrent_gain", Dim::Hidden).gated().when(Presence::With(JOINT_NORM)),
        CanonicalSpec::vector("cell_gain", Dim::Hidden).when(Presence::With(CELL_NORM)),
        CanonicalSpec::vector("cell_bias", Dim::Hidden).when(Presence::With(CELL_NORM)),
        CanonicalSpec::vector("output_gain", Dim::Hidden).when(Presence::With(OUTPUT_NORM)),
        CanonicalSpec::vector("output_bias", Dim::Hidden).when(Presence::With(OUTPUT_NORM)),
    ],
    tensors: &[
        TensorSpec::matrix("input_weights", &["input_weights"], Dim::Hidden, Dim::Input).gates(&gate::LSTM),
        TensorSpec::matrix("recurrent_weights", &["recurrent_weights"], Dim::Hidden, RECURRENT_COLS).gates(&gate::LSTM),
        TensorSpec::vector("bias", &["input_bias", "recurrent_bias"], Dim::Hidden).gates(&gate::LSTM),
        TensorSpec::vector("input_peephole", &["input_peephole"], Dim::Hidden).when(Presence::With(PEEPHOLE)),
        TensorSpec::vector("forget_peephole", &["forget_peephole"], Dim::Hidden).when(Presence::With(PEEPHOLE)),
        TensorSpec::vector("output_peephole", &["output_peephole"], Dim::Hidden).when(Presence::With(PEEPHOLE)),
        TensorSpec::matrix("projection_weights", &["projection_weights"], Dim::Output, Dim::Hidden)
            .when(Presence::With(PROJECTION)),
        TensorSpec::matrix("recurrent_basis", &["recurrent_basis"], RANK, Dim::Output).when(Presence::With(LOW_RANK)),
        TensorSpec::vector("gate_gain", &["gate_gain"], Dim::Hidden).gates(&gate::LSTM).when(Presence::With(GATE_NORM)),
        TensorSpec::vector("input_gain", &["input_gain"], Dim::Hidden)
            .gates(&gate::LSTM)
            .when(Presence::With(JOINT_NORM)),
        TensorSpec::vector("recurrent_gain", &["recurrent_gain"], Dim::Hidden)
            .gates(&gate::LSTM)
            .when(Presence::With(JOINT_NORM)),
        TensorSpec::vector("cell_gain", &["cell_gain"], Dim::Hidden).when(Presence::With(CELL_NORM)),
        TensorSpec::vector("cell_bias", &["cell_bias"], Dim::Hidden).when(Presence::With(CELL_NORM)),
        TensorSpec::vector("output_gain", &["output_gain"], Dim::Hidden).when(Presence::With(OUTPUT_NORM)),
        TensorSpec::vector("output_bias", &["output_bias"], Dim::Hidden).when(Presence::With(OUTPUT_NORM)),
    ],
};

/// Tensors of the spec by name.
mod tensor {
    pub const INPUT_WEIGHTS: usize = 0;
    pub const RECURRENT_WEIGHTS: usize = 1;
    pub const BIAS: usize = 2;
    /// The first of three: those of i, f, o.
    pub const PEEPHOLES: usize = 3;
    pub const PROJECTION_WEIGHTS: usize = 6;
    pub const RECURRENT_BASIS: usize = 7;
    pub const GATE_GAIN: usize = 8;
    pub const INPUT_GAIN: usize = 9;
    pub const RECURRENT_GAIN: usize = 10;
    pub const CELL_GAIN: usize = 11;
    pub const CELL_BIAS: usize = 12;
    pub const OUTPUT_GAIN: usize = 13;
    pub const OUTPUT_BIAS: usize = 14;
}

/// Numbers of the spec by name.
mod param {
    pub const CELL_CLIP: usize = 0;
    pub const PROJECTION_CLIP: usize = 1;
    pub const EPSILON: usize = 2;
    pub const PREACT_CLIP: usize = 3;
}

/// One step without [`IN_PASSES`]: one walk over the units.
pub(crate) fn step<W: Weight>(node: &Node<'_>, io: Io<'_>) {
    step_by::<W>(node, io, update::<W>);
}

/// One step with any options.
pub(crate) fn step_in_passes<W: Weight>(node: &Node<'_>, io: Io<'_>) {
    step_by::<W>(node, io, normalized::update::<W>);
}

/// What updates every unit, c to c', and makes m: of the node, x, what the recurrent weights see, c, scratch.
type Update = fn(&Node<'_>, &[f32], &[f32], &mut [f32], &mut [f32], &mut [f32]);

/// `x` is `[input]`, `state` is `[output + hidden]` (h, c), `work` is `[hidden + rank]` (m, B h) and what `update`
/// needs, `y` is `[output]`.
fn step_by<W: Weight>(node: &Node<'_>, io: Io<'_>, update: Update) {
    let Io { x, state, work, y, .. } = io;
    let Some((hidden, cell)) = state.split_at_mut_checked(node.output_size) else { return };
    if is_masked(node, MASKED, x) {
        return copy(y, hidden);
    }
    let Some((m, work)) = work.split_at_mut_checked(node.hidden_size) else { return };
    let Some((projected, work)) = work.split_at_mut_checked(node.dim(&PROJECTED)) else { return };
    let operand = low_rank::operand::<W>(node, LOW_RANK, tensor::RECURRENT_BASIS, hidden, projected);
    if node.has(PROJECTION) {
        update(node, x, operand, cell, work, m);
        project::<W>(node, m, y);
    } else {
        update(node, x, operand, cell, work, y);
    }
    copy(hidden, y);
}

/// [`Update`] in one walk. What is usual has one of its own, without choices.
fn update<W: Weight>(node: &Node<'_>, x: &[f32], operand: &[f32], cell: &mut [f32], _: &mut [f32], m: &mut [f32]) {
    let cell_clip = node.param(param::CELL_CLIP);
    let usual = node.activations_are([Activation::Sigmoid, Activation::Tanh, Activation::Tanh]);
    // The same numbers in fewer instructions, and more flash.
    if cfg!(feature = "dsp") && usual && cell_clip == 0.0 && !node.has(PEEPHOLE) {
        return walk::<W>(node, x, operand, cell, m, (sigmoid, tanh, tanh), iter::empty(), |c| c);
    }
    let [gate, candidate, output] = [0, 1, 2].map(|index| node.activation(index));
    let activations = (|a| gate.apply(a), |a| candidate.apply(a), |a| output.apply(a));
    let peepholes = peepholes(node, tensor::PEEPHOLES);
    walk::<W>(node, x, operand, cell, m, activations, peepholes, |c| clip(c, cell_clip));
}

/// Units whose sums are taken before anything is made of them.
const CHUNK: usize = 16;

/// A block of four rows holds the gates i, f, g, o of one unit. Activations: of gates, candidate, output.
#[expect(clippy::too_many_arguments)]
#[inline(always)]
fn walk<W: Weight>(
    node: &Node<'_>,
    x: &[f32],
    operand: &[f32],
    cell: &mut [f32],
    m: &mut [f32],
    (gate, candidate, output): (impl Fn(f32) -> f32, impl Fn(f32) -> f32, impl Fn(f32) -> f32),
    mut peepholes: impl Iterator<Item = [f32; 3]>,
    clip: impl Fn(f32) -> f32,
) {
    let mut rows = Rows::<W> {
        bias: node.columns(tensor::BIAS),
        input: node.columns(tensor::INPUT_WEIGHTS),
        recurrent: node.columns(tensor::RECURRENT_WEIGHTS),
    };
    let mut sums = [[0.0; 4]; CHUNK];
    for (cell, m) in cell.chunks_mut(CHUNK).zip(m.chunks_mut(CHUNK)) {
        let sums = rows.next(x, operand, cell.len(), &mut sums);
        for (&[mut i, mut f, g, mut o], (c, m)) in sums.iter().zip(cell.iter_mut().zip(m)) {
            let peephole = peepholes.next();
            if let Some([p_i, p_f, _]) = peephole {
                i += p_i * *c;
                f += p_f * *c;
            }
            *c = clip(gate(f) * *c + gate(i) * candidate(g));
            if let Some([_, _, p_o]) = peephole {
                o += p_o * *c;
            }
            *m = gate(o) * output(*c);
        }
    }
}

/// p_i, p_f, p_o of every unit; none without peepholes. They are three tensors in a row, from this one on.
pub(super) fn peepholes(node: &Node<'_>, first: usize) -> impl Iterator<Item = [f32; 3]> {
    let peephole = |index| node.elements(first + index).iter();
    peephole(0).zip(peephole(1)).zip(peephole(2)).map(|((&i, &f), &o)| [i, f, o])
}

/// y = clip(P m)
fn project<W: Weight>(node: &Node<'_>, m: &[f32], y: &mut [f32]) {
    let projection_clip = node.param(param::PROJECTION_CLIP);
    let blocks = node.matrix::<W>(tensor::PROJECTION_WEIGHTS).blocks();
    for (p, y) in blocks.zip(y.chunks_mut(4)) {
        for (y, a) in y.iter_mut().zip(accumulate([0.0; 4], p, m)) {
            *y = clip(a, projection_clip);
        }
    }
}

/// `x` within `±limit`; no limit is 0. Not-a-number stays what it is, which `min` and `max` would hide.
pub(super) fn clip(x: f32, limit: f32) -> f32 {
    if limit > 0.0 && x.abs() > limit { limit.copysign(x) } else { x }
}
