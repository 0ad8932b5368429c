//! Phased LSTM (Neil et al. 2016, arXiv:1610.09513), as in TensorFlow's `PhasedLSTMCell`: each unit opens once a
//! period, and keeps its state while it is closed, so that steps may come at any time.
//!
//! # Equation
//!
//! ```text
//! i = σ(W_i x + R_i h + b_i + P_i c)       f = σ(W_f x + R_f h + b_f + P_f c)
//! g = tanh(W_g x + R_g h + b_g)            c~ = f ⊙ c + i ⊙ g
//! o = σ(W_o x + R_o h + b_o + P_o c~)      h~ = o ⊙ tanh(c~)
//!
//! φ = ((t - phase) mod period) / period    from 0 up to 1, before the first period too
//! k = 2 φ / ratio_on        for φ < ratio_on / 2
//!     2 - 2 φ / ratio_on    for φ < ratio_on
//!     leak φ                above
//!
//! c' = k c~ + (1 - k) c                    h' = k h~ + (1 - k) h
//! ```
//!
//! P are full matrices. `period` must be greater than 0.
//!
//! The first of the features that come in is the time t, in the unit of `period` and `phase`; x is what follows. In an
//! imported model the time is an input port of its own, `input_time`. Steps need not be regular. Like all that comes in
//! it is an f32, of 24 bits: where it has grown to 2^20 units, it is known to a sixteenth of one. TensorFlow computes
//! (t - s) mod τ as ((t - s) mod τ - (t - s)) + (t - s), for the sake of its gradient, and so does this cell: in f32 the
//! sum rounds what the remainder did not.
//!
//! Where that is too coarse, in a stream that goes on for ever, or for a model whose time stamps were f64, the option
//! `split_time` takes t as the sum of two numbers: the nearest f32, and what that is short of t, which an imported
//! model has as `input_time_rest`. The first is reduced by the period, without an error, before the second is added.
//!
//! # Tensors
//!
//! Blocks of rows in the order i, f, g, o.
//!
//! | name | shape | when |
//! |---|---|---|
//! | `input_weights` | `[4 · hidden, features]` | always |
//! | `recurrent_weights` | `[4 · hidden, hidden]` | always |
//! | `bias` | `[4 · hidden]` | optional |
//! | `input_peephole` | `[hidden, hidden]` | with `peephole` |
//! | `forget_peephole` | `[hidden, hidden]` | with `peephole` |
//! | `output_peephole` | `[hidden, hidden]` | with `peephole` |
//! | `period` | `[hidden]` | always |
//! | `phase` | `[hidden]` | optional |
//! | `ratio_on` | `[hidden]` | always |
//!
//! # Options
//!
//! | name | what |
//! |---|---|
//! | `peephole` | the gates see the cell state |
//! | `split_time` | two numbers before x are the time: it is their sum |
//!
//! # Extents
//!
//! | name | what |
//! |---|---|
//! | `features` | those of x, without the time |
//!
//! # Parameters
//!
//! | name | what |
//! |---|---|
//! | `leak` | how far a closed unit is open at the end of its period; TensorFlow's default is 0.001 |
//!
//! # Known as
//!
//! TensorFlow 1's `tf.contrib.rnn.PhasedLSTMCell`, whose input is a pair of time and x.
//!
//! # Deviations
//!
//! TensorFlow computes φ in the type of the time, which may be f64; this cell always in f32, see `split_time` above.
//!
//! # Golden cases
//!
//! `tf1__PhasedLSTMCell__*`.

use super::{
    CanonicalSpec, CellSpec, Dim, ExtentSpec, Io, ParamSpec, Presence, RECURRENT, Rule, StateSpec, TensorSpec, copy,
};
use crate::activation::{sigmoid, tanh};
use crate::gate;
use crate::kernel::{Weight, accumulate};
use crate::node::Node;

/// Index of the option `peephole`.
pub const PEEPHOLE: u32 = 0;
/// Index of the option `split_time`.
pub const SPLIT_TIME: u32 = 1;

