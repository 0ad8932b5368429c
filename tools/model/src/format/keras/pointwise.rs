//! Keras's layers without state that process one step or combine inputs. They are applied to each step of a sequence or
//! to each row of a window.

use serde_json::Value as Json;
use tidegate::internals::{activation::Activation, cell::CellKind};

use super::activation::{Function, add_function, function_of_layer, take_function};
use super::{mask, products::transposed};
use crate::format::refuse::unsupported_if;
use crate::format::{
    case::Case, case::unsupported, layer::Layer, network::Network, network::Source, picture::Kernel, signal::Signal,
};
use crate::{canonical::Tensor, error::ImportError, error::Result};

/// Layers that only act during training.
const OF_TRAINING: &str = "Dropout SpatialDropout1D SpatialDropout2D SpatialDropout3D GaussianDropout GaussianNoise \
                           AlphaDropout ActivityRegularization";

/// Adds the layer if its class is one of these.
pub(super) fn add(case: &mut Case<'_>, network: &mut Network, x: &Signal, each_step: bool) -> Result<Option<Signal>> {
    if OF_TRAINING.split(' ').any(|class| class == case.cls) {
        case.ignore_all(&["rate", "stddev", "l1", "l2", "data_format", "p", "sigma"]);
        return Ok(Some(x.clone()));
    }
    let value = match case.cls.as_str() {
        "Dense" => dense(case, network, x)?,
        "Embedding" => embedding(case, network, x)?,
        "Masking" => mask::masking(case, network, x)?,
        "Softmax" if x.mask.is_some() => return Err(ImportError::Unsupported("a Softmax after a mask".into())),
        "Softmax" => softmax(case, network, x, each_step)?,
        "BatchNormalization" => batch_norm(case, network, x, each_step)?,
        "LayerNormalization" => layer_norm(case, network, x, each_step)?,
        "Normalization" => normalization(case, network, x, each_step)?,
        "Rescaling" => rescaling(case, network, x)?,
        "PReLU" => prelu(case, network, x, each_step)?,
        "Activation" => {
            let function = take_function(case, "activation")?;
            add_function(network, x, function)?
        }
        "Lambda" => {
            return Err(ImportError::Refused {
                found: "it contains a Lambda, which is custom code".into(),
                advice: "rebuild the network from Keras's own layers, load the weights into it, and save it",
            });
        }
        _ => match function_of_layer(case)? {
            Some(function) => {
                last_axis(case, x, each_step)?;
                add_function(network, x, function)?
            }
            None => return Ok(None),
        },
    };
    Ok(Some(value))
}

/// Adds a layer that is applied to each step and has as many outputs as inputs.
fn same_size(layer: Layer, network: &mut Network, x: &Signal) -> Signal {
    Signal { source: network.add(layer, &[&x.source]), ..x.clone() }
}

/// Takes the argument `axis`, which must be the channel axis.
fn last_axis(case: &mut Case<'_>, x: &Signal, each_step: bool) -> Result<()> {
    case.value("axis").map_or(Ok(()), |given| check_axis(&given, x, each_step))
}

fn check_axis(given: &Json, x: &Signal, each_step: bool) -> Result<()> {
    let axis = match given {
        Json::Array(list) if list.len() == 1 => list.first().and_then(Json::as_i64),
        one => one.as_i64(),
    };
    let time = i64::from(x.sequence && !each_step);
    let channels = time + x.shape.len() as i64;
    // Keras 1 has channels first by default, so its `axis` may be a different one.
    match axis {
        Some(axis) if axis == -1 || axis == channels => Ok(()),
        _ => Err(unsupported("axis", given)),
    }
}

