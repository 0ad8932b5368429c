//! LSTM that attends to its own last outputs (Cheng et al. 2016, arXiv:1601.06733), as TensorFlow's `AttentionCellWrapper`
//! makes one of an `LSTMCell`.
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
//! The attention looks at what was there before this step's output. A forget bias, and the linear layer through which the
//! wrapper passes x and a, are folded into W, R and b by the importer.
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

use super::{CanonicalSpec, CellSpec, Dim, ExtentSpec, Io, Presence, StateSpec, TensorSpec, copy, greater};
use crate::activation::{sigmoid, tanh};
use crate::gate;
use crate::kernel::{Weight, accumulate};
use crate::math;
use crate::node::Node;

/// Index of the extent `length`.
const LENGTH: usize = 0;
/// Rows of what looks at the memory.
const FEATURES: Dim = Dim::Extent(1);
/// h beside a.
const BESIDE: Dim = Dim::Sum(&[Dim::Hidden, Dim::Output]);
/// c beside h.
const QUERY: Dim = Dim::Product(&[Dim::Const(2), Dim::Hidden]);

/// See the [module](self).
pub const SPEC: CellSpec = CellSpec {
    name: "attention_lstm",
    gates: &gate::LSTM,
    extents: &[ExtentSpec::one("length"), ExtentSpec::one("features")],
    rules: &[],
    // In this order, so that what the matrices see lies side by side.
    states: &[
        StateSpec { name: "cell_state", len: Dim::Hidden },
        StateSpec { name: "hidden", len: Dim::Hidden },
        StateSpec { name: "attention", len: Dim::Output },
        StateSpec { name: "memory", len: Dim::Product(&[Dim::Extent(LENGTH), Dim::Output]) },
    ],
    work: &[Dim::Hidden, FEATURES, Dim::Extent(LENGTH)],
    options: &[],
    params: &[],
    activations: &[],
    canonical: &[
        CanonicalSpec::matrix("input_weights", Dim::Hidden, Dim::Input).gated(),
        CanonicalSpec::matrix("recurrent_weights", Dim::Hidden, BESIDE).gated(),
        CanonicalSpec::vector("input_bias", Dim::Hidden).gated().when(Presence::Optional),
        CanonicalSpec::matrix("query_weights", FEATURES, QUERY),
        CanonicalSpec::vector("query_bias", FEATURES).when(Presence::Optional),
        CanonicalSpec::matrix("memory_weights", FEATURES, Dim::Output),
        CanonicalSpec::vector("score_weights", FEATURES),
        CanonicalSpec::matrix("output_weights", Dim::Output, BESIDE),
        CanonicalSpec::vector("output_bias", Dim::Output).when(Presence::Optional),
    ],
    tensors: &[
        TensorSpec::matrix("input_weights", &["input_weights"], Dim::Hidden, Dim::Input).gates(&gate::LSTM),
        TensorSpec::matrix("recurrent_weights", &["recurrent_weights"], Dim::Hidden, BESIDE).gates(&gate::LSTM),
        TensorSpec::vector("bias", &["input_bias"], Dim::Hidden).gates(&gate::LSTM),
        TensorSpec::matrix("query_weights", &["query_weights"], FEATURES, QUERY),
        TensorSpec::vector("query_bias", &["query_bias"], FEATURES),
        TensorSpec::matrix("memory_weights", &["memory_weights"], FEATURES, Dim::Output),
        TensorSpec::vector("score_weights", &["score_weights"], FEATURES),
        TensorSpec::matrix("output_weights", &["output_weights"], Dim::Output, BESIDE),
        TensorSpec::vector("output_bias", &["output_bias"], Dim::Output),
    ],
};

/// Tensors of the spec by name.
mod tensor {
    pub const INPUT_WEIGHTS: usize = 0;
    pub const RECURRENT_WEIGHTS: usize = 1;
    pub const BIAS: usize = 2;
    pub const QUERY_WEIGHTS: usize = 3;
    pub const QUERY_BIAS: usize = 4;
    pub const MEMORY_WEIGHTS: usize = 5;
    pub const SCORE_WEIGHTS: usize = 6;
    pub const OUTPUT_WEIGHTS: usize = 7;
    pub const OUTPUT_BIAS: usize = 8;
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
    affine::<W>(node, [tensor::QUERY_WEIGHTS, tensor::QUERY_BIAS], seen, query);
    score::<W>(node, memory, query, scores);
    if let Some((_, attention)) = seen.split_at_mut_checked(2 * units) {
        attend(memory, scores, attention);
    }
    if let Some((_, beside)) = seen.split_at_checked(units) {
        affine::<W>(node, [tensor::OUTPUT_WEIGHTS, tensor::OUTPUT_BIAS], beside, y);
    }
    memory.copy_within(output.min(memory.len()).., 0);
    let newest = memory.len().saturating_sub(output);
    copy(memory.get_mut(newest..).unwrap_or_default(), y);
}

/// c to c', and h'. A block of four rows holds the gates i, f, g, o of one unit.
fn lstm<W: Weight>(node: &Node<'_>, x: &[f32], beside: &[f32], cell: &mut [f32], shown: &mut [f32]) {
    let input = node.matrix::<W>(tensor::INPUT_WEIGHTS).blocks();
    let recurrent = node.matrix::<W>(tensor::RECURRENT_WEIGHTS).blocks();
    let blocks = input.zip(recurrent).zip(node.vector(tensor::BIAS));
    for (((w, r), &b), (c, h)) in blocks.zip(cell.iter_mut().zip(shown)) {
        let [i, f, g, o] = accumulate(accumulate(b, w, x), r, beside);
        *c = sigmoid(f) * *c + sigmoid(i) * tanh(g);
        *h = sigmoid(o) * tanh(*c);
    }
}

/// The matrix times the first elements of `x`, as many as it has columns, plus the bias.
fn affine<W: Weight>(node: &Node<'_>, [weights, bias]: [usize; 2], x: &[f32], to: &mut [f32]) {
    let blocks = node.matrix::<W>(weights).blocks().zip(node.vector(bias));
    for ((w, &b), to) in blocks.zip(to.chunks_mut(4)) {
        copy(to, &accumulate(b, w, x));
    }
}

/// The softmax of v · tanh(M m_l + q).
fn score<W: Weight>(node: &Node<'_>, memory: &[f32], query: &[f32], scores: &mut [f32]) {
    for (row, score) in memory.chunks(node.output_size.max(1)).zip(scores.iter_mut()) {
        let blocks = node.matrix::<W>(tensor::MEMORY_WEIGHTS).blocks().zip(node.vector(tensor::SCORE_WEIGHTS));
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
