//! An activation in the numeric `i8`: TFLite's `RELU` and `RELU6`, and with a table `LOGISTIC`, `TANH` and any other
//! function of one value.
//!
//! ```text
//! z = clip(x · factor · 2^(shift - 31))      as in the identity
//! y = z, or table[z - least]                 0 outside of the table
//! ```

use crate::cell::i8::ENTRIES;
use crate::cell::identity::i8 as identity;
use crate::cell::prelude::*;

const NUMBERS: &[NumberSpec] = identity::SPEC.numbers;
const LEAST: usize = number(NUMBERS, "least");

/// The option of a node with a table.
pub(super) const TABULATED: u32 = 1 << CURVE;

const TENSORS: &[&str] = &["table"];
const TABLE: usize = index(TENSORS, "table");

pub(super) const SPEC: IntegerSpec = IntegerSpec {
    options: 1 << OTHER | TABULATED,
    numbers: NUMBERS,
    tensors: &[TensorSpec::vector("table", &[], Dim::Const(ENTRIES)).with(CURVE).stored(Storage::Values)],
    quantization: Quantization::LIMITS.on_host(),
    ..IntegerSpec::EMPTY
}
.with_tensors_named(TENSORS);

/// One step of nodes with tables, and of others in the same model. `x` and `y` have the same length.
pub(crate) fn step(node: &Node<'_>, io: Io<'_, i16>) {
    let (table, least) = (node.integers(TABLE), node.number(LEAST));
    let Io { x, state, work, y, rows } = io;
    identity::step(node, Io { x, state, work, y: &mut *y, rows });
    if !node.has(CURVE) {
        return;
    }
    for y in y {
        let entry = usize::try_from(i32::from(*y).wrapping_sub(least));
        *y = entry.ok().and_then(|entry| table.get(entry)).copied().unwrap_or(0);
    }
}
