//! PyTorch's layers without a state. A sequence goes through them step by step, or as the rows of a window; channels,
//! which PyTorch has before the other dimensions, are last.

use tidegate::activation::Activation;
use tidegate::cell::CellKind;

use super::{kernel, reorder};
use crate::error::ImportError;
use crate::format::description::{Take, Value, last};
use crate::format::golden::Case;
use crate::format::layer::Layer;
use crate::format::network::Network;
use crate::format::plain::{self, BatchNorm, in_order, several, simple};
use crate::format::weights::Named;

/// The layer of a class, if it is one of these.
pub(super) fn add(
    case: &mut Case<'_>,
    network: &mut Network,
    inputs: &[Value],
    take: Take,
) -> Result<Option<Value>, ImportError> {
    let Some(x) = inputs.first() else { return Ok(None) };
    let value = match case.cls.as_str() {
        "Concat" | "Add" | "Multiply" => {
            case.ignore("dim");
            several(case, network, inputs)?
        }
        _ if inputs.len() != 1 => return Err(ImportError::Unsupported(format!("{} inputs", inputs.len()))),
        "Identity" => x.clone(),
        "Dropout" | "AlphaDropout" | "FeatureAlphaDropout" | "Dropout1d" | "Dropout2d" => {
            case.ignore("p");
            case.ignore("inplace");
            x.clone()
        }
        "Linear" => {
            let mut layer = linear(case)?;
            if let Some(order) = &x.order {
                reorder(&mut layer, "weights", order);
            }
            Value { order: None, ..simple(layer, network, x)? }
        }
        "Embedding" => simple(embedding(case)?, network, x)?,
        "LayerNorm" => simple(layer_norm(case, x)?, network, x)?,
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

fn linear(case: &mut Case<'_>) -> Result<Layer, ImportError> {
    let weights = Named { name: "weight", tensor: case.tensor("weight")? };
    let (units, input) = weights.matrix()?;
    case.units("in_features", input)?;
    case.units("out_features", units)?;
    let bias = match case.flag("bias", true)? {
        true => Some(Named { name: "bias", tensor: case.tensor("bias")? }.shaped(&[units], units)?),
        false => None,
    };
    Ok(Layer::dense(weights.tensor.clone(), bias, Activation::Identity))
}

fn embedding(case: &mut Case<'_>) -> Result<Layer, ImportError> {
    for argument in ["padding_idx", "sparse", "scale_grad_by_freq"] {
        case.ignore(argument);
    }
    let layer = plain::embedding(case.named("weight")?)?;
    case.units("num_embeddings", layer.extents.get("vocabulary").copied().unwrap_or_default())?;
    case.units("embedding_dim", layer.output_size)?;
    Ok(layer)
}

fn layer_norm(case: &mut Case<'_>, x: &Value) -> Result<Layer, ImportError> {
    in_order(x)?;
    let size: usize = x.shape.iter().product();
    let over = case.size_or_sizes("normalized_shape")?;
    if over.as_ref().is_some_and(|over| over.iter().product::<usize>() != size) {
        return Err(ImportError::Unsupported(format!("normalized_shape {over:?} of {size} features")));
    }
    let affine = case.flag("elementwise_affine", true)?;
    let bias = case.flag("bias", true)? && affine;
    let epsilon = case.number("eps")?.unwrap_or(1e-5);
    let gain = affine.then(|| case.named("weight")?.flat(size)).transpose()?;
    let bias = bias.then(|| case.named("bias")?.flat(size)).transpose()?;
    Ok(plain::layer_norm(size, epsilon, gain, bias))
}

fn batch_norm(case: &mut Case<'_>, network: &mut Network, x: &Value) -> Result<Value, ImportError> {
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

/// Over the features.
fn softmax(case: &mut Case<'_>, x: &Value) -> Result<Layer, ImportError> {
    in_order(x)?;
    if let Some(dim) = case.integer("dim")?
        && !(dim == -1 || dim == if x.sequence { 2 } else { 1 })
    {
        return Err(ImportError::Unsupported(format!("argument dim = {dim} (the features are the last dimension)")));
    }
    let size = x.source.size();
    Ok(Layer::new(CellKind::Softmax, size, size))
}

/// A layer that is an activation, with its arguments.
fn activation(case: &mut Case<'_>) -> Result<Option<Activation>, ImportError> {
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
            if case.cls == "CELU" && alpha != 1.0 {
                return Err(ImportError::Unsupported(format!("argument alpha = {alpha}")));
            }
            Activation::Elu { alpha }
        }
        "LeakyReLU" => Activation::LeakyRelu { alpha: number(case, "negative_slope", 0.01)? },
        "Softplus" => {
            let (beta, threshold) = (number(case, "beta", 1.0)?, number(case, "threshold", 20.0)?);
            // Beyond 20, ln(1 + e^x) is x in f32.
            if beta != 1.0 || threshold < 20.0 {
                return Err(ImportError::Unsupported(format!("beta = {beta}, threshold = {threshold}")));
            }
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
