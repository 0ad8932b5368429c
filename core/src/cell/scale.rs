//! A gain and a shift for every channel: a batch normalization that no layer in front could take in.
//!
//! # Equation
//!
//! ```text
//! y = gain ⊙ x + bias      the channels follow each other again and again
//! ```
//!
//! # Tensors
//!
//! | name | shape | when |
//! |---|---|---|
//! | `gain` | `[channels]` | with `gain`; else 1 |
//! | `bias` | `[channels]` | optional; else 0 |
//!
//! # Options
//!
//! | name | what |
//! |---|---|
//! | `gain` | channels have a gain each |
//!
//! # Extents
//!
//! | name | what |
//! |---|---|
//! | `channels` | gains; the input is a multiple of them |
//!
//! # Known as
//!
//! `BatchNormalization` at inference, Keras's `Rescaling` and `Normalization`.
//!
//! # Golden cases
//!
//! None of its own.

pub mod integer;

use super::{CanonicalSpec, CellSpec, Dim, ExtentSpec, Io, Presence, RECURRENT, Rule, TensorSpec, copy};
use crate::node::Node;

/// Index of the option `gain`.
pub const GAIN: u32 = 0;

/// Index of the extent `channels`.
const CHANNELS: usize = 0;

/// See the [module](self).
pub const SPEC: CellSpec = CellSpec {
    name: "scale",
    gates: &[],
    extents: &[ExtentSpec::one("channels")],
    rules: &[RECURRENT, Rule::Equal(Dim::Input, Dim::Output), Rule::Multiple(Dim::Input, Dim::Extent(CHANNELS))],
    states: &[],
    work: &[],
    options: &["gain"],
    params: &[],
    activations: &[],
    canonical: &[
        CanonicalSpec::vector("gain", Dim::Extent(CHANNELS)).when(Presence::With(GAIN)),
        CanonicalSpec::vector("bias", Dim::Extent(CHANNELS)).when(Presence::Optional),
    ],
    tensors: &[
        TensorSpec::vector("gain", &["gain"], Dim::Extent(CHANNELS)).when(Presence::With(GAIN)),
        TensorSpec::vector("bias", &["bias"], Dim::Extent(CHANNELS)),
    ],
};

/// Tensors of the spec by name.
mod tensor {
    pub const GAIN: usize = 0;
    pub const BIAS: usize = 1;
}

/// One step. `x` and `y` have the same length.
pub(crate) fn step(node: &Node<'_>, io: Io<'_>) {
    let (gains, biases) = (node.elements(tensor::GAIN), node.elements(tensor::BIAS));
    copy(io.y, io.x);
    let (mut rest, channels) = (io.y, node.extent(CHANNELS));
    while let Some((y, others)) = rest.split_at_mut_checked(channels).filter(|(y, _)| !y.is_empty()) {
        for (y, &gain) in y.iter_mut().zip(gains) {
            *y *= gain;
        }
        for (y, &bias) in y.iter_mut().zip(biases) {
            *y += bias;
        }
        rest = others;
    }
}
