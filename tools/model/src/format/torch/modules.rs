//! PyTorch's layers without state. They are applied to each step of a sequence or to each row of a window. Channels,
//! which PyTorch has before the other dimensions, are last.

use tidegate::internals::{activation::Activation, cell::CellKind};

use super::{kernel, kernel::rank, reorder};
use crate::error::{ImportError, Result};
use crate::format::refuse::unsupported_if;
use crate::format::signal::in_order;
use crate::format::stateless::{self, BatchNorm, several, simple};
use crate::format::{case::Case, description::Take, layer::Layer, network::Network, signal::Signal, signal::last};

/// Adds the layer if its class is one of these.
pub(super) fn add(case: &mut Case<'_>, network: &mut Network, inputs: &[Signal], take: Take) -> Result<Option<Signal>> {
    let Some(x) = inputs.first() else { return Ok(None) };
    let value = match case.cls.as_str() {
        "Concat" => {
            over_features(case, x)?;
            several(case, network, inputs)?
        }
        "Add" | "Multiply" => several(case, network, inputs)?,
        _ if inputs.len() != 1 => return Err(ImportError::Unsupported(format!("{} inputs", inputs.len()))),
        "Identity" => x.clone(),
        "Dropout" | "AlphaDropout" | "FeatureAlphaDropout" | "Dropout1d" | "Dropout2d" => {
            case.ignore_all(&["p", "inplace"]);
            x.clone()
        }
        "Linear" => {
            let mut layer = linear(case)?;
            if let Some(order) = &x.order {
                reorder(&mut layer, "weights", order);
            }
            Signal { order: None, ..simple(layer, network, x)? }
        }
        "Embedding" => simple(embedding(case)?, network, x)?,
        "LayerNorm" | "RMSNorm" => simple(norm(case, x)?, network, x)?,
        "BatchNorm1d" | "BatchNorm2d" => batch_norm(case, network, x)?,
        "Softmax" => simple(softmax(case, x)?, network, x)?,
        "Last" => last(network, x.clone()),
        _ => match (activation(case)?, kernel::add(case, network, x)?) {
            (Some(activation), _) => {
                let size = x.source.size();
                simple(Layer::new(CellKind::Activation, size, size).activation("activation", activation), network, x)?
            }
            (None, Some(value)) => value,
            (None, None) => return Ok(None),
        },
    };
    Ok(Some(if take == Take::Sequence { value } else { last(network, value) }))
}

fn linear(case: &mut Case<'_>) -> Result<Layer> {
    let weights = case.named("weight")?;
    let (units, input) = weights.matrix()?;
    case.units("in_features", input)?;
    case.units("out_features", units)?;
    let bias = if case.flag("bias", true)? { Some(case.vector("bias", units)?) } else { None };
    Ok(Layer::dense(weights.tensor.clone(), bias, Activation::Identity))
}

fn embedding(case: &mut Case<'_>) -> Result<Layer> {
    case.ignore_all(&["padding_idx", "sparse", "scale_grad_by_freq"]);
    let layer = stateless::embedding(case.named("weight")?)?;
    case.units("num_embeddings", layer.extents.get("vocabulary").copied().unwrap_or_default())?;
    case.units("embedding_dim", layer.output_size)?;
    Ok(layer)
}

/// `LayerNorm`, or `RMSNorm`, which has no bias.
fn norm(case: &mut Case<'_>, x: &Signal) -> Result<Layer> {
    in_order(x)?;
    let size: usize = x.shape.iter().product();
    let over = case.size_or_sizes("normalized_shape")?;
    let misfit = over.as_ref().is_some_and(|over| over.iter().product::<usize>() != size);
    unsupported_if(misfit, format_args!("normalized_shape {over:?} of {size} features"))?;
    let affine = case.flag("elementwise_affine", true)?;
    let gain = affine.then(|| case.named("weight")?.flat(size)).transpose()?;
    if case.cls == "RMSNorm" {
        return Ok(stateless::rms_norm(size, case.number("eps")?.unwrap_or(f32::EPSILON), gain));
    }
    let bias = case.flag("bias", true)? && affine;
    let epsilon = case.number("eps")?.unwrap_or(1e-5);
    let bias = bias.then(|| case.named("bias")?.flat(size)).transpose()?;
    Ok(stateless::layer_norm(size, epsilon, gain, bias))
}

