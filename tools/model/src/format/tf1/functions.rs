//! TensorFlow's stateless layers: classes of `tf.layers` and `tf.keras.layers`, and functions of `tf.nn`,
//! `tf.contrib.layers` and `tf`. Channels are the last dimension, and time is the first one after the batch.

use tidegate::internals::{activation::Activation, cell::CellKind};

use super::cells::{self, unsupported, unsupported_if};
use crate::format::case::Case;
use crate::format::picture::{self, Kernel, flat, pool_over_time};
use crate::format::signal::in_order;
use crate::format::stateless::{self, BatchNorm, simple};
use crate::format::{layer::Layer, network::Network, signal::Signal, signal::last, weights::Named, weights::zeros};
use crate::{canonical::Tensor, error::ImportError, error::Result};

/// Adds the layer of a class; `None` if the class is not one of these.
pub(super) fn add(case: &mut Case<'_>, network: &mut Network, x: &Signal) -> Result<Option<Signal>> {
    in_order(x)?;
    let size = x.source.size();
    let class = case.cls.clone();
    let value = match class.as_str() {
        "Dense" | "fully_connected" => dense(case, network, x)?,
        "Conv1D" | "Conv2D" => conv(case, network, x)?,
        "SeparableConv1D" | "SeparableConv2D" => separable(case, network, x)?,
        "MaxPooling1D" | "MaxPooling2D" => pool(case, network, x, "max")?,
        "AveragePooling1D" | "AveragePooling2D" => pool(case, network, x, "average")?,
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
        "Dropout" | "dropout" => {
            // Dropout is only active in training.
            case.ignore_all(&["rate", "keep_prob", "noise_shape", "seed"]);
            x.clone()
        }
        function => {
            let activation = match function {
                "Activation" => case.activation("activation", Activation::Identity)?,
                _ => match case.names.activation(function) {
                    Some(activation) => activation,
                    None => return Ok(None),
                },
            };
            simple(Layer::new(CellKind::Activation, size, size).activation("activation", activation), network, x)?
        }
    };
    case.ignore_all(&["trainable", "name", "scope", "reuse"]);
    for part in ["activity", "kernel", "weights", "bias", "biases", "beta", "gamma", "depthwise", "pointwise"] {
        for how in ["initializer", "regularizer", "constraint"] {
            case.ignore(&format!("{part}_{how}"));
        }
    }
    Ok(Some(value))
}

/// A tensor that has different names in `tf.layers` and `tf.contrib.layers`.
fn either<'a>(case: &mut Case<'a>, name: &'static str, contrib: &'static str) -> Result<Named<'a>> {
    if let Some(tensor) = case.optional(name)? {
        return Ok(Named { name, tensor });
    }
    let tensor = case.optional(contrib)?.ok_or_else(|| ImportError::MissingTensor { tensor: name.into() })?;
    Ok(Named { name: contrib, tensor })
}

fn bias(case: &mut Case<'_>, units: usize) -> Result<Option<Tensor>> {
    case.flag("use_bias", true)?.then(|| either(case, "bias", "biases")?.shaped(&[units], units)).transpose()
}

/// `act(x kernel + bias)`.
fn dense(case: &mut Case<'_>, network: &mut Network, x: &Signal) -> Result<Signal> {
    // The function has different argument names and a default activation.
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
    let width = kernel.tensor.shape.last().copied().unwrap_or(0);
    let bias = bias(case, width)?.unwrap_or_else(|| zeros(width));
    let layer = cells::dense(kernel.tensor, &bias, activation)?;
    case.units(units, width)?;
    let value = simple(layer, network, x)?;
    if softmaxed { simple(Layer::new(CellKind::Softmax, width, width), network, &value) } else { Ok(value) }
}

/// Takes an argument with one value per axis; over time alone there is one value.
fn per_axis(case: &mut Case<'_>, name: &str, axes: usize) -> Result<Option<[usize; 2]>> {
    Ok(match case.per_axis(name, axes)?.as_deref() {
        Some(&[time]) => Some([time, 1]),
        Some(&[time, width]) => Some([time, width]),
        _ => None,
    })
}

/// Number of axes of a `...1D` or `...2D` layer.
fn axes(case: &Case<'_>) -> usize {
    if case.cls.ends_with("1D") { 1 } else { 2 }
}

