//! Gates i, f, g, o. Each band has its own state and reads h of the previous band. The state is h of every band, then c
//! of every band.

use super::bands::bands;
use super::{Bounded, Cell};

pub fn step(cell: &Cell<'_>, x: &[Bounded], state: &mut [Bounded]) -> Vec<Bounded> {
    let units = cell.hidden_size();
    let (h, c) = state.split_at_mut(cell.output_size());
    let mut before = vec![Bounded::default(); units];
    for (k, x) in bands(cell, x).into_iter().enumerate() {
        let (h, c) = (&mut h[k * units..][..units], &mut c[k * units..][..units]);
        let seen = [h.to_vec(), before].concat();
        let unit = |(u, c): (usize, &mut Bounded)| {
            let [mut i, mut f, g, mut o] = [0, 1, 2, 3].map(|gate| cell.preactivation(gate * units + u, &x, &seen));
            if cell.has("peephole") {
                i = i.plus(cell.element("input_peephole", u).times(*c));
                f = f.plus(cell.element("forget_peephole", u).times(*c));
            }
            let [i, f] = [i, f].map(|a| cell.activation("", "sigmoid", a));
            *c = f.times(*c).plus(i.times(cell.activation("", "tanh", g))).clipped(cell.param("cell_clip").into());
            if cell.has("peephole") {
                o = o.plus(cell.element("output_peephole", u).times(*c));
            }
            cell.activation("", "sigmoid", o).times(cell.activation("", "tanh", *c))
        };
        before = c.iter_mut().enumerate().map(unit).collect();
        h.copy_from_slice(&before);
    }
    h.to_vec()
}
