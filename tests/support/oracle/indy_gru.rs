//! Gates r, z, n; recurrent weights are a vector.

use super::{Bounded, Cell};

pub fn state_len(cell: &Cell<'_>) -> usize {
    cell.hidden_size()
}

pub fn step(cell: &Cell<'_>, x: &[Bounded], h: &mut [Bounded]) -> Vec<Bounded> {
    let units = cell.hidden_size();
    for (k, h) in h.iter_mut().enumerate() {
        let preactivation = |gate: usize, h: Bounded| {
            let row = gate * units + k;
            let from_input = cell.from_input(row, x, cell.element("bias", row));
            from_input.plus(cell.element("recurrent_weights", row).times(h))
        };
        let [r, z] = [0, 1].map(|gate| cell.activation("gate_activation", "sigmoid", preactivation(gate, *h)));
        let n = cell.activation("new_activation", "tanh", preactivation(2, r.times(*h)));
        *h = z.times(*h).plus(z.one_minus().times(n));
    }
    h.to_vec()
}
