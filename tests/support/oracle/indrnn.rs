//! A simple recurrent cell whose recurrent weights are a vector.

use super::sums::dot;
use super::{Bounded, Cell};

pub fn state_len(cell: &Cell<'_>) -> usize {
    cell.hidden_size()
}

pub fn step(cell: &Cell<'_>, x: &[Bounded], h: &mut [Bounded]) -> Vec<Bounded> {
    for (k, h) in h.iter_mut().enumerate() {
        let from_input = dot(cell.element("bias", k), cell.row("input_weights", k, x.len()), x);
        let a = from_input.plus(cell.element("recurrent_weights", k).times(*h));
        *h = cell.activation("activation", "tanh", a);
    }
    h.to_vec()
}
