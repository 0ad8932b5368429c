//! The cell `activation`: the [activation](super::activation) of every feature.

use super::{Bounded, Cell};

pub fn step(cell: &Cell<'_>, x: &[Bounded], _: &mut [Bounded]) -> Vec<Bounded> {
    x.iter().map(|&x| cell.activation("activation", "identity", x)).collect()
}
