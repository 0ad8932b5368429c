//! Pools in the integer numerics, in the unit of the input. With n taps inside the image and L = 16 - ⌈log2 n⌉:
//!
//! ```text
//! y = max x                                                       max
//! y = (mulh(2^L · Σ x, ⌊2^30 / n⌋) + 2^(L - 3)) >> (L - 2)        average
//! ```

use super::AVERAGE;
use crate::cell::integer::CHUNK;
use crate::cell::patch::{TAPS, Way};
use crate::cell::prelude::*;
use crate::quant::{MOST_OF_MEAN, Mean, saturate};

pub(super) const SPEC: IntegerSpec = IntegerSpec {
    options: 1 << super::MAX | 1 << AVERAGE,
    rules: &[Rule::AtMost(TAPS, Dim::Const(MOST_OF_MEAN))],
    quantization: Quantization::MOVE.on_host(),
    ..IntegerSpec::EMPTY
};

/// One step. `x` is the image, `y` is `[out_height, out_width, channels]`.
pub(crate) fn step(node: &Node<'_>, io: Io<'_, i16>) {
    pooled(node, io, |count| {
        let mean = Mean::of(count);
        move |average, sum| if average { mean.from(sum) } else { saturate(sum) }
    });
}

/// Pools with the function that `of` returns for the number of taps inside the image, or for 1 if this is a maximum. The
/// function takes whether this is an average, and the sum or the maximum of a channel at a position.
#[inline(always)]
pub(super) fn pooled<F: Fn(bool, i32) -> i16>(node: &Node<'_>, io: Io<'_, i16>, of: impl Fn(usize) -> F) {
    let Io { x, y, .. } = io;
    let (way, average) = (Way::new(node), node.has(AVERAGE));
    let mut rest = y;
    for position in way.positions() {
        let Some((y, others)) = rest.split_at_mut_checked(node.hidden_size) else { return };
        rest = others;
        let result = of(if average { way.seen(position).flatten().count() } else { 1 });
        for (chunk, y) in y.chunks_mut(CHUNK).enumerate() {
            let mut sums = [if average { 0 } else { i32::MIN }; CHUNK];
            for pixel in way.taps(x, position).flatten() {
                for (sum, &x) in sums.iter_mut().zip(pixel.get(chunk * CHUNK..).unwrap_or_default()) {
                    let x = i32::from(x);
                    *sum = if average { sum.wrapping_add(x) } else { x.max(*sum) };
                }
            }
            for (y, sum) in y.iter_mut().zip(sums) {
                *y = result(average, sum);
            }
        }
    }
}
