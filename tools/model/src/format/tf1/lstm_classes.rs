//! TensorFlow 1's LSTM cells from checkpoint tensors and constructor arguments.

use tidegate::internals::{activation::Activation, cell::CellKind, gate::LSTM, gate::LSTM_TF1};

use super::cells::{self, Converted, LstmOptions, numbered, output_size, projected, unsupported_if};
use super::lstm_variants::{LayerNorm, coupled_lstm, layer_norm_lstm, weight_normalized};
use crate::format::conv_lstm::{self, Axis, Kernel, Padding};
use crate::format::weights::{Named, add_forget_bias, reordered, stacked, zeros};
use crate::format::{case::Case, layer::At, layer::Layer};
use crate::{canonical::Tensor, error::ImportError, error::Result};

/// The conversion of an LSTM whose state is a tuple (c, h), if `cls` is one.
pub(super) fn conversion(cls: &str) -> Option<fn(&mut Case<'_>) -> Converted> {
    Some(match cls {
        "BasicLSTMCell" => basic_lstm,
        "LSTMCell" => lstm,
        "LSTMBlockCell" | "LSTMBlockFusedCell" => lstm_block,
        "CoupledInputForgetGateLSTMCell" => coupled,
        "LayerNormBasicLSTMCell" => layer_norm_basic,
        "LayerNormLSTMCell" => layer_norm_full,
        "WeightNormLSTMCell" => weight_norm,
        "GLSTMCell" => glstm,
        "NASCell" => nas,
        "CudnnCompatibleLSTMCell" => |case| cells::cudnn_compatible_lstm(case.tensor("kernel")?, case.tensor("bias")?),
        "IndyLSTMCell" => indy_lstm,
        _ => return None,
    })
}

/// Checks the number of units, if the case gives it, and sets the states as TensorFlow passes them: a tuple (c, h), or
/// one tensor of c followed by h if `state_is_tuple` is false.
pub(super) fn with_tuple(case: &mut Case<'_>, layer: Layer) -> Converted {
    let units = layer.hidden_size;
    case.units("num_units", units)?;
    Ok(match case.flag("state_is_tuple", true)? {
        true => layer.state("hidden", At::new("h")).state("cell_state", At::new("c")),
        false => layer.state("hidden", At::new("state").from(units)).state("cell_state", At::new("state")),
    })
}

pub(super) fn forget_bias(case: &mut Case<'_>) -> Result<f32> {
    Ok(case.number("forget_bias")?.unwrap_or(1.0))
}

/// Options of `LSTMCell` and its variants, other than kernel, bias and projection.
fn lstm_options<'a>(case: &mut Case<'a>) -> Result<LstmOptions<'a>> {
    Ok(LstmOptions {
        peepholes: peepholes(case, "use_peepholes")?,
        cell_clip: case.number("cell_clip")?,
        projection_clip: case.number("proj_clip")?,
        ..basic_options(case)?
    })
}

/// Options of `BasicLSTMCell`.
fn basic_options<'a>(case: &mut Case<'a>) -> Result<LstmOptions<'a>> {
    let activation = case.activation("activation", Activation::Tanh)?;
    Ok(LstmOptions { forget_bias: forget_bias(case)?, activation, ..LstmOptions::default() })
}

/// The peephole weights of an `LSTMCell`, if `argument` is set.
fn peepholes<'a>(case: &mut Case<'a>, argument: &str) -> Result<Option<[&'a Tensor; 3]>> {
    let given = case.flag(argument, false)?;
    let tensors = || Ok([case.tensor("w_i_diag")?, case.tensor("w_f_diag")?, case.tensor("w_o_diag")?]);
    given.then(tensors).transpose()
}

/// The projection, if any. It must be taken before the cell's kernel, because its name may end like the kernel's.
fn projection<'a>(case: &mut Case<'a>, path: &str) -> Result<Option<&'a Tensor>> {
    case.size("num_proj")?.map(|_| case.tensor(path)).transpose()
}

fn basic_lstm(case: &mut Case<'_>) -> Converted {
    let options = basic_options(case)?;
    cells::lstm(case.tensor("kernel")?, case.tensor("bias")?, options)
}

