//! Gate f, which is both reset and update gate, and the candidate n.

use super::sums::dot;
use super::{Bounded, Cell};

pub fn state_len(cell: &Cell<'_>) -> usize {
    cell.hidden_size()
}

pub fn step(cell: &Cell<'_>, x: &[Bounded], h: &mut [Bounded]) -> Vec<Bounded> {
    let units = cell.hidden_size();
    let preactivation = |row: usize, h: &[Bounded]| {
        dot(cell.from_input(row, x, cell.element("bias", row)), cell.row("recurrent_weights", row, units), h)
    };
    let forget: Vec<Bounded> = (0..units).map(|k| cell.activation("", "sigmoid", preactivation(k, h))).collect();
    let gated: Vec<Bounded> = forget.iter().zip(h.iter()).map(|(f, &h)| f.times(h)).collect();
    for (k, h) in h.iter_mut().enumerate() {
        let new = cell.activation("", "tanh", preactivation(units + k, &gated));
        *h = forget[k].one_minus().times(*h).plus(forget[k].times(new));
    }
    h.to_vec()
}
