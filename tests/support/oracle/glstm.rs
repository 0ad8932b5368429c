//! Gates i, f, g, o; group k of the units reads part k of the input and of h. The state is h, then c.

use super::sums::dot;
use super::{Bounded, Cell};

pub fn state_len(cell: &Cell<'_>) -> usize {
    cell.output_size() + cell.hidden_size()
}

pub fn step(cell: &Cell<'_>, x: &[Bounded], state: &mut [Bounded]) -> Vec<Bounded> {
    let (units, groups) = (cell.hidden_size(), cell.extent("groups"));
    let (h, c) = state.split_at_mut(cell.output_size());
    let mut m = Vec::new();
    for (k, c) in c.iter_mut().enumerate() {
        let group = k / (units / groups);
        let part =
            |whole: &[Bounded]| whole.chunks(whole.len() / groups).nth(group).expect("the group exists").to_vec();
        let (x, h) = (part(x), part(h));
        let [i, f, g, o] = [0, 1, 2, 3].map(|gate| cell.preactivation(gate * units + k, &x, &h));
        let [i, f, o] = [i, f, o].map(|a| cell.activation("", "sigmoid", a));
        *c = f.times(*c).plus(i.times(cell.activation("", "tanh", g)));
        m.push(o.times(cell.activation("output_activation", "tanh", *c)));
    }
    if cell.has("projection") {
        let row = |k| dot(Bounded::default(), cell.row("projection_weights", k, units), &m);
        m = (0..h.len()).map(row).collect();
    }
    h.copy_from_slice(&m);
    m
}
