//! One sum W x + R h for both gate and candidate: h' = z h + (ζ (1 - z) + ν) c

use super::sums::dot;
use super::{Bounded, Cell};

pub fn state_len(cell: &Cell<'_>) -> usize {
    cell.hidden_size()
}

pub fn step(cell: &Cell<'_>, x: &[Bounded], h: &mut [Bounded]) -> Vec<Bounded> {
    let operand = cell.recurrent_operand(h);
    let (zeta, nu) = (cell.param("zeta"), Bounded::exact(cell.param("nu")));
    let unit = |k: usize| {
        let from_input = cell.from_input(k, x, Bounded::default());
        let shared = dot(from_input, cell.row("recurrent_weights", k, operand.len()), &operand);
        let biased = |bias| shared.plus(cell.element(bias, k));
        let z = cell.activation("gate_activation", "sigmoid", biased("gate_bias"));
        let c = cell.activation("candidate_activation", "tanh", biased("candidate_bias"));
        z.times(h[k]).plus(z.one_minus().scaled(zeta).plus(nu).times(c))
    };
    let next: Vec<Bounded> = (0..h.len()).map(unit).collect();
    h.copy_from_slice(&next);
    next
}