/// `Softmax` over the features of each step, or over the steps of a window.
fn softmax(case: &mut Case<'_>, network: &mut Network, x: &Signal, each_step: bool) -> Result<Signal> {
    let given = case.value("axis").unwrap_or_else(|| (-1).into());
    let is_steps = matches!(given.as_i64(), Some(1 | -2));
    if is_steps && x.sequence && !each_step && x.shape.len() == 1 {
        let columns = transposed(network, x)?;
        let shares = add_function(network, &columns, Function::Softmax)?;
        return transposed(network, &shares);
    }
    check_axis(&given, x, each_step)?;
    add_function(network, x, Function::Softmax)
}

fn channels(x: &Signal) -> usize {
    x.shape.last().copied().unwrap_or(1)
}

/// Refuses tensors for a different number of channels.
fn fitting(x: &Signal, channels: usize) -> Result<()> {
    let found = self::channels(x);
    unsupported_if(found != channels, format_args!("{found} features where its tensors take {channels}"))
}

/// `act(x kernel + bias)` over the last dimension.
fn dense(case: &mut Case<'_>, network: &mut Network, x: &Signal) -> Result<Signal> {
    let function = take_function(case, "activation")?;
    let kernel = case.named("kernel")?;
    let (input, units) = kernel.matrix()?;
    case.units("units", units)?;
    fitting(x, input)?;
    let bias = if case.flag("use_bias", true)? { Some(case.vector("bias", units)?) } else { None };
    let layer = Layer::dense(kernel.transposed(0, input)?, bias, Activation::Identity);
    let activation = function.as_activation();
    let layer = layer.activation("activation", activation.unwrap_or(Activation::Identity));
    let value = match x.shape.as_slice() {
        [] | [_] => Signal { shape: vec![units], ..x.with(network.add(layer, &[&x.source])) },
        [pixels @ .., _] => {
            // The same product for each pixel: a convolution with one tap.
            let all = pixels.iter().product();
            let conv = Layer { kind: CellKind::Conv, ..layer };
            let value = Kernel::of([1, 1]).within(network, x, conv, [1, all, input])?;
            Signal { shape: [pixels, &[units]].concat(), ..value }
        }
    };
    if activation.is_some() { Ok(value) } else { add_function(network, &value, function) }
}

/// The input is the index. An index out of range, which Keras refuses or maps to zero, selects the nearest row.
fn embedding(case: &mut Case<'_>, network: &mut Network, x: &Signal) -> Result<Signal> {
    case.ignore("input_length");
    let table = case.named("embeddings")?;
    let (rows, size) = table.matrix()?;
    case.units("input_dim", rows)?;
    case.units("output_dim", size)?;
    fitting(x, 1)?;
    let mask = if case.flag("mask_zero", false)? { Some(mask::of_indices(network, x)?) } else { None };
    let layer = Layer::new(CellKind::Embedding, 1, size).extent("vocabulary", rows);
    let source = network.add(layer.tensor("weights", table.tensor.clone()), &[&x.source]);
    Ok(Signal { shape: vec![size], mask, ..x.with(source) })
}

fn batch_norm(case: &mut Case<'_>, network: &mut Network, x: &Signal, each_step: bool) -> Result<Signal> {
    // At inference, only the statistics matter.
    case.ignore_all(&["momentum", "fused", "synchronized", "virtual_batch_size"]);
    // Refused before its weights are read.
    case.must_be("renorm", false)?;
    case.ignore_all(&["renorm_clipping", "renorm_momentum"]);
    last_axis(case, x, each_step)?;
    let epsilon = f64::from(case.number("epsilon")?.unwrap_or(1e-3));
    let mean = case.named("moving_mean")?;
    let size = mean.tensor.data.len();
    let mean = mean.shaped(&[size], size)?;
    fitting(x, size)?;
    let variance = case.vector("moving_variance", size)?;
    let gain = if case.flag("scale", true)? { Some(case.vector("gamma", size)?) } else { None };
    let bias = if case.flag("center", true)? { Some(case.vector("beta", size)?) } else { None };
    let affine = [&gain, &bias].map(|tensor| tensor.as_ref().map(|tensor| tensor.data.as_slice()));
    let layer = Layer::batch_norm(x.source.size(), [&mean.data, &variance.data], affine, epsilon);
    Ok(same_size(layer, network, x))
}

