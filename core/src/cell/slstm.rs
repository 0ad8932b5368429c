//! Scalar LSTM of xLSTM (Beck et al. 2024, arXiv:2405.04517): exponential gates, a normalizer, and a recurrence within
//! heads.
//!
//! # Equation
//!
//! ```text
//! i = W_i x + R_i h + b_i        g = tanh(W_g x + R_g h + b_g)      R block-diagonal: a unit reads h of its own head
//! f = W_f x + R_f h + b_f        o = σ(W_o x + R_o h + b_o)
//! k = m + ln σ(f)
//! m' = max(i, k), or i where every n is 0
//! i' = min(e^(i - m'), 1)        f' = min(e^(k - m'), 1)
//! c' = f' ⊙ c + i' ⊙ g
//! n' = f' ⊙ n + i'
//! h' = o ⊙ c' / n'
//! ```
//!
//! m bounds the exponentials by 1. One of i' and f' is 1, so that n is at least 1 once it is nonzero. With
//! `preactivated` the input is W x, gate after gate.
//!
//! # Tensors
//!
//! Blocks of rows in the order i, f, g, o.
//!
//! | name | shape | when |
//! |---|---|---|
//! | `input_weights` | `[4 · hidden, input]` | without `preactivated` |
//! | `recurrent_weights` | `[4 · hidden, hidden / heads]` | always |
//! | `bias` | `[4 · hidden]` | optional |
//!
//! # Options
//!
//! | name | what |
//! |---|---|
//! | `preactivated` | the input is W x, `[4 · hidden]` |
//!
//! # Extents
//!
//! | name | what |
//! |---|---|
//! | `heads` | parts of the units; each head reads only itself |
//!
//! # Known as
//!
//! xlstm's `sLSTMCell`, which is `preactivated`. Its `sLSTMLayer` is a window, a depthwise convolution with SiLU, four
//! grouped dense layers (`fgate` computes i, and `igate` f), this cell and a layer normalization of each head.
//!
//! # Deviations
//!
//! To decide on m' = i, the authors' PyTorch code tests n of the whole batch, their CUDA code n of each unit. This cell
//! tests all units of its sequence, which agrees with both in a sequence that starts from a zero state. If the other
//! sequences of a batch have run before, the authors' m, c and n differ in scale from those here; h does not.
//!
//! # Golden cases
//!
//! `xlstm__sLSTMCell__*`, `xlstm__sLSTMLayer__*`.

use super::min_lstm::log_sigmoid;
use super::prelude::*;
use crate::activation::{sigmoid, tanh};
use crate::element::{greater, sum};
use crate::math;

const OPTIONS: &[&str] = &["preactivated"];
const PREACTIVATED: u32 = option(OPTIONS, "preactivated");

const EXTENTS: &[ExtentSpec] = &[ExtentSpec::one("heads")];
const HEADS: usize = extent(EXTENTS, "heads");
/// Units of a head.
const HEAD: Dim = Dim::Quotient(&[Dim::Hidden, Dim::Extent(HEADS)]);

const CANONICAL: &[CanonicalSpec; 3] = &[
    CanonicalSpec::matrix("input_weights", Dim::Hidden, Dim::Input).gated().without(PREACTIVATED),
    CanonicalSpec::matrix("recurrent_weights", Dim::Hidden, HEAD).gated(),
    CanonicalSpec::vector("bias", Dim::Hidden).gated().optional(),
];

pub(super) const SPEC: CellSpec = CellSpec {
    name: "slstm",
    gates: &gate::LSTM,
    extents: EXTENTS,
    rules: &[
        RECURRENT,
        Rule::Multiple(Dim::Hidden, Dim::Extent(HEADS)),
        Rule::Equal(
            Dim::When(PREACTIVATED, &Dim::Input),
            Dim::When(PREACTIVATED, &Dim::Product(&[Dim::Const(4), Dim::Hidden])),
        ),
    ],
    states: &[
        StateSpec { name: "hidden", len: Dim::Hidden },
        StateSpec { name: "cell_state", len: Dim::Hidden },
        StateSpec { name: "normalizer", len: Dim::Hidden },
        StateSpec { name: "stabilizer", len: Dim::Hidden },
    ],
    options: OPTIONS,
    canonical: CANONICAL,
    tensors: &TensorSpec::each(CANONICAL, &gate::LSTM),
    curves: &[Dim::Hidden; 5],
    ..CellSpec::EMPTY
};

