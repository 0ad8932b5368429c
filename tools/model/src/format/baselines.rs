//! The recurrent functions of OpenAI's baselines. They read a mask that resets the state at the end of an episode.

use tidegate::internals::cell::CellKind;
use tidegate::internals::gate::{Gate, LSTM, LSTM_BASELINES, LSTM_BASELINES_EDITED};

use super::{case::Case, layer::At, layer::Layer, network::Control, network::Network, weights::reordered};
use crate::error::{ImportError, Result};

/// Epsilon of every normalization.
const EPSILON: f32 = 1e-5;

pub(crate) fn convert(case: &mut Case<'_>) -> Result<Network> {
    case.control("input_mask", Control::Reset);
    // The scope of the variables, and their initial values.
    case.ignore_all(&["scope", "init_scale"]);
    Ok(Network::of(match case.cls.as_str() {
        "lstm" => lstm(case)?,
        "lnlstm" => lnlstm(case)?,
        _ => return case.unknown_class(),
    }))
}

/// The order of the gates; code that changes it notes the order beside the arguments.
fn order(case: &Case<'_>) -> [Gate; 4] {
    if case.gate_order.starts_with("f, i, o, u") { LSTM_BASELINES_EDITED } else { LSTM_BASELINES }
}

/// `wx` [input, 4 units], `wh` [units, 4 units], `b` [4 units]; the state is c, then h, in one tensor.
fn lstm(case: &mut Case<'_>) -> Result<Layer> {
    let order = order(case);
    let input = case.named("wx")?;
    let recurrent = case.named("wh")?;
    let units = input.units(4)?;
    case.units("nh", units)?;
    let (size, rows) = input.matrix()?;
    recurrent.shaped(&[units, rows], units)?;
    let bias = case.named("b")?.shaped(&[rows], units)?;
    Ok(Layer::new(CellKind::Lstm, size, units)
        .tensor("input_weights", reordered(&input.transposed(0, size)?, order, LSTM))
        .tensor("recurrent_weights", reordered(&recurrent.transposed(0, units)?, order, LSTM))
        .tensor("input_bias", reordered(&bias, order, LSTM))
        .state("cell_state", At::new("state"))
        .state("hidden", At::new("state").from(units)))
}

/// An LSTM as above with gains and biases of three normalizations: `gx`, `bx` and `gh`, `bh` [4 units], `gc`, `bc`
/// [units]. The input's bias is the sum of `b` and `bx`.
fn lnlstm(case: &mut Case<'_>) -> Result<Layer> {
    let order = order(case);
    let mut layer = lstm(case)?;
    let units = layer.hidden_size;
    let mut vector = |name, len| case.named(name)?.shaped(&[len], units);
    let mut gated = |name| Ok::<_, ImportError>(reordered(&vector(name, 4 * units)?, order, LSTM));
    let (input_gain, input_bias) = (gated("gx")?, gated("bx")?);
    let (recurrent_gain, recurrent_bias) = (gated("gh")?, gated("bh")?);
    let (output_gain, output_bias) = (vector("gc", units)?, vector("bc", units)?);
    if let Some(bias) = layer.tensors.get_mut("input_bias") {
        bias.data.iter_mut().zip(&input_bias.data).for_each(|(b, bx)| *b += bx);
    }
    Ok(layer
        .option("joint_norm")
        .option("output_norm")
        .param("epsilon", EPSILON)
        .tensor("input_gain", input_gain)
        .tensor("recurrent_gain", recurrent_gain)
        .tensor("recurrent_bias", recurrent_bias)
        .tensor("output_gain", output_gain)
        .tensor("output_bias", output_bias))
}
