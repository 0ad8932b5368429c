//! Grid LSTM over time and frequency (Kalchbrenner, Danihelka and Graves 2016, arXiv:1507.01526; Sainath and Li 2016
//! for the peepholes), as in TensorFlow's `GridLSTMCell`: within a step, two LSTMs process overlapping bands of a
//! spectrum together. One carries its memory from step to step, the other from band to band.
//!
//! # Equation
//!
//! ```text
//! for every band k, x_k its features, h_k and c_k its states; m and d, which pass from band to band, start at 0:
//! side F                                                  side T
//! i, f, g, o = W x_k + R [h_k, m] + b                     the same with weights of its own; with `shared`: those of F
//! i = σ(i + p_i ⊙ d + q_i ⊙ c_k)                          f and i of both sides read the old d and c_k
//! f = σ(f + p_f ⊙ d + q_f ⊙ c_k)
//! d' = clip(f ⊙ d + i ⊙ tanh(g), cell_clip)               c'_k = clip(f ⊙ c_k + i ⊙ tanh(g), cell_clip)
//! o = σ(o + p_o ⊙ d' + q_o ⊙ c'_k)                        o of both sides reads the new ones
//! m' = o ⊙ tanh(d')                                       h'_k = o ⊙ tanh(c'_k)
//! y = [h'_0, m'_0, h'_1, m'_1, ...]
//! ```
//!
//! Coupled gates, f = 1 - i, are f = σ(-a) where i = σ(a): the importer writes the negated weights of i as those of f.
//! Importers fold a forget bias that the framework adds at run time into `b_f`. A clip of 0 disables clipping.
//!
//! # Tensors
//!
//! Blocks of rows in the order i, f, g, o.
//!
//! | name | shape | when |
//! |---|---|---|
//! | `frequency_input_weights` | `[4 · hidden, band_size]`, of side F | always |
//! | `frequency_recurrent_weights` | `[4 · hidden, 2 · hidden]`, columns of h_k, then of m | always |
//! | `frequency_bias` | `[4 · hidden]` | always |
//! | `time_input_weights` | `[4 · hidden, band_size]`, of side T | without `shared` |
//! | `time_recurrent_weights` | `[4 · hidden, 2 · hidden]` | without `shared` |
//! | `time_bias` | `[4 · hidden]` | without `shared` |
//! | `frequency_input_peephole` | `[2 · hidden]`: p_i, then q_i of side F | with `peephole` |
//! | `frequency_forget_peephole` | `[2 · hidden]` | with `peephole` |
//! | `frequency_output_peephole` | `[2 · hidden]` | with `peephole` |
//! | `time_input_peephole` | `[2 · hidden]`: p_i, then q_i of side T | with `peephole` |
//! | `time_forget_peephole` | `[2 · hidden]` | with `peephole` |
//! | `time_output_peephole` | `[2 · hidden]` | with `peephole` |
//!
//! # Options
//!
//! | name | what |
//! |---|---|
//! | `shared` | side T uses the weights and the bias of side F; each side has its own peepholes |
//! | `peephole` | the gates read both memories |
//! | `backwards` | the bands are processed from the last to the first, and appear in this order in the states and the output |
//!
//! # Extents
//!
//! | name | what |
//! |---|---|
//! | `bands` | number of bands; `output_size` is twice `hidden_size` per band |
//! | `band_size` | features of a band |
//! | `band_hop` | from one band to the next |
//! | `first` | start of the first band in the padded features; 0 by default |
//! | `pad_before` | zeros before the first feature; 0 by default |
//! | `pad_after` | zeros after the last feature; 0 by default |
//!
//! # Parameters
//!
//! | name | what |
//! |---|---|
//! | `cell_clip` | bound of the magnitudes of c and d |
//!
//! # Known as
//!
//! TensorFlow 1's `tf.contrib.rnn.GridLSTMCell`, one node for each of its frequency blocks, and
//! `tf.contrib.rnn.BidirectionalGridLSTMCell`, where each block has a second node, `backwards`.
//!
//! # Golden cases
//!
//! `tf1__GridLSTMCell__*`, `tf1__BidirectionalGridLSTMCell__*`.

