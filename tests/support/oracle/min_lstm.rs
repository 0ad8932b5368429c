//! Gates i, f, g of the input only; i and f are normalized to a sum of one.

use tidegate::internals::cell::min_lstm::LOG_SIGMOID_MAX_ERROR;

use super::bounded::UNIT;
use super::min_gru::positive;
use super::{Bounded, Cell, count};

pub fn state_len(cell: &Cell<'_>) -> usize {
    cell.hidden_size()
}

pub fn step(cell: &Cell<'_>, x: &[Bounded], h: &mut [Bounded]) -> Vec<Bounded> {
    let units = cell.hidden_size();
    for (k, h) in h.iter_mut().enumerate() {
        let row = |gate: usize| gate * units + k;
        let [i, f, g] = [0, 1, 2].map(row).map(|row| cell.from_input(row, x, cell.element("input_bias", row)));
        let share = cell.activation("", "sigmoid", log_sigmoid(f).minus(log_sigmoid(i)));
        *h = share.times(*h).plus(share.one_minus().times(positive(cell, g)));
    }
    h.to_vec()
}

/// ln σ(a), with a slope of at most 1.
pub fn log_sigmoid(a: Bounded) -> Bounded {
    count::curves(1);
    let value = a.value.min(0.0) - (-a.value.abs()).exp().ln_1p();
    let stated = f64::from(LOG_SIGMOID_MAX_ERROR);
    a.through(value, 1.0, stated + UNIT * (value.abs() + a.error + stated))
}
