//! Requantization to another scale and within limits in the numeric `i8`: TFLite's `QUANTIZE`, `RELU` and `RELU6`, and
//! the inputs of a model.
//!
//! ```text
//! y = clip(x · factor · 2^(shift - 31))
//! ```

use crate::cell::i8::{Limits, factor, limit, multiplier, shift};
use crate::cell::prelude::*;

const FACTOR: usize = SPEC.number("factor");
const LEAST: usize = SPEC.number("least");

pub(crate) const SPEC: IntegerSpec = IntegerSpec {
    numbers: &[factor("factor"), shift("shift"), limit("least"), limit("most")],
    quantization: Quantization::LIMITS.on_host(),
    ..IntegerSpec::EMPTY
};

/// One step. `x` and `y` have the same length.
pub(crate) fn step(node: &Node<'_>, io: Io<'_, i16>) {
    let (multiplier, limits) = (multiplier(node, FACTOR), Limits::of(node, LEAST));
    for (y, &x) in io.y.iter_mut().zip(io.x) {
        *y = limits.hold(multiplier.of(x.into()));
    }
}
