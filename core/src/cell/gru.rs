//! Gated recurrent unit (Cho 2014), in both variants that frameworks have: the reset gate before the recurrent product or
//! after it.
//!
//! # Equation
//! ```text
//! r = σ(W_r x + R_r h + b_r)
//! z = σ(W_z x + R_z h + b_z)
//! n = tanh(W_n x + b_n + R_n (r ⊙ h))            reset before
//! n = tanh(W_n x + b_n + r ⊙ (R_n h + b_rn))     reset after
//! h' = z ⊙ h + (1 - z) ⊙ n
//! ```
//!
//! # Tensors
//! | name | shape | when |
//! |---|---|---|
//! | `input_weights` | `[3 hidden, input]`: r, z, n | always |
//! | `recurrent_weights` | `[3 hidden, hidden]` | always |
//! | `input_bias` | `[3 hidden]` | may be left out |
//! | `recurrent_bias` | `[3 hidden]` | may be left out; it is added to `input_bias`, apart from its b_rn with `reset_after` |
//!
//! # Options
//! | name | what |
//! |---|---|
//! | `reset_after` | the reset gate is applied to the recurrent product, else to h before it |
//!
//! # Activations
//! `gate_activation` (σ) of r and z; `new_activation` (tanh) of n.
//!
//! # Known as
//! Reset before: TensorFlow 1's `GRUCell`, `GRUBlockCell` and `GRUBlockCellV2`, Keras's `GRU` with `reset_after=False`,
//! ONNX with `linear_before_reset=0`. Reset after: TensorFlow 1's `CudnnCompatibleGRUCell`, Keras's `GRU` and
//! `CuDNNGRU`, PyTorch's `GRU`, cuDNN's.
//!
//! # Golden cases
//! `tf1__GRU*`, `tf1__CudnnCompatibleGRUCell__*`, `tf2ops__GRUBlockCell__*`, `keras2__GRU__*`, `keras2__CuDNNGRU__*`,
//! `keras3__GRU__*`, `torch__GRU__*`.

use super::{ActivationSpec, CanonicalSpec, CellSpec, Dim, Io, Presence, RECURRENT, StateSpec, TensorSpec};
use crate::activation::Activation;
use crate::gate::{self, Gate};
use crate::kernel::{Weight, accumulate};
use crate::node::Node;

/// Index of the option `reset_after`.
pub const RESET_AFTER: u32 = 0;

const RESET_UPDATE: &[Gate] = &[Gate::Reset, Gate::Update];
const NEW: &[Gate] = &[Gate::New];

/// See the [module](self).
pub const SPEC: CellSpec = CellSpec {
    name: "gru",
    gates: &gate::GRU,
    extents: &[],
    rules: &[RECURRENT],
    states: &[StateSpec { name: "hidden", len: Dim::Hidden }],
    work: &[Dim::Hidden, Dim::Hidden],
    options: &["reset_after"],
    params: &[],
    activations: &[
        ActivationSpec { name: "gate_activation", default: Activation::Sigmoid },
        ActivationSpec { name: "new_activation", default: Activation::Tanh },
    ],
    canonical: &[
        CanonicalSpec::matrix("input_weights", Dim::Hidden, Dim::Input).gated(),
        CanonicalSpec::matrix("recurrent_weights", Dim::Hidden, Dim::Hidden).gated(),
        CanonicalSpec::vector("input_bias", Dim::Hidden).gated().when(Presence::Optional),
        CanonicalSpec::vector("recurrent_bias", Dim::Hidden).gated().when(Presence::Optional),
    ],
    tensors: &[
        TensorSpec::matrix("gate_input_weights", &["input_weights"], Dim::Hidden, Dim::Input).gates(RESET_UPDATE),
        TensorSpec::matrix("gate_recurrent_weights", &["recurrent_weights"], Dim::Hidden, Dim::Hidden)
            .gates(RESET_UPDATE),
        TensorSpec::vector("gate_bias", &["input_bias", "recurrent_bias"], Dim::Hidden).gates(RESET_UPDATE),
        TensorSpec::matrix("new_input_weights", &["input_weights"], Dim::Hidden, Dim::Input).gates(NEW),
        TensorSpec::matrix("new_recurrent_weights", &["recurrent_weights"], Dim::Hidden, Dim::Hidden).gates(NEW),
        TensorSpec::vector("new_bias", &["input_bias", "recurrent_bias"], Dim::Hidden)
            .gates(NEW)
            .when(Presence::Without(RESET_AFTER)),
        TensorSpec::vector("new_input_bias", &["input_bias"], Dim::Hidden).gates(NEW).when(Presence::With(RESET_AFTER)),
        TensorSpec::vector("new_recurrent_bias", &["recurrent_bias"], Dim::Hidden)
            .gates(NEW)
            .when(Presence::With(RESET_AFTER)),
    ],
};

