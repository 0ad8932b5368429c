//! LSTM with attention over its own last outputs (Cheng et al. 2016, arXiv:1601.06733), as TensorFlow's
//! `AttentionCellWrapper` around an `LSTMCell`.
//!
//! # Equation
//!
//! ```text
//! i, f, o = σ(W x + R [h, a] + b)     g = tanh(likewise)
//! c' = f ⊙ c + i ⊙ g                  h' = o ⊙ tanh(c')
//! q = Q [c', h'] + b_q
//! s_l = v · tanh(M m_l + q)           m_1 ... m_L: the last L outputs, the oldest first
//! a' = Σ_l softmax(s)_l m_l
//! y = P [h', a'] + b_p                m' = m_2 ... m_L, y
//! ```
//!
//! The attention reads the outputs before this step. The importer folds two things into W, R and b: a forget bias, and
//! the linear layer that the wrapper applies to x and a.
//!
//! # Tensors
//!
//! | name | shape | when |
//! |---|---|---|
//! | `input_weights` | `[4 × hidden, input]`, i, f, g, o | always |
//! | `recurrent_weights` | `[4 × hidden, hidden + output]`: of h, then of a | always |
//! | `input_bias` | `[4 × hidden]` | optional |
//! | `query_weights` | `[features, 2 × hidden]`: of c', then of h' | always |
//! | `query_bias` | `[features]` | optional |
//! | `memory_weights` | `[features, output]`: M | always |
//! | `score_weights` | `[features]`: v | always |
//! | `output_weights` | `[output, hidden + output]`: of h', then of a' | always |
//! | `output_bias` | `[output]` | optional |
//!
//! # Extents
//!
//! * `length`: L. 1 by default.
//! * `features`: rows of Q and M. 1 by default.
//!
//! # Known as
//!
//! `tf.contrib.rnn.AttentionCellWrapper` around a `BasicLSTMCell` or an `LSTMCell` without further options.
//!
//! # Golden cases
//!
//! `tf1__AttentionCellWrapper__*`

use super::prelude::*;
use crate::activation::{sigmoid, tanh};
use crate::element::greater;
use crate::math;

const EXTENTS: &[ExtentSpec] = &[ExtentSpec::one("length"), ExtentSpec::one("features")];
const LENGTH: usize = extent(EXTENTS, "length");
/// Rows of the matrices that read the memory.
const FEATURES: Dim = Dim::Extent(extent(EXTENTS, "features"));
/// Elements of h and a together.
const BESIDE: Dim = Dim::Sum(&[Dim::Hidden, Dim::Output]);
/// Elements of c and h together.
const QUERY: Dim = Dim::Product(&[Dim::Const(2), Dim::Hidden]);

pub(super) const SPEC: CellSpec = CellSpec {
    name: "attention_lstm",
    gates: &gate::LSTM,
    extents: EXTENTS,
    // In this order the operands of the matrices are contiguous.
    states: &[
        StateSpec { name: "cell_state", len: Dim::Hidden },
        StateSpec { name: "hidden", len: Dim::Hidden },
        StateSpec { name: "attention", len: Dim::Output },
        StateSpec { name: "memory", len: Dim::Product(&[Dim::Extent(LENGTH), Dim::Output]) },
    ],
    work: &[Dim::Hidden, FEATURES, Dim::Extent(LENGTH)],
    canonical: &[
        CanonicalSpec::matrix("input_weights", Dim::Hidden, Dim::Input).gated(),
        CanonicalSpec::matrix("recurrent_weights", Dim::Hidden, BESIDE).gated(),
        CanonicalSpec::vector("input_bias", Dim::Hidden).gated().optional(),
        CanonicalSpec::matrix("query_weights", FEATURES, QUERY),
        CanonicalSpec::vector("query_bias", FEATURES).optional(),
        CanonicalSpec::matrix("memory_weights", FEATURES, Dim::Output),
        CanonicalSpec::vector("score_weights", FEATURES),
        CanonicalSpec::matrix("output_weights", Dim::Output, BESIDE),
        CanonicalSpec::vector("output_bias", Dim::Output).optional(),
    ],
    tensors: &[
        TensorSpec::matrix("input_weights", &["input_weights"], Dim::Hidden, Dim::Input).gates(&gate::LSTM),
        TensorSpec::matrix("recurrent_weights", &["recurrent_weights"], Dim::Hidden, BESIDE).gates(&gate::LSTM),
        TensorSpec::vector("bias", &["input_bias"], Dim::Hidden).gates(&gate::LSTM),
        TensorSpec::matrix("query_weights", &["query_weights"], FEATURES, QUERY),
        TensorSpec::vector("query_bias", &["query_bias"], FEATURES),
        TensorSpec::matrix("memory_weights", &["memory_weights"], FEATURES, Dim::Output).passes(&Dim::Extent(LENGTH)),
        TensorSpec::vector("score_weights", &["score_weights"], FEATURES).passes(&Dim::Extent(LENGTH)),
        TensorSpec::matrix("output_weights", &["output_weights"], Dim::Output, BESIDE),
        TensorSpec::vector("output_bias", &["output_bias"], Dim::Output),
    ],
    curves: &[
        Dim::Hidden,
        Dim::Hidden,
        Dim::Hidden,
        Dim::Hidden,
        Dim::Hidden,
        Dim::Product(&[FEATURES, Dim::Extent(LENGTH)]),
        Dim::Extent(LENGTH),
    ],
    ..CellSpec::EMPTY
};