const INPUT_WEIGHTS: usize = SPEC.tensor("input_weights");
const RECURRENT_WEIGHTS: usize = SPEC.tensor("recurrent_weights");
const BIAS: usize = SPEC.tensor("bias");

pub(super) const fn entry<W: Weight, K: Kernel>() -> Entry {
    const { Entry { spec: &SPEC, float: &[&Cell::float(&SPEC, step::<W>)], ..Entry::EMPTY } }
}

/// One step. `x` is `[input]`, `state` is `[4 · hidden]` (h, c, n, m), `y` is `[hidden]`.
pub(crate) fn step<W: Weight>(node: &Node<'_>, io: Io<'_>) {
    let Io { x, state, y, .. } = io;
    let units = node.hidden_size;
    let Some((hidden, rest)) = state.split_at_mut_checked(units) else { return };
    let Some((cell, rest)) = rest.split_at_mut_checked(units) else { return };
    let Some((normalizer, stabilizer)) = rest.split_at_mut_checked(units) else { return };
    let first = normalizer.iter().all(|&n| n == 0.0);
    // A block of four rows holds the gates i, f, g, o of one unit.
    let mut input = node.matrix::<W>(INPUT_WEIGHTS).blocks();
    let mut given = unit_by_unit(x, units);
    let mut recurrent = node.matrix::<W>(RECURRENT_WEIGHTS).blocks().zip(node.vector(BIAS));
    // The rules exclude empty heads; `max` prevents a division by zero.
    let head = node.dim(&HEAD).max(1);
    let states = cell.chunks_mut(head).zip(normalizer.chunks_mut(head)).zip(stabilizer.chunks_mut(head));
    for ((hidden, y), ((cell, normalizer), stabilizer)) in hidden.chunks(head).zip(y.chunks_mut(head)).zip(states) {
        for ((y, c), (n, m)) in y.iter_mut().zip(cell).zip(normalizer.iter_mut().zip(stabilizer)) {
            let Some((r, &b)) = recurrent.next() else { return };
            let wx = if node.has(PREACTIVATED) {
                let Some(given) = given.next() else { return };
                sum(b, given)
            } else {
                let Some(w) = input.next() else { return };
                accumulate(b, w, x)
            };
            *y = update(accumulate(wx, r, hidden), first, c, n, m);
        }
    }
    copy(hidden, y);
}

/// Updates one unit: c, n, m to c', n', m'. Returns h'.
fn update([i, f, g, o]: [f32; 4], first: bool, c: &mut f32, n: &mut f32, m: &mut f32) -> f32 {
    let kept = *m + log_sigmoid(f);
    *m = if first { i } else { greater(i, kept) };
    let (enter, keep) = (exp_at_most_1(i - *m), exp_at_most_1(kept - *m));
    *c = keep * *c + enter * tanh(g);
    *n = keep * *n + enter;
    sigmoid(o) * *c / *n
}

/// min(e^a, 1), without overflow.
fn exp_at_most_1(a: f32) -> f32 {
    math::exp(if a > 0.0 { 0.0 } else { a })
}

/// The preactivated input of the gates i, f, g, o, unit by unit.
fn unit_by_unit(x: &[f32], units: usize) -> impl Iterator<Item = [f32; 4]> {
    let mut gates = x.chunks(units.max(1));
    let mut gate = || gates.next().unwrap_or_default();
    let (i, f, g, o) = (gate(), gate(), gate(), gate());
    i.iter().zip(f).zip(g.iter().zip(o)).map(|((&i, &f), (&g, &o))| [i, f, g, o])
}