/// Tensors of the spec by name.
mod tensor {
    pub const GATE_INPUT_WEIGHTS: usize = 0;
    pub const GATE_RECURRENT_WEIGHTS: usize = 1;
    pub const GATE_BIAS: usize = 2;
    pub const NEW_INPUT_WEIGHTS: usize = 3;
    pub const NEW_RECURRENT_WEIGHTS: usize = 4;
    pub const NEW_BIAS: usize = 5;
    pub const NEW_INPUT_BIAS: usize = 6;
    pub const NEW_RECURRENT_BIAS: usize = 7;
}

/// One step. `x` is `[input]`, `hidden` and `y` are `[hidden]`, `work` is `[2 × hidden]`.
pub(crate) fn step<W: Weight>(node: &Node<'_>, io: Io<'_>) {
    let Io { x, state: hidden, work, y, .. } = io;
    let Some((reset, update)) = work.split_at_mut_checked(node.hidden_size) else { return };
    gates::<W>(node, x, hidden, reset, update);
    if node.has(RESET_AFTER) {
        new_reset_after::<W>(node, x, hidden, reset, y);
    } else {
        for (r, &h) in reset.iter_mut().zip(hidden.iter()) {
            *r *= h;
        }
        new_reset_before::<W>(node, x, reset, y);
    }
    for ((n, &z), h) in y.iter_mut().zip(update.iter()).zip(hidden) {
        *h = z * *h + (1.0 - z) * *n;
        *n = *h;
    }
}

/// r and z of every unit. A block of four rows holds r, z of two units.
fn gates<W: Weight>(node: &Node<'_>, x: &[f32], hidden: &[f32], reset: &mut [f32], update: &mut [f32]) {
    let gate = node.activation(0);
    let input = node.matrix::<W>(tensor::GATE_INPUT_WEIGHTS).blocks();
    let recurrent = node.matrix::<W>(tensor::GATE_RECURRENT_WEIGHTS).blocks();
    let blocks = input.zip(recurrent).zip(node.vector(tensor::GATE_BIAS));
    for (((w, u), &b), (r, z)) in blocks.zip(reset.chunks_mut(2).zip(update.chunks_mut(2))) {
        let [r0, z0, r1, z1] = accumulate(accumulate(b, w, x), u, hidden);
        for ((r, z), (preact_r, preact_z)) in r.iter_mut().zip(z).zip([(r0, z0), (r1, z1)]) {
            *r = gate.apply(preact_r);
            *z = gate.apply(preact_z);
        }
    }
}

/// n of every unit, four to a block; `reset` is r ⊙ h.
fn new_reset_before<W: Weight>(node: &Node<'_>, x: &[f32], reset: &[f32], new: &mut [f32]) {
    let activation = node.activation(1);
    let input = node.matrix::<W>(tensor::NEW_INPUT_WEIGHTS).blocks();
    let recurrent = node.matrix::<W>(tensor::NEW_RECURRENT_WEIGHTS).blocks();
    let blocks = input.zip(recurrent).zip(node.vector(tensor::NEW_BIAS));
    for (((w, u), &b), new) in blocks.zip(new.chunks_mut(4)) {
        for (n, preact) in new.iter_mut().zip(accumulate(accumulate(b, w, x), u, reset)) {
            *n = activation.apply(preact);
        }
    }
}

/// n of every unit, four to a block; `reset` is r.
fn new_reset_after<W: Weight>(node: &Node<'_>, x: &[f32], hidden: &[f32], reset: &[f32], new: &mut [f32]) {
    let activation = node.activation(1);
    let input = node.matrix::<W>(tensor::NEW_INPUT_WEIGHTS).blocks().zip(node.vector(tensor::NEW_INPUT_BIAS));
    let recurrent =
        node.matrix::<W>(tensor::NEW_RECURRENT_WEIGHTS).blocks().zip(node.vector(tensor::NEW_RECURRENT_BIAS));
    for (((w, &b), (u, &b_r)), (new, reset)) in input.zip(recurrent).zip(new.chunks_mut(4).zip(reset.chunks(4))) {
        let (from_input, from_hidden) = (accumulate(b, w, x), accumulate(b_r, u, hidden));
        for ((n, &r), (a, b)) in new.iter_mut().zip(reset).zip(from_input.into_iter().zip(from_hidden)) {
            *n = activation.apply(a + r * b);
        }
    }
}
