//! Filters along time in the numeric `i8`: TFLite's `DEPTHWISE_CONV_2D` after a ring buffer, which holds bytes.
//!
//! ```text
//! y[f] = clip((start[f] + Σ weights[f, k] x(t - length + 1 + k)[c]) · factor[f] · 2^(shift[f] - 31))
//! ```
//!
//! The bytes are those of the [layer over a window](crate::cell::window_dense::i8), and the order of the weights is that of
//! the [convolution](crate::cell::depthwise_conv::i8).

use super::{LENGTH, MULTIPLIER};
use crate::cell::depthwise_conv::i8::add;
use crate::cell::i8::{Limits, limit, requantized};
use crate::cell::prelude::*;
use crate::cell::window::{COUNTED, extent};
use crate::cell::window_dense::i8::{FIRST, STATES, advanced};
use crate::fixed::Multiplier;
use crate::kernel::taps::value;
use crate::quant::start;

const NUMBERS: &[NumberSpec] = &[limit("least"), limit("most"), FIRST];
const LEAST: usize = number(NUMBERS, "least");
const OF_INPUT: usize = number(NUMBERS, "first");

const TENSORS: &[&str] = &["weights", "rows"];
const WEIGHTS: usize = index(TENSORS, "weights");
const ROWS: usize = index(TENSORS, "rows");

pub(super) const SPEC: IntegerSpec = IntegerSpec {
    rules: COUNTED,
    states: Some(STATES),
    numbers: NUMBERS,
    tensors: &[
        TensorSpec::matrix("weights", &["weights"], Dim::Output, LENGTH).stored(Storage::Taps),
        TensorSpec::vector("rows", &["bias"], Dim::Output).stored(Storage::Requantized { of: WEIGHTS }),
    ],
    quantization: Quantization::LIMITS.on_host(),
    ..IntegerSpec::EMPTY
}
.with_tensors_named(TENSORS);

/// One step. `x` is `[input]`, `state` is `[length, input]` in bytes (the oldest row first), then the counts; `y` is
/// `[output]`.
pub(crate) fn step<K: Kernel>(node: &Node<'_>, x: Option<&[i16]>, state: &mut [i16], y: &mut [i16]) -> Option<usize> {
    let (first, multiplier) = (node.number(OF_INPUT), node.extent(MULTIPLIER));
    let seen = advanced(node, x?, state, first)?;
    let limits = Limits::of(node, LEAST);
    let (taps, _) = node.tensor(WEIGHTS).as_chunks::<4>();
    let blocks = node.rows(ROWS, node.output_size).iter().zip(taps.chunks(node.extent(extent::LENGTH).max(1)));
    for (block, ((rows, taps), y)) in blocks.zip(y.chunks_mut(4)).enumerate() {
        let mut sums = start(rows);
        let channels = seen.get(4 * block..).unwrap_or_default();
        if multiplier == 1 && node.input_size.is_multiple_of(4) {
            sums = K::taps(sums, taps, channels, node.input_size, first);
        } else {
            for (weights, row) in taps.iter().zip(seen.chunks(node.input_size.max(1))) {
                add(&mut sums, *weights, row, (4 * block, multiplier), |&byte| value(byte, first));
            }
        }
        for (value, y) in requantized(rows, sums, Multiplier::of).into_iter().zip(y) {
            *y = limits.hold(value);
        }
    }
    Some(usize::MAX)
}
