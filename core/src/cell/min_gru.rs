//! Minimal gated recurrent unit that can be trained in parallel (Feng et al. 2024, "Were RNNs All We Needed?",
//! arXiv:2410.01201): gate and candidate read the input alone.
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
//! z is the share of the new candidate; in a [`gru`](super::gru) it is the share of the old state.
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
//! minGRU-pytorch's `minGRU`, whose `to_out` becomes a `dense` node after it.
//!
//! # Golden cases
//!
//! `mingru__minGRU__*`.

pub mod integer;

use super::prelude::*;
use crate::activation::sigmoid;
use crate::gate::MIN_GRU;

const CANONICAL: &[CanonicalSpec; 2] = &[
    CanonicalSpec::matrix("input_weights", Dim::Hidden, Dim::Input).gated(),
    CanonicalSpec::vector("input_bias", Dim::Hidden).gated().optional(),
];

pub(super) const SPEC: CellSpec = CellSpec {
    name: "min_gru",
    gates: &MIN_GRU,
    rules: &[RECURRENT],
    states: &[StateSpec { name: "hidden", len: Dim::Hidden }],
    canonical: CANONICAL,
    tensors: &TensorSpec::each(CANONICAL, &MIN_GRU),
    curves: &[Dim::Hidden; 2],
    ..CellSpec::EMPTY
};

const BOTH: &[Gate] = &MIN_GRU;

const INPUT: [usize; 2] = SPEC.tensors(["input_weights", "input_bias"]);

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

/// One step. `x` is `[input]`, `hidden` and `y` are `[hidden]`. A block of four rows holds z, n of two units.
pub(crate) fn step<W: Weight>(node: &Node<'_>, io: Io<'_>) {
    let Io { x, state: hidden, y, .. } = io;
    for ([z0, n0, z1, n1], hidden) in sums::<W>(node, INPUT, x).zip(hidden.chunks_mut(2)) {
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
