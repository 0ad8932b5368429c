//! Gates g, f, r over x, and a highway from the first input features. The state is c, which differs from the output.

use super::sums::dot;
use super::{Bounded, Cell};

pub fn state_len(cell: &Cell<'_>) -> usize {
    cell.hidden_size()
}

pub fn step(cell: &Cell<'_>, incoming: &[Bounded], c: &mut [Bounded]) -> Vec<Bounded> {
    let units = cell.hidden_size();
    let x = if cell.has("residual") { &incoming[..cell.extent("features")] } else { incoming };
    let mut y = Vec::new();
    for (k, c) in c.iter_mut().enumerate() {
        let [g, mut f, mut r] = [0, 1, 2].map(|gate| {
            let row = gate * units + k;
            cell.from_input(row, x, cell.element("bias", row))
        });
        if cell.has("cell_gates") {
            f = f.plus(cell.element("forget_peephole", k).times(*c));
            r = r.plus(cell.element("reset_peephole", k).times(*c));
        }
        let [f, r] = [f, r].map(|a| cell.activation("gate_activation", "sigmoid", a));
        *c = f.times(*c).plus(f.one_minus().times(g));
        let highway = if cell.has("highway") {
            dot(Bounded::default(), cell.row("highway_weights", k, x.len()), x)
        } else if cell.has("no_highway") {
            Bounded::default()
        } else {
            incoming[cell.extent("skip") + k].scaled(cell.param("highway_scale"))
        };
        let shown = cell.activation("output_activation", "tanh", *c);
        y.push(r.times(shown).plus(r.one_minus().times(highway)));
    }
    y
}
