//! Nodes that run once for each row of a window, and nodes that concatenate several inputs.

use tidegate_model::canonical::{Node, Unroll};

use super::{Bounded, Cell, Step, Value};

/// The concatenated inputs of a node; row by row for an unrolled node.
pub fn gather(node: &Node, inputs: &[&Value]) -> Vec<Bounded> {
    let rows = node.unroll.map_or(1, |unroll| unroll.steps);
    let row = |t: usize, data: &[Bounded]| {
        let size = data.len() / rows;
        data[t * size..(t + 1) * size].to_vec()
    };
    assert!(
        inputs.iter().all(|value| value.data.len().is_multiple_of(rows)),
        "{:?}: {rows} rows of equal length",
        node.name
    );
    (0..rows).flat_map(|t| inputs.iter().flat_map(move |value| row(t, &value.data))).collect()
}

/// Runs a cell over the valid rows. The remaining output rows are 0.
pub fn run(cell: &Cell<'_>, unroll: Unroll, step: Step, x: &[Bounded], state: &mut [Bounded]) -> Vec<Bounded> {
    let rows: Vec<&[Bounded]> = x.chunks(cell.input_size()).collect();
    assert_eq!(rows.len(), unroll.steps, "rows");
    if !unroll.stateful {
        state.fill(Bounded::default());
    }
    let valid = cell.valid_of(unroll.steps);
    let mut outputs = vec![vec![Bounded::default(); cell.output_size()]; unroll.steps];
    for k in 0..valid {
        let read = if unroll.read_backwards { valid - 1 - k } else { k };
        let write = if unroll.write_backwards { valid - 1 - k } else { k };
        let len = state.len() / unroll.steps;
        let own = if unroll.apart { &mut state[k * len..(k + 1) * len] } else { &mut *state };
        outputs[write] = step(cell, rows[read], own);
    }
    outputs.concat()
}
