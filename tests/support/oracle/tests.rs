//! Tests of the oracle's control flow: windows and unrolled nodes.

use tidegate_model::canonical::Tensor;

use super::*;

/// A model of these nodes from one input `x` to the last node's output; the nodes are JSON as in a canonical file.
pub(super) fn model(input_size: usize, nodes: &str, tensors: &[(&str, &[f32])]) -> Canonical {
    let nodes: Vec<Node> = serde_json::from_str(nodes).expect("the nodes are valid JSON");
    let last = nodes.last().expect("there is a node");
    let size = last.output_size * last.unroll.map_or(1, |unroll| unroll.steps);
    let outputs = vec![crate::random::port("y", size, &last.name)];
    let architecture = serde_json::json!({
        "version": 1, "source": "", "inputs": [{"name": "x", "size": input_size}], "nodes": nodes, "outputs": outputs
    });
    let tensor = |data: &[f32]| Tensor { shape: vec![data.len()], data: data.to_vec() };
    Canonical {
        architecture: serde_json::from_value(architecture).expect("the architecture is valid"),
        tensors: tensors.iter().map(|&(name, data)| (name.to_owned(), tensor(data))).collect(),
    }
}

/// One step of a model without a state.
pub(super) fn once(model: &Canonical, x: &[f32]) -> Vec<f64> {
    let mut state = vec![Bounded::default(); Oracle::new(model).state_len()];
    let outputs = Oracle::new(model).step(&mut state, &[x]).expect("the step has an output");
    outputs[0].iter().map(|y| y.value).collect()
}

/// The outputs for inputs 1, 2, 3, ..., and the output at the end of the sequence.
fn steps(model: &Canonical, count: usize) -> (Vec<Option<Vec<f64>>>, Option<Vec<f64>>) {
    let oracle = Oracle::new(model);
    let mut state = vec![Bounded::default(); oracle.state_len()];
    let values = |outputs: Outputs| outputs[0].iter().map(|y| y.value).collect();
    let steps = (1..=count).map(|t| oracle.step(&mut state, &[&[t as f32]]).map(values)).collect();
    (steps, oracle.finish(&mut state).map(values))
}

fn window(extents: &str, options: &str) -> Canonical {
    let nodes = format!(
        r#"[{{"name": "w", "cell": "window", "inputs": ["x"], "input_size": 1, "hidden_size": 3, "output_size": 3,
            "options": [{options}], "extents": {{{extents}}}}}]"#
    );
    model(1, &nodes, &[])
}

#[test]
fn a_window_waits_until_it_is_full_and_then_for_its_hop() {
    let (given, last) = steps(&window(r#""length": 3, "hop": 2"#, ""), 6);
    let rows = |first: f64| Some(vec![first, first + 1.0, first + 2.0]);
    assert_eq!(given, [None, None, rows(1.0), None, rows(3.0), None]);
    assert_eq!(last, None);
}

#[test]
fn prefilled_rows_of_zeros_are_present_from_the_start() {
    let (given, _) = steps(&window(r#""length": 3, "hop": 2, "prefill": 2"#, ""), 3);
    assert_eq!(given, [Some(vec![0.0, 0.0, 1.0]), None, Some(vec![1.0, 2.0, 3.0])]);
}

#[test]
fn the_end_yields_the_rows_of_a_partial_window() {
    let partial = window(r#""length": 3, "hop": 3"#, r#""partial""#);
    let (given, last) = steps(&partial, 5);
    assert_eq!(given, [None, None, Some(vec![1.0, 2.0, 3.0]), None, None]);
    assert_eq!(last, Some(vec![4.0, 5.0, 0.0]));
    assert_eq!(steps(&partial, 3).1, None);
    assert_eq!(steps(&partial, 0).1, None);
}

/// h' = h + x over a window of three rows.
fn sums(unroll: &str) -> Canonical {
    let nodes = format!(
        r#"[{{"name": "w", "cell": "window", "inputs": ["x"], "input_size": 1, "hidden_size": 3, "output_size": 3,
            "options": ["partial"], "extents": {{"length": 3, "hop": 3}}}},
           {{"name": "e", "cell": "elman", "inputs": ["w"], "input_size": 1, "hidden_size": 1, "output_size": 1,
            "activations": {{"activation": "identity"}}, "unroll": {{"steps": 3{unroll}}}}}]"#
    );
    model(1, &nodes, &[("e.input_weights", &[1.0]), ("e.recurrent_weights", &[1.0])])
}

#[test]
fn an_unrolled_cell_reads_and_writes_in_either_direction() {
    let of = |unroll: &str| {
        let (mut given, last) = steps(&sums(unroll), 5);
        (given.swap_remove(2).expect("a full window"), last.expect("a partial window"))
    };
    assert_eq!(of(""), (vec![1.0, 3.0, 6.0], vec![4.0, 9.0, 0.0]));
    assert_eq!(of(r#", "read_backwards": true"#), (vec![3.0, 5.0, 6.0], vec![5.0, 9.0, 0.0]));
    let aligned = of(r#", "read_backwards": true, "write_backwards": true"#);
    assert_eq!(aligned, (vec![6.0, 5.0, 3.0], vec![9.0, 5.0, 0.0]));
    assert_eq!(of(r#", "stateful": true"#), (vec![1.0, 3.0, 6.0], vec![10.0, 15.0, 0.0]));
}

#[test]
fn an_unrolled_node_concatenates_its_inputs_row_by_row() {
    let nodes = r#"[{"name": "a", "cell": "dense", "inputs": ["x"], "input_size": 1, "hidden_size": 1, "output_size": 1,
            "unroll": {"steps": 2}},
        {"name": "b", "cell": "dense", "inputs": ["x", "a"], "input_size": 2, "hidden_size": 1, "output_size": 1,
            "unroll": {"steps": 2}}]"#;
    let model = model(2, nodes, &[("a.weights", &[10.0]), ("b.weights", &[1.0, 1.0])]);
    assert_eq!(once(&model, &[1.0, 2.0]), [11.0, 22.0]);
}
