//! The LSTM before a continuous-time cell (Lechner and Hasani 2020, arXiv:2006.04418), the option `mixed_memory` of
//! several cells. It shares the state h with the cell, so that both form one cell:
//!
//! ```text
//! i, f, g, o = W_m x + R_m h + b_m
//! c' = σ(f) ⊙ c + σ(i) ⊙ tanh(g)
//! h = σ(o) ⊙ tanh(c')          the cell continues from this h
//! ```

use super::prelude::*;
use crate::activation::{sigmoid, tanh};

/// The state c of every unit, present if `option` is set.
pub const fn state(len: &'static Dim, option: u32) -> StateSpec {
    StateSpec { name: "cell_state", len: Dim::When(option, len) }
}

/// The activations of a step.
pub const CURVES: Dim = Dim::Product(&[Dim::Const(5), Dim::Hidden]);

/// The tensors in a canonical model: W_m over `features`, R_m and b_m.
pub const fn canonical(features: Dim, option: u32) -> [CanonicalSpec; 3] {
    let presence = Presence::With(option);
    [
        CanonicalSpec::matrix("memory_input_weights", Dim::Hidden, features).gated().when(presence),
        CanonicalSpec::matrix("memory_recurrent_weights", Dim::Hidden, Dim::Hidden).gated().when(presence),
        CanonicalSpec::vector("memory_bias", Dim::Hidden).gated().when(presence),
    ]
}

/// The tensors in an image.
pub const fn tensors(features: Dim, option: u32) -> [TensorSpec; 3] {
    let presence = Presence::With(option);
    let (gates, units) = (&gate::LSTM, Dim::Hidden);
    [
        TensorSpec::matrix("memory_input_weights", &["memory_input_weights"], units, features)
            .gates(gates)
            .when(presence),
        TensorSpec::matrix("memory_recurrent_weights", &["memory_recurrent_weights"], units, units)
            .gates(gates)
            .when(presence),
        TensorSpec::vector("memory_bias", &["memory_bias"], units).gates(gates).when(presence),
    ]
}

/// Updates h and c of every unit. `first` is the index of the first of its tensors, `work` is `[hidden]`.
pub(super) fn step<W: Weight>(
    node: &Node<'_>,
    first: usize,
    x: &[f32],
    hidden: &mut [f32],
    cell: &mut [f32],
    work: &mut [f32],
) {
    let sums = sums_of_two::<W>(node, [first, first + 1, first + 2], x, hidden);
    for ([i, f, g, o], (c, m)) in sums.zip(cell.iter_mut().zip(&mut *work)) {
        *c = sigmoid(f) * *c + sigmoid(i) * tanh(g);
        *m = sigmoid(o) * tanh(*c);
    }
    copy(hidden, work);
}
