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
//! f is how much comes in, where z of a [`gru`](super::gru) is how much stays.
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
//! MGU. No framework that is read has it: its canonical models are written by who trains it.
//!
//! # Golden cases
//!
//! None.

use super::{CanonicalSpec, CellSpec, Dim, Io, Presence, RECURRENT, StateSpec, TensorSpec, copy};
use crate::activation::{sigmoid, tanh};
use crate::gate::{Gate, MGU};
use crate::kernel::{Weight, accumulate};
use crate::node::Node;

const FORGET: &[Gate] = &[Gate::Forget];
const NEW: &[Gate] = &[Gate::New];

/// See the [module](self).
pub const SPEC: CellSpec = CellSpec {
    name: "mgu",
    gates: &MGU,
    extents: &[],
    rules: &[RECURRENT],
    states: &[StateSpec { name: "hidden", len: Dim::Hidden }],
    work: &[Dim::Hidden, Dim::Hidden],
    options: &[],
    params: &[],
    activations: &[],
    canonical: &[
        CanonicalSpec::matrix("input_weights", Dim::Hidden, Dim::Input).gated(),
        CanonicalSpec::matrix("recurrent_weights", Dim::Hidden, Dim::Hidden).gated(),
        CanonicalSpec::vector("bias", Dim::Hidden).gated().when(Presence::Optional),
    ],
    tensors: &[
        TensorSpec::matrix("forget_input_weights", &["input_weights"], Dim::Hidden, Dim::Input).gates(FORGET),
        TensorSpec::matrix("forget_recurrent_weights", &["recurrent_weights"], Dim::Hidden, Dim::Hidden).gates(FORGET),
        TensorSpec::vector("forget_bias", &["bias"], Dim::Hidden).gates(FORGET),
        TensorSpec::matrix("new_input_weights", &["input_weights"], Dim::Hidden, Dim::Input).gates(NEW),
        TensorSpec::matrix("new_recurrent_weights", &["recurrent_weights"], Dim::Hidden, Dim::Hidden).gates(NEW),
        TensorSpec::vector("new_bias", &["bias"], Dim::Hidden).gates(NEW),
    ],
};

/// First tensors of the spec by gate: its input weights, and then its recurrent weights and its bias.
mod tensor {
    pub const FORGET: usize = 0;
    pub const NEW: usize = 3;
}

/// One step. `x` is `[input]`, `hidden` and `y` are `[hidden]`, `work` is `[2 · hidden]` (f, f ⊙ h).
pub(crate) fn step<W: Weight>(node: &Node<'_>, io: Io<'_>) {
    let Io { x, state: hidden, work, y, .. } = io;
    let Some((forget, gated)) = work.split_at_mut_checked(node.hidden_size) else { return };
    preactivations::<W>(node, tensor::FORGET, x, hidden, forget);
    for ((f, gated), h) in forget.iter_mut().zip(gated.iter_mut()).zip(hidden.iter()) {
        *f = sigmoid(*f);
        *gated = *f * h;
    }
    preactivations::<W>(node, tensor::NEW, x, gated, y);
    for ((y, f), h) in y.iter_mut().zip(forget).zip(hidden.iter()) {
        *y = (1.0 - *f) * h + *f * tanh(*y);
    }
    copy(hidden, y);
}

/// W x + R h + b of every unit, four to a block, from the tensor `first` on.
fn preactivations<W: Weight>(node: &Node<'_>, first: usize, x: &[f32], h: &[f32], a: &mut [f32]) {
    let blocks = node.matrix::<W>(first).blocks().zip(node.matrix::<W>(first + 1).blocks());
    for (((w, r), &b), a) in blocks.zip(node.vector(first + 2)).zip(a.chunks_mut(4)) {
        copy(a, &accumulate(accumulate(b, w, x), r, h));
    }
}
