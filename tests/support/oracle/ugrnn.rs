//! Blocks g, c: h' = g h + (1 - g) c

use super::{Bounded, Cell};

pub fn state_len(cell: &Cell<'_>) -> usize {
    cell.hidden_size()
}

pub fn step(cell: &Cell<'_>, x: &[Bounded], h: &mut [Bounded]) -> Vec<Bounded> {
    let units = cell.hidden_size();
    let operand = cell.recurrent_operand(h);
    let unit = |k: usize| {
        let g = cell.activation("gate_activation", "sigmoid", cell.preactivation(k, x, &operand));
        let c = cell.activation("candidate_activation", "tanh", cell.preactivation(units + k, x, &operand));
        g.times(h[k]).plus(g.one_minus().times(c))
    };
    let next: Vec<Bounded> = (0..units).map(unit).collect();
    h.copy_from_slice(&next);
    next
}
