//! TensorFlow 1 cells from checkpoint tensors and constructor arguments.

use tidegate::internals::{activation::Activation, cell::CellKind};

use super::cells::{self, Converted};
use super::lstm_classes::{self, conv_lstm, forget_bias};
use crate::format::{case::Case, layer::At, layer::Layer, weights::stacked, weights::zeros};
use crate::{canonical::Tensor, error::Result};

pub(crate) fn cell(case: &mut Case<'_>) -> Converted {
    if let Some(convert) = lstm_classes::conversion(&case.cls) {
        let layer = convert(case)?;
        return lstm_classes::with_tuple(case, layer);
    }
    let layer = match case.cls.as_str() {
        "GRUCell" | "GRUBlockCellV2" => gru(case)?,
        "GRUBlockCell" => gru_block(case)?,
        "BasicRNNCell" => basic_rnn(case)?,
        "CudnnCompatibleGRUCell" => cudnn_compatible_gru(case)?,
        "IndRNNCell" => indrnn(case)?,
        "MinimalRNNCell" => minimal_rnn(case)?,
        "IndyGRUCell" => indy_gru(case)?,
        "CFNCell" => cfn(case)?,
        "UGRNNCell" => ugrnn(case)?,
        "SRUCell" => return sru(case),
        "ConvLSTMCell" => {
            let axes = case.size("conv_ndims")?.unwrap_or_default();
            return conv_lstm(case, axes);
        }
        "Conv1DLSTMCell" => return conv_lstm(case, 1),
        "Conv2DLSTMCell" => return conv_lstm(case, 2),
        "Conv3DLSTMCell" => return conv_lstm(case, 3),
        _ => return case.unknown_class(),
    };
    with_state(case, layer)
}

/// Sets the units that the case may give and the only state, `hidden`.
fn with_state(case: &mut Case<'_>, layer: Layer) -> Converted {
    case.units("num_units", layer.hidden_size)?;
    Ok(layer.state("hidden", At::new("state")))
}

fn activation(case: &mut Case<'_>) -> Result<Activation> {
    case.activation("activation", Activation::Tanh)
}

/// Like `GRUCell`, but with the names of the op's operands.
pub(crate) fn gru_op(case: &mut Case<'_>) -> Converted {
    let gates = [case.tensor("w_ru")?, case.tensor("b_ru")?];
    cells::gru(gates, [case.tensor("w_c")?, case.tensor("b_c")?], Activation::Tanh)
}

/// The op as a cell; `cell_size` is its name for `num_units`.
fn gru_block(case: &mut Case<'_>) -> Converted {
    let layer = gru_op(case)?;
    case.units("cell_size", layer.hidden_size)?;
    Ok(layer)
}

fn gru(case: &mut Case<'_>) -> Converted {
    let activation = activation(case)?;
    let gates = [case.tensor("gates/kernel")?, case.tensor("gates/bias")?];
    cells::gru(gates, [case.tensor("candidate/kernel")?, case.tensor("candidate/bias")?], activation)
}

fn cudnn_compatible_gru(case: &mut Case<'_>) -> Converted {
    let activation = activation(case)?;
    cells::cudnn_compatible_gru(
        case.tensor("gates/kernel")?,
        case.tensor("gates/bias")?,
        [case.tensor("candidate/input_projection/kernel")?, case.tensor("candidate/input_projection/bias")?],
        [case.tensor("candidate/hidden_projection/kernel")?, case.tensor("candidate/hidden_projection/bias")?],
        activation,
    )
}

fn basic_rnn(case: &mut Case<'_>) -> Converted {
    let activation = activation(case)?;
    cells::basic_rnn(case.tensor("kernel")?, case.tensor("bias")?, activation)
}

fn indrnn(case: &mut Case<'_>) -> Converted {
    let activation = activation(case)?;
    cells::indrnn([case.tensor("kernel_w")?, case.tensor("kernel_u")?, case.tensor("bias")?], activation)
}

/// `MinimalRNNCell`: kernel [input + 2 * units, units] with rows of x, then of the latent z, then of h; bias `[units]`.
fn minimal_rnn(case: &mut Case<'_>) -> Converted {
    let activation = activation(case)?;
    let (kernel, bias) = (case.named("kernel")?, case.named("bias")?);
    let (rows, units) = kernel.matrix()?;
    let Some(input) = rows.checked_sub(2 * units).filter(|&input| input > 0) else {
        return kernel.refuse(format!("{units} units need more than {} rows", 2 * units));
    };
    let layer = Layer::new(CellKind::MinimalRnn, input, units)
        .tensor("input_weights", kernel.transposed(0, input)?)
        .tensor("latent_weights", kernel.transposed(input, input + units)?)
        .tensor("recurrent_weights", kernel.transposed(input + units, rows)?)
        .tensor("bias", bias.shaped(&[units], units)?)
        .activation("activation", activation);
    case.units("units", units)?;
    Ok(layer)
}

