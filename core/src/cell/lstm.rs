//! Long short-term memory (Hochreiter and Schmidhuber 1997; Gers 2000 for the forget gate and the peepholes; Sak 2014
//! for the projection), as in TensorFlow's `LSTMCell`, Keras, PyTorch and cuDNN.
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
//! gate_norm:  N(W_k x + R_k h) ⊙ γ_k + b_k          for W_k x + R_k h + b_k; k = i, f, g, o, each separately
//! joint_norm: N(W x) ⊙ γ_x + N(R h) ⊙ γ_h + b       for W x + R h + b, over all four gates at once
//! N(a) = (a - mean a) / √(variance a + epsilon)     variance of the population
//! clipped:    the arguments of i, f, g, o are clip(…, preact_clip)
//! ```
//!
//! Importers fold a forget bias that the framework adds at run time, and the biases of the gates' normalizations (Ba
//! 2016), into `b_f` and the other biases. A clip of 0 disables clipping. With `low_rank` the recurrent weights
//! multiply B h (`rank` elements) instead of h.
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
//! | `initial_hidden` | `[output]`: h before the first step | with `initial` |
//! | `initial_cell_state` | `[hidden]`: c before the first step | with `initial` |
//!
//! # Options
//!
//! | name | what |
//! |---|---|
//! | `peephole` | the gates read the cell state |
//! | `projection` | h is P m, of `output` features |
//! | `low_rank` | the recurrent weights are the product of `recurrent_weights` and `recurrent_basis` |
//! | `coupled` | i = 1 - f; not with `joint_norm` |
//! | `gate_norm` | each gate is normalized over the units; not with `joint_norm` |
//! | `joint_norm` | the products of x, and those of h, are normalized over all gates and units |
//! | `cell_norm` | the cell state is normalized, and carried in normalized form |
//! | `output_norm` | the output reads the normalized cell state; the state itself is not normalized |
//! | `masked` | the last input feature is a mask: where it is 0, state and output keep their values |
//! | `input_forget` | f = 1 - i; not with `coupled` or `joint_norm` |
//! | `clipped` | the arguments of i, f, g and o, peepholes included, are clipped to ±`preact_clip` |
//! | `initial` | the first step starts from `initial_hidden` and `initial_cell_state` instead of zeros |
//!
//! With `input_forget` the weights of the forget gate are unused and should be 0; with `coupled` those of the input
//! gate. `joint_norm` would include them. With `initial` the state `started` is 0 before the first step, so that a zeroed
//! state is the start.
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
//! | `cell_clip` | bound of c's magnitude |
//! | `projection_clip` | bound of the projected h's magnitude |
//! | `epsilon` | epsilon of every normalization; with 0, a vector of equal values gives NaN |
//! | `preact_clip` | with `clipped`: bound of the arguments of i, f, g and o |
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
//! `clip` (`clipped`) and `input_forget`; Neural Amp Modeler's `LSTM` (`initial`).
//!
//! # Golden cases
//!
//! `tf1__BasicLSTMCell__*`, `tf1__LSTMCell__*`, `tf1__LSTMBlockCell__*`, `tf1__CudnnCompatibleLSTMCell__*`,
//! `tf1__WeightNormLSTMCell__*`, `tf1__CoupledInputForgetGateLSTMCell__*`, `tf1__LayerNormBasicLSTMCell__*`,
//! `tf1__LayerNormLSTMCell__*`, `keras2__LSTM__*`, `keras3__LSTM__*`, `torch__LSTM__*`, `torch__LSTMCell__*`,
//! `xlstm__sLSTMCell__lstm_*`, `edgeml__LSTMLRCell__*`, `baselines__lstm__*`, `baselines__lnlstm__*`,
//! `tf1__LSTMBlockFusedCell__*`, `tf2ops__BlockLSTM__*`, `tf2ops__BlockLSTMV2__*`, `tf2ops__LSTMBlockCell__*`,
//! `keras2__CuDNNLSTM__*`, `tf1__CudnnParamsFormatConverter__lstm_*`; with other cells or within wrappers:
//! `tf1__MultiRNNCell__*`, `tf1__HighwayWrapper__lstm_*`, `tf1__InputProjectionWrapper__lstm_*`,
//! `tf1__OutputProjectionWrapper__*`, `tf1__ResidualWrapper__*`, `tf1__SequenceLength__*_lstm_*`,
//! `tf1__BidirectionalRNN__*`, `tf1__StackBidirectionalRNN__*`, `tf1__TimeReversedFusedRNN__*`,
//! `keras2__Bidirectional__lstm_*`, `keras3__Bidirectional__lstm_*`.

