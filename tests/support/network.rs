//! Networks built from nodes that a test defines one by one, rather than from a chain of cells.

use std::collections::BTreeMap;

use tidegate::internals::cell::CellKind;
use tidegate_model::canonical::{Architecture, Canonical, Node, Schedule, Tensor, Unroll};

use crate::random::{Draw, Rng, draw_tensors, port};

/// A node without options that reads one value. `sizes` are its input, hidden and output sizes.
pub fn node(name: &str, cell: &str, from: &str, sizes: [usize; 3], extents: &[(&str, usize)]) -> Node {
    let [input_size, hidden_size, output_size] = sizes;
    Node {
        name: name.to_owned(),
        cell: cell.to_owned(),
        inputs: vec![from.to_owned()],
        input_size,
        hidden_size,
        output_size,
        options: Vec::new(),
        params: BTreeMap::new(),
        activations: BTreeMap::new(),
        extents: extents.iter().map(|&(name, value)| (name.to_owned(), value)).collect(),
        unroll: None,
    }
}

/// The node, reading these values instead.
#[must_use]
pub fn reading(mut node: Node, inputs: &[&str]) -> Node {
    node.inputs = inputs.iter().map(|&input| input.to_owned()).collect();
    node
}

/// The node with these options.
#[must_use]
pub fn with(mut node: Node, options: &[&str]) -> Node {
    node.options = options.iter().map(|&option| option.to_owned()).collect();
    node
}

/// The node with this activation.
#[must_use]
pub fn activated(mut node: Node, activation: &str) -> Node {
    node.activations.insert("activation".to_owned(), activation.to_owned());
    node
}

/// The node unrolled over the rows of a window.
#[must_use]
pub fn unrolled(mut node: Node, steps: usize, backwards: bool, stateful: bool) -> Node {
    node.unroll = Some(Unroll { steps, read_backwards: backwards, write_backwards: backwards, stateful, apart: false });
    node
}

/// The node over rows that have states of their own.
#[must_use]
pub fn apart(mut node: Node, steps: usize) -> Node {
    node.unroll = Some(Unroll { stateful: true, apart: true, ..Unroll::over(steps) });
    node
}

/// A network whose input `in` is the first node's input and whose output `out` is the last node's.
pub fn network(nodes: Vec<Node>, tensors: &[(&str, &[usize], &[f32])]) -> Canonical {
    let (first, last) = (&nodes[0], &nodes[nodes.len() - 1]);
    let architecture = Architecture {
        version: 1,
        source: "tests".to_owned(),
        inputs: vec![port("in", first.input_size, "")],
        outputs: vec![port("out", last.output_size * last.steps(), &last.name)],
        nodes,
        labels: Vec::new(),
        front_end: None,
        schedule: Schedule::Endless,
        detector: None,
        integers: BTreeMap::new(),
    };
    let tensor = |&(name, shape, data): &(&str, &[usize], &[f32])| {
        (name.to_owned(), Tensor { shape: shape.to_vec(), data: data.to_vec() })
    };
    let model = Canonical { architecture, tensors: tensors.iter().map(tensor).collect() };
    model.validate().expect("the network is valid");
    model
}

/// The same network with randomly drawn tensors.
pub fn drawn(rng: &mut Rng, nodes: Vec<Node>, draw: Draw) -> Canonical {
    let mut tensors = BTreeMap::new();
    for node in &nodes {
        let kind = CellKind::from_name(&node.cell).expect("the cell exists");
        draw_tensors(rng, node, kind, draw, &mut tensors);
    }
    let given: Vec<(&str, &[usize], &[f32])> = tensors
        .iter()
        .map(|(name, tensor): (&String, &Tensor)| (name.as_str(), tensor.shape.as_slice(), tensor.data.as_slice()))
        .collect();
    network(nodes, &given)
}
