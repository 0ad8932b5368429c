//! TensorFlow 1 cells from checkpoint tensors and constructor arguments.

use tidegate::activation::Activation;

use super::cells::{self, LstmOptions};
use super::{lstm_golden, wrapper};
use crate::canonical::Tensor;
use crate::error::ImportError;
use crate::format::cudnn;
use crate::format::golden::{Case, Control};
use crate::format::layer::{At, Layer};
use crate::format::network::Network;

/// The network of a `tf1` case.
pub(crate) fn convert(case: &mut Case<'_>) -> Result<Network, ImportError> {
    case.control("sequence_length", Control::Length);
    if let Some(kind) = case.cls.strip_prefix("CudnnParamsFormatConverter") {
        return Ok(Network::of(match kind {
            "LSTM" => cudnn::lstm(case)?,
            "GRU" => cudnn::gru(case)?,
            "Tanh" => cudnn::basic(case, Activation::Tanh)?,
            "Relu" => cudnn::basic(case, Activation::Relu)?,
            _ => return case.unknown_class(),
        }));
    }
    wrapper::convert(case)
}

/// One cell.
pub(crate) fn cell(case: &mut Case<'_>) -> Result<Layer, ImportError> {
    match case.cls.as_str() {
        "BasicLSTMCell" => basic_lstm(case),
        "LSTMCell" => lstm(case),
        "LSTMBlockCell" | "LSTMBlockFusedCell" => lstm_block(case),
        "CoupledInputForgetGateLSTMCell" => lstm_golden::coupled(case),
        "LayerNormBasicLSTMCell" => lstm_golden::layer_norm_basic(case),
        "LayerNormLSTMCell" => lstm_golden::layer_norm_full(case),
        "WeightNormLSTMCell" => lstm_golden::weight_norm(case),
        "GRUCell" | "GRUBlockCellV2" => gru(case),
        "GRUBlockCell" => gru_block(case),
        "BasicRNNCell" => basic_rnn(case),
        "GLSTMCell" => glstm(case),
        "NASCell" => nas(case),
        "ConvLSTMCell" => {
            let axes = case.size("conv_ndims")?.unwrap_or_default();
            conv_lstm(case, axes)
        }
        "Conv1DLSTMCell" => conv_lstm(case, 1),
        "Conv2DLSTMCell" => conv_lstm(case, 2),
        "Conv3DLSTMCell" => conv_lstm(case, 3),
        "CudnnCompatibleLSTMCell" => cudnn_compatible_lstm(case),
        "CudnnCompatibleGRUCell" => cudnn_compatible_gru(case),
        "IndRNNCell" => indrnn(case),
        "MinimalRNNCell" => minimal_rnn(case),
        "IndyLSTMCell" => indy_lstm(case),
        "IndyGRUCell" => indy_gru(case),
        "CFNCell" => cfn(case),
        "SRUCell" => sru(case),
        "UGRNNCell" => ugrnn(case),
        _ => case.unknown_class(),
    }
}

/// The layer, whose units the case may give, with its states as TensorFlow hands them over: a tuple (c, h), or where
/// `state_is_tuple` is false c and then h in one tensor.
pub(super) fn with_tuple(case: &mut Case<'_>, layer: Layer) -> Result<Layer, ImportError> {
    case.units("num_units", layer.hidden_size)?;
    let units = layer.hidden_size;
    Ok(match case.flag("state_is_tuple", true)? {
        true => layer.state("hidden", At::new("h")).state("cell_state", At::new("c")),
        false => layer.state("hidden", At::new("state").from(units)).state("cell_state", At::new("state")),
    })
}

/// The same for a cell whose only state is `hidden`.
fn with_state(case: &mut Case<'_>, layer: Layer) -> Result<Layer, ImportError> {
    case.units("num_units", layer.hidden_size)?;
    Ok(layer.state("hidden", At::new("state")))
}

