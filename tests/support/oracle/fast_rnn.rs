//! h' = β h + α act(W x + R h + b)

use super::{Bounded, Cell};

pub fn state_len(cell: &Cell<'_>) -> usize {
    cell.hidden_size()
}

pub fn step(cell: &Cell<'_>, x: &[Bounded], h: &mut [Bounded]) -> Vec<Bounded> {
    let operand = cell.recurrent_operand(h);
    let (alpha, beta) = (cell.param("alpha"), cell.param("beta"));
    let unit = |k: usize| {
        let c = cell.activation("activation", "tanh", cell.preactivation(k, x, &operand));
        h[k].scaled(beta).plus(c.scaled(alpha))
    };
    let next: Vec<Bounded> = (0..h.len()).map(unit).collect();
    h.copy_from_slice(&next);
    next
}
