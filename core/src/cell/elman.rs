//! The simple recurrent cell of Elman, "Finding Structure in Time", 1990.
//!
//! # Equation
//! ```text
//! h' = act(W x + R h + b)
//! ```
//!
//! # Tensors
//! | name | shape | when |
//! |---|---|---|
//! | `input_weights` | `[hidden, input]`: W | always |
//! | `recurrent_weights` | `[hidden, hidden]`: R | always |
//! | `input_bias`, `recurrent_bias` | `[hidden]` | may be left out; b is their sum |
//!
//! # Activations
//! `activation` (tanh) of h'.
//!
//! # Known as
//! TensorFlow 1's `BasicRNNCell`, Keras's `SimpleRNN`, PyTorch's `RNN`, cuDNN's RNN with tanh or relu.
//!
//! # Golden cases
//! `tf1__BasicRNNCell__*`, `keras2__SimpleRNN__*`, `keras3__SimpleRNN__*`, `torch__RNN__*`.

use super::{ActivationSpec, CanonicalSpec, CellSpec, Dim, Io, Presence, RECURRENT, StateSpec, TensorSpec, copy};
use crate::activation::Activation;
use crate::kernel::{Weight, accumulate};
use crate::node::Node;

/// See the [module](self).
pub const SPEC: CellSpec = CellSpec {
    name: "elman",
    gates: &[],
    extents: &[],
    rules: &[RECURRENT],
    states: &[StateSpec { name: "hidden", len: Dim::Hidden }],
    work: &[],
    options: &[],
    params: &[],
    activations: &[ActivationSpec { name: "activation", default: Activation::Tanh }],
    canonical: &[
        CanonicalSpec::matrix("input_weights", Dim::Hidden, Dim::Input),
        CanonicalSpec::matrix("recurrent_weights", Dim::Hidden, Dim::Hidden),
        CanonicalSpec::vector("input_bias", Dim::Hidden).when(Presence::Optional),
        CanonicalSpec::vector("recurrent_bias", Dim::Hidden).when(Presence::Optional),
    ],
    tensors: &[
        TensorSpec::matrix("input_weights", &["input_weights"], Dim::Hidden, Dim::Input),
        TensorSpec::matrix("recurrent_weights", &["recurrent_weights"], Dim::Hidden, Dim::Hidden),
        TensorSpec::vector("bias", &["input_bias", "recurrent_bias"], Dim::Hidden),
    ],
};

/// Tensors of the spec by name.
mod tensor {
    pub const INPUT_WEIGHTS: usize = 0;
    pub const RECURRENT_WEIGHTS: usize = 1;
    pub const BIAS: usize = 2;
}

/// One step. `x` is `[input]`, `hidden` and `y` are `[hidden]`.
pub(crate) fn step<W: Weight>(node: &Node<'_>, io: Io<'_>) {
    let Io { x, state: hidden, y, .. } = io;
    let activation = node.activation(0);
    let input = node.matrix::<W>(tensor::INPUT_WEIGHTS).blocks();
    let recurrent = node.matrix::<W>(tensor::RECURRENT_WEIGHTS).blocks();
    let blocks = input.zip(recurrent).zip(node.vector(tensor::BIAS));
    for (((w, r), &b), y) in blocks.zip(y.chunks_mut(4)) {
        let preact = accumulate(accumulate(b, w, x), r, hidden);
        for (y, a) in y.iter_mut().zip(preact) {
            *y = activation.apply(a);
        }
    }
    copy(hidden, y);
}
