//! `torch.nn.LSTM`, `GRU` and `RNN`, whose gate orders are the canonical ones: one layer for each of `num_layers`.

use tidegate::activation::Activation;
use tidegate::cell::CellKind;

use super::golden::{Case, Control};
use super::layer::{At, Layer};
use super::network::Network;
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
        _ => return case.unknown_class(),
    };
    // How data are handed over, and what only training sees.
    for argument in ["batch_first", "dropout"] {
        case.ignore(argument);
    }
    let (input, hidden) = (case.size("input_size")?, case.size("hidden_size")?);
    case.must_be("bidirectional", false)?;
    let bias = case.flag("bias", true)?;
    let projected = kind == CellKind::Lstm && case.size("proj_size")?.is_some_and(|size| size > 0);
    let nonlinearity = match kind {
        CellKind::Elman => Some(case.activation("nonlinearity", Activation::Tanh)?),
        _ => None,
    };
    let count = case.size("num_layers")?.unwrap_or(1);
    let layers: Vec<Layer> =
        (0..count).map(|k| layer(case, kind, k, bias, projected, nonlinearity)).collect::<Result<_, _>>()?;
    for (argument, given, found) in [
        ("input_size", input, layers.first().map(|layer| layer.input_size)),
        ("hidden_size", hidden, layers.first().map(|layer| layer.hidden_size)),
    ] {
        if given.is_some() && given != found {
            return Err(ImportError::Unsupported(format!("{argument} that differs from the weights")));
        }
    }
    Network::chain("input", layers, "output")
}

fn layer(
    case: &mut Case<'_>,
    kind: CellKind,
    k: usize,
    bias: bool,
    projected: bool,
    nonlinearity: Option<Activation>,
) -> Result<Layer, ImportError> {
    let gates = kind.spec().gates.len().max(1);
    let weights = Named { name: "weight_ih", tensor: case.tensor(&format!("weight_ih_l{k}"))? };
    let (rows, input) = weights.matrix()?;
    if rows % gates != 0 {
        return weights.refuse(format!("its rows must be {gates} gates of equal height"));
    }
    let units = rows / gates;
    let recurrent = Named { name: "weight_hh", tensor: case.tensor(&format!("weight_hh_l{k}"))? };
    let mut output = units;
    let mut layer = Layer::new(kind, input, units).tensor("input_weights", weights.tensor.clone());
    if projected {
        let projection = Named { name: "weight_hr", tensor: case.tensor(&format!("weight_hr_l{k}"))? };
        output = projection.matrix()?.0;
        layer.options.push("projection");
        layer = layer.tensor("projection_weights", projection.shaped(&[output, units], units)?);
    }
    layer.output_size = output;
    layer = layer.tensor("recurrent_weights", recurrent.shaped(&[rows, output], units)?);
    if bias {
        for (name, canonical) in [("bias_ih", "input_bias"), ("bias_hh", "recurrent_bias")] {
            let tensor = case.tensor(&format!("{name}_l{k}"))?;
            layer = layer.tensor(canonical, Named { name, tensor }.shaped(&[rows], units)?);
        }
    }
    if kind == CellKind::Gru {
        layer.options.push("reset_after");
    }
    layer = layer.state("hidden", At::new("h").index(k));
    if kind == CellKind::Lstm {
        layer = layer.state("cell_state", At::new("c").index(k));
    }
    Ok(match nonlinearity {
        Some(nonlinearity) => layer.activation("activation", nonlinearity),
        None => layer,
    })
}