fn layer_norm(case: &mut Case<'_>, network: &mut Network, x: &Signal, each_step: bool) -> Result<Signal> {
    last_axis(case, x, each_step)?;
    case.must_be("rms_scaling", false)?;
    let epsilon = case.number("epsilon")?.unwrap_or(1e-3);
    let (all, size) = (x.source.size(), channels(x));
    let mut layer = Layer::new(CellKind::LayerNorm, all, all).param("epsilon", epsilon);
    if all != size {
        layer = layer.extent("groups", all / size.max(1));
    }
    let tiled = |tensor: Tensor| Tensor { shape: vec![all], data: tensor.data.repeat(all / size.max(1)) };
    if case.flag("scale", true)? {
        layer = layer.option("gain").tensor("gain", tiled(case.vector("gamma", size)?));
    }
    if case.flag("center", true)? {
        layer = layer.tensor("bias", tiled(case.vector("beta", size)?));
    }
    Ok(same_size(layer, network, x))
}

/// Normalization with statistics that are arguments or were computed by `adapt`: `(x - mean) / max(√variance, ε)`.
fn normalization(case: &mut Case<'_>, network: &mut Network, x: &Signal, each_step: bool) -> Result<Signal> {
    /// `backend.epsilon()` of Keras.
    const EPSILON: f64 = 1e-7;
    last_axis(case, x, each_step)?;
    case.must_be("invert", false)?;
    let given = |case: &mut Case<'_>, name: &str| -> Result<Option<Vec<f32>>> {
        let Some(value) = case.value(name) else { return Ok(None) };
        let mut flat = Vec::new();
        flatten(&value, &mut flat).ok_or_else(|| unsupported(name, &value))?;
        Ok(Some(flat))
    };
    let (mean, variance) = match (given(case, "mean")?, given(case, "variance")?) {
        (Some(mean), Some(variance)) => (mean, variance),
        _ => {
            case.optional("count")?;
            (case.tensor("mean")?.data.clone(), case.tensor("variance")?.data.clone())
        }
    };
    fitting(x, mean.len())?;
    unsupported_if(mean.len() != variance.len(), "different numbers of means and variances")?;
    let gains: Vec<f64> = variance.iter().map(|&var| 1.0 / f64::from(var).sqrt().max(EPSILON)).collect();
    let bias = mean.iter().zip(&gains).map(|(&mean, gain)| (-f64::from(mean) * gain) as f32).collect();
    Ok(scaled(network, x, gains.iter().map(|&gain| gain as f32).collect(), bias))
}

fn flatten(value: &Json, flat: &mut Vec<f32>) -> Option<()> {
    match value {
        Json::Array(list) => list.iter().try_for_each(|item| flatten(item, flat)),
        one => {
            flat.push(one.as_f64()? as f32);
            Some(())
        }
    }
}

fn scaled(network: &mut Network, x: &Signal, gain: Vec<f32>, bias: Vec<f32>) -> Signal {
    let (all, channels) = (x.source.size(), gain.len());
    let vector = |data: Vec<f32>| Tensor { shape: vec![channels], data };
    let layer = Layer::new(CellKind::Scale, all, all).extent("channels", channels).option("gain");
    same_size(layer.tensor("gain", vector(gain)).tensor("bias", vector(bias)), network, x)
}

fn rescaling(case: &mut Case<'_>, network: &mut Network, x: &Signal) -> Result<Signal> {
    let size = channels(x);
    let of = |case: &mut Case<'_>, name: &str, default: f32| -> Result<Vec<f32>> {
        let Some(value) = case.value(name) else { return Ok(vec![default; size]) };
        let mut flat = Vec::new();
        match flatten(&value, &mut flat) {
            Some(()) if flat.len() == size => Ok(flat),
            Some(()) if flat.len() == 1 => Ok(flat.repeat(size)),
            _ => Err(unsupported(name, &value)),
        }
    };
    let (gain, bias) = (of(case, "scale", 1.0)?, of(case, "offset", 0.0)?);
    Ok(scaled(network, x, gain, bias))
}