#![expect(missing_docs, reason = "the options are described above")]

pub mod i8;
pub mod integer;
mod normalized;

/// The options of [`step_in_passes`].
pub(super) use normalized::OPTIONS as IN_PASSES;

use core::iter;

use super::low_rank::{self, RANK};
use super::prelude::*;
use crate::kernel::Rows;
use crate::kernel::activations::{VECTORS, lstm_gates, tanh_all};
use crate::tanh::{sigmoid, tanh};

const OPTIONS: &[&str] = &[
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
    "initial",
];
pub const PEEPHOLE: u32 = option(OPTIONS, "peephole");
pub const PROJECTION: u32 = option(OPTIONS, "projection");
pub const LOW_RANK: u32 = option(OPTIONS, "low_rank");
pub const COUPLED: u32 = option(OPTIONS, "coupled");
pub const GATE_NORM: u32 = option(OPTIONS, "gate_norm");
pub const JOINT_NORM: u32 = option(OPTIONS, "joint_norm");
pub const CELL_NORM: u32 = option(OPTIONS, "cell_norm");
pub const OUTPUT_NORM: u32 = option(OPTIONS, "output_norm");
pub const MASKED: u32 = option(OPTIONS, "masked");
pub const INPUT_FORGET: u32 = option(OPTIONS, "input_forget");
pub const CLIPPED: u32 = option(OPTIONS, "clipped");
pub const INITIAL: u32 = option(OPTIONS, "initial");

/// Elements of B h, 0 without `low_rank`.
const PROJECTED: Dim = Dim::When(LOW_RANK, &RANK);
/// Columns of the recurrent weights.
const RECURRENT_COLS: Dim = Dim::Sum(&[PROJECTED, Dim::Unless(LOW_RANK, &Dim::Output)]);

pub(super) const ACTIVATIONS: &[ActivationSpec] = &[
    ActivationSpec::sigmoid("gate_activation"),
    ActivationSpec::tanh("cell_activation"),
    ActivationSpec::tanh("output_activation"),
];

