//! A layer over the last `length` inputs, once they are present, and then every `hop` steps. The first `prefill` of them
//! are rows of zeros.
//!
//! The state is the rows, oldest first, then their number (0 before the first step), then the steps since the last output.

use super::sums::dot_of;
use super::{Bounded, Cell, Value};

/// y_f = act(b_f + W_f x) over all rows.
pub fn dense(cell: &Cell<'_>, x: Option<&[Bounded]>, state: &mut [Bounded]) -> Option<Value> {
    let rows = due(cell, x?, state)?;
    let unit = |unit: usize| {
        let weights = cell.row("weights", unit, rows.len());
        let terms = weights.iter().zip(&rows).map(|(&weight, &x)| (Bounded::exact(weight), x));
        cell.activation("activation", "identity", dot_of(cell.element("bias", unit), terms))
    };
    Some(value(cell, (0..cell.output_size()).map(unit).collect()))
}

/// y\[c m + k\] = act(b + Σ W\[c m + k, row\] x\[row, c\]), with m = `multiplier` filters for each channel.
pub fn depthwise(cell: &Cell<'_>, x: Option<&[Bounded]>, state: &mut [Bounded]) -> Option<Value> {
    let (rows, size) = (due(cell, x?, state)?, cell.input_size());
    let unit = |unit: usize| {
        let weights = cell.row("weights", unit, cell.extent("length"));
        let channel = rows.iter().skip(unit / cell.extent("multiplier")).step_by(size);
        let terms = weights.iter().zip(channel).map(|(&weight, &x)| (Bounded::exact(weight), x));
        cell.activation("activation", "identity", dot_of(cell.element("bias", unit), terms))
    };
    Some(value(cell, (0..cell.output_size()).map(unit).collect()))
}

fn value(cell: &Cell<'_>, data: Vec<Bounded>) -> Value {
    Value { data, valid: Some(cell.extent("length")) }
}

/// The rows, if the layer has an output.
fn due(cell: &Cell<'_>, x: &[Bounded], state: &mut [Bounded]) -> Option<Vec<Bounded>> {
    let (length, size) = (cell.extent("length"), cell.input_size());
    let (rows, counters) = state.split_at_mut(length * size);
    rows.rotate_left(size);
    rows[(length - 1) * size..].copy_from_slice(x);
    let before = match counters[0].value as usize {
        0 => cell.extent("prefill"),
        filled => filled,
    };
    let filled = length.min(before + 1);
    let since = if before < length { 0 } else { counters[1].value as usize + 1 };
    let is_due = filled == length && (before < length || since >= cell.extent("hop"));
    counters[0] = Bounded::exact(filled as f32);
    counters[1] = Bounded::exact(if is_due { 0.0 } else { since as f32 });
    is_due.then(|| rows.to_vec())
}
