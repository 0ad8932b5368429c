//! The depthwise convolution in the numeric `i8`: TFLite's `DEPTHWISE_CONV_2D`.
//!
//! ```text
//! y[row, col, f] = clip((start[f] + Σ weights[f, tap] x[…, c]) · factor[f] · 2^(shift[f] - 31))
//! f = c · multiplier + k
//! ```
//!
//! Padding and limits are those of the [convolution](crate::cell::conv::i8). In every layout the weights of four filters
//! are adjacent, tap after tap, as their channels are in the image.

use crate::cell::i8::{Limits, limit, requantized};
use crate::cell::patch::{LAST, POSITIONS, TAPS, Way};
use crate::cell::prelude::*;
use crate::fixed::Multiplier;
use crate::quant::start;

const TENSORS: &[&str] = &["weights", "rows"];
const WEIGHTS: usize = index(TENSORS, "weights");
const ROWS: usize = index(TENSORS, "rows");

pub(super) const SPEC: IntegerSpec = IntegerSpec {
    numbers: &[limit("least"), limit("most")],
    tensors: &[
        TensorSpec::matrix("weights", &["weights"], Dim::Hidden, TAPS).passes(&POSITIONS).stored(Storage::Taps),
        TensorSpec::vector("rows", &["bias"], Dim::Hidden).stored(Storage::Requantized { of: WEIGHTS }),
    ],
    quantization: Quantization::LIMITS.on_host(),
    ..IntegerSpec::EMPTY
}
.with_tensors_named(TENSORS);

/// One step. `x` is the image, `y` is `[out_height, out_width, hidden]`.
pub(crate) fn step(node: &Node<'_>, io: Io<'_, i16>) {
    let (limits, way, multiplier) = (Limits::of(node, 0), Way::new(node), node.dim(&LAST));
    let rows = node.rows(ROWS, node.hidden_size);
    let (taps, _) = node.tensor(WEIGHTS).as_chunks::<4>();
    let of_block = node.dim(&TAPS).max(1);
    let mut rest = io.y;
    for position in way.positions() {
        let Some((y, others)) = rest.split_at_mut_checked(node.hidden_size) else { return };
        rest = others;
        let blocks = rows.iter().zip(taps.chunks(of_block));
        for (block, ((rows, taps), y)) in blocks.zip(y.chunks_mut(4)).enumerate() {
            let mut sums = start(rows);
            for (weights, pixel) in taps.iter().zip(way.taps(io.x, position)) {
                if let Some(pixel) = pixel {
                    add(&mut sums, *weights, pixel, (4 * block, multiplier), |&x| x);
                }
            }
            for (value, y) in requantized(rows, sums, Multiplier::of).into_iter().zip(y) {
                *y = limits.hold(value);
            }
        }
    }
}

/// Adds the products of a tap: filter `first + k` reads channel `(first + k) / multiplier` of the pixel. `value` returns
/// the value of an element of the pixel.
#[inline(always)]
pub(in crate::cell) fn add<E>(
    sums: &mut [i32; 4],
    weights: [u8; 4],
    pixel: &[E],
    (first, multiplier): (usize, usize),
    value: impl Fn(&E) -> i16,
) {
    let product = |weight: u8, x: i16| i32::from(weight.cast_signed()) * i32::from(x);
    if multiplier == 1 {
        let pixel = pixel.get(first..).unwrap_or_default();
        for ((sum, weight), x) in sums.iter_mut().zip(weights).zip(pixel) {
            *sum = sum.wrapping_add(product(weight, value(x)));
        }
        return;
    }
    for ((sum, weight), filter) in sums.iter_mut().zip(weights).zip(first..) {
        let x = filter.checked_div(multiplier).and_then(|channel| pixel.get(channel)).map_or(0, &value);
        *sum = sum.wrapping_add(product(weight, x));
    }
}
