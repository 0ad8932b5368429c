//! Gates z, n of the state and g, m of the output, which differs from the state.

use super::sums::dot;
use super::{Bounded, Cell};

pub fn state_len(cell: &Cell<'_>) -> usize {
    cell.hidden_size()
}

pub fn step(cell: &Cell<'_>, x: &[Bounded], h: &mut [Bounded]) -> Vec<Bounded> {
    let units = cell.hidden_size();
    let unit = |k: usize| {
        let [z, n, g, m] = [0, 1, 2, 3].map(|gate| {
            let row = gate * units + k;
            let from_input = cell.from_input(row, x, cell.element("bias", row));
            dot(from_input, cell.row("recurrent_weights", row, units), h)
        });
        let [z, g] = [z, g].map(|a| cell.activation("gate_activation", "sigmoid", a));
        let n = cell.activation("new_activation", "tanh", n);
        let m = cell.activation("output_activation", "relu", m);
        let mixed = |gate: Bounded, kept: Bounded, new| gate.times(kept).plus(gate.one_minus().times(new));
        (mixed(z, h[k], n), mixed(g, x[k], m))
    };
    let (next, y): (Vec<Bounded>, Vec<Bounded>) = (0..units).map(unit).unzip();
    h.copy_from_slice(&next);
    y
}
