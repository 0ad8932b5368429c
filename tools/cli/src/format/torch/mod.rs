//! PyTorch's `nn.LSTM`, `nn.GRU` and `nn.RNN`, their cells, and plain layers: gate orders i, f, g, o and r, z, n are the
//! canonical ones; a GRU resets after its product. A bidirectional network looks at the whole sequence as one window.

mod dict;
mod file;
mod kernel;
mod names;
mod pickle;
mod plain;
mod state;

use tidegate::activation::Activation;
use tidegate::cell::CellKind;

use super::description::{Take, Value};
use super::golden::{Case, Control, agree};
use super::layer::{At, Layer};
use super::network::{Direction, Network, Source};
use super::weights::Named;
use crate::error::ImportError;

pub(crate) use file::{import_archive, import_pickles, is_torch};
pub(crate) use state::{import_safetensors, import_tensors};

/// The network of a `torch` case.
pub(crate) fn convert(case: &mut Case<'_>) -> Result<Network, ImportError> {
    // Packed sequences.
    case.control("sequence_length", Control::Length);
    let mut network = Network::new();
    let shape = case.input_shape()?;
    let mut source = network.input("input", shape.iter().product());
    if case.has_flag("bidirectional") {
        source = network.window(&source, case.steps()?);
    }
    let x = Value { source, shape, steps: None, sequence: true, pace: 0, order: None, mask: None };
    let output = add(case, &mut network, &[x], Take::Sequence)?;
    network.output("output", &output.source);
    Ok(network)
}

/// Adds a layer.
pub(crate) fn add(
    case: &mut Case<'_>,
    network: &mut Network,
    inputs: &[Value],
    take: Take,
) -> Result<Value, ImportError> {
    let (kind, cell) = match case.cls.as_str() {
        "LSTM" => (CellKind::Lstm, false),
        "GRU" => (CellKind::Gru, false),
        "RNN" => (CellKind::Elman, false),
        "LSTMCell" => (CellKind::Lstm, true),
        "GRUCell" => (CellKind::Gru, true),
        "RNNCell" => (CellKind::Elman, true),
        _ => return plain::add(case, network, inputs, take)?.map_or_else(|| case.unknown_class(), Ok),
    };
    let [x] = inputs else { return Err(ImportError::Unsupported(format!("{} inputs", inputs.len()))) };
    recurrent(case, network, x, take, (kind, cell))
}

/// Layers one above the other, in one direction or both; or a cell, whose tensors bear no number.
fn recurrent(
    case: &mut Case<'_>,
    network: &mut Network,
    x: &Value,
    take: Take,
    (kind, cell): (CellKind, bool),
) -> Result<Value, ImportError> {
    // How data are handed over, and what only training sees.
    for argument in ["batch_first", "dropout"] {
        case.ignore(argument);
    }
    let (input, hidden) = (case.size("input_size")?, case.size("hidden_size")?);
    // What an architecture does not say of these, the names do: whoever has the option has its tensors.
    let named = |case: &Case<'_>, name: &str| !cell && case.has_tensor(name);
    let projected = named(case, "weight_hr_l0");
    let bidirectional = named(case, "weight_ih_l0_reverse");
    let count = (1..).find(|k| !named(case, &format!("weight_ih_l{k}"))).unwrap_or(1);
    let arguments = Arguments {
        kind,
        bias: case.flag("bias", true)?,
        projected: kind == CellKind::Lstm && !cell && case.size("proj_size")?.map_or(projected, |size| size > 0),
        nonlinearity: match kind {
            CellKind::Elman => Some(case.activation("nonlinearity", Activation::Tanh)?),
            _ => None,
        },
        // PyTorch has none: networks that `tidegate-gpu` trains may.
        cell_clip: match kind {
            CellKind::Lstm => case.positive("cell_clip")?,
            _ => None,
        },
    };
    if arguments.nonlinearity.is_some_and(|given| !matches!(given, Activation::Tanh | Activation::Relu)) {
        return Err(ImportError::Unsupported("a nonlinearity that is neither tanh nor relu".into()));
    }
    let count = if cell { 1 } else { case.size("num_layers")?.unwrap_or(count) };
    let bidirectional = !cell && case.flag("bidirectional", bidirectional)?;
    if bidirectional && x.source.rows().is_none() {
        return Err(ImportError::NeedsWindow { what: "a bidirectional network".into() });
    }
    let directions = if bidirectional { 2 } else { 1 };
    let mut sources: Vec<Source> = vec![x.source.clone()];
    for k in 0..count {
        let mut outputs = Vec::new();
        for (direction, suffix) in [(Direction::Forward, ""), (Direction::Backward, "_reverse")] {
            if direction == Direction::Backward && !bidirectional {
                continue;
            }
            let suffix = if cell { String::new() } else { format!("_l{k}{suffix}") };
            let index = (!cell).then_some(k * directions + outputs.len());
            let mut layer = layer(case, arguments, &suffix, index)?;
            if let (0, Some(order)) = (k, &x.order) {
                reorder(&mut layer, "input_weights", order);
            }
            sizes_agree(input.filter(|_| k == 0), hidden, &layer)?;
            let given: usize = sources.iter().map(Source::size).sum();
            if given != layer.input_size {
                let (of, name) = (layer.input_size, format!("weight_ih{suffix}"));
                return Err(ImportError::Unsupported(format!("an input of {given} features where {name} takes {of}")));
            }
            let inputs: Vec<&Source> = sources.iter().collect();
            outputs.push(network.directed(layer, &inputs, direction));
        }
        sources = outputs;
    }
    if count == 0 {
        return Err(ImportError::Unsupported("a network without layers".into()));
    }
    if take == Take::Final {
        // The backward direction gives the first row last.
        sources = sources.iter().enumerate().map(|(k, source)| network.last(source, k == 1)).collect();
    }
    let output = network.concat(&sources);
    let value = x.with(if take == Take::Last { network.last(&output, false) } else { output });
    Ok(Value { sequence: take == Take::Sequence && x.sequence, ..value })
}

