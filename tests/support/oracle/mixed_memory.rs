//! The LSTM in front of a cell with the option `mixed_memory`: it updates h and c from themselves and x.

use super::sums::dot;
use super::{Bounded, Cell};

/// Length of the state of such a cell: its own state, then c.
pub fn state_len(cell: &Cell<'_>) -> usize {
    cell.hidden_size() * if cell.has("mixed_memory") { 2 } else { 1 }
}

pub fn step(cell: &Cell<'_>, x: &[Bounded], h: &mut [Bounded], c: &mut [Bounded]) {
    let units = h.len();
    let old = h.to_vec();
    for (k, (h, c)) in h.iter_mut().zip(c).enumerate() {
        let [i, f, g, o] = [0, 1, 2, 3].map(|gate| {
            let row = gate * units + k;
            let from_input = dot(cell.element("memory_bias", row), cell.row("memory_input_weights", row, x.len()), x);
            dot(from_input, cell.row("memory_recurrent_weights", row, units), &old)
        });
        let [i, f, o] = [i, f, o].map(|a| cell.activation("", "sigmoid", a));
        *c = f.times(*c).plus(i.times(cell.activation("", "tanh", g)));
        *h = o.times(cell.activation("", "tanh", *c));
    }
}