fn basic_lstm(case: &mut Case<'_>) -> Result<Layer, ImportError> {
    let forget_bias = case.number("forget_bias")?.unwrap_or(1.0);
    let activation = case.activation("activation", Activation::Tanh)?;
    let layer = cells::basic_lstm(case.tensor("kernel")?, case.tensor("bias")?, forget_bias, activation)?;
    with_tuple(case, layer)
}

fn lstm(case: &mut Case<'_>) -> Result<Layer, ImportError> {
    // The projection first: its kernel's name ends like the cell's.
    let projection = match case.size("num_proj")? {
        Some(_) => Some(sharded(case, "projection/kernel", "num_proj_shards")?),
        None => None,
    };
    let kernel = sharded(case, "kernel", "num_unit_shards")?;
    let options = LstmOptions { projection: projection.as_ref(), ..lstm_options(case)? };
    let layer = cells::lstm(&kernel, case.tensor("bias")?, options)?;
    with_tuple(case, layer)
}

/// What `LSTMCell` and its variants have beyond kernel, bias and projection.
pub(super) fn lstm_options<'a>(case: &mut Case<'a>) -> Result<LstmOptions<'a>, ImportError> {
    Ok(LstmOptions {
        forget_bias: case.number("forget_bias")?.unwrap_or(1.0),
        peepholes: peepholes(case, "use_peepholes")?,
        cell_clip: case.number("cell_clip")?,
        projection_clip: case.number("proj_clip")?,
        activation: case.activation("activation", Activation::Tanh)?,
        ..LstmOptions::default()
    })
}

/// The diagonals that the gates of an `LSTMCell` have where `argument` is set.
fn peepholes<'a>(case: &mut Case<'a>, argument: &str) -> Result<Option<[&'a Tensor; 3]>, ImportError> {
    Ok(match case.flag(argument, false)? {
        true => Some([case.tensor("w_i_diag")?, case.tensor("w_f_diag")?, case.tensor("w_o_diag")?]),
        false => None,
    })
}

/// The weights of a projection, where there is one. To be taken first: their name may end like that of the cell's.
pub(super) fn projection<'a>(case: &mut Case<'a>, path: &str) -> Result<Option<&'a Tensor>, ImportError> {
    Ok(match case.size("num_proj")? {
        Some(_) => Some(case.tensor(path)?),
        None => None,
    })
}

/// One op a step, or one for the whole sequence. A clip that is not positive is none.
fn lstm_block(case: &mut Case<'_>) -> Result<Layer, ImportError> {
    let options = LstmOptions {
        forget_bias: case.number("forget_bias")?.unwrap_or(1.0),
        peepholes: peepholes(case, "use_peephole")?,
        cell_clip: case.number("cell_clip")?.filter(|&clip| clip > 0.0),
        ..LstmOptions::default()
    };
    let layer = cells::lstm(case.tensor("kernel")?, case.tensor("bias")?, options)?;
    with_tuple(case, layer)
}

fn glstm(case: &mut Case<'_>) -> Result<Layer, ImportError> {
    let groups = case.size("number_of_groups")?.unwrap_or(1);
    let kernels = (0..groups).map(|k| case.tensor(&format!("group{k}/kernel"))).collect::<Result<Vec<_>, _>>()?;
    let biases = [case.tensor("bias_i")?, case.tensor("bias_f")?, case.tensor("bias_j")?, case.tensor("bias_o")?];
    let projection = projection(case, "projection/kernel")?;
    let forget_bias = case.number("forget_bias")?.unwrap_or(1.0);
    let activation = case.activation("activation", Activation::Tanh)?;
    let layer = cells::glstm(&kernels, biases, forget_bias, projection, activation)?;
    with_tuple(case, layer)
}

fn nas(case: &mut Case<'_>) -> Result<Layer, ImportError> {
    let projection = projection(case, "projection_weights")?;
    let bias = if case.flag("use_bias", false)? { Some(case.tensor("bias")?) } else { None };
    let layer = cells::nas(case.tensor("kernel")?, case.tensor("recurrent_kernel")?, bias, projection)?;
    with_tuple(case, layer)
}

