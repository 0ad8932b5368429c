//! TensorFlow's layers without a state: those of `tf.layers` and of `tf.keras.layers` by their classes, and functions of
//! `tf.nn`, `tf.contrib.layers` and `tf` by theirs. Channels are last, and time is the first dimension behind the batch.

use tidegate::activation::Activation;
use tidegate::cell::CellKind;

use super::cells;
use crate::canonical::Tensor;
use crate::error::ImportError;
use crate::format::description::{Value, last};
use crate::format::golden::Case;
use crate::format::image::{self, Kernel, flat, pool_over_time};
use crate::format::layer::Layer;
use crate::format::network::Network;
use crate::format::plain::{self, BatchNorm, simple};
use crate::format::weights::{Named, zeros};

/// The layer of a class, if it is one of these.
pub(super) fn add(case: &mut Case<'_>, network: &mut Network, x: &Value) -> Result<Option<Value>, ImportError> {
    plain::in_order(x)?;
    let size = x.source.size();
    let class = case.cls.clone();
    let value = match class.as_str() {
        "Dense" | "fully_connected" => dense(case, network, x)?,
        "Conv1D" => conv(case, network, x, 1)?,
        "Conv2D" => conv(case, network, x, 2)?,
        "SeparableConv1D" => separable(case, network, x, 1)?,
        "SeparableConv2D" => separable(case, network, x, 2)?,
        "MaxPooling1D" => pool(case, network, x, 1, "max")?,
        "MaxPooling2D" => pool(case, network, x, 2, "max")?,
        "AveragePooling1D" => pool(case, network, x, 1, "average")?,
        "AveragePooling2D" => pool(case, network, x, 2, "average")?,
        "reduce_max" => over_time(case, network, x, "max")?,
        "reduce_mean" => over_time(case, network, x, "average")?,
        "BatchNormalization" | "batch_norm" => batch_norm(case, network, x)?,
        "LayerNormalization" | "layer_norm" => layer_norm(case, network, x)?,
        "Embedding" | "embedding_lookup" => simple(embedding(case)?, network, x)?,
        "Flatten" => flat(network, x)?,
        "Reshape" | "reshape" => reshape(case, network, x)?,
        "Last" => last(network, x.clone()),
        "Softmax" | "softmax" => {
            the_features(case, "axis", -1, x)?;
            simple(Layer::new(CellKind::Softmax, size, size), network, x)?
        }
        "Activation" => {
            let activation = case.activation("activation", Activation::Identity)?;
            simple(Layer::new(CellKind::Activation, size, size).activation("activation", activation), network, x)?
        }
        "Dropout" | "dropout" => {
            // It drops only while a network is trained.
            for argument in ["rate", "keep_prob", "noise_shape", "seed"] {
                case.ignore(argument);
            }
            x.clone()
        }
        function => match case.names.activation(function) {
            Some(activation) => {
                simple(Layer::new(CellKind::Activation, size, size).activation("activation", activation), network, x)?
            }
            None => return Ok(None),
        },
    };
    for argument in ["trainable", "name", "scope", "reuse"] {
        case.ignore(argument);
    }
    for part in ["activity", "kernel", "weights", "bias", "biases", "beta", "gamma", "depthwise", "pointwise"] {
        for how in ["initializer", "regularizer", "constraint"] {
            case.ignore(&format!("{part}_{how}"));
        }
    }
    Ok(Some(value))
}

/// A tensor that `tf.layers` and `tf.contrib.layers` have under different names.
fn either<'a>(case: &mut Case<'a>, name: &'static str, contrib: &'static str) -> Result<Named<'a>, ImportError> {
    if let Some(tensor) = case.optional(name)? {
        return Ok(Named { name, tensor });
    }
    match case.optional(contrib)? {
        Some(tensor) => Ok(Named { name: contrib, tensor }),
        None => Err(ImportError::MissingTensor { tensor: name.into() }),
    }
}

fn bias(case: &mut Case<'_>, units: usize) -> Result<Option<Tensor>, ImportError> {
    match case.flag("use_bias", true)? {
        true => either(case, "bias", "biases")?.shaped(&[units], units).map(Some),
        false => Ok(None),
    }
}

