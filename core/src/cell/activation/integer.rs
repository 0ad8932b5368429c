//! An activation by itself in the integer numerics.
//!
//! ```text
//! y = act(x)                                           the identity and ReLU, which keep the unit
//! y = act(mulh(x · 2^16, multiplier))                  others, of `preact_bits` fraction bits
//! ```

use crate::cell::{CURVE, IntegerSpec, Io, NumberSpec, OTHER, TensorSpec};
use crate::node::Node;
use crate::quant::{rescaled, saturate};

/// Numbers of the spec by name.
mod number {
    pub const PREACT_BITS: usize = 0;
    pub const TABLE_SHIFT: usize = 1;
    pub const MULTIPLIER: usize = 2;
}

/// Tensors of the spec by name.
mod tensor {
    pub const TABLE: usize = 0;
}

/// See the [module](self).
pub const SPEC: IntegerSpec = IntegerSpec {
    options: 1 << OTHER | 1 << CURVE,
    rules: &[],
    numbers: &[
        NumberSpec::PREACT_BITS,
        NumberSpec::table_shift("table_shift"),
        NumberSpec { name: "multiplier", least: 1, most: i32::MAX, usual: None },
    ],
    work: &[],
    tensors: &[TensorSpec::table("table", 0)],
};

/// One step. `x` and `y` have the same length.
pub(crate) fn step(node: &Node<'_>, io: Io<'_, i16>) {
    let activation = node.curve(0, tensor::TABLE, number::TABLE_SHIFT);
    let (bits, multiplier) = (node.number(number::PREACT_BITS).unsigned_abs(), node.number(number::MULTIPLIER));
    for (y, &x) in io.y.iter_mut().zip(io.x) {
        let sum = if activation.keeps_unit() { x.into() } else { rescaled(x, multiplier) };
        *y = saturate(activation.apply(sum, bits));
    }
}
