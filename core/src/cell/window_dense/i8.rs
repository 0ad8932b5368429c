//! The layer over a window in the numeric `i8`: TFLite's `FULLY_CONNECTED`, or `CONV_2D` over all rows, after a ring
//! buffer. The window holds bytes.
//!
//! ```text
//! y = clip((start + W x) · factor · 2^(shift - 31))        start, factor and shift of each row
//! ```
//!
//! The product is rounded as often as `roundings` says: once in a [dense layer](crate::cell::dense::i8), twice in a
//! [convolution](crate::cell::conv::i8).

use super::{COUNTS, WINDOW};
use crate::cell::i8::{Limits, MOST, limit, requantized};
use crate::cell::prelude::*;
use crate::cell::window::{COUNTED, is_due, shifted};
use crate::fixed::Multiplier;
use crate::kernel::taps::value;
use crate::quant::{RowBlock, start};

/// The bytes of a window, as i16.
const BYTES: Dim = Dim::Quotient(&[Dim::Sum(&[WINDOW, Dim::Const(1)]), Dim::Const(2)]);
/// The state of a layer over a window of bytes.
pub(in crate::cell) const STATES: &[StateSpec] = &[StateSpec { name: "rows", len: BYTES }, COUNTS];

/// The least value of the input. A byte holds the low eight bits of a value from this one up to 255 more.
pub(in crate::cell) const FIRST: NumberSpec = NumberSpec { name: "first", least: -MOST, most: 0, usual: None };

const NUMBERS: &[NumberSpec] =
    &[limit("least"), limit("most"), FIRST, NumberSpec { name: "roundings", least: 1, most: 2, usual: None }];
const LEAST: usize = number(NUMBERS, "least");
const OF_INPUT: usize = number(NUMBERS, "first");
const ROUNDINGS: usize = number(NUMBERS, "roundings");

const TENSORS: &[&str] = &["weights", "rows"];
const WEIGHTS: usize = index(TENSORS, "weights");
const ROWS: usize = index(TENSORS, "rows");

pub(super) const SPEC: IntegerSpec = IntegerSpec {
    rules: COUNTED,
    states: Some(STATES),
    numbers: NUMBERS,
    tensors: &[
        TensorSpec::matrix("weights", &["weights"], Dim::Output, WINDOW),
        TensorSpec::vector("rows", &["bias"], Dim::Output).stored(Storage::Requantized { of: WEIGHTS }),
    ],
    quantization: Quantization::LIMITS.on_host(),
    ..IntegerSpec::EMPTY
}
.with_tensors_named(TENSORS);

/// Columns that are converted to i16 together, a multiple of every layout's.
const COLUMNS: usize = 64;
/// Blocks of four rows that are multiplied by these columns before the next columns are converted.
const BLOCKS: usize = 4;

/// Bytes converted to i16, aligned as slots are, and followed by zeros.
#[repr(align(8))]
struct Wide([i16; COLUMNS]);

impl Wide {
    /// Converts bytes to the values that they stand for.
    fn take(&mut self, bytes: &[u8], first: i32) {
        self.0 = [0; COLUMNS];
        for (wide, &byte) in self.0.iter_mut().zip(bytes) {
            *wide = value(byte, first);
        }
    }
}

/// One step. `x` is `[input]`, `state` is `[length, input]` in bytes (the oldest row first), then the counts; `y` is
/// `[output]`.
pub(crate) fn step<K: Kernel>(node: &Node<'_>, x: Option<&[i16]>, state: &mut [i16], y: &mut [i16]) -> Option<usize> {
    let first = node.number(OF_INPUT);
    let seen = advanced(node, x?, state, first)?;
    let mut blocks = node.weights::<K>(WEIGHTS, seen.len())?;
    let rows = node.rows(ROWS, node.output_size);
    let mut wide = Wide([0; COLUMNS]);
    for (rows, y) in rows.chunks(BLOCKS).zip(y.chunks_mut(4 * BLOCKS)) {
        let mut sums = [[0; 4]; BLOCKS];
        for (sums, rows) in sums.iter_mut().zip(rows) {
            *sums = start(rows);
        }
        for (part, bytes) in seen.chunks(COLUMNS).enumerate() {
            wide.take(bytes, first);
            let operand = K::operand(&wide.0, bytes.len());
            let from = part * K::block_len(COLUMNS);
            for (sums, block) in sums.iter_mut().zip(blocks).take(rows.len()) {
                *sums = K::dot(*sums, block.get(from..from + K::block_len(bytes.len()))?, operand);
            }
        }
        requantize(node, rows, &sums, y);
        blocks = blocks.skip(rows.len());
    }
    Some(usize::MAX)
}

fn requantize(node: &Node<'_>, rows: &[RowBlock], sums: &[[i32; 4]], y: &mut [i16]) {
    let limits = Limits::of(node, LEAST);
    let by = if node.number(ROUNDINGS) == 1 { Multiplier::once } else { Multiplier::of };
    for ((rows, &sums), y) in rows.iter().zip(sums).zip(y.chunks_mut(4)) {
        for (value, y) in requantized(rows, sums, by).into_iter().zip(y) {
            *y = limits.hold(value);
        }
    }
}

/// Adds a row to the window of bytes of a node; `first` is the value of the node's number of that name. Returns the window
/// if it has an output. For backends with kernels of their own.
pub fn window_after<'s>(node: &Node<'_>, x: &[i16], state: &'s mut [i16], first: i32) -> Option<&'s [u8]> {
    advanced(node, x, state, first)
}

/// Adds a row to a window of bytes, and clamps its values to the range of a byte. Returns the window if it has an output.
pub(in crate::cell) fn advanced<'s>(node: &Node<'_>, x: &[i16], state: &'s mut [i16], first: i32) -> Option<&'s [u8]> {
    let (rows, counts) = state.split_at_mut_checked(node.padded(&BYTES))?;
    let [filled, since, ..] = counts else { return None };
    let rows = bytemuck::must_cast_slice_mut::<i16, u8>(rows).get_mut(..node.dim(&WINDOW))?;
    for (byte, &x) in shifted(rows, node.input_size).iter_mut().zip(x) {
        *byte = i32::from(x).max(first).min(first.wrapping_add(MOST)) as u8;
    }
    is_due(node, filled, since).then_some(rows)
}
