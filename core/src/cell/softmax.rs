//! Converts numbers to probabilities, which are positive and sum to 1.
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

pub mod i8;
pub mod integer;

use super::prelude::*;
use crate::math;

pub(super) const SPEC: CellSpec = CellSpec {
    name: "softmax",
    rules: &[RECURRENT, Rule::Equal(Dim::Input, Dim::Output)],
    curves: &[Dim::Output],
    ..CellSpec::EMPTY
};

pub use crate::activation::EXP_MAX_RELATIVE_ERROR;

pub(super) const fn entry<W: Weight, K: Kernel>() -> Entry {
    const {
        Entry {
            spec: &SPEC,
            float: &[&Cell::float(&SPEC, step)],
            integer: &[(&integer::SPEC, &Cell::integer_whole(&SPEC, integer::step))],
            i8: &[(&i8::SPEC, &Cell::integer(&SPEC, &i8::SPEC, i8::step))],
        }
    }
}

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
