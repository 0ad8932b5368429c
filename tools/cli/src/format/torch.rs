//! `torch.nn.LSTM`, `GRU` and `RNN`, whose gate orders are the canonical ones: one layer for each of `num_layers` and
//! each direction. Over both directions a network looks at the whole sequence as one window.

use tidegate::activation::Activation;
use tidegate::cell::CellKind;

use super::golden::{Case, Control, agree};
use super::layer::{At, Layer};
use super::network::{Direction, Network, Source};
use super::weights::Named;
use crate::error::ImportError;

/// The network of a `torch` case.
pub(crate) fn convert(case: &mut Case<'_>) -> Result<Network, ImportError> {
    // Packed sequences.
    case.control("sequence_length", Control::Length);
    let kind = match case.cls.as_str() {
        "LSTM" => CellKind::Lstm,
        "GRU" => CellKind::Gru,
        "RNN" => CellKind::Elman,
        "LSTMCell" => return cell(case, CellKind::Lstm),
        "GRUCell" => return cell(case, CellKind::Gru),
        "RNNCell" => return cell(case, CellKind::Elman),
        _ => return case.unknown_class(),
    };
    // How data are handed over, and what only training sees.
    for argument in ["batch_first", "dropout"] {
        case.ignore(argument);
    }
    let (input, hidden) = (case.size("input_size")?, case.size("hidden_size")?);
    let arguments = Arguments::read(case, kind)?;
    let count = case.size("num_layers")?.unwrap_or(1);
    let bidirectional = case.flag("bidirectional", false)?;
    let directions = if bidirectional { 2 } else { 1 };
    let mut network = Network::new();
    let mut sources: Vec<Source> = Vec::new();
    for k in 0..count {
        let mut outputs = Vec::new();
        for (direction, suffix) in [(Direction::Forward, ""), (Direction::Backward, "_reverse")] {
            if direction == Direction::Backward && !bidirectional {
                continue;
            }
            let layer = layer(case, arguments, &format!("_l{k}{suffix}"), Some(k * directions + outputs.len()))?;
            sizes_agree(input.filter(|_| k == 0), hidden, &layer)?;
            if sources.is_empty() {
                let x = network.input("input", layer.input_size);
                sources.push(if bidirectional { network.window(&x, case.steps()?) } else { x });
            }
            let inputs: Vec<&Source> = sources.iter().collect();
            outputs.push(network.directed(layer, &inputs, direction));
        }
        sources = outputs;
    }
    if sources.is_empty() {
        return Err(ImportError::Unsupported("a network without layers".into()));
    }
    let output = network.concat(&sources);
    network.output("output", &output);
    Ok(network)
}

/// A cell that was called step after step: its tensors and states belong to no layer.
fn cell(case: &mut Case<'_>, kind: CellKind) -> Result<Network, ImportError> {
    let (input, hidden) = (case.size("input_size")?, case.size("hidden_size")?);
    let arguments = Arguments::read(case, kind)?;
    let layer = layer(case, arguments, "", None)?;
    sizes_agree(input, hidden, &layer)?;
    Ok(Network::of(layer))
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

/// What all layers have in common.
#[derive(Clone, Copy)]
struct Arguments {
    kind: CellKind,
    bias: bool,
    projected: bool,
    nonlinearity: Option<Activation>,
}

impl Arguments {
    fn read(case: &mut Case<'_>, kind: CellKind) -> Result<Self, ImportError> {
        Ok(Self {
            kind,
            bias: case.flag("bias", true)?,
            projected: kind == CellKind::Lstm && case.size("proj_size")?.is_some_and(|size| size > 0),
            nonlinearity: match kind {
                CellKind::Elman => Some(case.activation("nonlinearity", Activation::Tanh)?),
                _ => None,
            },
        })
    }
}

/// The layer whose tensors end in `suffix` and whose states are at `index`, where there are several.
fn layer(case: &mut Case<'_>, arguments: Arguments, suffix: &str, index: Option<usize>) -> Result<Layer, ImportError> {
    let Arguments { kind, bias, projected, nonlinearity } = arguments;
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
    Ok(match nonlinearity {
        Some(nonlinearity) => layer.activation("activation", nonlinearity),
        None => layer,
    })
}
