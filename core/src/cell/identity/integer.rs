//! What comes in goes out in the integer numerics: in its own unit, or in another one, so that values of different units can
//! be read together.
//!
//! ```text
//! y = x                                                unless `multiplier` is not its usual one
//! y = (mulh(x · 2^16, multiplier) + 2^7) >> 8
//! ```

use crate::cell::{IntegerSpec, Io, NumberSpec, OTHER};
use crate::node::Node;
use crate::quant::{rescaled, saturate, whole};

/// The options that need the step that brings to another unit.
pub const RARE: u32 = 1 << OTHER;

/// See the [module](self).
pub const SPEC: IntegerSpec = IntegerSpec {
    options: RARE,
    rules: &[],
    numbers: &[NumberSpec { name: "multiplier", least: 1, most: i32::MAX, usual: Some(1 << 24) }],
    work: &[],
    tensors: &[],
};

/// One step to another unit. `x` and `y` have the same length.
pub(crate) fn step(node: &Node<'_>, io: Io<'_, i16>) {
    let multiplier = node.number(0);
    for (y, &x) in io.y.iter_mut().zip(io.x) {
        *y = saturate(whole(rescaled(x, multiplier)));
    }
}
