//! Gates i, f, g, o; peepholes, clips, a projection. The state is h, then c.

use super::sums::dot;
use super::{Bounded, Cell};

pub fn state_len(cell: &Cell<'_>) -> usize {
    cell.output_size() + cell.hidden_size()
}

pub fn step(cell: &Cell<'_>, x: &[Bounded], state: &mut [Bounded]) -> Vec<Bounded> {
    let units = cell.hidden_size();
    let (h, c) = state.split_at_mut(cell.output_size());
    let operand = cell.recurrent_operand(h);
    let mut m = Vec::new();
    for (k, c) in c.iter_mut().enumerate() {
        let [mut i, mut f, g, mut o] = [0, 1, 2, 3].map(|gate| cell.preactivation(gate * units + k, x, &operand));
        if cell.has("peephole") {
            i = i.plus(cell.element("input_peephole", k).times(*c));
            f = f.plus(cell.element("forget_peephole", k).times(*c));
        }
        let i = cell.activation("gate_activation", "sigmoid", i);
        let f = cell.activation("gate_activation", "sigmoid", f);
        let g = cell.activation("cell_activation", "tanh", g);
        *c = f.times(*c).plus(i.times(g)).clipped(cell.param("cell_clip").into());
        if cell.has("peephole") {
            o = o.plus(cell.element("output_peephole", k).times(*c));
        }
        let o = cell.activation("gate_activation", "sigmoid", o);
        m.push(o.times(cell.activation("output_activation", "tanh", *c)));
    }
    if cell.has("projection") {
        let row = |k| dot(Bounded::default(), cell.row("projection_weights", k, units), &m);
        m = (0..h.len()).map(|k| row(k).clipped(cell.param("projection_clip").into())).collect();
    }
    h.copy_from_slice(&m);
    m
}
