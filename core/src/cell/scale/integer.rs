//! Gains and shifts in the integer numerics.
//!
//! ```text
//! y = (mulh(x · 2^16, multiplier) + addend + 2^7) >> 8         the channels follow each other again and again
//! ```

use super::{CHANNELS, GAIN};
use crate::cell::{Dim, IntegerSpec, Io, Storage, TensorSpec};
use crate::node::Node;
use crate::quant::{rescaled, saturate, whole};

/// Tensors of the spec by name.
mod tensor {
    pub const MULTIPLIERS: usize = 0;
    pub const ADDENDS: usize = 1;
}

/// See the [module](self).
pub const SPEC: IntegerSpec = IntegerSpec {
    options: 1 << GAIN,
    rules: &[],
    numbers: &[],
    work: &[],
    tensors: &[
        TensorSpec::vector("multipliers", &["gain"], Dim::Extent(CHANNELS)).stored(Storage::Multipliers),
        TensorSpec::vector("addends", &["bias"], Dim::Extent(CHANNELS)).stored(Storage::Addends),
    ],
};

/// One step. `x` and `y` have the same length.
pub(crate) fn step(node: &Node<'_>, io: Io<'_, i16>) {
    let channels = node.words(tensor::MULTIPLIERS).iter().zip(node.words(tensor::ADDENDS));
    let size = node.extent(CHANNELS).max(1);
    for (y, x) in io.y.chunks_mut(size).zip(io.x.chunks(size)) {
        for ((y, &x), (&multiplier, &addend)) in y.iter_mut().zip(x).zip(channels.clone()) {
            *y = saturate(whole(rescaled(x, multiplier).wrapping_add(addend)));
        }
    }
}