/// Reads the arguments of a convolution or pooling over an image of width `width`; `stride` is the default.
fn read(case: &mut Case<'_>, x: &Signal, width: usize, taps: [usize; 2], stride: [usize; 2]) -> Result<Kernel> {
    let axes = axes(case);
    if let Some(format) = case.text("data_format")?
        && format != "channels_last"
    {
        return unsupported(format!("argument data_format = {format:?}"));
    }
    let stride = per_axis(case, "strides", axes)?.unwrap_or(stride);
    let dilation = per_axis(case, "dilation_rate", axes)?.unwrap_or([1, 1]);
    let kernel = Kernel { stride, dilation, ..Kernel::of(taps) }.checked()?;
    match case.text("padding")?.map(|padding| padding.to_ascii_lowercase()).as_deref() {
        None | Some("valid") => Ok(kernel),
        Some("same") => Ok(kernel.same([x.source.rows().or(x.steps), Some(width)])),
        Some(other) => unsupported(format!("argument padding = {other:?}")),
    }
}

/// Taps, channels and filters of a kernel `[taps..., channels, filters]`, and its matrix with one column per filter.
fn filters(weights: Named<'_>, axes: usize) -> Result<([usize; 2], usize, usize, Tensor)> {
    let (taps, seen, filters) = match (axes, weights.tensor.shape.as_slice()) {
        (1, &[time, seen, filters]) => ([time, 1], seen, filters),
        (2, &[time, width, seen, filters]) => ([time, width], seen, filters),
        _ => return weights.refuse(format!("it must have {} dimensions", axes + 2)),
    };
    match taps[0].checked_mul(taps[1]).and_then(|rows| rows.checked_mul(seen)) {
        Some(rows) if rows > 0 && filters > 0 && rows.checked_mul(filters) == Some(weights.tensor.data.len()) => {
            let matrix = Tensor { shape: vec![rows, filters], data: weights.tensor.data.clone() };
            Ok((taps, seen, filters, matrix))
        }
        _ => weights.refuse("it must have numbers".into()),
    }
}

fn sees(seen: usize, channels: usize) -> Result<()> {
    unsupported_if(seen != channels, format_args!("{channels} channels where its kernel sees {seen}"))
}

fn agrees(case: &mut Case<'_>, taps: [usize; 2]) -> Result<()> {
    let given = per_axis(case, "kernel_size", axes(case))?;
    unsupported_if(given.is_some_and(|given| given != taps), "a kernel_size that differs from the kernel")
}

fn conv(case: &mut Case<'_>, network: &mut Network, x: &Signal) -> Result<Signal> {
    let axes = axes(case);
    let (width, channels) = picture::over_time(x, axes)?;
    let (taps, seen, filters, weights) = filters(either(case, "kernel", "weights")?, axes)?;
    sees(seen, channels)?;
    case.units("filters", filters)?;
    agrees(case, taps)?;
    let kernel = read(case, x, width, taps, [1, 1])?;
    let layer = convolution(case, Named { name: "kernel", tensor: &weights })?;
    kernel.slide(network, x, layer, (width, channels))
}

/// A convolution whose weights have one column per filter, with its bias and its activation.
fn convolution(case: &mut Case<'_>, weights: Named<'_>) -> Result<Layer> {
    let (rows, filters) = weights.matrix()?;
    let layer = Layer::new(CellKind::Conv, 0, filters).tensor("weights", weights.transposed(0, rows)?);
    let layer = layer.optional("bias", bias(case, filters)?);
    Ok(layer.activation("activation", case.activation("activation", Activation::Identity)?))
}

/// A separable convolution: one kernel per channel, then a convolution over the channels only.
fn separable(case: &mut Case<'_>, network: &mut Network, x: &Signal) -> Result<Signal> {
    let axes = axes(case);
    let (width, channels) = picture::over_time(x, axes)?;
    let depthwise = either(case, "depthwise_kernel", "depthwise_weights")?;
    let (taps, seen, multiplier, weights) = filters(depthwise, axes)?;
    sees(seen, channels)?;
    case.units("depth_multiplier", multiplier)?;
    agrees(case, taps)?;
    let kernel = read(case, x, width, taps, [1, 1])?;
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
    let layer = convolution(case, Named { name: "pointwise_kernel", tensor: &weights })?;
    let width = image.shape.iter().product::<usize>() / units;
    Kernel::of([1, 1]).slide(network, &image, layer, (width, units))
}

