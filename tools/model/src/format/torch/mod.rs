//! PyTorch's `nn.LSTM`, `nn.GRU` and `nn.RNN`, their cells, and layers without state. The gate orders i, f, g, o and r,
//! z, n are the canonical ones; a GRU applies its reset gate after the product. A bidirectional network processes the
//! whole sequence as one window.

mod dict;
mod draft;
mod file;
mod import;
mod kernel;
mod modules;
mod names;
mod pickle;
mod recognized;
mod state;

use tidegate::internals::{activation::Activation, cell::CellKind};

use super::network::{Control, Direction, Network, Source};
use super::{case::Case, case::agree, description::Take, layer::At, layer::Layer, signal::Signal, weights::Named};
use crate::error::{ImportError, Result};
use crate::format::refuse::{needs_window_if, unsupported_if};

pub(crate) use file::{import_archive, import_pickles, is_torch};
pub(crate) use import::{import_safetensors, import_tensors};

pub(crate) fn convert(case: &mut Case<'_>) -> Result<Network> {
    // The lengths of packed sequences.
    case.control("sequence_length", Control::Length);
    let mut network = Network::new();
    let shape = case.input_shape()?;
    let mut source = network.input("input", shape.iter().product());
    if case.has_flag("bidirectional") {
        source = network.window(&source, case.steps()?);
    }
    let x = Signal { source, shape, steps: None, sequence: true, pace: 0, order: None, mask: None };
    let output = add(case, &mut network, &[x], Take::Sequence)?;
    network.output("output", &output.source);
    Ok(network)
}

pub(crate) fn add(case: &mut Case<'_>, network: &mut Network, inputs: &[Signal], take: Take) -> Result<Signal> {
    let kind = match case.cls.as_str() {
        "LSTM" | "LSTMCell" => CellKind::Lstm,
        "GRU" | "GRUCell" => CellKind::Gru,
        "RNN" | "RNNCell" => CellKind::Elman,
        _ => return modules::add(case, network, inputs, take)?.map_or_else(|| case.unknown_class(), Ok),
    };
    let [x] = inputs else { return Err(ImportError::Unsupported(format!("{} inputs", inputs.len()))) };
    recurrent(case, network, x, take, kind)
}

/// Stacked layers in one or both directions; or a cell, whose tensors have no layer number in their names.
fn recurrent(case: &mut Case<'_>, network: &mut Network, x: &Signal, take: Take, kind: CellKind) -> Result<Signal> {
    let cell = case.cls.ends_with("Cell");
    // Arguments of the tensor layout and of training.
    case.ignore_all(&["batch_first", "dropout"]);
    let (input, hidden) = (case.size("input_size")?, case.size("hidden_size")?);
    // Options that the architecture leaves out follow from the names: each option has its own tensors.
    let named = |case: &Case<'_>, name: &str| !cell && case.has_tensor(name);
    let projected = named(case, "weight_hr_l0");
    let bidirectional = named(case, "weight_ih_l0_reverse");
    let count = (1..).find(|k| !named(case, &format!("weight_ih_l{k}"))).unwrap_or(1);
    let projection = if kind == CellKind::Lstm && !cell { case.size("proj_size")? } else { None };
    let arguments = Arguments {
        kind,
        bias: case.flag("bias", true)?,
        projected: projection.map_or(projected, |size| size > 0),
        nonlinearity: match kind {
            CellKind::Elman => Some(case.activation("nonlinearity", Activation::Tanh)?),
            _ => None,
        },
        // PyTorch has no clipping, but networks trained by `tidegate-gpu` may have.
        cell_clip: match kind {
            CellKind::Lstm => case.positive("cell_clip")?,
            _ => None,
        },
    };
    let known = matches!(arguments.nonlinearity, None | Some(Activation::Tanh | Activation::Relu));
    unsupported_if(!known, "a nonlinearity that is neither tanh nor relu")?;
    let count = if cell { 1 } else { case.size("num_layers")?.unwrap_or(count) };
    let bidirectional = !cell && case.flag("bidirectional", bidirectional)?;
    needs_window_if(bidirectional && x.source.rows().is_none(), "a bidirectional network")?;
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
            let input = ("input_size", input.filter(|_| k == 0), layer.input_size);
            let projection = ("proj_size", projection.filter(|&size| size > 0), layer.output_size);
            for (name, given, found) in [input, ("hidden_size", hidden, layer.hidden_size), projection] {
                given.map_or(Ok(()), |given| agree(name, given, found))?;
            }
            let given: usize = sources.iter().map(Source::size).sum();
            let (of, name) = (layer.input_size, format!("weight_ih{suffix}"));
            unsupported_if(given != of, format_args!("an input of {given} features where {name} takes {of}"))?;
            let inputs: Vec<&Source> = sources.iter().collect();
            outputs.push(network.directed(layer, &inputs, direction));
        }
        sources = outputs;
    }
    unsupported_if(count == 0, "a network without layers")?;
    if take == Take::Final {
        // The backward direction outputs the first row last.
        sources = sources.iter().enumerate().map(|(k, source)| network.last(source, k == 1)).collect();
    }
    let output = network.concat(&sources);
    let value = x.with(if take == Take::Last { network.last(&output, false) } else { output });
    Ok(Signal { sequence: take == Take::Sequence && x.sequence, ..value })
}

/// The `nn.Linear` called `name`, if there is one, with its bias if it has one.
pub(super) fn linear(case: &mut Case<'_>, name: &str) -> Result<Option<Layer>> {
    let weight = format!("{name}.weight");
    let Some(weights) = case.optional(&weight)? else { return Ok(None) };
    let (rows, _) = Named { name: &weight, tensor: weights }.matrix()?;
    let name = format!("{name}.bias");
    let bias = case.optional(&name)?.map(|tensor| Named { name: &name, tensor }.shaped(&[rows], rows)).transpose()?;
    Ok(Some(Layer::dense(weights.clone(), bias, Activation::Identity)))
}

/// Permutes the columns of a weight tensor whose input has the framework's k-th feature at `order[k]`.
fn reorder(layer: &mut Layer, tensor: &'static str, order: &[usize]) {
    let Some(weights) = layer.tensors.get_mut(tensor).filter(|_| order.len() == layer.input_size) else { return };
    for row in weights.data.chunks_mut(order.len()) {
        let given = row.to_vec();
        for (value, &at) in given.into_iter().zip(order) {
            row[at] = value;
        }
    }
}

#[derive(Clone, Copy)]
struct Arguments {
    kind: CellKind,
    bias: bool,
    projected: bool,
    nonlinearity: Option<Activation>,
    cell_clip: Option<f32>,
}

/// The layer whose tensor names end in `suffix`. `index` is its index among the states, if there are several.
fn layer(case: &mut Case<'_>, arguments: Arguments, suffix: &str, index: Option<usize>) -> Result<Layer> {
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
    layer.params.extend(cell_clip.map(|clip| ("cell_clip", clip)));
    layer.activations.extend(nonlinearity.map(|nonlinearity| ("activation", nonlinearity)));
    Ok(layer)
}