fn indy_gru(case: &mut Case<'_>) -> Converted {
    let activation = activation(case)?;
    cells::indy_gru(
        [case.tensor("gates/kernel_w")?, case.tensor("gates/kernel_u")?, case.tensor("gates/bias")?],
        [case.tensor("candidate/kernel")?, case.tensor("candidate/kernel_u")?, case.tensor("candidate/bias")?],
        activation,
    )
}

/// `CFNCell`: kernel [input, 3 * units] in the order theta, eta, candidate; recurrent kernel [units, 2 * units] and
/// bias [2 * units]. The class uses 1 - eta as its gate, so the weights of the canonical eta are negated.
fn cfn(case: &mut Case<'_>) -> Converted {
    let activation = activation(case)?;
    let (kernel, recurrent, bias) = (case.named("kernel")?, case.named("recurrent_kernel")?, case.named("bias")?);
    let (units, (input, _)) = (kernel.units(3)?, kernel.matrix()?);
    let (input_weights, candidate) = split_rows(kernel.transposed(0, input)?, 2 * units);
    recurrent.shaped(&[units, 2 * units], units)?;
    let bias = bias.shaped(&[2 * units], units)?;
    let layer = Layer::new(CellKind::Cfn, input, units)
        .tensor("input_weights", second_negated(input_weights))
        .tensor("recurrent_weights", second_negated(recurrent.transposed(0, units)?))
        .tensor("bias", second_negated(bias))
        .tensor("candidate_weights", candidate)
        .activation("activation", activation);
    case.units("units", units)?;
    Ok(layer)
}

/// The first `rows` rows of a matrix, and the others.
pub(super) fn split_rows(mut matrix: Tensor, rows: usize) -> (Tensor, Tensor) {
    let cols = matrix.shape[1];
    let data = matrix.data.split_off(rows * cols);
    let rest = Tensor { shape: vec![matrix.shape[0] - rows, cols], data };
    matrix.shape[0] = rows;
    (matrix, rest)
}

fn second_negated(mut tensor: Tensor) -> Tensor {
    let half = tensor.data.len() / 2;
    tensor.data[half..].iter_mut().for_each(|value| *value = -*value);
    tensor
}

/// `IntersectionRNNCell`: kernel [2 * units, 4 * units], bias [4 * units]; the forget bias is added to both gates.
/// Returns the cell, and the projection before it if the input has a different width.
pub(crate) fn intersection(case: &mut Case<'_>) -> Result<(Option<Layer>, Layer)> {
    let projection = match case.optional("in_projection/kernel")? {
        Some(kernel) => Some(cells::dense(kernel, case.tensor("in_projection/bias")?, Activation::Identity)?),
        None => None,
    };
    let forget_bias = forget_bias(case)?;
    let y_activation = case.activation("y_activation", Activation::Relu)?;
    let (kernel, bias) = (case.named("kernel")?, case.tensor("bias")?);
    let units = kernel.units(4)?;
    kernel.shaped(&[2 * units, 4 * units], units)?;
    let (layer, mut bias) = cells::fused(CellKind::Intersection, kernel.tensor, bias, 4)?;
    bias.data.chunks_mut(units).step_by(2).flatten().for_each(|value| *value += forget_bias);
    case.units("num_in_proj", units)?;
    let layer = layer.tensor("bias", bias).activation("output_activation", y_activation);
    Ok((projection, with_state(case, layer)?))
}

/// `SRUCell`: kernel [input, 4 * units] in the order candidate, forget, reset, highway; bias [2 * units] for forget and
/// reset. Its only state is c.
fn sru(case: &mut Case<'_>) -> Converted {
    let activation = activation(case)?;
    let (kernel, bias) = (case.named("kernel")?, case.named("bias")?);
    let (units, (input, _)) = (kernel.units(4)?, kernel.matrix()?);
    let (input_weights, highway) = split_rows(kernel.transposed(0, input)?, 3 * units);
    let bias = bias.shaped(&[2 * units], units)?;
    case.units("num_units", units)?;
    Ok(Layer::new(CellKind::Sru, input, units)
        .tensor("input_weights", input_weights)
        .tensor("bias", stacked([&zeros(units), &bias]))
        .option("highway")
        .tensor("highway_weights", highway)
        .activation("output_activation", activation)
        .state("cell_state", At::new("state")))
}

fn ugrnn(case: &mut Case<'_>) -> Converted {
    let (forget_bias, activation) = (forget_bias(case)?, activation(case)?);
    cells::ugrnn(case.tensor("kernel")?, case.tensor("bias")?, forget_bias, activation)
}