fn batch_norm(case: &mut Case<'_>, network: &mut Network, x: &Signal) -> Result<Signal> {
    case.ignore("momentum");
    case.must_be("track_running_stats", true)?;
    let epsilon = case.number("eps")?.unwrap_or(1e-5);
    let affine = case.flag("affine", true)?;
    case.optional("num_batches_tracked")?;
    let mean = case.named("running_mean")?;
    let size = mean.tensor.data.len();
    case.units("num_features", size)?;
    let mean = mean.shaped(&[size], size)?;
    let variance = case.vector("running_var", size)?;
    let gain = affine.then(|| case.vector("weight", size)).transpose()?;
    let bias = affine.then(|| case.vector("bias", size)).transpose()?;
    BatchNorm { mean, variance, gain, bias, epsilon }.add(network, x)
}

/// Takes the argument `dim`, which must be the last dimension, the features.
fn over_features(case: &mut Case<'_>, x: &Signal) -> Result<()> {
    let dim = case.integer("dim")?.unwrap_or(-1);
    let other = dim != -1 && dim != rank(x) - 1;
    unsupported_if(other, format_args!("argument dim = {dim} (the features are the last dimension)"))?;
    // Channels, which are last here, are before the other dimensions in PyTorch.
    unsupported_if(x.shape.len() > 1, format_args!("{} over one dimension of an image", case.cls))
}

fn softmax(case: &mut Case<'_>, x: &Signal) -> Result<Layer> {
    in_order(x)?;
    over_features(case, x)?;
    let size = x.source.size();
    Ok(Layer::new(CellKind::Softmax, size, size))
}

/// The activation of an activation layer with its arguments, or `None` for any other layer.
fn activation(case: &mut Case<'_>) -> Result<Option<Activation>> {
    let number = |case: &mut Case<'_>, name, default| case.number(name).map(|given| given.unwrap_or(default));
    let activation = match case.cls.as_str() {
        "Sigmoid" => Activation::Sigmoid,
        "Tanh" => Activation::Tanh,
        "ReLU" => Activation::Relu,
        "ReLU6" => Activation::Relu6,
        "SiLU" => Activation::Silu,
        "SELU" => Activation::Selu,
        "Softsign" => Activation::Softsign,
        "Hardsigmoid" => Activation::HardSigmoid { alpha: 1.0 / 6.0, beta: 0.5 },
        "Hardswish" => Activation::HardSwish,
        "Mish" => Activation::Mish,
        "Hardtanh" => {
            let (min, max) = (number(case, "min_val", -1.0)?, number(case, "max_val", 1.0)?);
            match (min, max) {
                (-1.0, 1.0) => Activation::HardTanh,
                (0.0, 6.0) => Activation::Relu6,
                _ => return Err(ImportError::Unsupported(format!("from {min} to {max}"))),
            }
        }
        "ELU" | "CELU" => {
            let alpha = number(case, "alpha", 1.0)?;
            unsupported_if(case.cls == "CELU" && alpha != 1.0, format_args!("argument alpha = {alpha}"))?;
            Activation::Elu { alpha }
        }
        "LeakyReLU" => Activation::LeakyRelu { alpha: number(case, "negative_slope", 0.01)? },
        "Softplus" => {
            let (beta, threshold) = (number(case, "beta", 1.0)?, number(case, "threshold", 20.0)?);
            // Above 20, ln(1 + e^x) rounds to x in f32.
            unsupported_if(beta != 1.0 || threshold < 20.0, format_args!("beta = {beta}, threshold = {threshold}"))?;
            Activation::Softplus
        }
        "GELU" => match case.text("approximate")?.as_deref() {
            None | Some("none") => Activation::Gelu,
            Some("tanh") => Activation::GeluTanh,
            Some(other) => return Err(ImportError::Unsupported(format!("argument approximate = {other:?}"))),
        },
        _ => return Ok(None),
    };
    case.ignore("inplace");
    Ok(Some(activation))
}