/// As `GRUCell`, with the names of the op's operands.
pub(crate) fn gru_op(case: &mut Case<'_>) -> Result<Layer, ImportError> {
    let (gates, gates_bias) = (case.tensor("w_ru")?, case.tensor("b_ru")?);
    cells::gru(gates, gates_bias, case.tensor("w_c")?, case.tensor("b_c")?, Activation::Tanh)
}

/// A kernel that is cut by rows into `path_0`, `path_1`, ..., so many.
pub(super) fn numbered(case: &mut Case<'_>, path: &str, count: usize) -> Result<Tensor, ImportError> {
    let parts = (0..count).map(|k| case.tensor(&format!("{path}_{k}"))).collect::<Result<Vec<_>, _>>()?;
    cells::unsharded(&parts)
}

/// The op as a cell; `cell_size` is one of `num_units`.
fn gru_block(case: &mut Case<'_>) -> Result<Layer, ImportError> {
    let layer = gru_op(case)?;
    case.units("cell_size", layer.hidden_size)?;
    with_state(case, layer)
}

/// A kernel that may be cut into `path/part_0`, `path/part_1`, ...
fn sharded(case: &mut Case<'_>, path: &str, argument: &str) -> Result<Tensor, ImportError> {
    case.size(argument)?;
    // A saver writes the shards as slices of one variable.
    if let Some(whole) = case.optional(path)? {
        return Ok(whole.clone());
    }
    let mut parts = Vec::new();
    while let Some(part) = case.optional(&format!("{path}/part_{}", parts.len()))? {
        parts.push(part);
    }
    if parts.is_empty() {
        return Err(ImportError::MissingTensor { tensor: path.to_owned() });
    }
    cells::unsharded(&parts)
}

fn gru(case: &mut Case<'_>) -> Result<Layer, ImportError> {
    let activation = case.activation("activation", Activation::Tanh)?;
    let layer = cells::gru(
        case.tensor("gates/kernel")?,
        case.tensor("gates/bias")?,
        case.tensor("candidate/kernel")?,
        case.tensor("candidate/bias")?,
        activation,
    )?;
    with_state(case, layer)
}

/// Over so many axes.
fn conv_lstm(case: &mut Case<'_>, axes: usize) -> Result<Layer, ImportError> {
    // What only training sees.
    case.ignore("initializers");
    let shape = case.sizes("input_shape")?.unwrap_or_default();
    let kernel = case.tensor("kernel")?;
    let taps = case.sizes("kernel_shape")?;
    let differs = |taps: Vec<usize>| taps.len() != axes || !kernel.shape.starts_with(&taps);
    if shape.len() != axes + 1 || taps.is_some_and(differs) {
        return Err(ImportError::Unsupported(format!(
            "{} over an input of shape {shape:?} with a kernel of shape {:?}",
            case.cls, kernel.shape
        )));
    }
    let biases = if case.flag("use_bias", true)? { Some(case.tensor("biases")?) } else { None };
    let forget_bias = case.number("forget_bias")?.unwrap_or(1.0);
    let skip = case.flag("skip_connection", false)?;
    let layer = cells::conv_lstm(kernel, biases, &shape, forget_bias, skip)?;
    case.units("output_channels", layer.hidden_size)?;
    Ok(layer.state("hidden", At::new("h")).state("cell_state", At::new("c")))
}

fn cudnn_compatible_lstm(case: &mut Case<'_>) -> Result<Layer, ImportError> {
    let layer = cells::cudnn_compatible_lstm(case.tensor("kernel")?, case.tensor("bias")?)?;
    with_tuple(case, layer)
}

fn cudnn_compatible_gru(case: &mut Case<'_>) -> Result<Layer, ImportError> {
    let activation = case.activation("activation", Activation::Tanh)?;
    let layer = cells::cudnn_compatible_gru(
        case.tensor("gates/kernel")?,
        case.tensor("gates/bias")?,
        [case.tensor("candidate/input_projection/kernel")?, case.tensor("candidate/input_projection/bias")?],
        [case.tensor("candidate/hidden_projection/kernel")?, case.tensor("candidate/hidden_projection/bias")?],
        activation,
    )?;
    with_state(case, layer)
}

