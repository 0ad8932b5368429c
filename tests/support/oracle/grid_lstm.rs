//! Two LSTMs over bands: the memory of side F goes from band to band, that of side T from step to step. The state is h
//! of every band, then c of every band.

use super::bands::bands;
use super::sums::{dot, dot_of};
use super::{Bounded, Cell};

pub fn step(cell: &Cell<'_>, x: &[Bounded], state: &mut [Bounded]) -> Vec<Bounded> {
    let units = cell.hidden_size();
    let mut bands = bands(cell, x);
    if cell.has("backwards") {
        bands.reverse();
    }
    let (h, c) = state.split_at_mut(bands.len() * units);
    let [mut m, mut d] = [0; 2].map(|_| vec![Bounded::default(); units]);
    let mut y = Vec::new();
    for (k, x) in bands.iter().enumerate() {
        let (h, c) = (&mut h[k * units..][..units], &mut c[k * units..][..units]);
        let seen = [h.to_vec(), m.clone()].concat();
        for u in 0..units {
            let [frequency, time] = ["frequency", "time"].map(|side| Side { cell, side, u, x, seen: &seen });
            let old = [d[u], c[u]];
            d[u] = frequency.memory(old, d[u]);
            c[u] = time.memory(old, c[u]);
            let new = [d[u], c[u]];
            m[u] = frequency.shown(new, d[u]);
            h[u] = time.shown(new, c[u]);
        }
        y.extend_from_slice(h);
        y.extend_from_slice(&m);
    }
    y
}

/// One side of one unit of a band.
struct Side<'s> {
    cell: &'s Cell<'s>,
    side: &'static str,
    u: usize,
    x: &'s [Bounded],
    seen: &'s [Bounded],
}

impl Side<'_> {
    /// The sum of a gate with its peepholes, before the activation.
    fn gate(&self, gate: usize, peephole: Option<&str>, memories: [Bounded; 2]) -> Bounded {
        let side = if self.cell.has("shared") { "frequency" } else { self.side };
        let (units, name) = (self.cell.hidden_size(), |tensor: &str| format!("{side}_{tensor}"));
        let row = gate * units + self.u;
        let bias = self.cell.element(&name("bias"), row);
        let input = dot(bias, self.cell.row(&name("input_weights"), row, self.x.len()), self.x);
        let sum = dot(input, self.cell.row(&name("recurrent_weights"), row, self.seen.len()), self.seen);
        let Some(peephole) = peephole.filter(|_| self.cell.has("peephole")) else { return sum };
        let name = format!("{}_{peephole}_peephole", self.side);
        let peepholes = [self.u, units + self.u].map(|k| self.cell.element(&name, k));
        dot_of(sum, peepholes.into_iter().zip(memories))
    }

    fn memory(&self, memories: [Bounded; 2], own: Bounded) -> Bounded {
        let sigmoid = |a| self.cell.activation("", "sigmoid", a);
        let [i, f] = [(0, "input"), (1, "forget")].map(|(gate, name)| sigmoid(self.gate(gate, Some(name), memories)));
        let g = self.cell.activation("", "tanh", self.gate(2, None, memories));
        f.times(own).plus(i.times(g)).clipped(self.cell.param("cell_clip").into())
    }

    fn shown(&self, memories: [Bounded; 2], own: Bounded) -> Bounded {
        let o = self.cell.activation("", "sigmoid", self.gate(3, Some("output"), memories));
        o.times(self.cell.activation("", "tanh", own))
    }
}