/// `max(x, 0) - alpha max(-x, 0)`, with an alpha for each feature of a step, or shared along some of its dimensions.
fn prelu(case: &mut Case<'_>, network: &mut Network, x: &Signal, each_step: bool) -> Result<Signal> {
    let alpha = case.named("alpha")?;
    let over_time = x.sequence && !each_step;
    if let Some(shared) = case.size_or_sizes("shared_axes")? {
        // Axes count from the batch.
        let is_shared = |&axis: &usize| axis.checked_sub(1).and_then(|axis| alpha.tensor.shape.get(axis)) == Some(&1);
        let (all, shape) = (shared.iter().all(is_shared), &alpha.tensor.shape);
        unsupported_if(!all, format_args!("argument shared_axes = {shared:?} with an alpha of {shape:?}"))?;
    }
    let size = x.source.size();
    let dims: Vec<usize> = over_time.then_some(1).into_iter().chain(x.shape.iter().copied()).collect();
    let Some(slopes) = spread(alpha.tensor, &dims) else {
        return alpha.refuse(format!("{dims:?} or 1 in place of a dimension is needed (shared_axes)"));
    };
    let positive = add_function(network, x, Function::Activation(Activation::Relu))?;
    let turned = add_function(network, x, Function::Activation(Activation::Affine { alpha: -1.0, beta: 0.0 }))?;
    let negative = add_function(network, &turned, Function::Activation(Activation::Relu))?;
    let (gain, bias) = (slopes.iter().map(|slope| -slope).collect(), vec![0.0; slopes.len()]);
    let negative = scaled(network, &negative, gain, bias);
    let parts = [&positive.source, &negative.source];
    Ok(Signal { source: network.add(Layer::merge("add", 2, size), &parts), ..x.clone() })
}

/// The elements of a tensor with its dimensions of 1 repeated to those of `to`, from the first dimension that is not 1.
/// The last dimensions are aligned; `None` if they do not fit.
fn spread(tensor: &Tensor, to: &[usize]) -> Option<Vec<f32>> {
    let ones = tensor.shape.iter().take_while(|&&dim| dim == 1).count();
    let from = &tensor.shape[ones.min(tensor.shape.len().saturating_sub(1))..];
    let to = &to[to.len().checked_sub(from.len())?..];
    let mut all = tensor.data.clone();
    let mut block = 1;
    for (&from, &to) in from.iter().zip(to).rev() {
        match from {
            _ if from == to => {}
            1 => all = all.chunks(block).flat_map(|block| std::iter::repeat_n(block, to)).flatten().copied().collect(),
            _ => return None,
        }
        block = block.checked_mul(to).filter(|&block| block > 0)?;
    }
    (all.len() == block).then_some(all)
}

