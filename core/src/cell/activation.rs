//! An activation by itself.
//!
//! # Equation
//!
//! ```text
//! y = act(x)
//! ```
//!
//! # Tensors
//!
//! None.
//!
//! # Activations
//!
//! | name | default |
//! |---|---|
//! | `activation` | `identity` |
//!
//! # Known as
//!
//! Keras's `Activation` and `ReLU`, PyTorch's `nn.Tanh` and its like.
//!
//! # Golden cases
//!
//! None of its own.

pub mod integer;

use super::{ActivationSpec, CellSpec, Dim, Io, RECURRENT, Rule};
use crate::activation::Activation;
use crate::node::Node;

/// See the [module](self).
pub const SPEC: CellSpec = CellSpec {
    name: "activation",
    gates: &[],
    extents: &[],
    rules: &[RECURRENT, Rule::Equal(Dim::Input, Dim::Output)],
    states: &[],
    work: &[],
    options: &[],
    params: &[],
    activations: &[ActivationSpec { name: "activation", default: Activation::Identity }],
    canonical: &[],
    tensors: &[],
};

/// One step. `x` and `y` have the same length.
pub(crate) fn step(node: &Node<'_>, io: Io<'_>) {
    let activation = node.activation(0);
    for (y, &x) in io.y.iter_mut().zip(io.x) {
        *y = activation.apply(x);
    }
}
