//! Keras's layers without a state that look at one step, or put inputs together. They go over a sequence step by step, or
//! over the rows of a window.

use serde_json::Value as Json;
use tidegate::activation::Activation;
use tidegate::cell::CellKind;

use super::activation::{Function, add_function, function_of_layer, take_function};
use super::mask;
use crate::canonical::Tensor;
use crate::error::ImportError;
use crate::format::description::Value;
use crate::format::golden::{Case, unsupported};
use crate::format::image::Kernel;
use crate::format::layer::Layer;
use crate::format::network::{Network, Source};

/// What only changes numbers while a network is trained.
const OF_TRAINING: [&str; 8] = [
    "Dropout",
    "SpatialDropout1D",
    "SpatialDropout2D",
    "SpatialDropout3D",
    "GaussianDropout",
    "GaussianNoise",
    "AlphaDropout",
    "ActivityRegularization",
];

/// The layer of a class, if it is one of these.
pub(super) fn add(
    case: &mut Case<'_>,
    network: &mut Network,
    x: &Value,
    each_step: bool,
) -> Result<Option<Value>, ImportError> {
    if OF_TRAINING.contains(&case.cls.as_str()) {
        for argument in ["rate", "stddev", "l1", "l2", "data_format", "p", "sigma"] {
            case.ignore(argument);
        }
        return Ok(Some(x.clone()));
    }
    let value = match case.cls.as_str() {
        "Dense" => dense(case, network, x)?,
        "Embedding" => embedding(case, network, x)?,
        "Masking" => mask::masking(case, network, x)?,
        "Softmax" if x.mask.is_some() => return Err(ImportError::Unsupported("a Softmax behind a mask".into())),
        "BatchNormalization" => batch_norm(case, network, x, each_step)?,
        "LayerNormalization" => layer_norm(case, network, x, each_step)?,
        "Normalization" => normalization(case, network, x, each_step)?,
        "Rescaling" => rescaling(case, network, x)?,
        "PReLU" => prelu(case, network, x)?,
        "Activation" => {
            let function = take_function(case, "activation")?;
            add_function(network, x, function)?
        }
        "Lambda" => {
            return Err(ImportError::Refused {
                found: "it holds a function of a program".into(),
                advice: "build the network of Keras's own layers and load the weights into it, then save that",
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

/// A layer at every step, which gives as much as comes in.
fn same_size(layer: Layer, network: &mut Network, x: &Value) -> Value {
    Value { source: network.add(layer, &[&x.source]), ..x.clone() }
}

/// Takes `axis`, which must be that of the channels.
fn last_axis(case: &mut Case<'_>, x: &Value, each_step: bool) -> Result<(), ImportError> {
    let Some(given) = case.value("axis") else { return Ok(()) };
    let axis = match &given {
        Json::Array(list) if list.len() == 1 => list.first().and_then(Json::as_i64),
        one => one.as_i64(),
    };
    let time = i64::from(x.sequence && !each_step);
    let channels = time + x.shape.len() as i64;
    // Keras 1 has its channels first where it says nothing else.
    match axis {
        Some(axis) if axis == -1 || axis == channels => Ok(()),
        _ => Err(unsupported("axis", &given)),
    }
}

fn channels(x: &Value) -> usize {
    x.shape.last().copied().unwrap_or(1)
}

/// Refuses tensors that are made for other channels.
fn fitting(x: &Value, channels: usize) -> Result<(), ImportError> {
    match self::channels(x) {
        found if found == channels => Ok(()),
        found => Err(ImportError::Unsupported(format!("{found} features where its tensors take {channels}"))),
    }
}

/// `act(x kernel + bias)` over the last dimension.
fn dense(case: &mut Case<'_>, network: &mut Network, x: &Value) -> Result<Value, ImportError> {
    let function = take_function(case, "activation")?;
    let kernel = case.named("kernel")?;
    let (input, units) = kernel.matrix()?;
    case.units("units", units)?;
    fitting(x, input)?;
    let bias = match case.flag("use_bias", true)? {
        true => Some(case.vector("bias", units)?),
        false => None,
    };
    let layer = Layer::dense(kernel.transposed(0, input)?, bias, Activation::Identity);
    let activation = function.as_activation();
    let layer = match activation {
        Some(activation) => layer.activation("activation", activation),
        None => layer,
    };
    let value = match x.shape.as_slice() {
        [] | [_] => Value { shape: vec![units], ..x.with(network.add(layer, &[&x.source])) },
        [pixels @ .., _] => {
            // The same for each pixel: a convolution of one tap.
            let all = pixels.iter().product();
            let conv = Layer { kind: CellKind::Conv, ..layer };
            let value = Kernel::of([1, 1]).within(network, x, conv, [1, all, input])?;
            Value { shape: [pixels, &[units]].concat(), ..value }
        }
    };
    if activation.is_some() { Ok(value) } else { add_function(network, &value, function) }
}

/// Input is the index; what is out of range, which Keras refuses or makes zero, is the nearest row.
fn embedding(case: &mut Case<'_>, network: &mut Network, x: &Value) -> Result<Value, ImportError> {
    case.ignore("input_length");
    let table = case.named("embeddings")?;
    let (rows, size) = table.matrix()?;
    case.units("input_dim", rows)?;
    case.units("output_dim", size)?;
    fitting(x, 1)?;
    let mask = if case.flag("mask_zero", false)? { Some(mask::of_indices(network, x)?) } else { None };
    let layer = Layer::new(CellKind::Embedding, 1, size).extent("vocabulary", rows);
    let source = network.add(layer.tensor("weights", table.tensor.clone()), &[&x.source]);
    Ok(Value { shape: vec![size], mask, ..x.with(source) })
}

fn batch_norm(case: &mut Case<'_>, network: &mut Network, x: &Value, each_step: bool) -> Result<Value, ImportError> {
    // What is left of them at inference is in the statistics.
    for argument in ["momentum", "renorm", "renorm_clipping", "renorm_momentum", "fused", "synchronized"] {
        case.ignore(argument);
    }
    case.ignore("virtual_batch_size");
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

fn layer_norm(case: &mut Case<'_>, network: &mut Network, x: &Value, each_step: bool) -> Result<Value, ImportError> {
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

/// Statistics that are arguments, or that `adapt` has found: `(x - mean) / max(√variance, ε)`.
fn normalization(case: &mut Case<'_>, network: &mut Network, x: &Value, each_step: bool) -> Result<Value, ImportError> {
    /// Keras's `backend.epsilon`.
    const EPSILON: f64 = 1e-7;
    last_axis(case, x, each_step)?;
    case.must_be("invert", false)?;
    let given = |case: &mut Case<'_>, name: &str| -> Result<Option<Vec<f32>>, ImportError> {
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
    if mean.len() != variance.len() {
        return Err(ImportError::Unsupported("as many means as variances".into()));
    }
    let gains: Vec<f64> = variance.iter().map(|&var| 1.0 / f64::from(var).sqrt().max(EPSILON)).collect();
    let bias = mean.iter().zip(&gains).map(|(&mean, gain)| (-f64::from(mean) * gain) as f32).collect();
    Ok(scaled(network, x, gains.iter().map(|&gain| gain as f32).collect(), bias))
}

/// Numbers within lists within lists.
fn flatten(value: &Json, flat: &mut Vec<f32>) -> Option<()> {
    match value {
        Json::Array(list) => list.iter().try_for_each(|item| flatten(item, flat)),
        one => {
            flat.push(one.as_f64()? as f32);
            Some(())
        }
    }
}

/// A gain and a shift for each channel.
fn scaled(network: &mut Network, x: &Value, gain: Vec<f32>, bias: Vec<f32>) -> Value {
    let (all, channels) = (x.source.size(), gain.len());
    let vector = |data: Vec<f32>| Tensor { shape: vec![channels], data };
    let layer = Layer::new(CellKind::Scale, all, all).extent("channels", channels).option("gain");
    same_size(layer.tensor("gain", vector(gain)).tensor("bias", vector(bias)), network, x)
}

fn rescaling(case: &mut Case<'_>, network: &mut Network, x: &Value) -> Result<Value, ImportError> {
    let size = channels(x);
    let of = |case: &mut Case<'_>, name: &str, default: f32| -> Result<Vec<f32>, ImportError> {
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

/// `max(x, 0) - alpha max(-x, 0)`, with an alpha for each feature of a step.
fn prelu(case: &mut Case<'_>, network: &mut Network, x: &Value) -> Result<Value, ImportError> {
    case.ignore("shared_axes");
    let alpha = case.named("alpha")?;
    let size = x.source.size();
    let last = channels(x);
    let len = alpha.tensor.data.len();
    if len != size && len != last || size == 0 {
        return alpha.refuse(format!("{last} or {size} values are needed: the same at every step"));
    }
    let positive = add_function(network, x, Function::Activation(Activation::Relu))?;
    let turned = add_function(network, x, Function::Activation(Activation::Affine { alpha: -1.0, beta: 0.0 }))?;
    let negative = add_function(network, &turned, Function::Activation(Activation::Relu))?;
    let gain = alpha.tensor.data.iter().map(|alpha| -alpha).collect();
    let negative = scaled(network, &negative, gain, vec![0.0; len]);
    let parts = [&positive.source, &negative.source];
    Ok(Value { source: network.add(Layer::merge("add", 2, size), &parts), ..x.clone() })
}

/// A layer over several inputs, if it is one of these.
pub(super) fn several(
    case: &mut Case<'_>,
    network: &mut Network,
    inputs: &[Value],
) -> Result<Option<Value>, ImportError> {
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
    if inputs.iter().any(|input| input.sequence != first.sequence) {
        return Err(ImportError::Unsupported("inputs with and without time".into()));
    }
    let mask = mask::common(inputs)?;
    let mut sources: Vec<Source> = inputs.iter().map(|input| input.source.clone()).collect();
    if how == "concat" {
        last_axis(case, first, false)?;
        if inputs.iter().any(|input| input.shape.len() > 1) {
            return Err(ImportError::Unsupported("a concatenation of images".into()));
        }
        let size = sources.iter().map(Source::size).sum();
        return Ok(Some(Value { shape: vec![size], mask, ..first.with(network.concat(&sources)) }));
    }
    let size = first.source.size();
    if inputs.iter().any(|input| input.shape != first.shape) {
        return Err(ImportError::Unsupported("inputs of different sizes".into()));
    }
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
    Ok(Some(Value { source: network.add(Layer::merge(how, parts.len(), size), &parts), mask, ..first.clone() }))
}
