//! Layer normalization (Ba 2016), of all features or of groups that stand side by side (Wu 2018).
//!
//! # Equation
//!
//! ```text
//! m = Σ x / n      v = Σ (x - m)² / n      over the n features of a group
//! y = (x - m) / √(v + ε) ⊙ gain + bias
//! ```
//!
//! # Tensors
//!
//! | name | shape | when |
//! |---|---|---|
//! | `gain` | `[input]` | with `gain`; else 1 |
//! | `bias` | `[input]` | optional; else 0 |
//!
//! # Options
//!
//! | name | what |
//! |---|---|
//! | `gain` | features have a gain each |
//!
//! # Extents
//!
//! | name | what |
//! |---|---|
//! | `groups` | parts of the input, each with a mean and a variance of its own |
//!
//! # Parameters
//!
//! | name | what |
//! |---|---|
//! | `epsilon` | ε, added to the variance |
//!
//! # Known as
//!
//! `LayerNormalization` of Keras and ONNX, PyTorch's `nn.LayerNorm` and `nn.GroupNorm` over one pixel.
//!
//! # Golden cases
//!
//! None of its own.

use super::{CanonicalSpec, CellSpec, Dim, ExtentSpec, Io, ParamSpec, Presence, RECURRENT, Rule, TensorSpec};
use crate::node::Node;
use crate::norm::Moments;

/// Index of the option `gain`.
pub const GAIN: u32 = 0;

/// Index of the extent `groups`.
const GROUPS: usize = 0;
/// Features of a group.
const GROUP_SIZE: Dim = Dim::Quotient(&[Dim::Input, Dim::Extent(GROUPS)]);

/// See the [module](self).
pub const SPEC: CellSpec = CellSpec {
    name: "layer_norm",
    gates: &[],
    extents: &[ExtentSpec::one("groups")],
    rules: &[RECURRENT, Rule::Equal(Dim::Input, Dim::Output), Rule::Multiple(Dim::Input, Dim::Extent(GROUPS))],
    states: &[],
    work: &[],
    options: &["gain"],
    params: &[ParamSpec { name: "epsilon", presence: Presence::Optional }],
    activations: &[],
    canonical: &[
        CanonicalSpec::vector("gain", Dim::Input).when(Presence::With(GAIN)),
        CanonicalSpec::vector("bias", Dim::Input).when(Presence::Optional),
    ],
    tensors: &[
        TensorSpec::vector("gain", &["gain"], Dim::Input).when(Presence::With(GAIN)),
        TensorSpec::vector("bias", &["bias"], Dim::Input),
    ],
};

/// Tensors of the spec by name.
mod tensor {
    pub const GAIN: usize = 0;
    pub const BIAS: usize = 1;
}

/// One step. `x` and `y` have the same length.
pub(crate) fn step(node: &Node<'_>, io: Io<'_>) {
    let Io { x, y, .. } = io;
    let (size, epsilon) = (node.dim(&GROUP_SIZE), node.param(0));
    let (mut from, mut to) = (x, &mut *y);
    while let (Some((x, others)), Some((y, behind))) = (from.split_at_checked(size), to.split_at_mut_checked(size)) {
        if x.is_empty() {
            break;
        }
        let moments = Moments::of(x.iter().copied(), epsilon);
        for (y, &x) in y.iter_mut().zip(x) {
            *y = moments.apply(x);
        }
        (from, to) = (others, behind);
    }
    for (y, &gain) in y.iter_mut().zip(node.elements(tensor::GAIN)) {
        *y *= gain;
    }
    for (y, &bias) in y.iter_mut().zip(node.elements(tensor::BIAS)) {
        *y += bias;
    }
}