pub(super) const SPEC: CellSpec = CellSpec {
    name: "lstm",
    gates: &gate::LSTM,
    extents: &[low_rank::EXTENT],
    rules: &[
        Rule::EqualUnless(PROJECTION, Dim::Hidden, Dim::Output),
        low_rank::unused_unless(LOW_RANK),
        Rule::OneOf { options: &[GATE_NORM, JOINT_NORM], least: 0 },
        Rule::OneOf { options: &[COUPLED, INPUT_FORGET, JOINT_NORM], least: 0 },
    ],
    states: &[
        StateSpec { name: "hidden", len: Dim::Output },
        StateSpec { name: "cell_state", len: Dim::Hidden },
        StateSpec { name: "started", len: Dim::When(INITIAL, &Dim::Const(1)) },
    ],
    work: &[
        Dim::Hidden,
        PROJECTED,
        Dim::When(GATE_NORM, &Dim::Product(&[Dim::Const(4), Dim::Hidden])),
        Dim::When(JOINT_NORM, &Dim::Product(&[Dim::Const(8), Dim::Hidden])),
    ],
    options: OPTIONS,
    params: &[
        ParamSpec::optional("cell_clip"),
        ParamSpec::with("projection_clip", PROJECTION),
        ParamSpec::optional("epsilon"),
        ParamSpec::with("preact_clip", CLIPPED),
    ],
    activations: ACTIVATIONS,
    canonical: &[
        CanonicalSpec::matrix("input_weights", Dim::Hidden, Dim::Input).gated(),
        CanonicalSpec::matrix("recurrent_weights", Dim::Hidden, RECURRENT_COLS).gated(),
        CanonicalSpec::vector("input_bias", Dim::Hidden).gated().optional(),
        CanonicalSpec::vector("recurrent_bias", Dim::Hidden).gated().optional(),
        CanonicalSpec::vector("input_peephole", Dim::Hidden).with(PEEPHOLE),
        CanonicalSpec::vector("forget_peephole", Dim::Hidden).with(PEEPHOLE),
        CanonicalSpec::vector("output_peephole", Dim::Hidden).with(PEEPHOLE),
        CanonicalSpec::matrix("projection_weights", Dim::Output, Dim::Hidden).with(PROJECTION),
        CanonicalSpec::matrix("recurrent_basis", RANK, Dim::Output).with(LOW_RANK),
        CanonicalSpec::vector("gate_gain", Dim::Hidden).gated().with(GATE_NORM),
        CanonicalSpec::vector("input_gain", Dim::Hidden).gated().with(JOINT_NORM),
        CanonicalSpec::vector("recurrent_gain", Dim::Hidden).gated().with(JOINT_NORM),
        CanonicalSpec::vector("cell_gain", Dim::Hidden).with(CELL_NORM),
        CanonicalSpec::vector("cell_bias", Dim::Hidden).with(CELL_NORM),
        CanonicalSpec::vector("output_gain", Dim::Hidden).with(OUTPUT_NORM),
        CanonicalSpec::vector("output_bias", Dim::Hidden).with(OUTPUT_NORM),
        CanonicalSpec::vector("initial_hidden", Dim::Output).with(INITIAL),
        CanonicalSpec::vector("initial_cell_state", Dim::Hidden).with(INITIAL),
    ],
    tensors: &[
        TensorSpec::matrix("input_weights", &["input_weights"], Dim::Hidden, Dim::Input).gates(&gate::LSTM),
        TensorSpec::matrix("recurrent_weights", &["recurrent_weights"], Dim::Hidden, RECURRENT_COLS).gates(&gate::LSTM),
        TensorSpec::vector("bias", &["input_bias", "recurrent_bias"], Dim::Hidden).gates(&gate::LSTM),
        TensorSpec::vector("input_peephole", &["input_peephole"], Dim::Hidden).with(PEEPHOLE),
        TensorSpec::vector("forget_peephole", &["forget_peephole"], Dim::Hidden).with(PEEPHOLE),
        TensorSpec::vector("output_peephole", &["output_peephole"], Dim::Hidden).with(PEEPHOLE),
        TensorSpec::matrix("projection_weights", &["projection_weights"], Dim::Output, Dim::Hidden).with(PROJECTION),
        TensorSpec::matrix("recurrent_basis", &["recurrent_basis"], RANK, Dim::Output).with(LOW_RANK),
        TensorSpec::vector("gate_gain", &["gate_gain"], Dim::Hidden).gates(&gate::LSTM).with(GATE_NORM),
        TensorSpec::vector("input_gain", &["input_gain"], Dim::Hidden).gates(&gate::LSTM).with(JOINT_NORM),
        TensorSpec::vector("recurrent_gain", &["recurrent_gain"], Dim::Hidden).gates(&gate::LSTM).with(JOINT_NORM),
        TensorSpec::vector("cell_gain", &["cell_gain"], Dim::Hidden).with(CELL_NORM),
        TensorSpec::vector("cell_bias", &["cell_bias"], Dim::Hidden).with(CELL_NORM),
        TensorSpec::vector("output_gain", &["output_gain"], Dim::Hidden).with(OUTPUT_NORM),
        TensorSpec::vector("output_bias", &["output_bias"], Dim::Hidden).with(OUTPUT_NORM),
        TensorSpec::vector("initial_hidden", &["initial_hidden"], Dim::Output).when(Presence::Late(INITIAL)),
        TensorSpec::vector("initial_cell_state", &["initial_cell_state"], Dim::Hidden).when(Presence::Late(INITIAL)),
    ],
    curves: &[Dim::Hidden; 5],
    ..CellSpec::EMPTY
};

