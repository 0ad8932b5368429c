//! The simple recurrent cell of Elman, "Finding Structure in Time", 1990. As in TensorFlow's `BasicRNNCell`,
//! PyTorch's `RNN`, Keras's `SimpleRNN` and cuDNN.
//!
//! ```text
//! h' = act(W x + R h + b)
//! ```

use super::{ActivationSpec, CanonicalSpec, CellSpec, Dim, Presence, Sizes, StateSpec, TensorSpec};
use crate::activation::Activation;

/// See the [module](self).
pub const SPEC: CellSpec = CellSpec {
    name: "elman",
    code: 1,
    gates: &[],
    sizes: Sizes::Recurrent,
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
