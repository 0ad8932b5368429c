//! The last valid row of `steps` rows, or the first with the option `first`.

use super::{Bounded, Cell};

pub fn step(cell: &Cell<'_>, x: &[Bounded], _: &mut [Bounded]) -> Vec<Bounded> {
    let steps = cell.extent("steps");
    let size = x.len() / steps;
    let row = if cell.has("first") { 0 } else { cell.valid_of(steps) - 1 };
    x[row * size..][..size].to_vec()
}

#[cfg(test)]
mod tests {
    use super::super::tests::model;
    use super::super::{Bounded, Oracle};

    #[test]
    fn the_last_row_of_a_partial_window_is_its_last_valid_row() {
        let given = |options: &str| {
            let nodes = format!(
                r#"[{{"name": "w", "cell": "window", "inputs": ["x"], "input_size": 1, "hidden_size": 3,
                    "output_size": 3, "options": ["partial"], "extents": {{"length": 3, "hop": 3}}}},
                   {{"name": "l", "cell": "last", "inputs": ["w"], "input_size": 3, "hidden_size": 1,
                    "output_size": 1, "options": [{options}], "extents": {{"steps": 3}}}}]"#
            );
            let model = model(1, &nodes, &[]);
            let oracle = Oracle::new(&model);
            let mut state = vec![Bounded::default(); oracle.state_len()];
            let full = oracle.run(&mut state, &[1.0, 2.0, 3.0, 4.0, 5.0]);
            [full[0].value, oracle.finish(&mut state).expect("the window has rows")[0][0].value]
        };
        assert_eq!(given(""), [3.0, 5.0]);
        assert_eq!(given(r#""first""#), [1.0, 4.0]);
    }
}
