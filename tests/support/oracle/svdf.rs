//! Filters of the features of a step, and of their own results over time.
//!
//! The state is the results of the last steps, oldest first: those of all filters for each step.

use super::sums::dot;
use super::{Bounded, Cell};

/// s[f] = F_f x, y_u = act(b_u + Σ T_f s[f]) over the filters f of unit u.
pub fn step(cell: &Cell<'_>, x: &[Bounded], state: &mut [Bounded]) -> Vec<Bounded> {
    let (filters, memory) = (cell.hidden_size(), cell.extent("memory"));
    state.rotate_left(filters);
    for (filter, result) in state[(memory - 1) * filters..].iter_mut().enumerate() {
        *result = dot(Bounded::default(), cell.row("feature_weights", filter, cell.input_size()), x);
    }
    let rank = filters / cell.output_size();
    let unit = |unit: usize| {
        let filters_of_unit = unit * rank..(unit + 1) * rank;
        let terms = filters_of_unit.clone().flat_map(|f| state.iter().skip(f).step_by(filters)).copied();
        let weights = filters_of_unit.flat_map(|f| cell.row("time_weights", f, memory)).copied();
        let terms: Vec<Bounded> = terms.collect();
        let sum = dot(cell.element("bias", unit), &weights.collect::<Vec<f32>>(), &terms);
        cell.activation("activation", "identity", sum)
    };
    (0..cell.output_size()).map(unit).collect()
}

pub fn state_len(cell: &Cell<'_>) -> usize {
    cell.hidden_size() * cell.extent("memory")
}
