//! What comes in goes out: several inputs one behind the other.

use super::{Bounded, Cell};

pub fn step(_: &Cell<'_>, x: &[Bounded], _: &mut [Bounded]) -> Vec<Bounded> {
    x.to_vec()
}
