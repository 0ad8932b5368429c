//! The identity in the integer numerics. It keeps the unit, or converts to another one, so that a node can read values
//! of different units together.
//!
//! ```text
//! y = x                                                if `multiplier` has its usual value
//! y = (mulh(x · 2^16, multiplier) + 2^7) >> 8
//! ```

use crate::cell::prelude::*;
use crate::quant::{rescaled, saturate, whole};

/// The options of nodes that convert to another unit.
pub const RARE: u32 = 1 << OTHER;

pub(super) const SPEC: IntegerSpec = IntegerSpec {
    options: RARE,
    numbers: &[NumberSpec { name: "multiplier", least: 1, most: i32::MAX, usual: Some(1 << 24) }],
    quantization: QUANTIZATION.on_host(),
    ..IntegerSpec::EMPTY
};

const QUANTIZATION: Quantization = Quantization { numbers: Numbers::Rescaled, ..Quantization::MOVE };

/// One step that converts to another unit. `x` and `y` have the same length.
pub(crate) fn step(node: &Node<'_>, io: Io<'_, i16>) {
    let multiplier = node.number(0);
    for (y, &x) in io.y.iter_mut().zip(io.x) {
        *y = saturate(whole(rescaled(x, multiplier)));
    }
}