/// `act(x kernel + bias)`.
fn dense(case: &mut Case<'_>, network: &mut Network, x: &Value) -> Result<Value, ImportError> {
    // The function has names of its own, and an activation where none is given.
    let (units, activation, default) = match case.cls.as_str() {
        "Dense" => ("units", "activation", Activation::Identity),
        _ if case.is_null("activation_fn") => ("num_outputs", "activation_fn", Activation::Identity),
        _ => ("num_outputs", "activation_fn", Activation::Relu),
    };
    // Softmax is a layer of its own.
    let softmaxed = case.has_text(activation, "softmax");
    if softmaxed {
        case.ignore(activation);
    }
    let activation = case.activation(activation, if softmaxed { Activation::Identity } else { default })?;
    let kernel = either(case, "kernel", "weights")?;
    let bias = bias(case, kernel.tensor.shape.last().copied().unwrap_or(0))?;
    let none = zeros(kernel.tensor.shape.last().copied().unwrap_or(0));
    let layer = cells::dense(kernel.tensor, bias.as_ref().unwrap_or(&none), activation)?;
    case.units(units, layer.output_size)?;
    let width = layer.output_size;
    let value = simple(layer, network, x)?;
    match softmaxed {
        true => simple(Layer::new(CellKind::Softmax, width, width), network, &value),
        false => Ok(value),
    }
}

/// Takes an argument for each axis; time alone has one.
fn per_axis(case: &mut Case<'_>, name: &str, axes: usize) -> Result<Option<[usize; 2]>, ImportError> {
    Ok(match case.per_axis(name, axes)?.as_deref() {
        Some(&[time]) => Some([time, 1]),
        Some(&[time, width]) => Some([time, width]),
        _ => None,
    })
}

/// The arguments of a kernel, over an image of this width.
fn read(
    case: &mut Case<'_>,
    x: &Value,
    width: usize,
    axes: usize,
    (taps, stride): ([usize; 2], [usize; 2]),
) -> Result<Kernel, ImportError> {
    if let Some(format) = case.text("data_format")?
        && format != "channels_last"
    {
        return Err(ImportError::Unsupported(format!("argument data_format = {format:?}")));
    }
    let stride = per_axis(case, "strides", axes)?.unwrap_or(stride);
    let dilation = per_axis(case, "dilation_rate", axes)?.unwrap_or([1, 1]);
    let kernel = Kernel { stride, dilation, ..Kernel::of(taps) }.checked()?;
    match case.text("padding")?.map(|padding| padding.to_ascii_lowercase()).as_deref() {
        None | Some("valid") => Ok(kernel),
        Some("same") => Ok(kernel.same([x.source.rows().or(x.steps), Some(width)])),
        Some(other) => Err(ImportError::Unsupported(format!("argument padding = {other:?}"))),
    }
}

/// A kernel `[taps..., channels, filters]`: its taps, channels and filters, and the same as a matrix with a column for
/// each filter.
fn filters(weights: Named<'_>, axes: usize) -> Result<([usize; 2], usize, usize, Tensor), ImportError> {
    let (taps, seen, filters) = match (axes, weights.tensor.shape.as_slice()) {
        (1, &[time, seen, filters]) => ([time, 1], seen, filters),
        (2, &[time, width, seen, filters]) => ([time, width], seen, filters),
        _ => return weights.refuse(format!("it must have {} dimensions", axes + 2)),
    };
    let rows = [taps[1], seen].iter().try_fold(taps[0], |rows, &dim| rows.checked_mul(dim));
    match rows {
        Some(rows) if rows > 0 && filters > 0 && rows.checked_mul(filters) == Some(weights.tensor.data.len()) => {
            let matrix = Tensor { shape: vec![rows, filters], data: weights.tensor.data.clone() };
            Ok((taps, seen, filters, matrix))
        }
        _ => weights.refuse("it must have numbers".into()),
    }
}

fn sees(seen: usize, channels: usize) -> Result<(), ImportError> {
    match seen == channels {
        true => Ok(()),
        false => Err(ImportError::Unsupported(format!("{channels} channels where its kernel sees {seen}"))),
    }
}

fn agrees(case: &mut Case<'_>, axes: usize, taps: [usize; 2]) -> Result<(), ImportError> {
    match per_axis(case, "kernel_size", axes)? {
        Some(given) if given != taps => {
            Err(ImportError::Unsupported("a kernel_size that differs from the kernel".into()))
        }
        _ => Ok(()),
    }
}