mod tensor {
    pub const INPUT_WEIGHTS: usize = super::SPEC.tensor("input_weights");
    pub const RECURRENT_WEIGHTS: usize = super::SPEC.tensor("recurrent_weights");
    pub const BIAS: usize = super::SPEC.tensor("bias");
    /// The first of the three peepholes, in the order i, f, o.
    pub const PEEPHOLES: usize = super::SPEC.tensor("input_peephole");
    pub const PROJECTION_WEIGHTS: usize = super::SPEC.tensor("projection_weights");
    pub const RECURRENT_BASIS: usize = super::SPEC.tensor("recurrent_basis");
    pub const GATE_GAIN: usize = super::SPEC.tensor("gate_gain");
    pub const INPUT_GAIN: usize = super::SPEC.tensor("input_gain");
    pub const RECURRENT_GAIN: usize = super::SPEC.tensor("recurrent_gain");
    pub const CELL_GAIN: usize = super::SPEC.tensor("cell_gain");
    pub const CELL_BIAS: usize = super::SPEC.tensor("cell_bias");
    pub const OUTPUT_GAIN: usize = super::SPEC.tensor("output_gain");
    pub const OUTPUT_BIAS: usize = super::SPEC.tensor("output_bias");
    pub const INITIAL_HIDDEN: usize = super::SPEC.tensor("initial_hidden");
    pub const INITIAL_CELL_STATE: usize = super::SPEC.tensor("initial_cell_state");
}

mod param {
    pub const CELL_CLIP: usize = super::SPEC.param("cell_clip");
    pub const PROJECTION_CLIP: usize = super::SPEC.param("projection_clip");
    pub const EPSILON: usize = super::SPEC.param("epsilon");
    pub const PREACT_CLIP: usize = super::SPEC.param("preact_clip");
}

pub(super) const fn entry<W: Weight, K: Kernel>() -> Entry {
    const {
        Entry {
            spec: &SPEC,
            float: &[
                &Cell::float(&SPEC, step::<W>),
                &Cell::float(&SPEC, step_from_initial::<W>).when(1 << INITIAL),
                &Cell::float(&SPEC, step_in_passes::<W>).when(IN_PASSES),
            ],
            integer: &[
                (&integer::SPEC, &Cell::integer_whole(&SPEC, integer::step::<K>)),
                (&integer::SPEC, &Cell::integer_whole(&SPEC, integer::step_projected::<K>).when(1 << PROJECTION)),
                (
                    &integer::RARE_SPEC,
                    &Cell::integer(&SPEC, &integer::RARE_SPEC, integer::step_rare::<K>).when(integer::RARE),
                ),
                (
                    &integer::RARE_SPEC,
                    &Cell::integer(&SPEC, &integer::RARE_SPEC, integer::step_any::<K>).when(integer::NORMS),
                ),
            ],
            i8: &[(&i8::SPEC, &Cell::integer(&SPEC, &i8::SPEC, i8::step::<K>))],
        }
    }
}

/// One step without [`IN_PASSES`] and `initial`, in one pass over the units.
pub(crate) fn step<W: Weight>(node: &Node<'_>, io: Io<'_>) {
    step_by::<W>(node, io, update::<W>);
}

/// One step without [`IN_PASSES`].
pub(crate) fn step_from_initial<W: Weight>(node: &Node<'_>, io: Io<'_>) {
    step_by::<W>(node, started(node, io), update::<W>);
}

/// One step with any options.
pub(crate) fn step_in_passes<W: Weight>(node: &Node<'_>, io: Io<'_>) {
    step_by::<W>(node, started(node, io), normalized::update::<W>);
}

