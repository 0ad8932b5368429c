//! Gates i, f, g, o; recurrent weights are a vector. The state is h, then c.

use super::{Bounded, Cell};

pub fn state_len(cell: &Cell<'_>) -> usize {
    2 * cell.hidden_size()
}

pub fn step(cell: &Cell<'_>, x: &[Bounded], state: &mut [Bounded]) -> Vec<Bounded> {
    let units = cell.hidden_size();
    let (h, c) = state.split_at_mut(units);
    for (k, (h, c)) in h.iter_mut().zip(c).enumerate() {
        let [i, f, g, o] = [0, 1, 2, 3].map(|gate| {
            let row = gate * units + k;
            let from_input = cell.from_input(row, x, cell.element("bias", row));
            from_input.plus(cell.element("recurrent_weights", row).times(*h))
        });
        let [i, f, o] = [i, f, o].map(|a| cell.activation("gate_activation", "sigmoid", a));
        *c = f.times(*c).plus(i.times(cell.activation("cell_activation", "tanh", g)));
        *h = o.times(cell.activation("output_activation", "tanh", *c));
    }
    h.to_vec()
}
