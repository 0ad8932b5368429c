//! The row of a table selected by x, rounded to the nearest integer, halves away from zero, and clamped to the
//! vocabulary. If the computed x may select another index, the bound covers the rows of all possible indices.

use super::{Bounded, Cell};
use crate::tolerance::worst;

pub fn step(cell: &Cell<'_>, x: &[Bounded], _: &mut [Bounded]) -> Vec<Bounded> {
    let &[x] = x else { panic!("an embedding reads one index, not {} features", x.len()) };
    let last = cell.extent("vocabulary") - 1;
    let index = |x: f64| x.round().clamp(0.0, last as f64) as usize;
    let element = |row: usize, k: usize| f64::from(cell.row("weights", row, cell.output_size())[k]);
    let column = |k: usize| {
        let value = element(index(x.value), k);
        let possible = index(x.value - x.error)..=index(x.value + x.error);
        let error = worst(possible.map(|row| (element(row, k) - value).abs()));
        Bounded::new(value, error)
    };
    (0..cell.output_size()).map(column).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{model, once};
    use super::super::{Bounded, Cell};

    #[test]
    fn an_index_is_rounded_and_clamped_to_the_vocabulary() {
        let nodes = r#"[{"name": "n", "cell": "embedding", "inputs": ["x"], "input_size": 1, "hidden_size": 2,
            "output_size": 2, "extents": {"vocabulary": 3}}]"#;
        let model = model(1, nodes, &[("n.weights", &[0.0, 1.0, 10.0, 11.0, 20.0, 21.0])]);
        for (x, y) in [(1.0, 10.0), (0.6, 10.0), (-4.0, 0.0), (7.0, 20.0)] {
            assert_eq!(once(&model, &[x]), [y, y + 1.0]);
        }
        let cell = Cell::new(&model, &model.architecture.nodes[0], None);
        let unsure = super::step(&cell, &[Bounded { value: 0.4, error: 0.2 }], &mut []);
        assert_eq!(unsure[0], Bounded { value: 0.0, error: 10.0 });
    }
}
