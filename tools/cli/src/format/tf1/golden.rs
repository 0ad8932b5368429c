//! TensorFlow 1 cells from checkpoint tensors and constructor arguments.

use tidegate::activation::Activation;

use super::cells::{self, LstmOptions};
use crate::canonical::Tensor;
use crate::error::ImportError;
use crate::format::golden::Case;
use crate::format::layer::Layer;

/// The layers of a `tf1` case.
pub(crate) fn layers(case: &mut Case<'_>) -> Result<Vec<Layer>, ImportError> {
    case.check_inputs(&["sequence_length"])?;
    let layer = match case.cls.as_str() {
        "BasicLSTMCell" => basic_lstm(case),
        "LSTMCell" => lstm(case),
        "GRUCell" => gru(case),
        "BasicRNNCell" => basic_rnn(case),
        "CudnnCompatibleLSTMCell" => cells::cudnn_compatible_lstm(case.tensor("kernel")?, case.tensor("bias")?),
        "CudnnCompatibleGRUCell" => cudnn_compatible_gru(case),
        _ => case.unknown_class(),
    }?;
    if let Some(units) = case.size("num_units")?.filter(|&units| units != layer.hidden_size) {
        let found = layer.hidden_size;
        return Err(ImportError::Unsupported(format!("num_units = {units} with tensors of {found} units")));
    }
    Ok(vec![layer])
}

fn basic_lstm(case: &mut Case<'_>) -> Result<Layer, ImportError> {
    let forget_bias = case.number("forget_bias")?.unwrap_or(1.0);
    let activation = case.activation("activation", Activation::Tanh)?;
    // Only how the state is handed over.
    case.ignore("state_is_tuple");
    cells::basic_lstm(case.tensor("kernel")?, case.tensor("bias")?, forget_bias, activation)
}

fn lstm(case: &mut Case<'_>) -> Result<Layer, ImportError> {
    case.ignore("state_is_tuple");
    let kernel = sharded(case, "kernel", "num_unit_shards")?;
    let projection = match case.size("num_proj")? {
        Some(_) => Some(sharded(case, "projection/kernel", "num_proj_shards")?),
        None => None,
    };
    let peepholes = match case.flag("use_peepholes", false)? {
        true => Some([case.tensor("w_i_diag")?, case.tensor("w_f_diag")?, case.tensor("w_o_diag")?]),
        false => None,
    };
    let options = LstmOptions {
        forget_bias: case.number("forget_bias")?.unwrap_or(1.0),
        peepholes,
        projection: projection.as_ref(),
        cell_clip: case.number("cell_clip")?,
        projection_clip: case.number("proj_clip")?,
        activation: case.activation("activation", Activation::Tanh)?,
    };
    cells::lstm(&kernel, case.tensor("bias")?, options)
}

/// A kernel that may be cut into `path/part_0`, `path/part_1`, ...
fn sharded(case: &mut Case<'_>, path: &str, argument: &str) -> Result<Tensor, ImportError> {
    if case.size(argument)?.is_none_or(|shards| shards == 1)
        && let Some(whole) = case.optional(path)
    {
        return Ok(whole.clone());
    }
    let mut parts = Vec::new();
    while let Some(part) = case.optional(&format!("{path}/part_{}", parts.len())) {
        parts.push(part);
    }
    cells::unsharded(&parts)
}

fn gru(case: &mut Case<'_>) -> Result<Layer, ImportError> {
    let activation = case.activation("activation", Activation::Tanh)?;
    cells::gru(
        case.tensor("gates/kernel")?,
        case.tensor("gates/bias")?,
        case.tensor("candidate/kernel")?,
        case.tensor("candidate/bias")?,
        activation,
    )
}

fn cudnn_compatible_gru(case: &mut Case<'_>) -> Result<Layer, ImportError> {
    let activation = case.activation("activation", Activation::Tanh)?;
    cells::cudnn_compatible_gru(
        case.tensor("gates/kernel")?,
        case.tensor("gates/bias")?,
        [case.tensor("candidate/input_projection/kernel")?, case.tensor("candidate/input_projection/bias")?],
        [case.tensor("candidate/hidden_projection/kernel")?, case.tensor("candidate/hidden_projection/bias")?],
        activation,
    )
}

fn basic_rnn(case: &mut Case<'_>) -> Result<Layer, ImportError> {
    let activation = case.activation("activation", Activation::Tanh)?;
    cells::basic_rnn(case.tensor("kernel")?, case.tensor("bias")?, activation)
}
