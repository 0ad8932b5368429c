//! Gates θ, η; the candidate reads the input only.

use super::sums::dot;
use super::{Bounded, Cell};

pub fn state_len(cell: &Cell<'_>) -> usize {
    cell.hidden_size()
}

pub fn step(cell: &Cell<'_>, x: &[Bounded], h: &mut [Bounded]) -> Vec<Bounded> {
    let units = cell.hidden_size();
    let activation = |a| cell.activation("activation", "tanh", a);
    let gate = |row| {
        let from_input = cell.from_input(row, x, cell.element("bias", row));
        cell.activation("gate_activation", "sigmoid", dot(from_input, cell.row("recurrent_weights", row, units), h))
    };
    let unit = |k: usize| {
        let candidate = dot(Bounded::default(), cell.row("candidate_weights", k, x.len()), x);
        gate(k).times(activation(h[k])).plus(gate(units + k).times(activation(candidate)))
    };
    let next: Vec<Bounded> = (0..units).map(unit).collect();
    h.copy_from_slice(&next);
    next
}
