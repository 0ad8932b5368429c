//! One gate over the latent input z and the state.

use super::sums::dot;
use super::{Bounded, Cell};

pub fn state_len(cell: &Cell<'_>) -> usize {
    cell.hidden_size()
}

pub fn step(cell: &Cell<'_>, x: &[Bounded], h: &mut [Bounded]) -> Vec<Bounded> {
    let units = cell.hidden_size();
    let latent = |k| cell.activation("activation", "tanh", cell.from_input(k, x, cell.element("input_bias", k)));
    let z: Vec<Bounded> = (0..units).map(latent).collect();
    let gate = |k| {
        let from_latent = dot(cell.element("bias", k), cell.row("latent_weights", k, units), &z);
        let a = dot(from_latent, cell.row("recurrent_weights", k, units), h);
        cell.activation("gate_activation", "sigmoid", a)
    };
    let u: Vec<Bounded> = (0..units).map(gate).collect();
    for ((h, u), z) in h.iter_mut().zip(u).zip(z) {
        *h = u.times(*h).plus(u.one_minus().times(z));
    }
    h.to_vec()
}
