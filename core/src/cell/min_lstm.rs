//! Minimal LSTM that can be trained in parallel (Feng et al. 2024, "Were RNNs All We Needed?", arXiv:2410.01201): gates
//! and candidate read the input alone, the two gates sum to one, and there is no cell state.
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
//! The share s is computed from the gates' logarithms, as the authors do in training: where both gates round to 0, the
//! quotient is undefined.
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
//! minGRU-pytorch's `minLSTM`, whose `to_out` becomes a `dense` node after it.
//!
//! # Deviations
//!
//! Given a state and a whole sequence, that package starts from g of the state; given single steps, it starts from the
//! state itself. This cell always does the latter. To reproduce the former, start from g of the state, as the importer
//! of the golden cases does.
//!
//! # Golden cases
//!
//! `mingru__minLSTM__*`; `parallel_prev` starts from g of the given state.

pub mod integer;

use super::min_gru::positive;
use super::prelude::*;
use crate::activation::sigmoid;
use crate::gate::MIN_LSTM;
use crate::math;

const GATES: &[Gate] = &[Gate::Input, Gate::Forget];
const CANDIDATE: &[Gate] = &[Gate::Cell];

pub(super) const SPEC: CellSpec = CellSpec {
    name: "min_lstm",
    gates: &MIN_LSTM,
    rules: &[RECURRENT],
    states: &[StateSpec { name: "hidden", len: Dim::Hidden }],
    work: &[Dim::Hidden],
    canonical: &[
        CanonicalSpec::matrix("input_weights", Dim::Hidden, Dim::Input).gated(),
        CanonicalSpec::vector("input_bias", Dim::Hidden).gated().optional(),
    ],
    tensors: &[
        TensorSpec::matrix("gate_input_weights", &["input_weights"], Dim::Hidden, Dim::Input).gates(GATES),
        TensorSpec::vector("gate_bias", &["input_bias"], Dim::Hidden).gates(GATES),
        TensorSpec::matrix("candidate_input_weights", &["input_weights"], Dim::Hidden, Dim::Input).gates(CANDIDATE),
        TensorSpec::vector("candidate_bias", &["input_bias"], Dim::Hidden).gates(CANDIDATE),
    ],
    curves: &[Dim::Hidden; 4],
    ..CellSpec::EMPTY
};

const GATE_SUMS: [usize; 2] = SPEC.tensors(["gate_input_weights", "gate_bias"]);
const CANDIDATE_SUMS: [usize; 2] = SPEC.tensors(["candidate_input_weights", "candidate_bias"]);

/// Largest error of `log_sigmoid`, apart from one rounding of its result.
///
/// With `libm`: e^-|x| is within an ulp of a number up to 1 (2^-23), the sum with 1 rounds by 2^-24 (2^-23 if the sum
/// is 2), and the logarithm, below 0.7, is within an ulp (2^-24). With `micromath`, the error of e^-|x| is 2.5e-3 and
/// that of the logarithm 3e-2.
pub const LOG_SIGMOID_MAX_ERROR: f32 = if cfg!(feature = "libm") { 3.0 * f32::EPSILON } else { 4e-2 };

/// ln σ(x) as min(x, 0) - ln(1 + e^-|x|), which does not overflow.
pub(super) fn log_sigmoid(x: f32) -> f32 {
    let below = if x > 0.0 { 0.0 } else { x };
    below - math::ln(1.0 + math::exp(-x.abs()))
}

pub(super) const fn entry<W: Weight, K: Kernel>() -> Entry {
    const {
        Entry {
            spec: &SPEC,
            float: &[&Cell::float(&SPEC, step::<W>)],
            integer: &[(&integer::SPEC, &Cell::integer(&SPEC, &integer::SPEC, integer::step::<K>))],
            ..Entry::EMPTY
        }
    }
}

/// One step. `x` is `[input]`, `hidden`, `work` and `y` are `[hidden]`.
pub(crate) fn step<W: Weight>(node: &Node<'_>, io: Io<'_>) {
    let Io { x, state: hidden, work: share, y, .. } = io;
    // A block of four rows holds i, f of two units.
    for ([i0, f0, i1, f1], share) in sums::<W>(node, GATE_SUMS, x).zip(share.chunks_mut(2)) {
        for (s, (i, f)) in share.iter_mut().zip([(i0, f0), (i1, f1)]) {
            *s = sigmoid(log_sigmoid(f) - log_sigmoid(i));
        }
    }
    let units = hidden.chunks_mut(4).zip(share.chunks(4));
    for (sums, (hidden, share)) in sums::<W>(node, CANDIDATE_SUMS, x).zip(units) {
        for ((h, &s), n) in hidden.iter_mut().zip(share).zip(sums) {
            *h = s * *h + (1.0 - s) * positive(n);
        }
    }
    copy(y, hidden);
}
