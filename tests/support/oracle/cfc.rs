//! z of x and h, through the backbone if there is one. The elapsed time follows x. The state is h and, with mixed
//! memory, c.

use super::bounded::EXP_ERROR;
use super::sums::dot;
use super::{Bounded, Cell, count, mixed_memory};

pub fn step(cell: &Cell<'_>, incoming: &[Bounded], state: &mut [Bounded]) -> Vec<Bounded> {
    let units = cell.hidden_size();
    let (x, time) = incoming.split_at(cell.extent("features"));
    let t = time.first().copied().unwrap_or(Bounded::exact(1.0)).relu();
    let (h, c) = state.split_at_mut(units);
    if cell.has("mixed_memory") {
        mixed_memory::step(cell, x, h, c);
    }
    let z = features(cell, &[x, h].concat());
    let row = |name: &str, k| {
        let bias = cell.element(&format!("{name}_bias"), k);
        dot(bias, cell.row(&format!("{name}_weights"), k, z.len()), &z)
    };
    let unit = |k| {
        let a = row("start", k);
        if cell.has("pure") {
            let asymptote = cell.element("asymptote", k);
            // For any computed t, |w| and |a|, e to the negative of their product is in 0 to 1.
            let exponent = t.times(cell.element("time_constant", k).abs().plus(a.abs())).negated();
            count::curves(1);
            return asymptote.minus(asymptote.times(exponent.exp().within(0.0, 1.0 + EXP_ERROR)).times(a));
        }
        let shift = row("shift", k);
        let come = if cell.has("elapsed") { row("rate", k).times(t).plus(shift) } else { shift };
        let s = cell.activation("", "sigmoid", come);
        let [a, e] = [a, row("end", k)].map(|a| cell.activation("", "tanh", a));
        let a = if cell.has("no_gate") { a } else { a.times(s.one_minus()) };
        a.plus(s.times(e))
    };
    let y: Vec<Bounded> = (0..units).map(unit).collect();
    h.copy_from_slice(&y);
    y
}

/// z
fn features(cell: &Cell<'_>, operand: &[Bounded]) -> Vec<Bounded> {
    if !cell.has("backbone") {
        return operand.to_vec();
    }
    let units = cell.extent("backbone_units");
    let layer = |name: &str, first: usize, from: &[Bounded]| {
        let row = |k| {
            let bias = cell.element(&format!("{name}_bias"), k);
            let sum = dot(bias, cell.row(&format!("{name}_weights"), k, from.len()), from);
            cell.activation("backbone_activation", "tanh", sum)
        };
        (first..first + units).map(row).collect::<Vec<_>>()
    };
    let first = layer("backbone", 0, operand);
    (0..cell.extent("further_layers")).fold(first, |z, index| layer("deep", index * units, &z))
}