fn lstm(case: &mut Case<'_>) -> Converted {
    let projection = case.size("num_proj")?;
    let projection = projection.map(|_| sharded(case, "projection/kernel", "num_proj_shards")).transpose()?;
    let kernel = sharded(case, "kernel", "num_unit_shards")?;
    let options = LstmOptions { projection: projection.as_ref(), ..lstm_options(case)? };
    cells::lstm(&kernel, case.tensor("bias")?, options)
}

/// A kernel that may be split into `path/part_0`, `path/part_1`, ...
fn sharded(case: &mut Case<'_>, path: &str, argument: &str) -> Result<Tensor> {
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

/// An LSTM op for one step or for a whole sequence. A clip that is not positive means no clip.
fn lstm_block(case: &mut Case<'_>) -> Converted {
    let options = LstmOptions {
        forget_bias: forget_bias(case)?,
        peepholes: peepholes(case, "use_peephole")?,
        cell_clip: case.number("cell_clip")?.filter(|&clip| clip > 0.0),
        ..LstmOptions::default()
    };
    cells::lstm(case.tensor("kernel")?, case.tensor("bias")?, options)
}

/// For each group a kernel [(input + output) / groups, 4 * units / groups] in the order i, j, f, o; biases i, f, j, o of
/// all units; projection [units, output]. `activation` applies to the output only; the candidate uses tanh.
fn glstm(case: &mut Case<'_>) -> Converted {
    let groups = case.size("number_of_groups")?.unwrap_or(1);
    let kernels: Result<Vec<_>> = (0..groups).map(|k| case.tensor(&format!("group{k}/kernel"))).collect();
    let kernels = kernels?;
    let biases = [case.tensor("bias_i")?, case.tensor("bias_f")?, case.tensor("bias_j")?, case.tensor("bias_o")?];
    let projection = projection(case, "projection/kernel")?.map(|tensor| Named { name: "projection/kernel", tensor });
    let forget_bias = forget_bias(case)?;
    let activation = case.activation("activation", Activation::Tanh)?;
    let Some(&first) = kernels.first() else {
        return Err(ImportError::MissingTensor { tensor: "group0/kernel".into() });
    };
    let units = groups * Named { name: "group0/kernel", tensor: first }.units(4)?;
    let output = output_size(projection, units)?;
    unsupported_if(output % groups != 0, format_args!("an output of {output} features in {groups} groups"))?;
    let (mut inputs, mut recurrents) = (Vec::new(), Vec::new());
    for tensor in kernels {
        let kernel = Named { name: "group/kernel", tensor };
        kernel.shaped(&first.shape, units)?;
        let (input, recurrent) = kernel.split_kernel(output / groups)?;
        inputs.push(reordered(&input, LSTM_TF1, LSTM));
        recurrents.push(reordered(&recurrent, LSTM_TF1, LSTM));
    }
    let input_weights = interleaved(&inputs, LSTM.len());
    let biases = biases.into_iter().map(|tensor| Named { name: "bias", tensor }.shaped(&[units], units));
    let mut bias = stacked(&biases.collect::<Result<Vec<_>>>()?);
    add_forget_bias(&mut bias, forget_bias);
    let layer = Layer::new(CellKind::Glstm, groups * input_weights.shape[1], units)
        .extent("groups", groups)
        .tensor("input_weights", input_weights)
        .tensor("recurrent_weights", interleaved(&recurrents, LSTM.len()))
        .tensor("input_bias", bias)
        .activation("output_activation", activation);
    projected(layer, projection, output)
}

/// Interleaves matrices of `blocks` blocks of rows: block 0 of every matrix, then block 1 of every matrix, and so on.
fn interleaved(parts: &[Tensor], blocks: usize) -> Tensor {
    let mut data = Vec::new();
    for block in 0..blocks {
        for part in parts {
            let len = part.data.len() / blocks;
            data.extend(&part.data[block * len..(block + 1) * len]);
        }
    }
    Tensor { shape: vec![parts.len() * parts[0].shape[0], parts[0].shape[1]], data }
}

/// Kernel [input, 8 * units], recurrent kernel [output, 8 * units], bias [8 * units], projection [units, output].
fn nas(case: &mut Case<'_>) -> Converted {
    let projection = projection(case, "projection_weights")?;
    let bias = if case.flag("use_bias", false)? { Some(case.named("bias")?) } else { None };
    let (kernel, recurrent) = (case.named("kernel")?, case.named("recurrent_kernel")?);
    let units = kernel.units(8)?;
    let (input, _) = kernel.matrix()?;
    let (output, _) = recurrent.matrix()?;
    recurrent.shaped(&[output, 8 * units], units)?;
    let layer = Layer::new(CellKind::Nas, input, units)
        .tensor("input_weights", kernel.transposed(0, input)?)
        .tensor("recurrent_weights", recurrent.transposed(0, output)?)
        .optional("recurrent_bias", bias.map(|bias| bias.shaped(&[8 * units], units)).transpose()?);
    projected(layer, projection.map(|tensor| Named { name: "projection_weights", tensor }), output)
}

/// A `ConvLSTMCell` over an input `[lengths.., channels]`. The kernel is `[taps.., channels + filters, 4 * filters]`;
/// its first channels read x and the others read h. The biases are `[4 * filters]`. Both are in the order i, j, f, o.
/// With `skip_connection`, the output is x beside h. (TensorFlow then also passes this output to the next step as h,
/// which makes that step fail.)
pub(super) fn conv_lstm(case: &mut Case<'_>, axes: usize) -> Converted {
    // Only used in training.
    case.ignore("initializers");
    let shape = case.sizes("input_shape")?.unwrap_or_default();
    let named = case.named("kernel")?;
    let taps = case.sizes("kernel_shape")?;
    let differs = |taps: Vec<usize>| taps.len() != axes || !named.tensor.shape.starts_with(&taps);
    let differs = shape.len() != axes + 1 || taps.is_some_and(differs);
    let (cls, of) = (&case.cls, &named.tensor.shape);
    unsupported_if(differs, format_args!("{cls} over an input of shape {shape:?} with a kernel of shape {of:?}"))?;
    let biases = if case.flag("use_bias", true)? { Some(case.named("biases")?) } else { None };
    let forget_bias = forget_bias(case)?;
    let skip = case.flag("skip_connection", false)?;
    let (lengths, channels) = (&shape[..axes], shape[axes]);
    let kernel = Kernel::read(named, axes)?;
    let filters = kernel.filters;
    if kernel.channels.checked_sub(filters) != Some(channels) {
        return named.refuse(format!("{filters} filters over {channels} channels must see {}", filters + channels));
    }
    let bias = match biases {
        Some(biases) => biases.shaped(&[4 * filters], filters)?,
        None => zeros(4 * filters),
    };
    let mut bias = reordered(&bias, LSTM_TF1, LSTM);
    add_forget_bias(&mut bias, forget_bias);
    let axis = |(&length, &kernel)| Axis { length, kernel, stride: 1, dilation: 1 };
    let axes: Vec<Axis> = lengths.iter().zip(kernel.taps).map(axis).collect();
    let mut layer = conv_lstm::layer(&axes, channels, filters, Padding::Same)?
        .tensor("input_weights", reordered(&kernel.weights(0..channels)?, LSTM_TF1, LSTM))
        .tensor("recurrent_weights", reordered(&kernel.weights(channels..kernel.channels)?, LSTM_TF1, LSTM))
        .tensor("bias", bias);
    if skip {
        layer.output_size += layer.input_size;
        layer = layer.option("skip");
    }
    case.units("output_channels", layer.hidden_size)?;
    Ok(layer.state("hidden", At::new("h")).state("cell_state", At::new("c")))
}

fn indy_lstm(case: &mut Case<'_>) -> Converted {
    let options = basic_options(case)?;
    let tensors = [case.tensor("kernel_w")?, case.tensor("kernel_u")?, case.tensor("bias")?];
    cells::indy_lstm(tensors, options.forget_bias, options.activation)
}

fn layer_norm(case: &mut Case<'_>, scope: &str) -> Result<LayerNorm> {
    let mut tensor = |name: &str| case.tensor(&format!("{scope}/{name}")).cloned();
    Ok(LayerNorm { gamma: tensor("gamma")?, beta: tensor("beta")? })
}

/// The normalizations of the gates in kernel order, and of the cell state.
fn layer_norms(case: &mut Case<'_>) -> Result<[LayerNorm; 5]> {
    let input = layer_norm(case, "input")?;
    let [transform, forget, output, state] = coupled_norms(case)?;
    Ok([input, transform, forget, output, state])
}

/// The same without an input gate.
fn coupled_norms(case: &mut Case<'_>) -> Result<[LayerNorm; 4]> {
    let (transform, forget) = (layer_norm(case, "transform")?, layer_norm(case, "forget")?);
    Ok([transform, forget, layer_norm(case, "output")?, layer_norm(case, "state")?])
}

/// Ignores arguments that only affect the initialization or training of a normalized cell.
fn ignore_training(case: &mut Case<'_>) {
    case.ignore_all(&["norm_gain", "norm_shift", "dropout_keep_prob", "dropout_prob_seed"]);
}

fn layer_norm_basic(case: &mut Case<'_>) -> Converted {
    ignore_training(case);
    // Deprecated; TensorFlow ignores it.
    case.ignore("input_size");
    let options = basic_options(case)?;
    let kernel = case.tensor("kernel")?;
    match case.flag("layer_norm", true)? {
        true => layer_norm_lstm(kernel, &layer_norms(case)?, options),
        false => cells::lstm(kernel, case.tensor("bias")?, options),
    }
}

fn layer_norm_full(case: &mut Case<'_>) -> Converted {
    ignore_training(case);
    let projection = projection(case, "projection/kernel")?;
    let kernel = case.tensor("kernel")?;
    let options = LstmOptions { projection, ..lstm_options(case)? };
    match case.flag("layer_norm", false)? {
        true => {
            // The cell creates and saves this bias but does not add it.
            case.optional("bias")?;
            layer_norm_lstm(kernel, &layer_norms(case)?, options)
        }
        false => cells::lstm(kernel, case.tensor("bias")?, options),
    }
}

fn weight_norm(case: &mut Case<'_>) -> Converted {
    let normalized = case.flag("norm", true)?;
    let projection = projection(case, "projection/kernel")?;
    let projection = match projection {
        Some(weights) if normalized => {
            let norms = case.named("projection/norm_0")?;
            let rows = Named { name: "projection/kernel", tensor: weights }.matrix()?.0;
            Some(weight_normalized(weights, 0..rows, norms)?)
        }
        other => other.cloned(),
    };
    let kernel = case.named("kernel")?;
    let (rows, cols) = kernel.matrix()?;
    let output = output_size(projection.as_ref().map(|tensor| Named { name: "projection/kernel", tensor }), cols / 4)?;
    let input = rows.saturating_sub(output);
    let kernel = match normalized {
        true => stacked([
            &weight_normalized(kernel.tensor, 0..input, case.named("norm_0")?)?,
            &weight_normalized(kernel.tensor, input..rows, case.named("norm_1")?)?,
        ]),
        false => kernel.tensor.clone(),
    };
    let options = LstmOptions { projection: projection.as_ref(), ..lstm_options(case)? };
    cells::lstm(&kernel, case.tensor("bias")?, options)
}

fn coupled(case: &mut Case<'_>) -> Converted {
    ignore_training(case);
    let shards = case.size("num_unit_shards")?.unwrap_or(1);
    let kernel = numbered(case, "W", shards)?;
    let projection = match case.size("num_proj")? {
        Some(_) => {
            let shards = case.size("num_proj_shards")?.unwrap_or(1);
            Some(numbered(case, "W_P", shards)?)
        }
        None => None,
    };
    let peepholes = case.flag("use_peepholes", false)?;
    let peepholes = if peepholes { Some([case.tensor("W_F_diag")?, case.tensor("W_O_diag")?]) } else { None };
    let options = LstmOptions {
        projection: projection.as_ref(),
        projection_clip: case.number("proj_clip")?,
        ..basic_options(case)?
    };
    let normalized = case.flag("layer_norm", false)?;
    // With layer normalization, the cell creates and saves this bias but does not add it.
    let bias = case.optional("B")?;
    let norms = if normalized { Some(coupled_norms(case)?) } else { None };
    coupled_lstm(&kernel, bias, norms, peepholes, options)
}
