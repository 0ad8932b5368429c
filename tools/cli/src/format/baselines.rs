//! The recurrent functions of OpenAI's baselines, which are given a mask that resets the state where an episode ended.

use tidegate::cell::CellKind;
use tidegate::gate::{Gate, LSTM};

use super::golden::{Case, Control};
use super::layer::{At, Layer};
use super::network::Network;
use super::weights::{Named, reordered};
use crate::error::ImportError;

/// i, f, o, u; u is the candidate.
const ORDER: [Gate; 4] = [Gate::Input, Gate::Forget, Gate::Output, Gate::Cell];

/// The network of a `baselines` case.
pub(crate) fn convert(case: &mut Case<'_>) -> Result<Network, ImportError> {
    case.control("input_mask", Control::Reset);
    Ok(Network::of(match case.cls.as_str() {
        "lstm" => lstm(case)?,
        _ => return case.unknown_class(),
    }))
}

/// `wx` [input, 4 units], `wh` [units, 4 units], `b` [4 units]; the state is c, then h, in one tensor.
fn lstm(case: &mut Case<'_>) -> Result<Layer, ImportError> {
    let input = Named { name: "wx", tensor: case.tensor("wx")? };
    let recurrent = Named { name: "wh", tensor: case.tensor("wh")? };
    let units = input.units(4)?;
    case.units("nh", units)?;
    let (size, rows) = input.matrix()?;
    recurrent.shaped(&[units, rows], units)?;
    let bias = Named { name: "b", tensor: case.tensor("b")? }.shaped(&[rows], units)?;
    Ok(Layer::new(CellKind::Lstm, size, units)
        .tensor("input_weights", reordered(&input.transposed(0, size)?, ORDER, LSTM))
        .tensor("recurrent_weights", reordered(&recurrent.transposed(0, units)?, ORDER, LSTM))
        .tensor("input_bias", reordered(&bias, ORDER, LSTM))
        .state("cell_state", At::new("state"))
        .state("hidden", At::new("state").from(units)))
}
