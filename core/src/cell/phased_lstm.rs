//! Phased LSTM (Neil et al. 2016, arXiv:1610.09513), as in TensorFlow's `PhasedLSTMCell`: each unit opens once per
//! period and keeps its state while it is closed, so that steps may be irregular.
//!
//! # Equation
//!
//! ```text
//! i = σ(W_i x + R_i h + b_i + P_i c)       f = σ(W_f x + R_f h + b_f + P_f c)
//! g = tanh(W_g x + R_g h + b_g)            c~ = f ⊙ c + i ⊙ g
//! o = σ(W_o x + R_o h + b_o + P_o c~)      h~ = o ⊙ tanh(c~)
//!
//! φ = ((t - phase) mod period) / period    from 0 to 1, also before the first period
//! k = 2 φ / ratio_on        for φ < ratio_on / 2
//!     2 - 2 φ / ratio_on    for φ < ratio_on
//!     leak φ                above
//!
//! c' = k c~ + (1 - k) c                    h' = k h~ + (1 - k) h
//! ```
//!
//! The P are full matrices. `period` must be greater than 0.
//!
//! The first input feature is the time t, in the unit of `period` and `phase`; x follows it. In an imported model the
//! time is a separate input port, `input_time`. Steps need not be regular. The time is an f32 with 24 significant bits:
//! from 2^20 units on, its resolution is a sixteenth of a unit. TensorFlow computes (t - s) mod τ as ((t - s) mod τ -
//! (t - s)) + (t - s), for the sake of its gradient, and so does this cell, although in f32 the sum rounds the exact
//! remainder.
//!
//! If this is too coarse, in an endless stream or for a model with f64 time stamps, the option `split_time` takes t as
//! the sum of two numbers: the nearest f32 and the remainder, which is `input_time_rest` in an imported model. The
//! first is reduced modulo the period, exactly, before the second is added.
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
//! | `peephole` | the gates read the cell state |
//! | `split_time` | the time is the sum of the two features before x |
//!
//! # Extents
//!
//! | name | what |
//! |---|---|
//! | `features` | number of features of x, without the time |
//!
//! # Parameters
//!
//! | name | what |
//! |---|---|
//! | `leak` | openness of a closed unit at the end of its period; TensorFlow's default is 0.001 |
//!
//! # Known as
//!
//! TensorFlow 1's `tf.contrib.rnn.PhasedLSTMCell`, whose input is a pair of time and x.
//!
//! # Deviations
//!
//! TensorFlow computes φ in the type of the time, which may be f64. This cell always uses f32; see `split_time` above.
//!
//! # Golden cases
//!
//! `tf1__PhasedLSTMCell__*`.

use super::prelude::*;
use crate::activation::{sigmoid, tanh};

const OPTIONS: &[&str] = &["peephole", "split_time"];
const PEEPHOLE: u32 = option(OPTIONS, "peephole");
const SPLIT_TIME: u32 = option(OPTIONS, "split_time");

const EXTENTS: &[ExtentSpec] = &[ExtentSpec::one("features")];

/// Features without the time.
const FEATURES: Dim = Dim::Extent(extent(EXTENTS, "features"));

const CANONICAL: &[CanonicalSpec; 9] = &[
    CanonicalSpec::matrix("input_weights", Dim::Hidden, FEATURES).gated(),
    CanonicalSpec::matrix("recurrent_weights", Dim::Hidden, Dim::Hidden).gated(),
    CanonicalSpec::vector("bias", Dim::Hidden).gated().optional(),
    CanonicalSpec::matrix("input_peephole", Dim::Hidden, Dim::Hidden).with(PEEPHOLE),
    CanonicalSpec::matrix("forget_peephole", Dim::Hidden, Dim::Hidden).with(PEEPHOLE),
    CanonicalSpec::matrix("output_peephole", Dim::Hidden, Dim::Hidden).with(PEEPHOLE),
    CanonicalSpec::vector("period", Dim::Hidden),
    CanonicalSpec::vector("phase", Dim::Hidden).optional(),
    CanonicalSpec::vector("ratio_on", Dim::Hidden),
];