use super::bands::{BAND_SIZE, BANDS, EXTENTS, Operand, UNITS, WITHIN, bands};
use super::lstm::clip;
use super::prelude::*;
use crate::activation::{sigmoid, tanh};

const OPTIONS: &[&str] = &["shared", "peephole", "backwards"];
const SHARED: u32 = option(OPTIONS, "shared");
const PEEPHOLE: u32 = option(OPTIONS, "peephole");
const BACKWARDS: u32 = option(OPTIONS, "backwards");

/// An element for each unit of both memories.
const BOTH: Dim = Dim::Product(&[Dim::Const(2), Dim::Hidden]);

/// Both sides read the matrices of the frequency side if they share them.
const PASSES: Dim = Dim::Sum(&[BANDS, Dim::When(SHARED, &BANDS)]);

const CANONICAL: &[CanonicalSpec; 12] = &[
    CanonicalSpec::matrix("frequency_input_weights", Dim::Hidden, BAND_SIZE).gated(),
    CanonicalSpec::matrix("frequency_recurrent_weights", Dim::Hidden, BOTH).gated(),
    CanonicalSpec::vector("frequency_bias", Dim::Hidden).gated(),
    CanonicalSpec::matrix("time_input_weights", Dim::Hidden, BAND_SIZE).gated().without(SHARED),
    CanonicalSpec::matrix("time_recurrent_weights", Dim::Hidden, BOTH).gated().without(SHARED),
    CanonicalSpec::vector("time_bias", Dim::Hidden).gated().without(SHARED),
    CanonicalSpec::vector("frequency_input_peephole", BOTH).with(PEEPHOLE),
    CanonicalSpec::vector("frequency_forget_peephole", BOTH).with(PEEPHOLE),
    CanonicalSpec::vector("frequency_output_peephole", BOTH).with(PEEPHOLE),
    CanonicalSpec::vector("time_input_peephole", BOTH).with(PEEPHOLE),
    CanonicalSpec::vector("time_forget_peephole", BOTH).with(PEEPHOLE),
    CanonicalSpec::vector("time_output_peephole", BOTH).with(PEEPHOLE),
];

pub(super) const SPEC: CellSpec = CellSpec {
    name: "grid_lstm",
    gates: &gate::LSTM,
    extents: &EXTENTS,
    rules: &[WITHIN, Rule::Equal(Dim::Output, Dim::Product(&[Dim::Const(2), UNITS]))],
    states: &[StateSpec { name: "hidden", len: UNITS }, StateSpec { name: "cell_state", len: UNITS }],
    work: &[Dim::Hidden],
    options: OPTIONS,
    params: &[ParamSpec::optional("cell_clip")],
    canonical: CANONICAL,
    tensors: &TensorSpec::each_in_passes(CANONICAL, &gate::LSTM, &PASSES),
    curves: &[UNITS; 10],
    ..CellSpec::EMPTY
};

/// The tensors of one side.
#[derive(Clone, Copy)]
struct Side {
    input_weights: usize,
    recurrent_weights: usize,
    bias: usize,
    /// The peepholes of i, f, o.
    peepholes: [usize; 3],
}

const FREQUENCY: Side = Side { input_weights: 0, recurrent_weights: 1, bias: 2, peepholes: [6, 7, 8] };
const TIME: Side = Side { input_weights: 3, recurrent_weights: 4, bias: 5, peepholes: [9, 10, 11] };

/// The peepholes of i, f and o of a unit, to d and to c.
type Peepholes = Option<[[f32; 2]; 3]>;

