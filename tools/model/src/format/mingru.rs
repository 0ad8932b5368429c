//! minGRU and minLSTM of minGRU-pytorch: one matrix for gates and candidate, no bias, and a matrix `to_out` after the
//! cell if the expansion factor is not 1. The state is h before this matrix.

use tidegate::internals::cell::CellKind;
use tidegate::internals::gate::{MIN_GRU, MIN_GRU_PYTORCH, MIN_LSTM, MIN_LSTM_PYTORCH};

use super::layer::{At, Entry, Layer};
use super::{case::Case, network::Network, torch, weights::Named, weights::reordered};
use crate::error::Result;

pub(crate) fn convert(case: &mut Case<'_>) -> Result<Network> {
    let mut hidden = At::new("h");
    let cell = match case.cls.as_str() {
        "minGRU" => min_gru(case.named("to_hidden_and_gate.weight")?)?,
        "minLSTM" => {
            // Over a sequence, the package first applies g to a given state; over single steps it does not.
            if case.notes.contains("parallel log-space branch") && case.steps()? > 1 {
                hidden = hidden.entry(Entry::Positive);
            }
            min_lstm(case.named("to_hidden_and_f_i_gate.weight")?)?
        }
        _ => return case.unknown_class(),
    };
    case.units("dim", cell.input_size)?;
    case.number("expansion_factor")?;
    // The presence of its weights shows whether there is one.
    case.flag("proj_out", true)?;
    let cell = cell.state("hidden", hidden);
    let layers = [Some(cell), torch::linear(case, "to_out")?];
    Network::chain("input", layers.into_iter().flatten().collect(), "output")
}

/// `to_hidden_and_gate` [2 * units, input].
fn min_gru(weights: Named<'_>) -> Result<Layer> {
    let (units, input) = units(weights, 2)?;
    Ok(Layer::new(CellKind::MinGru, input, units)
        .tensor("input_weights", reordered(weights.tensor, MIN_GRU_PYTORCH, MIN_GRU)))
}

/// `to_hidden_and_f_i_gate` [3 * units, input].
fn min_lstm(weights: Named<'_>) -> Result<Layer> {
    let (units, input) = units(weights, 3)?;
    Ok(Layer::new(CellKind::MinLstm, input, units)
        .tensor("input_weights", reordered(weights.tensor, MIN_LSTM_PYTORCH, MIN_LSTM)))
}

/// Units and input features of a matrix with this many blocks of rows.
fn units(named: Named<'_>, blocks: usize) -> Result<(usize, usize)> {
    let (rows, cols) = named.matrix()?;
    if rows % blocks != 0 {
        return named.refuse(format!("its rows must be {blocks} blocks of equal height"));
    }
    Ok((rows / blocks, cols))
}