/// Features without the time.
const FEATURES: Dim = Dim::Extent(0);

/// See the [module](self).
pub const SPEC: CellSpec = CellSpec {
    name: "phased_lstm",
    gates: &gate::LSTM,
    extents: &[ExtentSpec::one("features")],
    rules: &[
        RECURRENT,
        Rule::Equal(Dim::Input, Dim::Sum(&[FEATURES, Dim::Const(1), Dim::When(SPLIT_TIME, &Dim::Const(1))])),
    ],
    states: &[StateSpec { name: "hidden", len: Dim::Hidden }, StateSpec { name: "cell_state", len: Dim::Hidden }],
    work: &[Dim::Hidden, Dim::Hidden],
    options: &["peephole", "split_time"],
    params: &[ParamSpec { name: "leak", presence: Presence::Optional }],
    activations: &[],
    canonical: &[
        CanonicalSpec::matrix("input_weights", Dim::Hidden, FEATURES).gated(),
        CanonicalSpec::matrix("recurrent_weights", Dim::Hidden, Dim::Hidden).gated(),
        CanonicalSpec::vector("bias", Dim::Hidden).gated().when(Presence::Optional),
        CanonicalSpec::matrix("input_peephole", Dim::Hidden, Dim::Hidden).when(Presence::With(PEEPHOLE)),
        CanonicalSpec::matrix("forget_peephole", Dim::Hidden, Dim::Hidden).when(Presence::With(PEEPHOLE)),
        CanonicalSpec::matrix("output_peephole", Dim::Hidden, Dim::Hidden).when(Presence::With(PEEPHOLE)),
        CanonicalSpec::vector("period", Dim::Hidden),
        CanonicalSpec::vector("phase", Dim::Hidden).when(Presence::Optional),
        CanonicalSpec::vector("ratio_on", Dim::Hidden),
    ],
    tensors: &[
        TensorSpec::matrix("input_weights", &["input_weights"], Dim::Hidden, FEATURES).gates(&gate::LSTM),
        TensorSpec::matrix("recurrent_weights", &["recurrent_weights"], Dim::Hidden, Dim::Hidden).gates(&gate::LSTM),
        TensorSpec::vector("bias", &["bias"], Dim::Hidden).gates(&gate::LSTM),
        TensorSpec::matrix("input_peephole", &["input_peephole"], Dim::Hidden, Dim::Hidden)
            .when(Presence::With(PEEPHOLE)),
        TensorSpec::matrix("forget_peephole", &["forget_peephole"], Dim::Hidden, Dim::Hidden)
            .when(Presence::With(PEEPHOLE)),
        TensorSpec::matrix("output_peephole", &["output_peephole"], Dim::Hidden, Dim::Hidden)
            .when(Presence::With(PEEPHOLE)),
        TensorSpec::vector("period", &["period"], Dim::Hidden),
        TensorSpec::vector("phase", &["phase"], Dim::Hidden),
        TensorSpec::vector("ratio_on", &["ratio_on"], Dim::Hidden),
    ],
};

/// Tensors of the spec by name.
mod tensor {
    pub const INPUT_WEIGHTS: usize = 0;
    pub const RECURRENT_WEIGHTS: usize = 1;
    pub const BIAS: usize = 2;
    pub const INPUT_PEEPHOLE: usize = 3;
    pub const FORGET_PEEPHOLE: usize = 4;
    pub const OUTPUT_PEEPHOLE: usize = 5;
    pub const PERIOD: usize = 6;
    pub const PHASE: usize = 7;
    pub const RATIO_ON: usize = 8;
}