/// Adds a layer that has several inputs, if its class is one of these.
pub(super) fn several(case: &mut Case<'_>, network: &mut Network, inputs: &[Signal]) -> Result<Option<Signal>> {
    let how = match case.cls.as_str() {
        "Concatenate" => "concat",
        "Add" => "add",
        "Multiply" => "multiply",
        "Average" => "average",
        "Maximum" => "maximum",
        "Subtract" => "subtract",
        _ => return Ok(None),
    };
    let Some(first) = inputs.first() else { return Err(ImportError::Unsupported("no input".into())) };
    unsupported_if(inputs.iter().any(|input| input.sequence != first.sequence), "inputs with and without time")?;
    let mask = mask::common(inputs)?;
    let stretched = if how == "concat" { None } else { stretched(network, inputs)? };
    let inputs = stretched.as_deref().unwrap_or(inputs);
    let first = inputs.first().unwrap_or(first);
    let differ = inputs.iter().any(|input| input.source.rows() != first.source.rows());
    unsupported_if(differ, "reading sequences of different lengths")?;
    let mut sources: Vec<Source> = inputs.iter().map(|input| input.source.clone()).collect();
    if how == "concat" {
        last_axis(case, first, false)?;
        unsupported_if(inputs.iter().any(|input| input.shape.len() > 1), "a concatenation of images")?;
        let size = sources.iter().map(Source::size).sum();
        return Ok(Some(Signal { shape: vec![size], mask, ..first.with(network.concat(&sources)) }));
    }
    let size = first.source.size();
    unsupported_if(inputs.iter().any(|input| input.shape != first.shape), "inputs of different sizes")?;
    let how = match (how, inputs) {
        ("subtract", [_, second]) => {
            let minus = Function::Activation(Activation::Affine { alpha: -1.0, beta: 0.0 });
            sources.truncate(1);
            sources.push(add_function(network, second, minus)?.source);
            "add"
        }
        ("subtract", _) => return Err(ImportError::Unsupported(format!("{} inputs", inputs.len()))),
        (how, _) => how,
    };
    let parts: Vec<&Source> = sources.iter().collect();
    Ok(Some(Signal { source: network.add(Layer::merge(how, parts.len(), size), &parts), mask, ..first.clone() }))
}

/// The inputs with those of one step or of one feature repeated, as `[1, features]` and `[steps, 1]` meet
/// `[steps, features]`. `None` if all have the same size.
fn stretched(network: &mut Network, inputs: &[Signal]) -> Result<Option<Vec<Signal>>> {
    let rows = inputs.iter().filter_map(|input| input.source.rows()).max();
    let size = inputs.iter().map(|input| input.source.size()).max().unwrap_or(1);
    let fits = |input: &Signal| input.source.rows() == rows && input.source.size() == size;
    let images = inputs.iter().any(|input| input.shape.len() > 1);
    if images || inputs.iter().all(fits) {
        return Ok(None);
    }
    let mut all = Vec::new();
    for input in inputs {
        let mut value = input.clone();
        if let (Some(1), Some(rows @ 2..)) = (input.source.rows(), rows) {
            let source = network.repeated(&input.source.clone().flat(), rows);
            value = Signal { steps: Some(rows), ..value.with(source) };
        }
        if value.source.size() == 1 && size > 1 {
            let ones = Tensor { shape: vec![size, 1], data: vec![1.0; size] };
            let source = network.add(Layer::dense(ones, None, Activation::Identity), &[&value.source]);
            value = value.with(source);
        }
        all.push(value);
    }
    Ok(Some(all))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_dimensions_are_repeated() {
        let of = |shape: &[usize], data: &[f32], to: &[usize]| {
            spread(&Tensor { shape: shape.to_vec(), data: data.to_vec() }, to)
        };
        assert_eq!(of(&[2], &[1.0, 2.0], &[1, 3, 2]), Some(vec![1.0, 2.0]));
        assert_eq!(of(&[1, 1, 2], &[1.0, 2.0], &[1, 3, 2]), Some(vec![1.0, 2.0]));
        assert_eq!(of(&[2, 1], &[1.0, 2.0], &[2, 2]), Some(vec![1.0, 1.0, 2.0, 2.0]));
        assert_eq!(
            of(&[2, 1, 2], &[1.0, 2.0, 3.0, 4.0], &[2, 2, 2]),
            Some(vec![1.0, 2.0, 1.0, 2.0, 3.0, 4.0, 3.0, 4.0])
        );
        assert_eq!(of(&[1, 1], &[1.0], &[1, 3]), Some(vec![1.0; 3]));
        assert_eq!(of(&[3, 1], &[1.0, 2.0, 3.0], &[1, 3]), None);
        assert_eq!(of(&[3, 2], &[1.0; 6], &[2]), None);
        assert_eq!(of(&[2], &[1.0; 2], &[0]), None);
    }
}
