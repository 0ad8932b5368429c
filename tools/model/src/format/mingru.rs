//! minGRU and minLSTM of minGRU-pytorch: one matrix for gates and candidate, no bias, and a matrix `to_out` after the
//! cell if the expansion factor is not 1. The state is h before this matrix.

use tidegate::internals::cell::CellKind;
use tidegate::internals::gate::{MIN_GRU, MIN_GRU_PYTORCH, MIN_LSTM, MIN_LSTM_PYTORCH};

use super::layer::{At, Entry, Layer};
use super::{case::Case, case::agree, network::Network, torch};
use super::{refuse::unsupported_if, weights::Named, weights::reordered};
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
    // The package rounds down.
    let expanded = case.number("expansion_factor")?.map(|factor| (cell.input_size as f32 * factor) as usize);
    expanded.map_or(Ok(()), |units| agree("expansion_factor times dim", units, cell.hidden_size))?;
    let (stated, projection) = (case.given_flag("proj_out")?, torch::linear(case, "to_out")?);
    let differs = stated.is_some_and(|stated| stated != projection.is_some());
    unsupported_if(differs, "argument proj_out that differs from the tensors")?;
    let layers = [Some(cell.state("hidden", hidden)), projection];
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
