//! Minimal gated recurrent unit that can be trained in parallel (Feng et al. 2024, "Were RNNs All We Needed?",
//! arXiv:2410.01201): gate and candidate look at the input alone.
//!
//! # Equation
//!
//! ```text
//! z = σ(W_z x + b_z)
//! n = g(W_n x + b_n)
//! h' = (1 - z) ⊙ h + z ⊙ n
//! g(v) = v + 0.5 for v ≥ 0, σ(v) below
//! ```
//!
//! z is how much comes in, where that of a [`gru`](super::gru) is how much stays.
//!
//! # Tensors
//!
//! Blocks of rows in the order z, n.
//!
//! | name | shape | when |
//! |---|---|---|
//! | `input_weights` | `[2 · hidden, input]` | always |
//! | `input_bias` | `[2 · hidden]` | optional |
//!
//! # Known as
//!
//! minGRU-pytorch's `minGRU`, whose `to_out` is a `dense` behind it.
//!
//! # Golden cases
//!
//! `mingru__minGRU__*`.

pub mod integer;

use super::{CanonicalSpec, CellSpec, Dim, Io, Presence, RECURRENT, StateSpec, TensorSpec, copy};
use crate::activation::sigmoid;
use crate::gate::{Gate, MIN_GRU};
use crate::kernel::{Weight, accumulate};
use crate::node::Node;

/// See the [module](self).
pub const SPEC: CellSpec = CellSpec {
    name: "min_gru",
    gates: &MIN_GRU,
    extents: &[],
    rules: &[RECURRENT],
    states: &[StateSpec { name: "hidden", len: Dim::Hidden }],
    work: &[],
    options: &[],
    params: &[],
    activations: &[],
    canonical: &[
        CanonicalSpec::matrix("input_weights", Dim::Hidden, Dim::Input).gated(),
        CanonicalSpec::vector("input_bias", Dim::Hidden).gated().when(Presence::Optional),
    ],
    tensors: &[
        TensorSpec::matrix("input_weights", &["input_weights"], Dim::Hidden, Dim::Input).gates(BOTH),
        TensorSpec::vector("input_bias", &["input_bias"], Dim::Hidden).gates(BOTH),
    ],
};

const BOTH: &[Gate] = &MIN_GRU;

/// Tensors of the spec by name.
mod tensor {
    pub const INPUT_WEIGHTS: usize = 0;
    pub const INPUT_BIAS: usize = 1;
}

/// One step. `x` is `[input]`, `hidden` and `y` are `[hidden]`. A block of four rows holds z, n of two units.
pub(crate) fn step<W: Weight>(node: &Node<'_>, io: Io<'_>) {
    let Io { x, state: hidden, y, .. } = io;
    let blocks = node.matrix::<W>(tensor::INPUT_WEIGHTS).blocks().zip(node.vector(tensor::INPUT_BIAS));
    for ((w, &b), hidden) in blocks.zip(hidden.chunks_mut(2)) {
        let [z0, n0, z1, n1] = accumulate(b, w, x);
        for (h, (z, n)) in hidden.iter_mut().zip([(z0, n0), (z1, n1)]) {
            let z = sigmoid(z);
            *h = (1.0 - z) * *h + z * positive(n);
        }
    }
    copy(y, hidden);
}

/// g(v) = v + 0.5 for v ≥ 0, σ(v) below: continuous, and never negative.
pub(super) fn positive(v: f32) -> f32 {
    if v >= 0.0 { v + 0.5 } else { sigmoid(v) }
}