pub(super) const SPEC: CellSpec = CellSpec {
    name: "phased_lstm",
    gates: &gate::LSTM,
    extents: EXTENTS,
    rules: &[
        RECURRENT,
        Rule::Equal(Dim::Input, Dim::Sum(&[FEATURES, Dim::Const(1), Dim::When(SPLIT_TIME, &Dim::Const(1))])),
    ],
    states: &[StateSpec { name: "hidden", len: Dim::Hidden }, StateSpec { name: "cell_state", len: Dim::Hidden }],
    work: &[Dim::Hidden, Dim::Hidden],
    options: OPTIONS,
    params: &[ParamSpec::optional("leak")],
    canonical: CANONICAL,
    tensors: &TensorSpec::each(CANONICAL, &gate::LSTM),
    curves: &[Dim::Hidden; 5],
    ..CellSpec::EMPTY
};

/// W, R and b.
const SUMS: [usize; 3] = SPEC.tensors(["input_weights", "recurrent_weights", "bias"]);
const INPUT_PEEPHOLE: usize = SPEC.tensor("input_peephole");
const FORGET_PEEPHOLE: usize = SPEC.tensor("forget_peephole");
const OUTPUT_PEEPHOLE: usize = SPEC.tensor("output_peephole");
const PERIOD: usize = SPEC.tensor("period");
const PHASE: usize = SPEC.tensor("phase");
const RATIO_ON: usize = SPEC.tensor("ratio_on");

pub(super) const fn entry<W: Weight, K: Kernel>() -> Entry {
    const { Entry { spec: &SPEC, float: &[&Cell::float(&SPEC, step::<W>)], ..Entry::EMPTY } }
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
    // The peephole terms of i and f are stored where c~ and o are written later.
    candidate.fill(0.0);
    output.fill(0.0);
    add::<W>(node, INPUT_PEEPHOLE, cell, candidate);
    add::<W>(node, FORGET_PEEPHOLE, cell, output);
    update::<W>(node, x, hidden, cell, candidate, output);
    add::<W>(node, OUTPUT_PEEPHOLE, candidate, output);
    let rhythm = node.elements(PERIOD).iter().zip(node.elements(PHASE));
    let rhythm = rhythm.zip(node.elements(RATIO_ON));
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

/// Adds P x to `to`; does nothing if the node does not have P.
fn add<W: Weight>(node: &Node<'_>, index: usize, x: &[f32], to: &mut [f32]) {
    for (p, to) in node.matrix::<W>(index).blocks().zip(to.chunks_mut(4)) {
        for (to, a) in to.iter_mut().zip(accumulate([0.0; 4], p, x)) {
            *to += a;
        }
    }
}

/// Computes every unit: c~ in `candidate`, and o before its peephole and activation in `output`. A block of four rows
/// holds the gates i, f, g, o of one unit.
fn update<W: Weight>(
    node: &Node<'_>,
    x: &[f32],
    hidden: &[f32],
    cell: &[f32],
    candidate: &mut [f32],
    output: &mut [f32],
) {
    let units = candidate.iter_mut().zip(output).zip(cell);
    for ([i, f, g, o], ((candidate, output), c)) in sums_of_two::<W>(node, SUMS, x, hidden).zip(units) {
        *candidate = sigmoid(f + *output) * c + sigmoid(i + *candidate) * tanh(g);
        *output = o;
    }
}

/// The elapsed part of the period, from 0 to `period` apart from the rounding of a large time.
fn passed(time: f32, rest: Option<f32>, phase: f32, period: f32) -> f32 {
    match rest {
        Some(rest) => floor_mod(floor_mod(time, period) - floor_mod(phase, period) + rest, period),
        None => {
            let since = time - phase;
            (floor_mod(since, period) - since) + since
        }
    }
}

/// a - ⌊a/b⌋ b for b > 0, in the range [0, b). `%` is exact.
fn floor_mod(a: f32, b: f32) -> f32 {
    let rest = a % b;
    if rest < 0.0 {
        // The sum of b and a small negative number may round to b.
        let above = rest + b;
        if above < b { above } else { 0.0 }
    } else {
        rest
    }
}

/// The openness of a unit at φ.
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