/// W, R and b.
const SUMS: [usize; 3] = SPEC.tensors(["input_weights", "recurrent_weights", "bias"]);
const QUERY_WEIGHTS: usize = SPEC.tensor("query_weights");
const QUERY_BIAS: usize = SPEC.tensor("query_bias");
const MEMORY_WEIGHTS: usize = SPEC.tensor("memory_weights");
const SCORE_WEIGHTS: usize = SPEC.tensor("score_weights");
const OUTPUT_WEIGHTS: usize = SPEC.tensor("output_weights");
const OUTPUT_BIAS: usize = SPEC.tensor("output_bias");

pub(super) const fn entry<W: Weight, K: Kernel>() -> Entry {
    const { Entry { spec: &SPEC, float: &[&Cell::float(&SPEC, step::<W>)], ..Entry::EMPTY } }
}

/// One step. `x` is `[input]`, `state` is c, h, a, m; `work` is `[hidden + features + length]`, `y` is `[output]`.
pub(crate) fn step<W: Weight>(node: &Node<'_>, io: Io<'_>) {
    let Io { x, state, work, y, .. } = io;
    let (units, output) = (node.hidden_size, node.output_size);
    let Some((seen, memory)) = state.split_at_mut_checked(2 * units + output) else { return };
    let Some((shown, rest)) = work.split_at_mut_checked(units) else { return };
    let Some((query, scores)) = rest.split_at_mut_checked(node.dim(&FEATURES)) else { return };
    if let Some((cell, beside)) = seen.split_at_mut_checked(units) {
        lstm::<W>(node, x, beside, cell, shown);
        copy(beside, shown);
    }
    affine::<W>(node, [QUERY_WEIGHTS, QUERY_BIAS], seen, query);
    score::<W>(node, memory, query, scores);
    if let Some((_, attention)) = seen.split_at_mut_checked(2 * units) {
        attend(memory, scores, attention);
    }
    if let Some((_, beside)) = seen.split_at_checked(units) {
        affine::<W>(node, [OUTPUT_WEIGHTS, OUTPUT_BIAS], beside, y);
    }
    memory.copy_within(output.min(memory.len()).., 0);
    let newest = memory.len().saturating_sub(output);
    copy(memory.get_mut(newest..).unwrap_or_default(), y);
}

/// Updates c to c', and writes h'. A block of four rows holds the gates i, f, g, o of one unit.
fn lstm<W: Weight>(node: &Node<'_>, x: &[f32], beside: &[f32], cell: &mut [f32], shown: &mut [f32]) {
    let sums = sums_of_two::<W>(node, SUMS, x, beside);
    for ([i, f, g, o], (c, h)) in sums.zip(cell.iter_mut().zip(shown)) {
        *c = sigmoid(f) * *c + sigmoid(i) * tanh(g);
        *h = sigmoid(o) * tanh(*c);
    }
}

/// Multiplies the matrix by the first elements of `x`, one for each column, and adds the bias.
fn affine<W: Weight>(node: &Node<'_>, tensors: [usize; 2], x: &[f32], to: &mut [f32]) {
    for (sums, to) in sums::<W>(node, tensors, x).zip(to.chunks_mut(4)) {
        copy(to, &sums);
    }
}

/// The softmax of v · tanh(M m_l + q).
fn score<W: Weight>(node: &Node<'_>, memory: &[f32], query: &[f32], scores: &mut [f32]) {
    for (row, score) in memory.chunks(node.output_size.max(1)).zip(scores.iter_mut()) {
        let blocks = node.matrix::<W>(MEMORY_WEIGHTS).blocks().zip(node.vector(SCORE_WEIGHTS));
        *score = 0.0;
        for ((m, v), query) in blocks.zip(query.chunks(4)) {
            let mut q = [0.0; 4];
            copy(&mut q, query);
            for ((v, a), _) in v.iter().zip(accumulate(q, m, row)).zip(query) {
                *score += v * tanh(a);
            }
        }
    }
    let max = scores.iter().fold(f32::NEG_INFINITY, |max, &score| greater(max, score));
    let mut sum = 0.0;
    for score in scores.iter_mut() {
        *score = math::exp(*score - max);
        sum += *score;
    }
    for score in scores {
        *score /= sum;
    }
}

/// Σ s_l m_l
fn attend(memory: &[f32], scores: &[f32], attention: &mut [f32]) {
    let size = attention.len().max(1);
    attention.fill(0.0);
    for (row, s) in memory.chunks(size).zip(scores) {
        for (a, m) in attention.iter_mut().zip(row) {
            *a += s * m;
        }
    }
}