fn conv(case: &mut Case<'_>, network: &mut Network, x: &Value, axes: usize) -> Result<Value, ImportError> {
    let (width, channels) = image::over_time(x, axes)?;
    let (taps, seen, filters, weights) = filters(either(case, "kernel", "weights")?, axes)?;
    sees(seen, channels)?;
    case.units("filters", filters)?;
    agrees(case, axes, taps)?;
    let kernel = read(case, x, width, axes, (taps, [1, 1]))?;
    let weights = Named { name: "kernel", tensor: &weights };
    let mut layer =
        Layer::new(CellKind::Conv, 0, filters).tensor("weights", weights.transposed(0, weights.matrix()?.0)?);
    if let Some(bias) = bias(case, filters)? {
        layer = layer.tensor("bias", bias);
    }
    let layer = layer.activation("activation", case.activation("activation", Activation::Identity)?);
    kernel.slide(network, x, layer, (width, channels))
}

/// A kernel for each channel, then one over the channels alone.
fn separable(case: &mut Case<'_>, network: &mut Network, x: &Value, axes: usize) -> Result<Value, ImportError> {
    let (width, channels) = image::over_time(x, axes)?;
    let depthwise = either(case, "depthwise_kernel", "depthwise_weights")?;
    let (taps, seen, multiplier, weights) = filters(depthwise, axes)?;
    sees(seen, channels)?;
    case.units("depth_multiplier", multiplier)?;
    agrees(case, axes, taps)?;
    let kernel = read(case, x, width, axes, (taps, [1, 1]))?;
    // [taps, channel, multiplier] to [channel, multiplier, taps].
    let (units, positions) = (channels * multiplier, taps[0] * taps[1]);
    let by_tap = Tensor { shape: vec![positions, units], data: weights.data };
    let weights = Named { name: "depthwise_kernel", tensor: &by_tap }.transposed(0, positions)?;
    let layer =
        Layer::new(CellKind::DepthwiseConv, 0, units).extent("multiplier", multiplier).tensor("weights", weights);
    let image = kernel.slide(network, x, layer, (width, channels))?;
    let pointwise = either(case, "pointwise_kernel", "pointwise_weights")?;
    let ([1, 1], seen, filters, weights) = filters(pointwise, axes)? else {
        return pointwise.refuse("it must have one tap".into());
    };
    sees(seen, units)?;
    case.units("filters", filters)?;
    let weights = Named { name: "pointwise_kernel", tensor: &weights };
    let mut layer = Layer::new(CellKind::Conv, 0, filters).tensor("weights", weights.transposed(0, seen)?);
    if let Some(bias) = bias(case, filters)? {
        layer = layer.tensor("bias", bias);
    }
    let layer = layer.activation("activation", case.activation("activation", Activation::Identity)?);
    let width = image.shape.iter().product::<usize>() / units;
    Kernel::of([1, 1]).slide(network, &image, layer, (width, units))
}

fn pool(
    case: &mut Case<'_>,
    network: &mut Network,
    x: &Value,
    axes: usize,
    how: &'static str,
) -> Result<Value, ImportError> {
    let (width, channels) = image::over_time(x, axes)?;
    let taps = per_axis(case, "pool_size", axes)?
        .ok_or_else(|| ImportError::Unsupported("a pooling without its pool_size".into()))?;
    let kernel = read(case, x, width, axes, (taps, taps))?;
    kernel.slide(network, x, Layer::new(CellKind::Pool, 0, channels).option(how), (width, channels))
}

/// `tf.reduce_mean(x, 1)`: of all steps.
fn over_time(case: &mut Case<'_>, network: &mut Network, x: &Value, how: &'static str) -> Result<Value, ImportError> {
    case.must_be("keepdims", false)?;
    match case.integer("axis")? {
        Some(1) if x.sequence => pool_over_time(network, x, 1, how),
        _ => Err(ImportError::Unsupported(format!("{} but for a sequence with axis = 1", case.cls))),
    }
}

/// Takes an axis, which must be the features': the last one.
fn the_features(case: &mut Case<'_>, name: &str, default: i64, x: &Value) -> Result<(), ImportError> {
    let last = x.shape.len() as i64 - i64::from(!x.sequence) + 1;
    match case.integer(name)?.unwrap_or(default) {
        axis if axis == -1 || axis == last => Ok(()),
        axis => Err(ImportError::Unsupported(format!("argument {name} = {axis} (the features are dimension {last})"))),
    }
}

