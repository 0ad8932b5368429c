//! y = act(W x + b), W block-diagonal where there are `groups`.

use super::sums::dot;
use super::{Bounded, Cell};

pub fn step(cell: &Cell<'_>, x: &[Bounded], _: &mut [Bounded]) -> Vec<Bounded> {
    let groups = cell.extent("groups");
    let (cols, rows) = (x.len() / groups, cell.output_size() / groups);
    let unit = |k: usize| {
        let a = dot(cell.element("bias", k), cell.row("weights", k, cols), &x[k / rows * cols..][..cols]);
        cell.activation("activation", "identity", a)
    };
    (0..cell.output_size()).map(unit).collect()
}
