//! A layer on its way into a canonical model: what every importer makes of its framework's cell.

use std::collections::BTreeMap;

use tidegate::activation::Activation;
use tidegate::cell::CellKind;

use crate::canonical::{Architecture, Canonical, Node, Port, Schedule, Tensor};
use crate::error::ImportError;

/// One node without a name. Names of options, parameters, activations and tensors are those of the cell's spec.
#[derive(Clone, Debug)]
pub struct Layer {
    /// Its cell.
    pub kind: CellKind,
    /// Features in.
    pub input_size: usize,
    /// Units.
    pub hidden_size: usize,
    /// Features out.
    pub output_size: usize,
    /// The options that are on.
    pub options: Vec<&'static str>,
    /// Numbers.
    pub params: BTreeMap<&'static str, f32>,
    /// Activations that may differ from the spec's defaults.
    pub activations: BTreeMap<&'static str, Activation>,
    /// Weights in canonical shape and gate order.
    pub tensors: BTreeMap<&'static str, Tensor>,
}

impl Layer {
    /// A layer without options or weights; output is as wide as hidden.
    pub fn new(kind: CellKind, input_size: usize, hidden_size: usize) -> Self {
        Self {
            kind,
            input_size,
            hidden_size,
            output_size: hidden_size,
            options: Vec::new(),
            params: BTreeMap::new(),
            activations: BTreeMap::new(),
            tensors: BTreeMap::new(),
        }
    }

    /// The same with a tensor.
    #[must_use]
    pub fn tensor(mut self, name: &'static str, tensor: Tensor) -> Self {
        self.tensors.insert(name, tensor);
        self
    }

    /// The same with an activation.
    #[must_use]
    pub fn activation(mut self, name: &'static str, activation: Activation) -> Self {
        self.activations.insert(name, activation);
        self
    }

    fn node(&self, name: &str, input: &str) -> Node {
        // A canonical model names only what differs from the spec.
        let defaults = self.kind.spec().activations;
        let differs = |name: &str, activation: Activation| {
            !defaults.iter().any(|known| known.name == name && known.default == activation)
        };
        Node {
            name: name.to_owned(),
            cell: self.kind.spec().name.to_owned(),
            inputs: vec![input.to_owned()],
            input_size: self.input_size,
            hidden_size: self.hidden_size,
            output_size: self.output_size,
            options: self.options.iter().map(|&option| option.to_owned()).collect(),
            params: self.params.iter().map(|(&name, &value)| (name.to_owned(), value)).collect(),
            activations: self
                .activations
                .iter()
                .filter(|&(&name, &activation)| differs(name, activation))
                .map(|(&name, activation)| (name.to_owned(), activation.to_string()))
                .collect(),
        }
    }
}

/// A model of `layers` one after the other, from input port `input` to output port `output`. Nodes are named
/// after their cells: `gru`, `gru_2`, `dense`.
///
/// # Errors
/// If there is no layer, or the layers do not make a valid model.
pub fn chain(source: String, input: &str, layers: Vec<Layer>, output: &str) -> Result<Canonical, ImportError> {
    let (Some(first), Some(last)) = (layers.first(), layers.last()) else {
        return Err(ImportError::Unsupported("a network without layers".into()));
    };
    let inputs = vec![Port { name: input.to_owned(), size: first.input_size, from: String::new() }];
    let output_size = last.output_size;
    let mut nodes: Vec<Node> = Vec::new();
    let mut tensors = BTreeMap::new();
    for layer in layers {
        let kind = layer.kind.spec().name;
        // An input port may bear a cell's name; nodes and inputs share one name space.
        let taken = |name: &str| name == input || nodes.iter().any(|node| node.name == name);
        let mut name = kind.to_owned();
        let mut number = 2;
        while taken(&name) {
            name = format!("{kind}_{number}");
            number += 1;
        }
        let node = layer.node(&name, nodes.last().map_or(input, |node| &node.name));
        nodes.push(node);
        tensors.extend(layer.tensors.into_iter().map(|(tensor, value)| (format!("{name}.{tensor}"), value)));
    }
    let from = nodes.last().map(|node| node.name.clone()).unwrap_or_default();
    let architecture = Architecture {
        version: 1,
        source,
        inputs,
        nodes,
        outputs: vec![Port { name: output.to_owned(), size: output_size, from }],
        labels: Vec::new(),
        front_end: None,
        schedule: Schedule::Endless,
        detector: None,
    };
    let model = Canonical { architecture, tensors };
    model.validate()?;
    Ok(model)
}
