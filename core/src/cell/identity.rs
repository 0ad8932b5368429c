//! What comes in goes out: several inputs become one, one behind the other (a concatenation).
//!
//! # Equation
//!
//! ```text
//! y = x
//! ```
//!
//! # Tensors
//!
//! None.
//!
//! # Known as
//!
//! Keras's `Concatenate` and `Flatten`, ONNX `Concat`, PyTorch's `cat`; `Dropout` at inference.
//!
//! # Golden cases
//!
//! None of its own.

pub mod integer;

use super::{CellSpec, Dim, Io, RECURRENT, Rule, copy};
use crate::node::Node;

/// See the [module](self).
pub const SPEC: CellSpec = CellSpec {
    name: "identity",
    gates: &[],
    extents: &[],
    rules: &[RECURRENT, Rule::Equal(Dim::Input, Dim::Output)],
    states: &[],
    work: &[],
    options: &[],
    params: &[],
    activations: &[],
    canonical: &[],
    tensors: &[],
};

/// One step. `x` and `y` have the same length.
pub(crate) fn step<E: Copy>(_: &Node<'_>, io: Io<'_, E>) {
    copy(io.y, io.x);
}
