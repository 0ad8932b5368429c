//! A single activation in the integer numerics.
//!
//! ```text
//! y = act(x)                                           the identity and ReLU, which keep the unit
//! y = act(mulh(x · 2^16, multiplier))                  others; the argument has `preact_bits` fraction bits
//! ```

use crate::cell::prelude::*;
use crate::quant::{rescaled, saturate};

const NUMBERS: &[NumberSpec] =
    &[NumberSpec::PREACT_BITS, NumberSpec::table_shift("table_shift"), NumberSpec::MULTIPLIER];
const PREACT_BITS: usize = number(NUMBERS, "preact_bits");
const TABLE_SHIFT: usize = number(NUMBERS, "table_shift");
const MULTIPLIER: usize = number(NUMBERS, "multiplier");

const TABLE: usize = SPEC.tensor("table");

pub(super) const SPEC: IntegerSpec = IntegerSpec {
    options: 1 << OTHER | 1 << CURVE,
    numbers: NUMBERS,
    tensors: &[TensorSpec::table("table", 0)],
    quantization: QUANTIZATION.on_host(),
    ..IntegerSpec::EMPTY
};

const QUANTIZATION: Quantization = Quantization {
    output: &[(0, OutputScale::Applied)],
    activations: &[Role::Applied],
    numbers: Numbers::Applied,
    ..Quantization::MOVE
};

/// One step. `x` and `y` have the same length.
pub(crate) fn step(node: &Node<'_>, io: Io<'_, i16>) {
    let activation = node.curve(0, TABLE, TABLE_SHIFT);
    let (bits, multiplier) = (node.number(PREACT_BITS).unsigned_abs(), node.number(MULTIPLIER));
    for (y, &x) in io.y.iter_mut().zip(io.x) {
        let sum = if activation.keeps_unit() { x.into() } else { rescaled(x, multiplier) };
        *y = saturate(activation.apply(sum, bits));
    }
}