fn pool(case: &mut Case<'_>, network: &mut Network, x: &Signal, how: &'static str) -> Result<Signal> {
    let axes = axes(case);
    let (width, channels) = picture::over_time(x, axes)?;
    let taps = per_axis(case, "pool_size", axes)?
        .ok_or_else(|| ImportError::Unsupported("a pooling without its pool_size".into()))?;
    let kernel = read(case, x, width, taps, taps)?;
    kernel.slide(network, x, Layer::new(CellKind::Pool, 0, channels).option(how), (width, channels))
}

/// `tf.reduce_mean(x, 1)` or `tf.reduce_max(x, 1)`: pooling over all steps.
fn over_time(case: &mut Case<'_>, network: &mut Network, x: &Signal, how: &'static str) -> Result<Signal> {
    case.must_be("keepdims", false)?;
    match case.integer("axis")? {
        Some(1) if x.sequence => pool_over_time(network, x, 1, how),
        _ => unsupported(format!("{} but for a sequence with axis = 1", case.cls)),
    }
}

/// Takes an axis, which must be that of the features (the last one).
fn the_features(case: &mut Case<'_>, name: &str, default: i64, x: &Signal) -> Result<()> {
    let last = x.shape.len() as i64 - i64::from(!x.sequence) + 1;
    match case.integer(name)?.unwrap_or(default) {
        axis if axis == -1 || axis == last => Ok(()),
        axis => unsupported(format!("argument {name} = {axis} (the features are dimension {last})")),
    }
}

fn batch_norm(case: &mut Case<'_>, network: &mut Network, x: &Signal) -> Result<Signal> {
    // Arguments that only affect training or the choice of implementation.
    case.ignore_all(&["momentum", "decay", "fused", "training", "is_training", "updates_collections"]);
    case.ignore_all(&["moving_mean_initializer", "moving_variance_initializer"]);
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

fn layer_norm(case: &mut Case<'_>, network: &mut Network, x: &Signal) -> Result<Signal> {
    let &[size] = &*x.shape else { return unsupported("a normalization of one dimension of several") };
    let epsilon = if case.cls == "layer_norm" {
        // The default first axis of the function is the time axis.
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
    simple(stateless::layer_norm(size, epsilon, gain, bias), network, x)
}

fn embedding(case: &mut Case<'_>) -> Result<Layer> {
    // The checkpoint importer checks the last one.
    case.ignore_all(&["input_length", "embeddings_initializer", "partition_strategy"]);
    case.must_be("mask_zero", false)?;
    let layer = stateless::embedding(either(case, "embeddings", "params")?)?;
    case.units("input_dim", layer.extents.get("vocabulary").copied().unwrap_or_default())?;
    case.units("output_dim", layer.output_size)?;
    Ok(layer)
}

/// `tf.reshape(x, shape)`, whose first dimension is the batch: to `[batch, all]`, or to steps with other dimensions. A
/// reshape to one row per step, `[batch * time, features]`, changes nothing.
fn reshape(case: &mut Case<'_>, network: &mut Network, x: &Signal) -> Result<Signal> {
    let shape = case.integers("shape")?.unwrap_or_default();
    let refuse = || unsupported(format!("a reshape of {:?} to {shape:?}", x.shape));
    let size = x.source.size();
    let features = match shape.as_slice() {
        &[_, to] if x.sequence && to == size as i64 => return Ok(Signal { shape: vec![size], ..x.clone() }),
        &[_, to] => {
            let flat = flat(network, x)?;
            return if to == -1 || to == flat.source.size() as i64 { Ok(flat) } else { refuse() };
        }
        [_, _, features @ ..] if x.sequence && !features.is_empty() => features,
        _ => return refuse(),
    };
    // One dimension may be -1.
    let open = features.iter().filter(|&&dim| dim == -1).count();
    let mut known = features.iter().filter(|&&dim| dim != -1);
    let product = known.try_fold(1_usize, |all, &dim| all.checked_mul(usize::try_from(dim).ok()?));
    match product.filter(|&product| product > 0) {
        Some(product) if product == size && open == 0 || size.is_multiple_of(product) && open == 1 => {
            let dims = features.iter().map(|&dim| usize::try_from(dim).unwrap_or(size / product)).collect();
            Ok(Signal { shape: dims, ..x.clone() })
        }
        _ => refuse(),
    }
}
