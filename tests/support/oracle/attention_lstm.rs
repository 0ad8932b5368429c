//! Gates i, f, g, o of x and [h, a]. The state is c, h, a, and the last outputs, oldest first.

use super::softmax::softmax;
use super::sums::{dot, dot_of};
use super::{Bounded, Cell};

pub fn state_len(cell: &Cell<'_>) -> usize {
    2 * cell.hidden_size() + (1 + cell.extent("length")) * cell.output_size()
}

pub fn step(cell: &Cell<'_>, x: &[Bounded], state: &mut [Bounded]) -> Vec<Bounded> {
    let (units, size, features) = (cell.hidden_size(), cell.output_size(), cell.extent("features"));
    let sigmoid = |a| cell.activation("", "sigmoid", a);
    let tanh = |a| cell.activation("", "tanh", a);
    let (c, rest) = state.split_at_mut(units);
    let (beside, memory) = rest.split_at_mut(units + size);
    let gates = |k: usize| {
        [0, 1, 2, 3].map(|gate| {
            let row = gate * units + k;
            let from_input = cell.from_input(row, x, cell.element("input_bias", row));
            dot(from_input, cell.row("recurrent_weights", row, beside.len()), beside)
        })
    };
    let all: Vec<[Bounded; 4]> = (0..units).map(gates).collect();
    for (k, [i, f, g, o]) in all.into_iter().enumerate() {
        c[k] = sigmoid(f).times(c[k]).plus(sigmoid(i).times(tanh(g)));
        beside[k] = sigmoid(o).times(tanh(c[k]));
    }
    let looked: Vec<Bounded> = c.iter().chain(&beside[..units]).copied().collect();
    let query = |k| dot(cell.element("query_bias", k), cell.row("query_weights", k, looked.len()), &looked);
    let query: Vec<Bounded> = (0..features).map(query).collect();
    let v = cell.row("score_weights", 0, features);
    let score = |row: &[Bounded]| {
        let feature = |k| tanh(dot(query[k], cell.row("memory_weights", k, size), row));
        dot(Bounded::default(), v, &(0..features).map(feature).collect::<Vec<_>>())
    };
    // This holds for any error of a score: e^(s - max) is at most 1, and a computed sum is never below one of its
    // terms.
    let scores = softmax(&memory.chunks(size).map(score).collect::<Vec<_>>());
    let scores: Vec<Bounded> = scores.into_iter().map(|score| score.within(0.0, 1.0)).collect();
    for k in 0..size {
        let column = memory.iter().skip(k).step_by(size).copied();
        beside[units + k] = dot_of(Bounded::default(), scores.iter().copied().zip(column));
    }
    let output = |k| dot(cell.element("output_bias", k), cell.row("output_weights", k, beside.len()), beside);
    let output: Vec<Bounded> = (0..size).map(output).collect();
    memory.rotate_left(size);
    let newest = memory.len() - size;
    memory[newest..].copy_from_slice(&output);
    output
}
