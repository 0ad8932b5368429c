//! What TensorFlow called a `Saveable`: the weights of a stack as a canonical model, which any machine restores and
//! `tidegate pack` reads.
//!
//! Skipped input weights are written as what they compute, the identity; a layer that a stack reads back skips them
//! only where they are that.

use std::collections::BTreeSet;

use tidegate::cell::CellKind;
use tidegate_tools::canonical::{Canonical, Node, Tensor};
use tidegate_tools::error::{ImportError, Shape};
use tidegate_tools::format::{self, Layer, Network, Source};

use crate::rnn::{self, Cell, Rnn};
use crate::weights::{LayerWeights, WeightsError, check, tensors};

/// Why a stack cannot be saved or restored.
#[derive(Debug, thiserror::Error)]
pub enum SaveError {
    /// The weights are not the stack's.
    #[error(transparent)]
    Weights(#[from] WeightsError),
    /// The network is no valid model.
    #[error(transparent)]
    Model(#[from] ImportError),
    /// Two directions look at a sequence of known length.
    #[error("a bidirectional network needs the number of steps that it looks at")]
    NeedsWindow,
    /// The model has other layers.
    #[error("the model's recurrent layers are {found}, but must be {needed}")]
    Layers {
        /// Cells of the model.
        found: String,
        /// Cells of the stack.
        needed: String,
    },
    /// A layer has something that cuDNN, or the framework that it is written for, does not compute.
    #[error("layer {node:?} of the model has {what}: there is no such layer")]
    Foreign {
        /// Which.
        node: String,
        /// What.
        what: String,
    },
    /// An input that is to be skipped has weights.
    #[error("layer {node:?} of the model has input weights that are not the identity")]
    NotSkipped {
        /// Which.
        node: String,
    },
}

/// The canonical layer of a pseudo-layer.
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

/// Every gate sees the input as it is.
fn skipped(rnn: &Rnn) -> Tensor {
    let (blocks, size) = (rnn.settings().cell.blocks(), rnn.settings().hidden_size);
    let row = |row: usize| (0..size).map(move |col| if row % size == col { 1.0 } else { 0.0 });
    Tensor { shape: vec![blocks * size, size], data: (0..blocks * size).flat_map(row).collect() }
}

/// The same weights where the input is not skipped but goes through weights that leave it as it is.
pub(crate) fn linear(rnn: &Rnn, pseudo_layer: usize, weights: &LayerWeights) -> LayerWeights {
    let mut weights = weights.clone();
    if !rnn.has_input_weights(pseudo_layer) {
        weights.insert("input_weights", skipped(rnn));
    }
    weights
}

/// The weights of a pseudo-layer from a layer of an importer, which `node` names.
pub(crate) fn of_layer(rnn: &Rnn, pseudo_layer: usize, layer: Layer, node: &str) -> Result<LayerWeights, SaveError> {
    take(rnn, pseudo_layer, node, |name| layer.tensors.get(name))
}

/// Adds the stack to a network that goes on behind it; what it gives are the outputs of its last layer, one for each
/// direction.
///
/// # Errors
/// If the weights are not the stack's, or a bidirectional stack does not read rows of a window.
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

/// The stack alone as a canonical model: input port `input`, output port `output`. A bidirectional one looks at windows
/// of so many steps.
///
/// # Errors
/// As [`add`]; and if the network is no valid model.
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

/// The weights of the stack from a canonical model, whoever made it: its recurrent layers, in their order, must be the
/// stack's. A bias that the model does not have is zero; one that the stack does not have is refused unless it is
/// zero, and so is any option that cuDNN does not compute.
///
/// # Errors
/// If the model's recurrent layers are others.
pub fn restore(rnn: &Rnn, model: &Canonical) -> Result<Vec<LayerWeights>, SaveError> {
    let recurrent = |node: &&Node| {
        CellKind::from_name(&node.cell).is_some_and(|kind| Cell::ALL.iter().any(|cell| cell.kind() == kind))
    };
    let nodes: Vec<&Node> = model.architecture.nodes.iter().filter(recurrent).collect();
    let words = |node: &&Node| {
        let backwards = node.unroll.is_some_and(|unroll| unroll.read_backwards);
        let direction = if backwards { " backward" } else { "" };
        format!("{} {}x{}x{}{direction}", node.cell, node.input_size, node.hidden_size, node.output_size)
    };
    let directions = rnn.settings().direction.count();
    let needed: Vec<String> = (0..rnn.pseudo_layers())
        .map(|k| {
            let direction = if k % directions == 1 { " backward" } else { "" };
            let (cell, input) = (rnn.settings().cell.kind().spec().name, rnn.input_size(k));
            format!("{cell} {input}x{}x{}{direction}", rnn.settings().hidden_size, rnn.output_size())
        })
        .collect();
    let found: Vec<String> = nodes.iter().map(words).collect();
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

/// Tensors by their canonical names as the weights of a pseudo-layer.
fn take<'t>(
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
            Err(ImportError::Shape { tensor: format!("{node}.{name}"), found, needed })?;
        } else {
            layer.insert(name, found);
        }
    }
    for name in ["input_bias", "recurrent_bias"] {
        let is_left = |tensor: &Tensor| !layer.contains_key(name) && tensor.data.iter().any(|&value| value != 0.0);
        if tensor(name).is_some_and(is_left) {
            return Err(SaveError::Foreign { node: node.to_owned(), what: name.replace('_', " ") });
        }
    }
    Ok(layer)
}

/// The settings of a stack whose weights a canonical model holds, if its recurrent layers are of one kind and size, as
/// cuDNN's are: with both biases, and reading its input through weights.
///
/// # Errors
/// If they are not.
pub fn settings(model: &Canonical) -> Result<Rnn, SaveError> {
    let of_kind = |node: &&Node| match CellKind::from_name(&node.cell)? {
        CellKind::Lstm => Some(Cell::Lstm),
        CellKind::Gru => Some(Cell::Gru),
        CellKind::Elman if node.activations.get("activation").is_some_and(|found| found == "relu") => {
            Some(Cell::RnnRelu)
        }
        CellKind::Elman => Some(Cell::RnnTanh),
        _ => None,
    };
    let nodes: Vec<(&Node, Cell)> =
        model.architecture.nodes.iter().filter_map(|node| Some((node, of_kind(&node)?))).collect();
    let none = || SaveError::Layers { found: "none".into(), needed: "at least one".into() };
    let &(first, cell) = nodes.first().ok_or_else(none)?;
    let backward = |node: &Node| node.unroll.is_some_and(|unroll| unroll.read_backwards);
    let both = nodes.iter().any(|(node, _)| backward(node));
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