fn batch_norm(case: &mut Case<'_>, network: &mut Network, x: &Value) -> Result<Value, ImportError> {
    // What only training sees, and how it is computed.
    for argument in ["momentum", "decay", "fused", "training", "is_training", "updates_collections"] {
        case.ignore(argument);
    }
    for argument in ["moving_mean", "moving_variance"] {
        case.ignore(&format!("{argument}_initializer"));
    }
    case.must_be("renorm", false)?;
    the_features(case, "axis", -1, x)?;
    let epsilon = case.number("epsilon")?.unwrap_or(1e-3);
    let center = case.flag("center", true)?;
    let scale = case.flag("scale", case.cls == "BatchNormalization")?;
    let mean = case.named("moving_mean")?;
    let size = mean.tensor.data.len();
    let mean = mean.shaped(&[size], size)?;
    let variance = case.vector("moving_variance", size)?;
    let gain = scale.then(|| case.vector("gamma", size)).transpose()?;
    let bias = center.then(|| case.vector("beta", size)).transpose()?;
    BatchNorm { mean, variance, gain, bias, epsilon }.add(network, x)
}

fn layer_norm(case: &mut Case<'_>, network: &mut Network, x: &Value) -> Result<Value, ImportError> {
    let &[size] = x.shape.as_slice() else {
        return Err(ImportError::Unsupported("a normalization of one dimension of several".into()));
    };
    let epsilon = if case.cls == "layer_norm" {
        // The function's first axis is that of time where nothing is said.
        the_features(case, "begin_norm_axis", 1, x)?;
        the_features(case, "begin_params_axis", -1, x)?;
        1e-12
    } else {
        the_features(case, "axis", -1, x)?;
        case.number("epsilon")?.unwrap_or(1e-3)
    };
    let (center, scale) = (case.flag("center", true)?, case.flag("scale", true)?);
    let gain = scale.then(|| case.vector("gamma", size)).transpose()?;
    let bias = center.then(|| case.vector("beta", size)).transpose()?;
    simple(plain::layer_norm(size, epsilon, gain, bias), network, x)
}

fn embedding(case: &mut Case<'_>) -> Result<Layer, ImportError> {
    case.ignore("input_length");
    case.ignore("embeddings_initializer");
    // A checkpoint's importer has looked at it.
    case.ignore("partition_strategy");
    case.must_be("mask_zero", false)?;
    let layer = plain::embedding(either(case, "embeddings", "params")?)?;
    case.units("input_dim", layer.extents.get("vocabulary").copied().unwrap_or_default())?;
    case.units("output_dim", layer.output_size)?;
    Ok(layer)
}

/// `tf.reshape(x, shape)`, where the first dimension is the batch: to `[batch, all]`, or to steps of other dimensions.
/// To rows of as many features as a step has, `[batch * time, features]`, changes nothing.
fn reshape(case: &mut Case<'_>, network: &mut Network, x: &Value) -> Result<Value, ImportError> {
    let shape = case.integers("shape")?.unwrap_or_default();
    let refuse = || Err(ImportError::Unsupported(format!("a reshape of {:?} to {shape:?}", x.shape)));
    let size = x.source.size();
    let features = match shape.as_slice() {
        &[_, to] if x.sequence && to == size as i64 => return Ok(Value { shape: vec![size], ..x.clone() }),
        &[_, to] => {
            let flat = flat(network, x)?;
            return if to == -1 || to == flat.source.size() as i64 { Ok(flat) } else { refuse() };
        }
        [_, _, features @ ..] if x.sequence && !features.is_empty() => features,
        _ => return refuse(),
    };
    // One of them may be what is left.
    let open = features.iter().filter(|&&dim| dim == -1).count();
    let mut known = features.iter().filter(|&&dim| dim != -1);
    let product = known.try_fold(1_usize, |all, &dim| all.checked_mul(usize::try_from(dim).ok()?));
    match product.filter(|&product| product > 0) {
        Some(product) if product == size && open == 0 || size.is_multiple_of(product) && open == 1 => {
            let dims = features.iter().map(|&dim| usize::try_from(dim).unwrap_or(size / product)).collect();
            Ok(Value { shape: dims, ..x.clone() })
        }
        _ => refuse(),
    }
}
