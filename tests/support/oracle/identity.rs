//! The inputs, concatenated.

use super::{Bounded, Cell};

pub fn step(_: &Cell<'_>, x: &[Bounded], _: &mut [Bounded]) -> Vec<Bounded> {
    x.to_vec()
}
