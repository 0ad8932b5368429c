//! Gates i, f, g, o; peepholes, clips, a projection, coupled gates, layer normalization, an initial state. The state is
//! h, then c, then whether it has started.

use super::sums::{dot, layer_norm};
use super::{Bounded, Cell};

pub fn state_len(cell: &Cell<'_>) -> usize {
    cell.output_size() + cell.hidden_size() + usize::from(cell.has("initial"))
}

pub fn step(cell: &Cell<'_>, x: &[Bounded], state: &mut [Bounded]) -> Vec<Bounded> {
    let units = cell.hidden_size();
    let (h, rest) = state.split_at_mut(cell.output_size());
    let (c, started) = rest.split_at_mut(units);
    for started in started.iter_mut().filter(|started| started.value == 0.0) {
        *started = Bounded::exact(1.0);
        h.iter_mut().enumerate().for_each(|(k, h)| *h = cell.element("initial_hidden", k));
        c.iter_mut().enumerate().for_each(|(k, c)| *c = cell.element("initial_cell_state", k));
    }
    if cell.skips(x) {
        return h.to_vec();
    }
    let preactivations = preactivations(cell, x, &cell.recurrent_operand(h));
    for (k, c) in c.iter_mut().enumerate() {
        let [mut i, mut f, g] = [0, 1, 2].map(|gate| preactivations[gate * units + k]);
        if cell.has("peephole") {
            i = i.plus(cell.element("input_peephole", k).times(*c));
            f = f.plus(cell.element("forget_peephole", k).times(*c));
        }
        let [mut i, mut f] = [i, f].map(|a| cell.activation("gate_activation", "sigmoid", cell.seen(a)));
        if cell.has("coupled") {
            i = f.one_minus();
        }
        if cell.has("input_forget") {
            f = i.one_minus();
        }
        let g = cell.activation("cell_activation", "tanh", cell.seen(g));
        *c = f.times(*c).plus(i.times(g));
    }
    if cell.has("cell_norm") {
        c.copy_from_slice(&layer_norm(c, cell.param("epsilon"), cell.tensor("cell_gain"), cell.tensor("cell_bias")));
    }
    for c in c.iter_mut() {
        *c = c.clipped(cell.param("cell_clip").into());
    }
    let mut shown = c.to_vec();
    if cell.has("output_norm") {
        shown = layer_norm(c, cell.param("epsilon"), cell.tensor("output_gain"), cell.tensor("output_bias"));
    }
    let mut m = Vec::new();
    for (k, (c, shown)) in c.iter().zip(shown).enumerate() {
        let mut o = preactivations[3 * units + k];
        if cell.has("peephole") {
            o = o.plus(cell.element("output_peephole", k).times(*c));
        }
        let o = cell.activation("gate_activation", "sigmoid", cell.seen(o));
        m.push(o.times(cell.activation("output_activation", "tanh", shown)));
    }
    if cell.has("projection") {
        let row = |k| dot(Bounded::default(), cell.row("projection_weights", k, units), &m);
        m = (0..h.len()).map(|k| row(k).clipped(cell.param("projection_clip").into())).collect();
    }
    h.copy_from_slice(&m);
    m
}

/// Sums of all units without peepholes: those of i, then of f, g and o.
fn preactivations(cell: &Cell<'_>, x: &[Bounded], h: &[Bounded]) -> Vec<Bounded> {
    let units = cell.hidden_size();
    let rows = 0..4 * units;
    let epsilon = cell.param("epsilon");
    let recurrent = |row, start| dot(start, cell.row("recurrent_weights", row, h.len()), h);
    let from_input = |row| cell.from_input(row, x, Bounded::default());
    if cell.has("gate_norm") {
        let sums: Vec<Bounded> = rows.map(|row| recurrent(row, from_input(row))).collect();
        let gains = cell.tensor("gate_gain").expect("gate_norm has a gain").chunks(units);
        let gates = sums.chunks(units).zip(gains);
        let normalized = gates.flat_map(|(gate, gain)| layer_norm(gate, epsilon, Some(gain), None));
        return normalized.enumerate().map(|(row, a)| a.plus(cell.bias(row))).collect();
    }
    if cell.has("joint_norm") {
        let of_input: Vec<Bounded> = rows.clone().map(from_input).collect();
        let of_hidden: Vec<Bounded> = rows.map(|row| recurrent(row, Bounded::default())).collect();
        let of_input = layer_norm(&of_input, epsilon, cell.tensor("input_gain"), None);
        let of_hidden = layer_norm(&of_hidden, epsilon, cell.tensor("recurrent_gain"), None);
        let parts = of_input.iter().zip(&of_hidden).enumerate();
        return parts.map(|(row, (a, b))| a.plus(b.plus(cell.bias(row)))).collect();
    }
    rows.map(|row| cell.preactivation(row, x, h)).collect()
}
