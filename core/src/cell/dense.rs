//! A fully connected layer, or several of them side by side.
//!
//! # Equation
//!
//! ```text
//! y = act(W x + b)      W block-diagonal where there are groups
//! ```
//!
//! # Tensors
//!
//! | name | shape | when |
//! |---|---|---|
//! | `weights` | `[output, input / groups]` | always |
//! | `bias` | `[output]` | optional; else 0 |
//!
//! # Extents
//!
//! | name | what |
//! |---|---|
//! | `groups` | parts of the input and of the output; each part of the output sees its own of the input |
//!
//! # Activations
//!
//! | name | default |
//! |---|---|
//! | `activation` | `identity` |
//!
//! # Known as
//!
//! Keras's `Dense`, PyTorch's `nn.Linear`, ONNX `Gemm`; a multiplication by a block-diagonal matrix.
//!
//! # Golden cases
//!
//! `tf1__InputProjectionWrapper__*`, `tf1__OutputProjectionWrapper__*`, `edgeml__*__lowrank_*`, and where a framework's
//! layer has a product that its cell does not.

pub mod integer;

use super::patch::grouped;
use super::{ActivationSpec, CanonicalSpec, CellSpec, Dim, ExtentSpec, Io, Presence, RECURRENT, Rule, TensorSpec};
use crate::activation::Activation;
use crate::kernel::Weight;
use crate::node::Node;

/// Index of the extent `groups`.
pub(super) const GROUPS: usize = 0;
/// Features that a unit sees.
pub(super) const COLS: Dim = Dim::Quotient(&[Dim::Input, Dim::Extent(GROUPS)]);

/// See the [module](self).
pub const SPEC: CellSpec = CellSpec {
    name: "dense",
    gates: &[],
    extents: &[ExtentSpec::one("groups")],
    rules: &[
        RECURRENT,
        Rule::Multiple(Dim::Input, Dim::Extent(GROUPS)),
        Rule::Multiple(Dim::Output, Dim::Extent(GROUPS)),
    ],
    states: &[],
    work: &[],
    options: &[],
    params: &[],
    activations: &[ActivationSpec { name: "activation", default: Activation::Identity }],
    canonical: &[
        CanonicalSpec::matrix("weights", Dim::Output, COLS),
        CanonicalSpec::vector("bias", Dim::Output).when(Presence::Optional),
    ],
    tensors: &[
        TensorSpec::matrix("weights", &["weights"], Dim::Output, COLS),
        TensorSpec::vector("bias", &["bias"], Dim::Output),
    ],
};

/// One step. `x` is `[input]`, `y` is `[output]`.
pub(crate) fn step<W: Weight>(node: &Node<'_>, io: Io<'_>) {
    grouped::<W>(node, io.x, node.dim(&COLS), node.extent(GROUPS), io.y);
}
