//! Independently recurrent GRU: the gated recurrent unit with the reset gate before the recurrent product, of which
//! each unit sees of the last state only itself (Gonnet and Deselaers 2019, arXiv:1903.08023, do this to the LSTM).
//!
//! # Equation
//!
//! ```text
//! r = σ(W_r x + u_r ⊙ h + b_r)
//! z = σ(W_z x + u_z ⊙ h + b_z)
//! n = tanh(W_n x + u_n ⊙ r ⊙ h + b_n)
//! h' = z ⊙ h + (1 - z) ⊙ n
//! ```
//!
//! # Tensors
//!
//! Blocks of rows in the order r, z, n.
//!
//! | name | shape | when |
//! |---|---|---|
//! | `input_weights` | `[3 · hidden, input]` | always |
//! | `recurrent_weights` | `[3 · hidden]`: u | always |
//! | `bias` | `[3 · hidden]` | optional |
//!
//! # Activations
//!
//! | name | default | of |
//! |---|---|---|
//! | `gate_activation` | `sigmoid` | r, z |
//! | `new_activation` | `tanh` | n |
//!
//! # Known as
//!
//! TensorFlow 1's `tf.contrib.rnn.IndyGRUCell`.
//!
//! # Golden cases
//!
//! `tf1__IndyGRUCell__*`.

use super::{ActivationSpec, CanonicalSpec, CellSpec, Dim, Io, Presence, RECURRENT, StateSpec, TensorSpec, copy};
use crate::activation::Activation;
use crate::gate;
use crate::kernel::{Weight, accumulate};
use crate::node::Node;

/// See the [module](self).
pub const SPEC: CellSpec = CellSpec {
    name: "indy_gru",
    gates: &gate::GRU,
    extents: &[],
    rules: &[RECURRENT],
    states: &[StateSpec { name: "hidden", len: Dim::Hidden }],
    work: &[Dim::Hidden, Dim::Hidden, Dim::Hidden],
    options: &[],
    params: &[],
    activations: &[
        ActivationSpec { name: "gate_activation", default: Activation::Sigmoid },
        ActivationSpec { name: "new_activation", default: Activation::Tanh },
    ],
    canonical: &[
        CanonicalSpec::matrix("input_weights", Dim::Hidden, Dim::Input).gated(),
        CanonicalSpec::vector("recurrent_weights", Dim::Hidden).gated(),
        CanonicalSpec::vector("bias", Dim::Hidden).gated().when(Presence::Optional),
    ],
    tensors: &[
        TensorSpec::matrix("input_weights", &["input_weights"], Dim::Hidden, Dim::Input).gates(&gate::GRU),
        TensorSpec::vector("recurrent_weights", &["recurrent_weights"], Dim::Hidden).gates(&gate::GRU),
        TensorSpec::vector("bias", &["bias"], Dim::Hidden).gates(&gate::GRU),
    ],
};

/// Tensors of the spec by name.
mod tensor {
    pub const INPUT_WEIGHTS: usize = 0;
    pub const RECURRENT_WEIGHTS: usize = 1;
    pub const BIAS: usize = 2;
}

/// One step. `x` is `[input]`, `hidden` and `y` are `[hidden]`, `preacts` is `[hidden]` times r, z, n.
pub(crate) fn step<W: Weight>(node: &Node<'_>, io: Io<'_>) {
    let Io { x, state: hidden, work: preacts, y, .. } = io;
    let (gate, new) = (node.activation(0), node.activation(1));
    let blocks = node.matrix::<W>(tensor::INPUT_WEIGHTS).blocks().zip(node.vector(tensor::BIAS));
    for ((w, &b), preacts) in blocks.zip(preacts.chunks_mut(4)) {
        copy(preacts, &accumulate(b, w, x));
    }
    let (preacts, _) = preacts.as_chunks::<3>();
    let (recurrent, _) = node.elements(tensor::RECURRENT_WEIGHTS).as_chunks::<3>();
    for ((&[r, z, n], &[u_r, u_z, u_n]), (h, y)) in preacts.iter().zip(recurrent).zip(hidden.iter_mut().zip(y)) {
        let [r, z] = [gate.apply(r + u_r * *h), gate.apply(z + u_z * *h)];
        let n = new.apply(n + u_n * (r * *h));
        *h = z * *h + (1.0 - z) * n;
        *y = *h;
    }
}
