//! Minimal gated unit (Zhou et al. 2016, arXiv:1603.09420): a gated recurrent unit whose one gate both resets and
//! updates.
//!
//! # Equation
//!
//! ```text
//! f = σ(W_f x + R_f h + b_f)
//! n = tanh(W_n x + R_n (f ⊙ h) + b_n)
//! h' = (1 - f) ⊙ h + f ⊙ n
//! ```
//!
//! f is the share of the new candidate; z of a [`gru`](super::gru) is the share of the old state.
//!
//! # Tensors
//!
//! Blocks of rows in the order f, n.
//!
//! | name | shape | when |
//! |---|---|---|
//! | `input_weights` | `[2 · hidden, input]` | always |
//! | `recurrent_weights` | `[2 · hidden, hidden]` | always |
//! | `bias` | `[2 · hidden]` | optional |
//!
//! # Known as
//!
//! MGU. No importer produces it; canonical models are written by the training program.
//!
//! # Golden cases
//!
//! None.

use super::intersection;
use super::prelude::*;
use crate::activation::{sigmoid, tanh};
use crate::gate::MGU;

const FORGET: &[Gate] = &[Gate::Forget];
const NEW: &[Gate] = &[Gate::New];

pub(super) const SPEC: CellSpec = CellSpec {
    name: "mgu",
    gates: &MGU,
    rules: &[RECURRENT],
    states: &[StateSpec { name: "hidden", len: Dim::Hidden }],
    work: &[Dim::Hidden, Dim::Hidden],
    canonical: intersection::CANONICAL,
    tensors: &[
        TensorSpec::matrix("forget_input_weights", &["input_weights"], Dim::Hidden, Dim::Input).gates(FORGET),
        TensorSpec::matrix("forget_recurrent_weights", &["recurrent_weights"], Dim::Hidden, Dim::Hidden).gates(FORGET),
        TensorSpec::vector("forget_bias", &["bias"], Dim::Hidden).gates(FORGET),
        TensorSpec::matrix("new_input_weights", &["input_weights"], Dim::Hidden, Dim::Input).gates(NEW),
        TensorSpec::matrix("new_recurrent_weights", &["recurrent_weights"], Dim::Hidden, Dim::Hidden).gates(NEW),
        TensorSpec::vector("new_bias", &["bias"], Dim::Hidden).gates(NEW),
    ],
    curves: &[Dim::Hidden; 2],
    ..CellSpec::EMPTY
};

const FORGET_SUMS: [usize; 3] = SPEC.tensors(["forget_input_weights", "forget_recurrent_weights", "forget_bias"]);
const NEW_SUMS: [usize; 3] = SPEC.tensors(["new_input_weights", "new_recurrent_weights", "new_bias"]);

pub(super) const fn entry<W: Weight, K: Kernel>() -> Entry {
    const { Entry { spec: &SPEC, float: &[&Cell::float(&SPEC, step::<W>)], ..Entry::EMPTY } }
}

/// One step. `x` is `[input]`, `hidden` and `y` are `[hidden]`, `work` is `[2 · hidden]` (f, f ⊙ h).
pub(crate) fn step<W: Weight>(node: &Node<'_>, io: Io<'_>) {
    let Io { x, state: hidden, work, y, .. } = io;
    let Some((forget, gated)) = work.split_at_mut_checked(node.hidden_size) else { return };
    for (sums, forget) in sums_of_two::<W>(node, FORGET_SUMS, x, hidden).zip(forget.chunks_mut(4)) {
        copy(forget, &sums);
    }
    for ((f, gated), h) in forget.iter_mut().zip(gated.iter_mut()).zip(hidden.iter()) {
        *f = sigmoid(*f);
        *gated = *f * h;
    }
    for (sums, y) in sums_of_two::<W>(node, NEW_SUMS, x, gated).zip(y.chunks_mut(4)) {
        copy(y, &sums);
    }
    for ((y, f), h) in y.iter_mut().zip(forget).zip(hidden.iter()) {
        *y = (1.0 - *f) * h + *f * tanh(*y);
    }
    copy(hidden, y);
}
