//! Synapses from features and from units. The elapsed time follows the features. The state is v and, with mixed memory,
//! c.

use super::sums::dot_of;
use super::{Bounded, Cell, mixed_memory};

pub fn step(cell: &Cell<'_>, incoming: &[Bounded], state: &mut [Bounded]) -> Vec<Bounded> {
    let (units, unfolds) = (cell.hidden_size(), cell.extent("unfolds"));
    let (x, time) = incoming.split_at(cell.extent("features"));
    let t = time.first().copied().unwrap_or(Bounded::exact(1.0)).relu();
    let tau = t.over(Bounded::exact(unfolds as f32));
    let (v, c) = state.split_at_mut(units);
    if cell.has("mixed_memory") {
        mixed_memory::step(cell, x, v, c);
    }
    let from_features: Vec<[Bounded; 2]> = (0..units)
        .map(|unit| {
            let [drive, conductance] = synapses(cell, "input", unit, x);
            [drive.plus(cell.element("leak_drive", unit)), conductance.plus(cell.element("leak", unit))]
        })
        .collect();
    for _ in 0..unfolds {
        let unit = |(unit, &[n, d]): (usize, &[Bounded; 2])| {
            let capacitance = cell.element("capacitance", unit);
            let [drive, conductance] = synapses(cell, "recurrent", unit, v);
            let above = capacitance.times(v[unit]).plus(tau.times(n.plus(drive)));
            let below = capacitance.plus(tau.times(d.plus(conductance)));
            above.over_at_least(below, least(cell, unit))
        };
        let next: Vec<Bounded> = from_features.iter().enumerate().map(unit).collect();
        v.copy_from_slice(&next);
    }
    v[..cell.output_size()].to_vec()
}

/// Lower bound of a unit's computed divisor. If none of the terms is negative, the divisor is at least the capacitance,
/// since f32 addition is monotone. Otherwise only its bound is known.
fn least(cell: &Cell<'_>, unit: usize) -> f64 {
    let row = |name: &str, cols: usize| cell.row(name, unit, cols).iter();
    let mut conductances =
        row("input_weights", cell.extent("features")).chain(row("recurrent_weights", cell.hidden_size()));
    let positive = conductances.all(|&w| w >= 0.0) && cell.element("leak", unit).value >= 0.0;
    if positive { cell.element("capacitance", unit).value } else { 0.0 }
}

/// Σ e σ(a u + s) and Σ w σ(a u + s) over the sources of one unit.
fn synapses(cell: &Cell<'_>, side: &str, unit: usize, sources: &[Bounded]) -> [Bounded; 2] {
    let row = |name: &str| cell.row(&format!("{side}_{name}"), unit, sources.len());
    let open = row("slope").iter().zip(row("shift")).zip(sources).map(|((&slope, &shift), source)| {
        cell.activation("", "sigmoid", source.scaled(slope).plus(Bounded::exact(shift)))
    });
    let open: Vec<Bounded> = open.collect();
    let sum =
        |name: &str| dot_of(Bounded::default(), row(name).iter().map(|&w| Bounded::exact(w)).zip(open.iter().copied()));
    [sum("drive"), sum("weights")]
}
