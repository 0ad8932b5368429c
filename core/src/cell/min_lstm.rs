//! Minimal LSTM that can be trained in parallel (Feng et al. 2024, "Were RNNs All We Needed?", arXiv:2410.01201): gates
//! and candidate look at the input alone, the two gates share one, and there is no cell state.
//!
//! # Equation
//!
//! ```text
//! i = σ(W_i x + b_i)
//! f = σ(W_f x + b_f)
//! n = g(W_g x + b_g)
//! s = f / (f + i) = σ(ln f - ln i)
//! h' = s ⊙ h + (1 - s) ⊙ n
//! g(v) = v + 0.5 for v ≥ 0, σ(v) below
//! ```
//!
//! The share s is computed from the gates' logarithms, as the authors do when they train: where both gates round to 0,
//! the quotient has no value.
//!
//! # Tensors
//!
//! Blocks of rows in the order i, f, g.
//!
//! | name | shape | when |
//! |---|---|---|
//! | `input_weights` | `[3 · hidden, input]` | always |
//! | `input_bias` | `[3 · hidden]` | optional |
//!
//! # Known as
//!
//! minGRU-pytorch's `minLSTM`, whose `to_out` is a `dense` behind it.
//!
//! # Deviations
//!
//! That package, given a state and a whole sequence, begins with g of the state; given single steps it begins with the
//! state itself. This cell does as with single steps, however long the sequence. Who has a state for the other begins
//! with g of it, as the importer of the golden cases does.
//!
//! # Golden cases
//!
//! `mingru__minLSTM__*`; `parallel_prev` begins with g of the given state.

use super::min_gru::positive;
use super::{CanonicalSpec, CellSpec, Dim, Io, Presence, RECURRENT, StateSpec, TensorSpec, copy};
use crate::activation::sigmoid;
use crate::gate::{Gate, MIN_LSTM};
use crate::kernel::{Weight, accumulate};
use crate::math;
use crate::node::Node;

const GATES: &[Gate] = &[Gate::Input, Gate::Forget];
const CANDIDATE: &[Gate] = &[Gate::Cell];

/// See the [module](self).
pub const SPEC: CellSpec = CellSpec {
    name: "min_lstm",
    gates: &MIN_LSTM,
    extents: &[],
    rules: &[RECURRENT],
    states: &[StateSpec { name: "hidden", len: Dim::Hidden }],
    work: &[Dim::Hidden],
    options: &[],
    params: &[],
    activations: &[],
    canonical: &[
        CanonicalSpec::matrix("input_weights", Dim::Hidden, Dim::Input).gated(),
        CanonicalSpec::vector("input_bias", Dim::Hidden).gated().when(Presence::Optional),
    ],
    tensors: &[
        TensorSpec::matrix("gate_input_weights", &["input_weights"], Dim::Hidden, Dim::Input).gates(GATES),
        TensorSpec::vector("gate_bias", &["input_bias"], Dim::Hidden).gates(GATES),
        TensorSpec::matrix("candidate_input_weights", &["input_weights"], Dim::Hidden, Dim::Input).gates(CANDIDATE),
        TensorSpec::vector("candidate_bias", &["input_bias"], Dim::Hidden).gates(CANDIDATE),
    ],
};

/// Tensors of the spec by name.
mod tensor {
    pub const GATE_INPUT_WEIGHTS: usize = 0;
    pub const GATE_BIAS: usize = 1;
    pub const CANDIDATE_INPUT_WEIGHTS: usize = 2;
    pub const CANDIDATE_BIAS: usize = 3;
}

/// Largest error of `log_sigmoid` beside one rounding of its result.
///
/// With `libm`: e^-|x| is within an ulp of a number up to 1 (2^-23), the sum with 1 rounds by 2^-24 (to 2^-23 where it
/// is 2), and the logarithm, below 0.7, is within an ulp (2^-24). With `micromath` e^-|x| is off by 2.5e-3 and the
/// logarithm by 3e-2.
pub const LOG_SIGMOID_MAX_ERROR: f32 = if cfg!(feature = "libm") { 3.0 * f32::EPSILON } else { 4e-2 };

/// ln σ(x), without leaving the range of f32: min(x, 0) - ln(1 + e^-|x|).
pub(super) fn log_sigmoid(x: f32) -> f32 {
    let below = if x > 0.0 { 0.0 } else { x };
    below - math::ln(1.0 + math::exp(-x.abs()))
}

/// One step. `x` is `[input]`, `hidden`, `work` and `y` are `[hidden]`.
pub(crate) fn step<W: Weight>(node: &Node<'_>, io: Io<'_>) {
    let Io { x, state: hidden, work: share, y, .. } = io;
    // A block of four rows holds i, f of two units.
    let blocks = node.matrix::<W>(tensor::GATE_INPUT_WEIGHTS).blocks().zip(node.vector(tensor::GATE_BIAS));
    for ((w, &b), share) in blocks.zip(share.chunks_mut(2)) {
        let [i0, f0, i1, f1] = accumulate(b, w, x);
        for (s, (i, f)) in share.iter_mut().zip([(i0, f0), (i1, f1)]) {
            *s = sigmoid(log_sigmoid(f) - log_sigmoid(i));
        }
    }
    let blocks = node.matrix::<W>(tensor::CANDIDATE_INPUT_WEIGHTS).blocks().zip(node.vector(tensor::CANDIDATE_BIAS));
    for ((w, &b), (hidden, share)) in blocks.zip(hidden.chunks_mut(4).zip(share.chunks(4))) {
        for ((h, &s), n) in hidden.iter_mut().zip(share).zip(accumulate(b, w, x)) {
            *h = s * *h + (1.0 - s) * positive(n);
        }
    }
    copy(y, hidden);
}
