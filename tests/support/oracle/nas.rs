//! Eight blocks. The bias belongs to the recurrent product, and block 3 multiplies the recurrent product with the input
//! product. The state is h, then c.

use super::sums::dot;
use super::{Bounded, Cell};

pub fn state_len(cell: &Cell<'_>) -> usize {
    cell.output_size() + cell.hidden_size()
}

pub fn step(cell: &Cell<'_>, x: &[Bounded], state: &mut [Bounded]) -> Vec<Bounded> {
    let units = cell.hidden_size();
    let (h, c) = state.split_at_mut(cell.output_size());
    let sigmoid = |a| cell.activation("", "sigmoid", a);
    let tanh = |a| cell.activation("", "tanh", a);
    let mut m = Vec::new();
    for (k, c) in c.iter_mut().enumerate() {
        let [a, b]: [Vec<Bounded>; 2] = [0, 1].map(|recurrent| {
            let product = |block: usize| {
                let row = block * units + k;
                match recurrent {
                    0 => cell.from_input(row, x, Bounded::default()),
                    _ => dot(cell.element("recurrent_bias", row), cell.row("recurrent_weights", row, h.len()), h),
                }
            };
            (0..8).map(product).collect()
        });
        let sum = |block: usize| a[block].plus(b[block]);
        let kept = tanh(sigmoid(sum(0)).times(sum(1).relu())).plus(*c);
        *c = tanh(kept).times(tanh(sigmoid(sum(2)).plus(a[3].times(b[3]).relu())));
        let shown = tanh(tanh(sum(4)).times(sigmoid(sum(5)))).plus(sigmoid(tanh(sum(6)).plus(sigmoid(sum(7)))));
        m.push(tanh(c.times(tanh(shown))));
    }
    if cell.has("projection") {
        let row = |k| dot(Bounded::default(), cell.row("projection_weights", k, units), &m);
        m = (0..h.len()).map(row).collect();
    }
    h.copy_from_slice(&m);
    m
}