/// Refuses sizes that are not those of the weights.
fn sizes_agree(input: Option<usize>, hidden: Option<usize>, layer: &Layer) -> Result<(), ImportError> {
    if let Some(input) = input {
        agree("input_size", input, layer.input_size)?;
    }
    if let Some(hidden) = hidden {
        agree("hidden_size", hidden, layer.hidden_size)?;
    }
    Ok(())
}

/// `nn.Linear` of this name, if there is one, with its bias if it has one.
pub(super) fn linear(case: &mut Case<'_>, name: &str) -> Result<Option<Layer>, ImportError> {
    let weight = format!("{name}.weight");
    let Some(weights) = case.optional(&weight)? else { return Ok(None) };
    let (rows, _) = Named { name: &weight, tensor: weights }.matrix()?;
    let name = format!("{name}.bias");
    let bias = match case.optional(&name)? {
        Some(tensor) => Some(Named { name: &name, tensor }.shaped(&[rows], rows)?),
        None => None,
    };
    Ok(Some(Layer::dense(weights.clone(), bias, Activation::Identity)))
}

/// The columns of weights whose input has the framework's k-th feature at `order[k]`.
fn reorder(layer: &mut Layer, tensor: &'static str, order: &[usize]) {
    let Some(weights) = layer.tensors.get_mut(tensor).filter(|_| order.len() == layer.input_size) else { return };
    for row in weights.data.chunks_mut(order.len()) {
        let given = row.to_vec();
        for (value, &at) in given.into_iter().zip(order) {
            row[at] = value;
        }
    }
}

/// What all layers have in common.
#[derive(Clone, Copy)]
struct Arguments {
    kind: CellKind,
    bias: bool,
    projected: bool,
    nonlinearity: Option<Activation>,
    cell_clip: Option<f32>,
}

/// The layer whose tensors end in `suffix` and whose states are at `index`, where there are several.
fn layer(case: &mut Case<'_>, arguments: Arguments, suffix: &str, index: Option<usize>) -> Result<Layer, ImportError> {
    let Arguments { kind, bias, projected, nonlinearity, cell_clip } = arguments;
    let gates = kind.spec().gates.len().max(1);
    let named = |tensor: &str| format!("{tensor}{suffix}");
    let (weight_ih, weight_hh, weight_hr) = (named("weight_ih"), named("weight_hh"), named("weight_hr"));
    let weights = case.named(&weight_ih)?;
    let (rows, input) = weights.matrix()?;
    if rows % gates != 0 {
        return weights.refuse(format!("its rows must be {gates} gates of equal height"));
    }
    let units = rows / gates;
    let recurrent = case.named(&weight_hh)?;
    let mut output = units;
    let mut layer = Layer::new(kind, input, units).tensor("input_weights", weights.tensor.clone());
    if projected {
        let projection = case.named(&weight_hr)?;
        output = projection.matrix()?.0;
        layer.options.push("projection");
        layer = layer.tensor("projection_weights", projection.shaped(&[output, units], units)?);
    }
    layer.output_size = output;
    layer = layer.tensor("recurrent_weights", recurrent.shaped(&[rows, output], units)?);
    if bias {
        for (name, canonical) in [("bias_ih", "input_bias"), ("bias_hh", "recurrent_bias")] {
            let name = named(name);
            layer = layer.tensor(canonical, case.named(&name)?.shaped(&[rows], units)?);
        }
    }
    if kind == CellKind::Gru {
        layer.options.push("reset_after");
    }
    layer = layer.state("hidden", At { index, ..At::new("h") });
    if kind == CellKind::Lstm {
        layer = layer.state("cell_state", At { index, ..At::new("c") });
    }
    if let Some(clip) = cell_clip {
        layer.params.insert("cell_clip", clip);
    }
    Ok(match nonlinearity {
        Some(nonlinearity) => layer.activation("activation", nonlinearity),
        None => layer,
    })
}