fn basic_rnn(case: &mut Case<'_>) -> Result<Layer, ImportError> {
    let activation = case.activation("activation", Activation::Tanh)?;
    let layer = cells::basic_rnn(case.tensor("kernel")?, case.tensor("bias")?, activation)?;
    with_state(case, layer)
}

fn indrnn(case: &mut Case<'_>) -> Result<Layer, ImportError> {
    let activation = case.activation("activation", Activation::Tanh)?;
    let layer = cells::indrnn(case.tensor("kernel_w")?, case.tensor("kernel_u")?, case.tensor("bias")?, activation)?;
    with_state(case, layer)
}

fn minimal_rnn(case: &mut Case<'_>) -> Result<Layer, ImportError> {
    let activation = case.activation("activation", Activation::Tanh)?;
    let layer = cells::minimal_rnn(case.tensor("kernel")?, case.tensor("bias")?, activation)?;
    case.units("units", layer.hidden_size)?;
    with_state(case, layer)
}

fn indy_lstm(case: &mut Case<'_>) -> Result<Layer, ImportError> {
    let forget_bias = case.number("forget_bias")?.unwrap_or(1.0);
    let activation = case.activation("activation", Activation::Tanh)?;
    let (kernel_w, kernel_u) = (case.tensor("kernel_w")?, case.tensor("kernel_u")?);
    let layer = cells::indy_lstm(kernel_w, kernel_u, case.tensor("bias")?, forget_bias, activation)?;
    with_tuple(case, layer)
}

fn indy_gru(case: &mut Case<'_>) -> Result<Layer, ImportError> {
    let activation = case.activation("activation", Activation::Tanh)?;
    let layer = cells::indy_gru(
        [case.tensor("gates/kernel_w")?, case.tensor("gates/kernel_u")?, case.tensor("gates/bias")?],
        [case.tensor("candidate/kernel")?, case.tensor("candidate/kernel_u")?, case.tensor("candidate/bias")?],
        activation,
    )?;
    with_state(case, layer)
}

fn cfn(case: &mut Case<'_>) -> Result<Layer, ImportError> {
    let activation = case.activation("activation", Activation::Tanh)?;
    let (kernel, recurrent_kernel) = (case.tensor("kernel")?, case.tensor("recurrent_kernel")?);
    let layer = cells::cfn(kernel, recurrent_kernel, case.tensor("bias")?, activation)?;
    case.units("units", layer.hidden_size)?;
    with_state(case, layer)
}

/// The cell and, where the input has another width, the projection in front of it.
pub(crate) fn intersection(case: &mut Case<'_>) -> Result<(Option<Layer>, Layer), ImportError> {
    let projection = match case.optional("in_projection/kernel")? {
        Some(kernel) => Some(cells::dense(kernel, case.tensor("in_projection/bias")?, Activation::Identity)?),
        None => None,
    };
    let forget_bias = case.number("forget_bias")?.unwrap_or(1.0);
    let y_activation = case.activation("y_activation", Activation::Relu)?;
    let layer = cells::intersection(case.tensor("kernel")?, case.tensor("bias")?, forget_bias, y_activation)?;
    case.units("num_in_proj", layer.hidden_size)?;
    Ok((projection, with_state(case, layer)?))
}

/// Its state is c.
fn sru(case: &mut Case<'_>) -> Result<Layer, ImportError> {
    let activation = case.activation("activation", Activation::Tanh)?;
    let layer = cells::sru(case.tensor("kernel")?, case.tensor("bias")?, activation)?;
    case.units("num_units", layer.hidden_size)?;
    Ok(layer.state("cell_state", At::new("state")))
}

fn ugrnn(case: &mut Case<'_>) -> Result<Layer, ImportError> {
    let forget_bias = case.number("forget_bias")?.unwrap_or(1.0);
    let activation = case.activation("activation", Activation::Tanh)?;
    let layer = cells::ugrnn(case.tensor("kernel")?, case.tensor("bias")?, forget_bias, activation)?;
    with_state(case, layer)
}
