//! Time-frequency LSTM (Sainath and Li 2016), as in TensorFlow's `TimeFreqLSTMCell`: one LSTM that within a step goes
//! through overlapping bands of a spectrum. In each band it has a state of its own, and sees what the band before it
//! gave.
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
//! A forget bias that a framework adds at run time is folded into `b_f` by the importer. A clip of 0 is none.
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
//! | `peephole` | the gates see the cell state of their band |
//!
//! # Extents
//!
//! | name | what |
//! |---|---|
//! | `bands` | how many; `output_size` is `hidden_size` for each |
//! | `band_size` | features of a band |
//! | `band_hop` | from one band to the next |
//! | `first` | where the first band begins, on the padded features; 0 by default |
//! | `pad_before` | zeros before the first feature; 0 by default |
//! | `pad_after` | zeros behind the last feature; 0 by default |
//!
//! # Parameters
//!
//! | name | what |
//! |---|---|
//! | `cell_clip` | c stays within plus and minus this |
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
use super::{CanonicalSpec, CellSpec, Dim, Io, ParamSpec, Presence, Rule, StateSpec, TensorSpec, copy};
use crate::activation::{sigmoid, tanh};
use crate::gate;
use crate::kernel::Weight;
use crate::node::Node;

/// Index of the option `peephole`.
pub const PEEPHOLE: u32 = 0;

/// Columns of the recurrent weights.
const RECURRENT_COLS: Dim = Dim::Product(&[Dim::Const(2), Dim::Hidden]);

/// See the [module](self).
pub const SPEC: CellSpec = CellSpec {
    name: "time_freq_lstm",
    gates: &gate::LSTM,
    extents: &EXTENTS,
    rules: &[WITHIN, Rule::Equal(Dim::Output, UNITS)],
    states: &[StateSpec { name: "hidden", len: UNITS }, StateSpec { name: "cell_state", len: UNITS }],
    work: &[],
    options: &["peephole"],
    params: &[ParamSpec { name: "cell_clip", presence: Presence::Optional }],
    activations: &[],
    canonical: &[
        CanonicalSpec::matrix("input_weights", Dim::Hidden, BAND_SIZE).gated(),
        CanonicalSpec::matrix("recurrent_weights", Dim::Hidden, RECURRENT_COLS).gated(),
        CanonicalSpec::vector("input_bias", Dim::Hidden).gated().when(Presence::Optional),
        CanonicalSpec::vector("input_peephole", Dim::Hidden).when(Presence::With(PEEPHOLE)),
        CanonicalSpec::vector("forget_peephole", Dim::Hidden).when(Presence::With(PEEPHOLE)),
        CanonicalSpec::vector("output_peephole", Dim::Hidden).when(Presence::With(PEEPHOLE)),
    ],
    tensors: &[
        TensorSpec::matrix("input_weights", &["input_weights"], Dim::Hidden, BAND_SIZE)
            .gates(&gate::LSTM)
            .passes(BANDS),
        TensorSpec::matrix("recurrent_weights", &["recurrent_weights"], Dim::Hidden, RECURRENT_COLS)
            .gates(&gate::LSTM)
            .passes(BANDS),
        TensorSpec::vector("bias", &["input_bias"], Dim::Hidden).gates(&gate::LSTM),
        TensorSpec::vector("input_peephole", &["input_peephole"], Dim::Hidden).when(Presence::With(PEEPHOLE)),
        TensorSpec::vector("forget_peephole", &["forget_peephole"], Dim::Hidden).when(Presence::With(PEEPHOLE)),
        TensorSpec::vector("output_peephole", &["output_peephole"], Dim::Hidden).when(Presence::With(PEEPHOLE)),
    ],
};

/// Tensors of the spec by name.
mod tensor {
    pub const INPUT_WEIGHTS: usize = 0;
    pub const RECURRENT_WEIGHTS: usize = 1;
    pub const BIAS: usize = 2;
    /// The first of three: those of i, f, o.
    pub const PEEPHOLES: usize = 3;
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

/// Every unit of one band: c to c', and h'. A block of four rows holds the gates i, f, g, o of one unit.
fn update<W: Weight>(node: &Node<'_>, operand: Operand<'_>, cell: &mut [f32], h: &mut [f32]) {
    let limit = node.param(0);
    let input = node.matrix::<W>(tensor::INPUT_WEIGHTS).blocks();
    let recurrent = node.matrix::<W>(tensor::RECURRENT_WEIGHTS).blocks();
    let mut peepholes = peepholes(node, tensor::PEEPHOLES);
    let blocks = input.zip(recurrent).zip(node.vector(tensor::BIAS));
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
