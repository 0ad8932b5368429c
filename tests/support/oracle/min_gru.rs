//! Gates z, n of the input only.

use super::{Bounded, Cell};

pub fn state_len(cell: &Cell<'_>) -> usize {
    cell.hidden_size()
}

pub fn step(cell: &Cell<'_>, x: &[Bounded], h: &mut [Bounded]) -> Vec<Bounded> {
    let units = cell.hidden_size();
    for (k, h) in h.iter_mut().enumerate() {
        let [z, n] =
            [0, 1].map(|gate| gate * units + k).map(|row| cell.from_input(row, x, cell.element("input_bias", row)));
        let z = cell.activation("", "sigmoid", z);
        *h = z.one_minus().times(*h).plus(z.times(positive(cell, n)));
    }
    h.to_vec()
}

/// v + 0.5 for v ≥ 0, σ(v) below. It is continuous with a slope of at most 1, so if the computed v has the other sign,
/// the result is off by at most the error of v plus the rounding of either branch.
pub fn positive(cell: &Cell<'_>, v: Bounded) -> Bounded {
    let (above, below) = (v.plus(Bounded::exact(0.5)), cell.activation("", "sigmoid", v));
    if v.value - v.error >= 0.0 {
        above
    } else if v.value + v.error < 0.0 {
        below
    } else {
        Bounded::new(if v.value >= 0.0 { above.value } else { below.value }, above.error + below.error)
    }
}