impl Side {
    /// `b + W x + R [h, m]` of every unit: i, f, g, o; empty if the node does not have these weights.
    fn sums<'n, W: Weight>(self, node: &Node<'n>, operand: Operand<'n>) -> impl Iterator<Item = [f32; 4]> {
        let input = node.matrix::<W>(self.input_weights).blocks();
        let recurrent = node.matrix::<W>(self.recurrent_weights).blocks();
        input.zip(recurrent).zip(node.vector(self.bias)).map(move |((w, r), &b)| operand.sums(b, w, r))
    }

    /// The peepholes of every unit; empty without peepholes.
    fn peepholes<'n>(self, node: &Node<'n>) -> impl Iterator<Item = [[f32; 2]; 3]> {
        let units = node.hidden_size;
        let [i, f, o] = self.peepholes.map(|index| {
            let (of_d, of_c) = node.elements(index).split_at_checked(units).unwrap_or_default();
            of_d.iter().zip(of_c).map(|(&p, &q)| [p, q])
        });
        i.zip(f).zip(o).map(|((i, f), o)| [i, f, o])
    }
}

pub(super) const fn entry<W: Weight, K: Kernel>() -> Entry {
    const { Entry { spec: &SPEC, float: &[&Cell::float(&SPEC, step::<W>)], ..Entry::EMPTY } }
}

/// One step. `x` is `[input]`, `state` is `[2 · bands · hidden]` (h, c), `work` is `[hidden]` (d), `y` is
/// `[bands · 2 · hidden]` (h, m of each band).
pub(crate) fn step<W: Weight>(node: &Node<'_>, io: Io<'_>) {
    let Io { x, state, work: d, y, .. } = io;
    // There is at least one unit.
    let units = node.hidden_size.max(1);
    let Some((hidden, cell)) = state.split_at_mut_checked(node.dim(&UNITS)) else { return };
    let states = hidden.chunks_mut(units).zip(cell.chunks_mut(units));
    let mut outputs = y.chunks_mut(units);
    let mut before: &[f32] = &[];
    d.fill(0.0);
    for (band, (h, c)) in bands(node, x, node.has(BACKWARDS)).zip(states) {
        let (Some(next), Some(m)) = (outputs.next(), outputs.next()) else { return };
        update::<W>(node, Operand { band, time: h, frequency: before }, [d, c], [m, next]);
        copy(h, next);
        before = m;
    }
}

/// Updates every unit of one band: d and c to d' and c', and writes m' and h'.
fn update<W: Weight>(node: &Node<'_>, operand: Operand<'_>, [d, c]: [&mut [f32]; 2], [m, h]: [&mut [f32]; 2]) {
    let limit = node.param(0);
    let frequency = FREQUENCY.sums::<W>(node, operand);
    let mut time = TIME.sums::<W>(node, operand);
    let mut peepholes = FREQUENCY.peepholes(node).zip(TIME.peepholes(node));
    for (sums, ((d, c), (m, h))) in frequency.zip(d.iter_mut().zip(c).zip(m.iter_mut().zip(h))) {
        let time_sums = time.next().unwrap_or(sums);
        let (peephole, time_peephole) = peepholes.next().unzip();
        let old = [*d, *c];
        *d = clip(memory(sums, peephole, old, *d), limit);
        *c = clip(memory(time_sums, time_peephole, old, *c), limit);
        let new = [*d, *c];
        *m = output(sums, peephole, new, *d);
        *h = output(time_sums, time_peephole, new, *c);
    }
}

/// The new memory of a side; `both` is d, c.
fn memory([i, f, g, _]: [f32; 4], peepholes: Peepholes, both: [f32; 2], own: f32) -> f32 {
    let [i, f] = match peepholes {
        Some([p_i, p_f, _]) => [i + dot(p_i, both), f + dot(p_f, both)],
        None => [i, f],
    };
    sigmoid(f) * own + sigmoid(i) * tanh(g)
}

/// The output of a side; `both` is d', c'.
fn output([.., o]: [f32; 4], peepholes: Peepholes, both: [f32; 2], own: f32) -> f32 {
    let o = match peepholes {
        Some([.., p_o]) => o + dot(p_o, both),
        None => o,
    };
    sigmoid(o) * tanh(own)
}

fn dot([p, q]: [f32; 2], [d, c]: [f32; 2]) -> f32 {
    p * d + q * c
}
