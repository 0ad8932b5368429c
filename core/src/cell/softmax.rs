//! Numbers to probabilities: positive, their sum 1.
//!
//! # Equation
//!
//! ```text
//! y = e^(x - max x) / Σ e^(x - max x)
//! ```
//!
//! # Tensors
//!
//! None.
//!
//! # Known as
//!
//! Keras's and PyTorch's `Softmax`, TensorFlow's `tf.nn.softmax`, ONNX's `Softmax`.
//!
//! # Golden cases
//!
//! None of its own: models with a softmax are compared as a whole.

pub mod integer;

use super::{CellSpec, Dim, Io, RECURRENT, Rule};
use crate::math;
use crate::node::Node;

/// See the [module](self).
pub const SPEC: CellSpec = CellSpec {
    name: "softmax",
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

pub use crate::activation::EXP_MAX_RELATIVE_ERROR;

/// One step. `x` and `y` have the same length.
pub(crate) fn step(_: &Node<'_>, io: Io<'_>) {
    let Io { x, y, .. } = io;
    let max = x.iter().fold(f32::NEG_INFINITY, |max, &x| max.max(x));
    let mut sum = 0.0;
    for (y, &x) in y.iter_mut().zip(x) {
        *y = math::exp(x - max);
        sum += *y;
    }
    for y in y {
        *y /= sum;
    }
}
