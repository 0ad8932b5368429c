//! h' = act(W x + R h + b), with the sum clipped if the option is set

use super::{Bounded, Cell};

pub fn state_len(cell: &Cell<'_>) -> usize {
    cell.hidden_size()
}

pub fn step(cell: &Cell<'_>, x: &[Bounded], h: &mut [Bounded]) -> Vec<Bounded> {
    if cell.skips(x) {
        return h.to_vec();
    }
    let operand = cell.recurrent_operand(h);
    let unit = |k| cell.activation("activation", "tanh", cell.seen(cell.preactivation(k, x, &operand)));
    let next: Vec<Bounded> = (0..h.len()).map(unit).collect();
    h.copy_from_slice(&next);
    next
}
