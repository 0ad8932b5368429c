//! A fully connected layer, `y = act(W x + b)`.

use super::{ActivationSpec, CanonicalSpec, CellSpec, Dim, Presence, Sizes, TensorSpec};
use crate::activation::Activation;

/// See the [module](self).
pub const SPEC: CellSpec = CellSpec {
    name: "dense",
    code: 32,
    gates: &[],
    sizes: Sizes::Feedforward,
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