/// One step. `x` is the time and `[features]`, `state` is `[2 · hidden]` (h, c), `work` is `[2 · hidden]`, `y` is
/// `[hidden]`.
pub(crate) fn step<W: Weight>(node: &Node<'_>, io: Io<'_>) {
    let Io { x, state, work, y, .. } = io;
    let Some((&time, x)) = x.split_first() else { return };
    let (rest, x) = match x.split_first() {
        Some((&rest, x)) if node.has(SPLIT_TIME) => (Some(rest), x),
        _ => (None, x),
    };
    let Some((hidden, cell)) = state.split_at_mut_checked(node.hidden_size) else { return };
    let Some((candidate, output)) = work.split_at_mut_checked(node.hidden_size) else { return };
    // What the peepholes of i and f add lies where c~ and then o go.
    candidate.fill(0.0);
    output.fill(0.0);
    add::<W>(node, tensor::INPUT_PEEPHOLE, cell, candidate);
    add::<W>(node, tensor::FORGET_PEEPHOLE, cell, output);
    update::<W>(node, x, hidden, cell, candidate, output);
    add::<W>(node, tensor::OUTPUT_PEEPHOLE, candidate, output);
    let rhythm = node.elements(tensor::PERIOD).iter().zip(node.elements(tensor::PHASE));
    let rhythm = rhythm.zip(node.elements(tensor::RATIO_ON));
    let leak = node.param(0);
    let candidates = candidate.iter().zip(output.iter());
    let states = hidden.iter().zip(cell).zip(y.iter_mut());
    for (((&period, &phase), &ratio_on), ((&new_c, &o), ((&h, c), y))) in rhythm.zip(candidates.zip(states)) {
        let k = openness(passed(time, rest, phase, period) / period, ratio_on, leak);
        *y = k * (sigmoid(o) * tanh(new_c)) + (1.0 - k) * h;
        *c = k * new_c + (1.0 - k) * *c;
    }
    copy(hidden, y);
}

/// P x, added to `to`; nothing where the node does not have P.
fn add<W: Weight>(node: &Node<'_>, index: usize, x: &[f32], to: &mut [f32]) {
    for (p, to) in node.matrix::<W>(index).blocks().zip(to.chunks_mut(4)) {
        for (to, a) in to.iter_mut().zip(accumulate([0.0; 4], p, x)) {
            *to += a;
        }
    }
}

/// Every unit: c~ in `candidate`, and o before its peephole and activation in `output`. A block of four rows holds the
/// gates i, f, g, o of one unit.
fn update<W: Weight>(
    node: &Node<'_>,
    x: &[f32],
    hidden: &[f32],
    cell: &[f32],
    candidate: &mut [f32],
    output: &mut [f32],
) {
    let input = node.matrix::<W>(tensor::INPUT_WEIGHTS).blocks();
    let recurrent = node.matrix::<W>(tensor::RECURRENT_WEIGHTS).blocks();
    let blocks = input.zip(recurrent).zip(node.vector(tensor::BIAS));
    for (((w, r), &b), ((candidate, output), c)) in blocks.zip(candidate.iter_mut().zip(output).zip(cell)) {
        let [i, f, g, o] = accumulate(accumulate(b, w, x), r, hidden);
        *candidate = sigmoid(f + *output) * c + sigmoid(i + *candidate) * tanh(g);
        *output = o;
    }
}

/// What has passed of the period, 0 to `period` but for the rounding of a great time.
fn passed(time: f32, rest: Option<f32>, phase: f32, period: f32) -> f32 {
    match rest {
        Some(rest) => floor_mod(floor_mod(time, period) - floor_mod(phase, period) + rest, period),
        None => {
            let since = time - phase;
            (floor_mod(since, period) - since) + since
        }
    }
}

/// a - ⌊a/b⌋ b for b > 0, from 0 up to but not b. `%` is exact.
fn floor_mod(a: f32, b: f32) -> f32 {
    let rest = a % b;
    if rest < 0.0 {
        // The sum with a small number may round to b.
        let above = rest + b;
        if above < b { above } else { 0.0 }
    } else {
        rest
    }
}

/// How far a unit is open at φ.
fn openness(phi: f32, ratio_on: f32, leak: f32) -> f32 {
    let rising = 2.0 * phi / ratio_on;
    if phi < 0.5 * ratio_on {
        rising
    } else if phi < ratio_on {
        2.0 - rising
    } else {
        leak * phi
    }
}
