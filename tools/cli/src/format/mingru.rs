//! minGRU and minLSTM of minGRU-pytorch: one matrix for gates and candidate, no bias, and with another expansion
//! factor than 1 a matrix `to_out` behind the cell. The state is h before it.

use tidegate::cell::CellKind;
use tidegate::gate::{MIN_GRU, MIN_GRU_PYTORCH, MIN_LSTM, MIN_LSTM_PYTORCH};

use super::golden::Case;
use super::layer::{At, Entry, Layer};
use super::network::Network;
use super::torch;
use super::weights::{Named, reordered};
use crate::error::ImportError;

/// The network of a `mingru` case.
pub(crate) fn convert(case: &mut Case<'_>) -> Result<Network, ImportError> {
    let mut hidden = At::new("h");
    let cell = match case.cls.as_str() {
        "minGRU" => min_gru(case.named("to_hidden_and_gate.weight")?)?,
        "minLSTM" => {
            // Over a sequence the package begins with g of a given state; over one step, or single ones, it does not.
            if case.notes.contains("parallel log-space branch") && case.steps()? > 1 {
                hidden = hidden.entry(Entry::Positive);
            }
            min_lstm(case.named("to_hidden_and_f_i_gate.weight")?)?
        }
        _ => return case.unknown_class(),
    };
    case.units("dim", cell.input_size)?;
    case.number("expansion_factor")?;
    // Weights say by their presence whether there is one.
    case.flag("proj_out", true)?;
    let cell = cell.state("hidden", hidden);
    let layers = [Some(cell), torch::linear(case, "to_out")?];
    Network::chain("input", layers.into_iter().flatten().collect(), "output")
}

/// `to_hidden_and_gate` [2 * units, input].
fn min_gru(weights: Named<'_>) -> Result<Layer, ImportError> {
    let (units, input) = units(weights, 2)?;
    Ok(Layer::new(CellKind::MinGru, input, units)
        .tensor("input_weights", reordered(weights.tensor, MIN_GRU_PYTORCH, MIN_GRU)))
}

/// `to_hidden_and_f_i_gate` [3 * units, input].
fn min_lstm(weights: Named<'_>) -> Result<Layer, ImportError> {
    let (units, input) = units(weights, 3)?;
    Ok(Layer::new(CellKind::MinLstm, input, units)
        .tensor("input_weights", reordered(weights.tensor, MIN_LSTM_PYTORCH, MIN_LSTM)))
}

/// Units, and features in, of a matrix with so many blocks of rows.
fn units(named: Named<'_>, blocks: usize) -> Result<(usize, usize), ImportError> {
    let (rows, cols) = named.matrix()?;
    if rows % blocks != 0 {
        return named.refuse(format!("its rows must be {blocks} blocks of equal height"));
    }
    Ok((rows / blocks, cols))
}
