//! Gates i, f, g, o, and the openness of each unit at the time given by the first input. The state is h, then c.
//!
//! The openness k jumps where a period starts and where a unit closes. Its bound holds on both sides of a jump: it is
//! the greatest over all branches that the computed φ may take, and φ is in 0 to 1 for any error.

use super::sums::dot;
use super::{Bounded, Cell};
use crate::tolerance::worst;

pub fn state_len(cell: &Cell<'_>) -> usize {
    2 * cell.hidden_size()
}

pub fn step(cell: &Cell<'_>, x: &[Bounded], state: &mut [Bounded]) -> Vec<Bounded> {
    let units = cell.hidden_size();
    let (time, x) = x.split_at(x.len() - cell.extent("features"));
    let (h, c) = state.split_at_mut(units);
    let peephole = |name, k, a: Bounded, c: &[Bounded]| match cell.has("peephole") {
        true => a.plus(dot(Bounded::default(), cell.row(name, k, units), c)),
        false => a,
    };
    let gate = |gate: usize, k: usize| {
        let row = gate * units + k;
        let wx = cell.from_input(row, x, cell.element("bias", row));
        dot(wx, cell.row("recurrent_weights", row, units), h)
    };
    let sigmoid = |a| cell.activation("", "sigmoid", a);
    let tanh = |a| cell.activation("", "tanh", a);
    let candidate = |k| {
        let i = sigmoid(peephole("input_peephole", k, gate(0, k), c));
        let f = sigmoid(peephole("forget_peephole", k, gate(1, k), c));
        f.times(c[k]).plus(i.times(tanh(gate(2, k))))
    };
    let candidates: Vec<Bounded> = (0..units).map(candidate).collect();
    let output = |k| sigmoid(peephole("output_peephole", k, gate(3, k), &candidates));
    let outputs: Vec<Bounded> = (0..units).map(output).collect();
    for k in 0..units {
        let open = openness(cell, phi(cell, k, time), k);
        let blend = |new: Bounded, old: Bounded| open.times(new).plus(open.one_minus().times(old));
        h[k] = blend(outputs[k].times(tanh(candidates[k])), h[k]);
        c[k] = blend(candidates[k], c[k]);
    }
    h.to_vec()
}

/// The fraction of its period that has passed. If the time is a single exact number, the f32 operations up to the
/// division are part of the equation, as they are in TensorFlow: for a large t the rounding exceeds any bound on the
/// following operations.
fn phi(cell: &Cell<'_>, k: usize, time: &[Bounded]) -> Bounded {
    let [period, phase] = ["period", "phase"].map(|name| cell.element(name, k));
    let rounded = |value: f64| f64::from(value as f32);
    let passed = match *time {
        [time] if time.error == 0.0 => {
            let since = rounded(time.value - phase.value);
            let passed = rounded(since.rem_euclid(period.value));
            let passed = if passed < period.value { passed } else { 0.0 };
            Bounded::exact((rounded(passed - since) + since) as f32)
        }
        [time] => {
            let since = time.minus(phase);
            since.floor_mod(period).minus(since).plus(since)
        }
        [time, rest] => time.floor_mod(period).minus(phase.floor_mod(period)).plus(rest).floor_mod(period),
        _ => panic!("a time of {} numbers", time.len()),
    };
    passed.over(period)
}

/// The openness k at φ.
fn openness(cell: &Cell<'_>, phi: Bounded, k: usize) -> Bounded {
    let (ratio_on, leak) = (cell.element("ratio_on", k), cell.param("leak"));
    let rising = phi.scaled(2.0).over(ratio_on);
    let (half, whole) = (ratio_on.value / 2.0, ratio_on.value);
    let branches = [
        (f64::NEG_INFINITY, half, rising),
        (half, whole, Bounded::exact(2.0).minus(rising)),
        (whole, f64::INFINITY, phi.scaled(leak)),
    ];
    let taken = branches.iter().find(|(_, end, _)| phi.value < *end).expect("the last branch has no end").2;
    let reached =
        branches.iter().filter(|(start, end, _)| phi.value + phi.error >= *start && phi.value - phi.error < *end);
    let off = reached.map(|(_, _, branch)| (branch.value - taken.value).abs() + branch.error);
    Bounded { error: worst(off), ..taken }.within(0.0, f64::from(leak).max(1.0))
}
