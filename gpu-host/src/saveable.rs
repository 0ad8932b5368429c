//! Conversion of the weights of a stack to and from a canonical model, which `tidegate pack` reads. TensorFlow calls this
//! a `Saveable`.
//!
//! A first layer without input weights is saved with the identity as input weights, which is equivalent. It is restored
//! only from the identity.

use std::collections::BTreeSet;

use tidegate::internals::cell::CellKind;
use tidegate_model::canonical::{Canonical, Node, Tensor};
use tidegate_model::error::{ImportError, Shape};
use tidegate_model::format::{self, Layer, Network, Source};

use crate::rnn::{self, Cell, Rnn};
use crate::weights::{LayerWeights, WeightsError, check, tensors};

/// Why a stack cannot be saved or restored.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the error texts explain the variants and their fields")]
pub enum SaveError {
    /// The weights do not fit the stack.
    #[error(transparent)]
    Weights(#[from] WeightsError),
    /// The network is not a valid model.
    #[error(transparent)]
    Model(#[from] ImportError),
    #[error("a bidirectional network needs a sequence length")]
    NeedsWindow,
    #[error("the recurrent layers of the model are {found}, but must be {needed}")]
    Layers { found: String, needed: String },
    #[error("layer {node:?} of the model has {what}, which is not supported")]
    Foreign { node: String, what: String },
    #[error("layer {node:?} of the model has input weights that are not the identity")]
    NotSkipped { node: String },
}

fn layer(rnn: &Rnn, pseudo_layer: usize, weights: &LayerWeights) -> Layer {
    let settings = rnn.settings();
    let mut layer = Layer::new(settings.cell.kind(), rnn.input_size(pseudo_layer), settings.hidden_size);
    layer.output_size = rnn.output_size();
    if settings.cell == Cell::Gru {
        layer = layer.option("reset_after");
    }
    if settings.projected_size.is_some() {
        layer = layer.option("projection");
    }
    if let Some(clip) = settings.cell_clip {
        layer = layer.param("cell_clip", clip);
    }
    if let Some(activation) = settings.cell.activation() {
        layer = layer.activation("activation", activation);
    }
    linear(rnn, pseudo_layer, weights).into_iter().fold(layer, |layer, (name, tensor)| layer.tensor(name, tensor))
}

/// Input weights that are equivalent to none: the identity for every gate.
fn skipped(rnn: &Rnn) -> Tensor {
    let (blocks, size) = (rnn.settings().cell.blocks(), rnn.settings().hidden_size);
    let row = |row: usize| (0..size).map(move |col| if row % size == col { 1.0 } else { 0.0 });
    Tensor { shape: vec![blocks * size, size], data: (0..blocks * size).flat_map(row).collect() }
}

/// Adds the identity as input weights to a layer without input weights.
pub(crate) fn linear(rnn: &Rnn, pseudo_layer: usize, weights: &LayerWeights) -> LayerWeights {
    let mut weights = weights.clone();
    if !rnn.has_input_weights(pseudo_layer) {
        weights.insert("input_weights", skipped(rnn));
    }
    weights
}

/// Adds a stack to a network. Returns the outputs of its last layer, one per direction.
///
/// # Errors
/// If the weights do not fit the stack, or the input of a bidirectional stack is not a window.
pub fn add(rnn: &Rnn, layers: &[LayerWeights], network: &mut Network, input: Source) -> Result<Vec<Source>, SaveError> {
    check(rnn, layers)?;
    let directions = rnn.settings().direction.count();
    if directions == 2 && input.rows().is_none() {
        return Err(SaveError::NeedsWindow);
    }
    let mut sources = vec![input];
    for (number, pair) in layers.chunks(directions).enumerate() {
        let reads = sources;
        let reads: Vec<&Source> = reads.iter().collect();
        let each = |(k, weights)| {
            let direction = if k == 0 { format::Direction::Forward } else { format::Direction::Backward };
            network.directed(layer(rnn, number * directions + k, weights), &reads, direction)
        };
        sources = pair.iter().enumerate().map(each).collect();
    }
    Ok(sources)
}

/// Converts a stack to a canonical model with the input port `input` and the output port `output`. A bidirectional
/// stack runs over windows of `window` steps.
///
/// # Errors
/// The errors of [`add`], or if the network is not a valid model.
pub fn save(rnn: &Rnn, layers: &[LayerWeights], window: Option<usize>, source: String) -> Result<Canonical, SaveError> {
    let mut network = Network::new();
    let input = network.input("input", rnn.settings().input_size);
    let input = match window {
        Some(rows) => network.window(&input, rows),
        None => input,
    };
    let outputs = add(rnn, layers, &mut network, input)?;
    let output = network.concat(&outputs);
    network.output("output", &output);
    Ok(network.model(source)?)
}

/// The cell of a recurrent layer of a model.
fn cell(node: &Node) -> Option<Cell> {
    let kind = CellKind::from_name(&node.cell)?;
    let relu = node.activations.get("activation").is_some_and(|found| found == "relu");
    match Cell::ALL.into_iter().find(|cell| cell.kind() == kind)? {
        Cell::RnnTanh if relu => Some(Cell::RnnRelu),
        cell => Some(cell),
    }
}

fn is_backward(node: &Node) -> bool {
    node.unroll.is_some_and(|unroll| unroll.read_backwards)
}

/// Reads the weights of a stack from any canonical model whose recurrent layers are those of the stack, in the same
/// order. A bias that the model lacks is zero. A bias that the stack lacks must be zero in the model. Options that
/// cuDNN does not support are refused.
///
/// # Errors
/// If the recurrent layers of the model are not those of the stack.
pub fn restore(rnn: &Rnn, model: &Canonical) -> Result<Vec<LayerWeights>, SaveError> {
    let nodes: Vec<&Node> = model.architecture.nodes.iter().filter(|node| cell(node).is_some()).collect();
    let words = |cell: &str, [input, hidden, output]: [usize; 3], backward: bool| {
        format!("{cell} {input}x{hidden}x{output}{}", if backward { " backward" } else { "" })
    };
    let own = |k| {
        let (settings, sizes) = (rnn.settings(), [rnn.input_size(k), rnn.settings().hidden_size, rnn.output_size()]);
        words(settings.cell.kind().spec().name, sizes, k % settings.direction.count() == 1)
    };
    let of = |node: &&Node| words(&node.cell, [node.input_size, node.hidden_size, node.output_size], is_backward(node));
    let needed: Vec<String> = (0..rnn.pseudo_layers()).map(own).collect();
    let found: Vec<String> = nodes.iter().map(of).collect();
    if found != needed {
        return Err(SaveError::Layers { found: found.join(", "), needed: needed.join(", ") });
    }
    nodes.into_iter().enumerate().map(|(pseudo_layer, node)| read(rnn, pseudo_layer, node, model)).collect()
}

fn read(rnn: &Rnn, pseudo_layer: usize, node: &Node, model: &Canonical) -> Result<LayerWeights, SaveError> {
    let foreign = |what: String| SaveError::Foreign { node: node.name.clone(), what };
    let options: BTreeSet<&str> = node.options.iter().map(String::as_str).collect();
    let mut wanted = BTreeSet::new();
    wanted.extend((rnn.settings().cell == Cell::Gru).then_some("reset_after"));
    wanted.extend(rnn.settings().projected_size.map(|_| "projection"));
    if let Some(option) = options.symmetric_difference(&wanted).next() {
        let is = if options.contains(option) { "" } else { "no " };
        return Err(foreign(format!("{is}option {option}")));
    }
    let spec = rnn.settings().cell.kind().spec();
    for known in spec.activations {
        let needed = rnn.settings().cell.activation().unwrap_or(known.default).to_string();
        let default = known.default.to_string();
        let found = node.activations.get(known.name).unwrap_or(&default);
        if *found != needed {
            return Err(foreign(format!("{} {found}", known.name)));
        }
    }
    let clip = rnn.settings().cell_clip;
    let own = |name: &str| if name == "cell_clip" { clip.unwrap_or(0.0) } else { 0.0 };
    if let Some((name, value)) = node.params.iter().find(|(name, value)| **value != own(name)) {
        return Err(foreign(format!("{name} {value}")));
    }
    if clip.is_some() && !node.params.contains_key("cell_clip") {
        return Err(foreign("no cell_clip".to_owned()));
    }
    take(rnn, pseudo_layer, &node.name, |name| model.tensors.get(&format!("{}.{name}", node.name)))
}

/// Collects the tensors of a pseudo-layer by their canonical names. Errors name it `node`.
pub(crate) fn take<'t>(
    rnn: &Rnn,
    pseudo_layer: usize,
    node: &str,
    tensor: impl Fn(&str) -> Option<&'t Tensor>,
) -> Result<LayerWeights, SaveError> {
    if !rnn.has_input_weights(pseudo_layer) && tensor("input_weights") != Some(&skipped(rnn)) {
        return Err(SaveError::NotSkipped { node: node.to_owned() });
    }
    let mut layer = LayerWeights::new();
    for (name, _, _, shape) in tensors(rnn, pseudo_layer) {
        let zeros = || Tensor { data: vec![0.0; shape.iter().product()], shape: shape.clone() };
        let found = tensor(name).cloned().unwrap_or_else(zeros);
        if found.shape != shape {
            let (found, needed) = (Shape(found.shape), format!("it must be {}", Shape(shape)));
            return Err(ImportError::Shape { tensor: format!("{node}.{name}"), found, needed }.into());
        }
        layer.insert(name, found);
    }
    for name in ["input_bias", "recurrent_bias"] {
        let is_left = |tensor: &Tensor| !layer.contains_key(name) && tensor.data.iter().any(|&value| value != 0.0);
        if tensor(name).is_some_and(is_left) {
            return Err(SaveError::Foreign { node: node.to_owned(), what: name.replace('_', " ") });
        }
    }
    Ok(layer)
}

/// The settings of a stack that can hold the recurrent layers of a canonical model. As in cuDNN, these must have the
/// same cell and size. The stack has both biases and input weights.
///
/// # Errors
/// If there is no such stack.
pub fn settings(model: &Canonical) -> Result<Rnn, SaveError> {
    let nodes: Vec<(&Node, Cell)> =
        model.architecture.nodes.iter().filter_map(|node| Some((node, cell(node)?))).collect();
    let none = || SaveError::Layers { found: "none".into(), needed: "at least one".into() };
    let &(first, cell) = nodes.first().ok_or_else(none)?;
    let both = nodes.iter().any(|(node, _)| is_backward(node));
    let direction = if both { rnn::Direction::Bidirectional } else { rnn::Direction::Unidirectional };
    let settings = rnn::Settings {
        layers: nodes.len() / direction.count(),
        projected_size: first.options.iter().any(|option| option == "projection").then_some(first.output_size),
        direction,
        cell_clip: first.params.get("cell_clip").copied().filter(|clip| *clip != 0.0),
        ..rnn::Settings::new(cell, first.input_size, first.hidden_size)
    };
    let stack =
        Rnn::new(settings).map_err(|error| SaveError::Foreign { node: first.name.clone(), what: error.to_string() })?;
    restore(&stack, model).map(|_| stack)
}