/// The slices of a step with h and c as the state. With `initial`, h and c have the initial values before the first step.
fn started<'s>(node: &Node<'_>, io: Io<'s>) -> Io<'s> {
    let Some((state, flag)) = io.state.split_at_mut_checked(node.output_size + node.hidden_size) else {
        return Io { state: &mut [], ..io };
    };
    if let ([started @ 0.0], Some((hidden, cell))) = (flag, state.split_at_mut_checked(node.output_size)) {
        *started = 1.0;
        copy(hidden, node.elements(tensor::INITIAL_HIDDEN));
        copy(cell, node.elements(tensor::INITIAL_CELL_STATE));
    }
    Io { state, ..io }
}

/// Updates every unit, c to c', and writes m. The arguments are the node, x, the operand of the recurrent weights, c,
/// the scratch and m.
type Update = fn(&Node<'_>, &[f32], &[f32], &mut [f32], &mut [f32], &mut [f32]);

/// `x` is `[input]`, `state` is `[output + hidden]` (h, c), `work` is `[hidden + rank]` (m, B h) and the scratch of
/// `update`, `y` is `[output]`.
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

/// [`Update`] in one pass, by [`walk`] or [`walk_vectors`]. The default activations have their own instance without branches.
fn update<W: Weight>(node: &Node<'_>, x: &[f32], operand: &[f32], cell: &mut [f32], _: &mut [f32], m: &mut [f32]) {
    let cell_clip = node.param(param::CELL_CLIP);
    let usual = node.activations_are([Activation::Sigmoid, Activation::Tanh, Activation::Tanh]);
    let usual = usual && cell_clip == 0.0 && !node.has(PEEPHOLE);
    // The same bits in less time.
    if VECTORS && usual {
        return walk_vectors::<W>(node, x, operand, cell, m);
    }
    // The same bits in fewer instructions, at the cost of flash.
    if cfg!(feature = "dsp") && usual {
        return walk::<W>(node, x, operand, cell, m, (sigmoid, tanh, tanh), iter::empty(), |c| c);
    }
    let [gate, candidate, output] = [0, 1, 2].map(|index| node.activation(index));
    let activations = (|a| gate.apply(a), |a| candidate.apply(a), |a| output.apply(a));
    let peepholes = peepholes(node, tensor::PEEPHOLES);
    walk::<W>(node, x, operand, cell, m, activations, peepholes, |c| clip(c, cell_clip));
}

/// Number of units whose sums are computed before they are used.
const CHUNK: usize = 16;

/// Computes the gates of every unit, and from them c and m. A block of four rows holds the gates i, f, g, o of one unit.
/// The three activations are those of the gates, of the candidate and of the output.
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
    let mut rows = rows::<W>(node);
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

/// [`walk`] with σ and tanh, and without peepholes, in vectors.
fn walk_vectors<W: Weight>(node: &Node<'_>, x: &[f32], operand: &[f32], cell: &mut [f32], m: &mut [f32]) {
    let mut rows = rows::<W>(node);
    let mut sums = [[0.0; 4]; CHUNK];
    for (cell, m) in cell.chunks_mut(CHUNK).zip(m.chunks_mut(CHUNK)) {
        let gates = rows.next(x, operand, cell.len(), &mut sums);
        lstm_gates(gates);
        for (&[i, f, g, _], (c, m)) in gates.iter().zip(cell.iter_mut().zip(m.iter_mut())) {
            *c = f * *c + i * g;
            *m = *c;
        }
        tanh_all(m);
        for (&[.., o], m) in gates.iter().zip(m) {
            *m *= o;
        }
    }
}

/// The rows of the gates.
#[inline(always)]
fn rows<'a, W: Weight>(node: &Node<'a>) -> Rows<'a, W> {
    Rows {
        bias: node.columns(tensor::BIAS),
        input: node.columns(tensor::INPUT_WEIGHTS),
        recurrent: node.columns(tensor::RECURRENT_WEIGHTS),
    }
}

/// p_i, p_f, p_o of every unit; empty without peepholes. They are three consecutive tensors from `first` on.
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

/// Clips `x` to `±limit`; a limit of 0 disables clipping. NaN stays NaN, unlike with `min` and `max`.
pub(super) fn clip(x: f32, limit: f32) -> f32 {
    if limit > 0.0 && x.abs() > limit { limit.copysign(x) } else { x }
}
