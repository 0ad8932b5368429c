//! The last `length` inputs as the rows of one output, oldest first: once the window is full, and then every `hop`
//! steps. It starts with `prefill` rows of zeros. With the option `partial`, a window starts empty after every output,
//! and the end of a sequence yields the rows so far, padded with zeros.
//!
//! The state is the rows, then their number (0 before the first step), then the steps since the last output.

use super::{Bounded, Cell, Value};

pub fn state_len(cell: &Cell<'_>) -> usize {
    cell.extent("length") * cell.input_size() + 2
}

/// One step. Without an input, the sequence has ended.
pub fn step(cell: &Cell<'_>, x: Option<&[Bounded]>, state: &mut [Bounded]) -> Option<Value> {
    let (length, size, partial) = (cell.extent("length"), cell.input_size(), cell.has("partial"));
    let (rows, counters) = state.split_at_mut(length * size);
    let mut filled = counters[0].value as usize;
    let mut since = counters[1].value as usize;
    let mut output = None;
    if let Some(x) = x {
        if filled == 0 {
            rows.fill(Bounded::default());
            filled = cell.extent("prefill");
        }
        rows.rotate_left(size);
        rows[(length - 1) * size..].copy_from_slice(x);
        let was_full = filled >= length;
        filled = length.min(filled + 1);
        since = if was_full { since + 1 } else { 0 };
        if filled == length && (!was_full || since >= cell.extent("hop")) {
            output = Some(Value { data: rows.to_vec(), valid: None });
            since = 0;
            filled = if partial { 0 } else { filled };
        }
    } else if partial && filled > 0 {
        let mut data = rows[(length - filled) * size..].to_vec();
        data.resize(length * size, Bounded::default());
        output = Some(Value { data, valid: Some(filled) });
        filled = 0;
    }
    counters[0] = Bounded::exact(filled as f32);
    counters[1] = Bounded::exact(since as f32);
    output
}
