//! Time-frequency LSTM (Sainath and Li 2016), as in TensorFlow's `TimeFreqLSTMCell`: one LSTM that processes
//! overlapping bands of a spectrum within a step. It has a separate state for each band, and reads the output of the
//! previous band.
//!
//! # Equation
//!
//! ```text
//! for every band k, x_k its features, h_k and c_k its states, h'_{-1} = 0:
//! i = σ(W_i x_k + R_i [h_k, h'_{k-1}] + b_i + p_i ⊙ c_k)
//! f = σ(W_f x_k + R_f [h_k, h'_{k-1}] + b_f + p_f ⊙ c_k)
//! g = tanh(W_g x_k + R_g [h_k, h'_{k-1}] + b_g)
//! c'_k = clip(f ⊙ c_k + i ⊙ g, cell_clip)
//! o = σ(W_o x_k + R_o [h_k, h'_{k-1}] + b_o + p_o ⊙ c'_k)
//! h'_k = o ⊙ tanh(c'_k)
//! y = [h'_0, h'_1, ...]
//! ```
//!
//! Importers fold a forget bias that the framework adds at run time into `b_f`. A clip of 0 disables clipping.
//!
//! # Tensors
//!
//! Blocks of rows in the order i, f, g, o.
//!
//! | name | shape | when |
//! |---|---|---|
//! | `input_weights` | `[4 · hidden, band_size]` | always |
//! | `recurrent_weights` | `[4 · hidden, 2 · hidden]`, columns of h_k, then of h'_{k-1} | always |
//! | `input_bias` | `[4 · hidden]` | optional |
//! | `input_peephole` | `[hidden]` | with `peephole` |
//! | `forget_peephole` | `[hidden]` | with `peephole` |
//! | `output_peephole` | `[hidden]` | with `peephole` |
//!
//! # Options
//!
//! | name | what |
//! |---|---|
//! | `peephole` | the gates read the cell state of their band |
//!
//! # Extents
//!
//! | name | what |
//! |---|---|
//! | `bands` | number of bands; `output_size` is `hidden_size` per band |
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
//! | `cell_clip` | bound of c's magnitude |
//!
//! # Known as
//!
//! TensorFlow 1's `tf.contrib.rnn.TimeFreqLSTMCell`.
//!
//! # Golden cases
//!
//! `tf1__TimeFreqLSTMCell__*`.

use super::bands::{BAND_SIZE, BANDS, EXTENTS, Operand, UNITS, WITHIN, bands};
use super::lstm::{clip, peepholes};
use super::prelude::*;
use crate::activation::{sigmoid, tanh};

const OPTIONS: &[&str] = &["peephole"];
const PEEPHOLE: u32 = option(OPTIONS, "peephole");

/// Columns of the recurrent weights.
const RECURRENT_COLS: Dim = Dim::Product(&[Dim::Const(2), Dim::Hidden]);

pub(super) const SPEC: CellSpec = CellSpec {
    name: "time_freq_lstm",
    gates: &gate::LSTM,
    extents: &EXTENTS,
    rules: &[WITHIN, Rule::Equal(Dim::Output, UNITS)],
    states: &[StateSpec { name: "hidden", len: UNITS }, StateSpec { name: "cell_state", len: UNITS }],
    options: OPTIONS,
    params: &[ParamSpec::optional("cell_clip")],
    canonical: &[
        CanonicalSpec::matrix("input_weights", Dim::Hidden, BAND_SIZE).gated(),
        CanonicalSpec::matrix("recurrent_weights", Dim::Hidden, RECURRENT_COLS).gated(),
        CanonicalSpec::vector("input_bias", Dim::Hidden).gated().optional(),
        CanonicalSpec::vector("input_peephole", Dim::Hidden).with(PEEPHOLE),
        CanonicalSpec::vector("forget_peephole", Dim::Hidden).with(PEEPHOLE),
        CanonicalSpec::vector("output_peephole", Dim::Hidden).with(PEEPHOLE),
    ],
    tensors: &[
        TensorSpec::matrix("input_weights", &["input_weights"], Dim::Hidden, BAND_SIZE)
            .gates(&gate::LSTM)
            .passes(&BANDS),
        TensorSpec::matrix("recurrent_weights", &["recurrent_weights"], Dim::Hidden, RECURRENT_COLS)
            .gates(&gate::LSTM)
            .passes(&BANDS),
        TensorSpec::vector("bias", &["input_bias"], Dim::Hidden).gates(&gate::LSTM),
        TensorSpec::vector("input_peephole", &["input_peephole"], Dim::Hidden).with(PEEPHOLE),
        TensorSpec::vector("forget_peephole", &["forget_peephole"], Dim::Hidden).with(PEEPHOLE),
        TensorSpec::vector("output_peephole", &["output_peephole"], Dim::Hidden).with(PEEPHOLE),
    ],
    curves: &[UNITS; 5],
    ..CellSpec::EMPTY
};

const INPUT_WEIGHTS: usize = SPEC.tensor("input_weights");
const RECURRENT_WEIGHTS: usize = SPEC.tensor("recurrent_weights");
const BIAS: usize = SPEC.tensor("bias");
/// The first of the three peepholes, in the order i, f, o.
const PEEPHOLES: usize = SPEC.tensor("input_peephole");

pub(super) const fn entry<W: Weight, K: Kernel>() -> Entry {
    const { Entry { spec: &SPEC, float: &[&Cell::float(&SPEC, step::<W>)], ..Entry::EMPTY } }
}

/// One step. `x` is `[input]`, `state` is `[2 · bands · hidden]` (h, c), `y` is `[bands · hidden]`.
pub(crate) fn step<W: Weight>(node: &Node<'_>, io: Io<'_>) {
    let Io { x, state, y, .. } = io;
    // There is at least one unit.
    let units = node.hidden_size.max(1);
    let Some((hidden, cell)) = state.split_at_mut_checked(y.len()) else { return };
    let states = hidden.chunks_mut(units).zip(cell.chunks_mut(units));
    let mut before: &[f32] = &[];
    for (band, ((h, c), y)) in bands(node, x, false).zip(states.zip(y.chunks_mut(units))) {
        update::<W>(node, Operand { band, time: h, frequency: before }, c, y);
        copy(h, y);
        before = y;
    }
}

/// Updates every unit of one band: c to c', and writes h'. A block of four rows holds the gates i, f, g, o of one unit.
fn update<W: Weight>(node: &Node<'_>, operand: Operand<'_>, cell: &mut [f32], h: &mut [f32]) {
    let limit = node.param(0);
    let input = node.matrix::<W>(INPUT_WEIGHTS).blocks();
    let recurrent = node.matrix::<W>(RECURRENT_WEIGHTS).blocks();
    let mut peepholes = peepholes(node, PEEPHOLES);
    let blocks = input.zip(recurrent).zip(node.vector(BIAS));
    for (((w, r), &b), (c, h)) in blocks.zip(cell.iter_mut().zip(h)) {
        let [mut i, mut f, g, mut o] = operand.sums(b, w, r);
        let peephole = peepholes.next();
        if let Some([p_i, p_f, _]) = peephole {
            i += p_i * *c;
            f += p_f * *c;
        }
        *c = clip(sigmoid(f) * *c + sigmoid(i) * tanh(g), limit);
        if let Some([_, _, p_o]) = peephole {
            o += p_o * *c;
        }
        *h = sigmoid(o) * tanh(*c);
    }
}
