//! Exponential gates i, f, then g, o; heads. The state is h, c, the normalizer n, the stabilizer m.
//!
//! For a ≤ 0, the computed e^a is never above 1 plus its stated error.

use super::bounded::EXP_ERROR;
use super::min_lstm::log_sigmoid;
use super::sums::dot;
use super::{Bounded, Cell, count};

pub fn state_len(cell: &Cell<'_>) -> usize {
    4 * cell.hidden_size()
}

pub fn step(cell: &Cell<'_>, x: &[Bounded], state: &mut [Bounded]) -> Vec<Bounded> {
    let (units, heads) = (cell.hidden_size(), cell.extent("heads"));
    let first = state[2 * units..3 * units].iter().all(|n| n.value == 0.0);
    let h = state[..units].to_vec();
    let mut y = Vec::new();
    for k in 0..units {
        let h = h.chunks(units / heads).nth(k / (units / heads)).expect("the head exists");
        let [i, f, g, o] = [0, 1, 2, 3].map(|gate| {
            let (row, bias) = (gate * units + k, cell.element("bias", gate * units + k));
            let wx = if cell.has("preactivated") { bias.plus(x[row]) } else { cell.from_input(row, x, bias) };
            dot(wx, cell.row("recurrent_weights", row, h.len()), h)
        });
        let [c, n, m] = [1, 2, 3].map(|part| state[part * units + k]);
        let kept = m.plus(log_sigmoid(f));
        let top = if first { i } else { i.max(kept) };
        let [enter, keep] = [i, kept].map(|a| exp_at_most_1(a.minus(top)));
        let c = keep.times(c).plus(enter.times(cell.activation("", "tanh", g)));
        let n = keep.times(n).plus(enter);
        y.push(cell.activation("", "sigmoid", o).times(c).over(n));
        for (part, next) in [(0, y[k]), (1, c), (2, n), (3, top)] {
            state[part * units + k] = next;
        }
    }
    y
}

/// min(e^a, 1)
fn exp_at_most_1(a: Bounded) -> Bounded {
    count::curves(1);
    a.min(Bounded::exact(0.0)).exp().within(0.0, 1.0 + EXP_ERROR)
}
