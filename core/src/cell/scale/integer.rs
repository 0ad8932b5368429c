//! Gains and biases in the integer numerics.
//!
//! ```text
//! y = (mulh(x · 2^16, multiplier) + addend + 2^7) >> 8         the channels repeat
//! ```

use super::{CHANNELS, GAIN};
use crate::cell::prelude::*;
use crate::quant::{rescaled, saturate, whole};

const MULTIPLIERS: usize = SPEC.tensor("multipliers");
const ADDENDS: usize = SPEC.tensor("addends");

pub(super) const SPEC: IntegerSpec = IntegerSpec {
    options: 1 << GAIN,
    tensors: &[
        TensorSpec::vector("multipliers", &["gain"], Dim::Extent(CHANNELS)).stored(Storage::Multipliers),
        TensorSpec::vector("addends", &["bias"], Dim::Extent(CHANNELS)).stored(Storage::Addends),
    ],
    quantization: QUANTIZATION.on_host(),
    ..IntegerSpec::EMPTY
};

const QUANTIZATION: Quantization =
    Quantization { output: &[(0, OutputScale::Measured)], least_output: LeastScale::Channels, ..Quantization::MOVE };

/// One step. `x` and `y` have the same length.
pub(crate) fn step(node: &Node<'_>, io: Io<'_, i16>) {
    let channels = node.words(MULTIPLIERS).iter().zip(node.words(ADDENDS));
    let size = node.extent(CHANNELS).max(1);
    for (y, x) in io.y.chunks_mut(size).zip(io.x.chunks(size)) {
        for ((y, &x), (&multiplier, &addend)) in y.iter_mut().zip(x).zip(channels.clone()) {
            *y = saturate(whole(rescaled(x, multiplier).wrapping_add(addend)));
        }
    }
}
