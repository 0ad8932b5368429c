//! A fully connected layer.
//!
//! # Equation
//! ```text
//! y = act(W x + b)
//! ```
//!
//! # Tensors
//! | name | shape | when |
//! |---|---|---|
//! | `weights` | `[output, input]`: W | always |
//! | `bias` | `[output]`: b | may be left out |
//!
//! # Activations
//! `activation` (identity) of y.
//!
//! # Known as
//! Keras's and TensorFlow's `Dense`, PyTorch's `Linear`, ONNX's `Gemm`; the projections of TensorFlow 1's
//! `InputProjectionWrapper` and `OutputProjectionWrapper`.
//!
//! # Golden cases
//! `tf1__InputProjectionWrapper__*`, `tf1__OutputProjectionWrapper__*`.

use super::{ActivationSpec, CanonicalSpec, CellSpec, Dim, Io, Presence, RECURRENT, TensorSpec};
use crate::activation::Activation;
use crate::kernel::{Weight, accumulate};
use crate::node::Node;

/// See the [module](self).
pub const SPEC: CellSpec = CellSpec {
    name: "dense",
    gates: &[],
    extents: &[],
    rules: &[RECURRENT],
    states: &[],
    work: &[],
    options: &[],
    params: &[],
    activations: &[ActivationSpec { name: "activation", default: Activation::Identity }],
    canonical: &[
        CanonicalSpec::matrix("weights", Dim::Output, Dim::Input),
        CanonicalSpec::vector("bias", Dim::Output).when(Presence::Optional),
    ],
    tensors: &[
        TensorSpec::matrix("weights", &["weights"], Dim::Output, Dim::Input),
        TensorSpec::vector("bias", &["bias"], Dim::Output),
    ],
};

/// Tensors of the spec by name.
mod tensor {
    pub const WEIGHTS: usize = 0;
    pub const BIAS: usize = 1;
}

/// One step. `x` is `[input]`, `y` is `[output]`.
pub(crate) fn step<W: Weight>(node: &Node<'_>, io: Io<'_>) {
    let Io { x, y, .. } = io;
    let activation = node.activation(0);
    let blocks = node.matrix::<W>(tensor::WEIGHTS).blocks().zip(node.vector(tensor::BIAS));
    for ((w, &b), y) in blocks.zip(y.chunks_mut(4)) {
        for (y, a) in y.iter_mut().zip(accumulate(b, w, x)) {
            *y = activation.apply(a);
        }
    }
}
