//! Values in the numeric `i8` brought to another scale and within limits: TFLite's `QUANTIZE`, `RELU` and `RELU6`, and what
//! enters.
//!
//! ```text
//! y = clip(x · factor · 2^(shift - 31))
//! ```

use super::{Limits, factor, limit, multiplier, shift};
use crate::cell::{IntegerSpec, Io};
use crate::node::Node;

/// Numbers of the spec by name.
mod number {
    pub const FACTOR: usize = 0;
    pub const LEAST: usize = 2;
}

/// See the [module](self).
pub const SPEC: IntegerSpec = IntegerSpec {
    options: 0,
    rules: &[],
    numbers: &[factor("factor"), shift("shift"), limit("least"), limit("most")],
    work: &[],
    tensors: &[],
};

/// One step. `x` and `y` have the same length.
pub(crate) fn step(node: &Node<'_>, io: Io<'_, i16>) {
    let (multiplier, limits) = (multiplier(node, number::FACTOR), Limits::of(node, number::LEAST));
    for (y, &x) in io.y.iter_mut().zip(io.x) {
        *y = limits.hold(multiplier.of(x.into()));
    }
}
