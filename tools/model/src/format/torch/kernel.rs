//! PyTorch's convolutions and poolings.

use tidegate::internals::cell::CellKind;

use crate::format::refuse::{needs_window_if, unsupported_if};
use crate::format::weights::channels_last;
use crate::format::{case::Case, layer::Layer, network::Network, picture, picture::Kernel, signal::Signal};
use crate::{canonical::Tensor, error::ImportError, error::Result};

/// Adds the layer if its class is one of these.
pub(super) fn add(case: &mut Case<'_>, network: &mut Network, x: &Signal) -> Result<Option<Signal>> {
    let (class, axes) = match (case.cls.strip_suffix("1d"), case.cls.strip_suffix("2d")) {
        (Some(class), _) => (class, 1),
        (_, Some(class)) => (class, 2),
        _ => (case.cls.as_str(), 0),
    };
    Ok(Some(match (class, axes) {
        ("Conv", 1..) => conv(case, network, x, axes)?,
        ("MaxPool", 1..) => pool(case, network, x, axes, "max")?,
        ("AvgPool", 1..) => pool(case, network, x, axes, "average")?,
        ("AdaptiveMaxPool", 1) => over_time(case, network, x, "max")?,
        ("AdaptiveAvgPool", 1) => over_time(case, network, x, "average")?,
        ("Flatten", 0) => flatten(case, network, x)?,
        _ => return Ok(None),
    }))
}

/// Takes an argument that has a value for each axis; over time there is only one axis.
fn per_axis(case: &mut Case<'_>, name: &str, axes: usize) -> Result<Option<[usize; 2]>> {
    let sizes = if axes == 1 { case.size_or_sizes(name)? } else { case.per_axis(name, axes)? };
    match sizes.as_deref() {
        None => Ok(None),
        Some(&[time]) if axes == 1 => Ok(Some([time, usize::from(name != "padding")])),
        Some(&[time, width]) if axes == 2 => Ok(Some([time, width])),
        Some(_) => Err(ImportError::Unsupported(format!("argument {name} with a length other than {axes}"))),
    }
}

fn kernel(case: &mut Case<'_>, axes: usize, taps: [usize; 2], stride: [usize; 2]) -> Result<Kernel> {
    let stride = per_axis(case, "stride", axes)?.unwrap_or(stride);
    let dilation = per_axis(case, "dilation", axes)?.unwrap_or([1, 1]);
    let [height, width] = [0, 1].map(|axis| taps[axis].saturating_sub(1).saturating_mul(dilation[axis]));
    let named = if case.is_text("padding") { case.text("padding")? } else { None };
    let (before, after) = match named.as_deref() {
        Some("same") if stride == [1, 1] => {
            let before = [height / 2, width / 2];
            (before, [height - before[0], width - before[1]])
        }
        Some("valid") => ([0, 0], [0, 0]),
        Some(other) => return Err(ImportError::Unsupported(format!("argument padding = {other:?}"))),
        None => {
            let padding = per_axis(case, "padding", axes)?.unwrap_or([0, 0]);
            (padding, padding)
        }
    };
    Kernel { taps, stride, dilation, before, after }.checked()
}

fn conv(case: &mut Case<'_>, network: &mut Network, x: &Signal, axes: usize) -> Result<Signal> {
    let (width, channels) = picture::over_time(x, axes)?;
    let mode = case.text("padding_mode")?.unwrap_or_else(|| "zeros".to_owned());
    unsupported_if(mode != "zeros", format_args!("argument padding_mode = {mode:?}"))?;
    let weights = case.tensor("weight")?;
    let (filters, seen, taps) = match (axes, weights.shape.as_slice()) {
        (1, &[filters, seen, taps]) => (filters, seen, [taps, 1]),
        (2, &[filters, seen, height, width]) => (filters, seen, [height, width]),
        _ => return Err(ImportError::Unsupported(format!("a weight of {} dimensions", weights.shape.len()))),
    };
    let count = [seen, taps[0], taps[1]].iter().try_fold(filters, |count, &dim| count.checked_mul(dim));
    unsupported_if(count.is_none_or(|count| count == 0 || count != weights.data.len()), "a weight without numbers")?;
    let groups = case.size("groups")?.unwrap_or(1);
    case.units("out_channels", filters)?;
    case.units("in_channels", channels)?;
    let fits = seen.checked_mul(groups) == Some(channels);
    unsupported_if(!fits, format_args!("{channels} channels where the weight has {groups} groups of {seen}"))?;
    let differs = per_axis(case, "kernel_size", axes)?.is_some_and(|given| given != taps);
    unsupported_if(differs, "a kernel_size that differs from the weight")?;
    let kernel = kernel(case, axes, taps, [1, 1])?;
    let positions = taps[0] * taps[1];
    let data = channels_last(&weights.data, seen, positions);
    let mut layer = Layer::new(CellKind::Conv, 0, filters).extent("groups", groups);
    layer = layer.tensor("weights", Tensor { shape: vec![filters, positions * seen], data });
    if case.flag("bias", true)? {
        layer = layer.tensor("bias", case.vector("bias", filters)?);
    }
    kernel.slide(network, x, layer, (width, channels))
}

fn pool(case: &mut Case<'_>, network: &mut Network, x: &Signal, axes: usize, how: &'static str) -> Result<Signal> {
    let (width, channels) = picture::over_time(x, axes)?;
    for argument in ["ceil_mode", "return_indices"] {
        case.must_be(argument, false)?;
    }
    let taps = per_axis(case, "kernel_size", axes)?
        .ok_or_else(|| ImportError::Unsupported("a pooling without its kernel_size".into()))?;
    // Only an average has this argument.
    let counts_padding = how == "average" && case.flag("count_include_pad", true)?;
    let kernel = kernel(case, axes, taps, taps)?;
    unsupported_if(counts_padding && kernel.before != [0, 0], "an average that counts its padding")?;
    kernel.slide(network, x, Layer::new(CellKind::Pool, 0, channels).option(how), (width, channels))
}

fn over_time(case: &mut Case<'_>, network: &mut Network, x: &Signal, how: &'static str) -> Result<Signal> {
    unsupported_if(case.size_or_sizes("output_size")?.is_some_and(|size| size != [1]), "an output_size other than 1")?;
    picture::pool_over_time(network, x, 1, how)
}

/// Number of dimensions in PyTorch: the batch, time, and those of a step.
pub(super) fn rank(x: &Signal) -> i64 {
    1 + i64::from(x.sequence) + x.shape.len() as i64
}

/// Flattens each step (`start_dim` 2) or the whole sequence (`start_dim` 1) in the order of PyTorch's elements.
/// `channels_first` says whether PyTorch has the channels before the other dimensions.
fn flatten(case: &mut Case<'_>, network: &mut Network, x: &Signal) -> Result<Signal> {
    let end = case.integer("end_dim")?.unwrap_or(-1);
    let partial = end != -1 && end != rank(x) - 1;
    unsupported_if(partial, format_args!("argument end_dim = {end} (the last dimension is the end)"))?;
    let start = case.integer("start_dim")?.unwrap_or(1);
    let known = start == 1 || (start == 2 && x.sequence);
    unsupported_if(!known, format_args!("argument start_dim = {start}"))?;
    let first = match case.given_flag("channels_first")? {
        given if start == 1 && x.sequence => {
            needs_window_if(x.source.rows().is_none(), "a flattened sequence")?;
            given
        }
        given => given.or((x.shape.len() < 2).then_some(false)),
    };
    let Some(channels_first) = first else {
        let of = "a Flatten without channels_first (whether PyTorch has the channels before time and features)";
        return Err(ImportError::Unsupported(of.into()));
    };
    unsupported_if(x.order.is_some(), "a second Flatten")?;
    let whole = start == 1 && x.sequence;
    let flat = if whole { picture::flat(network, x)? } else { x.clone() };
    let (size, channels) = (flat.source.size(), x.shape.last().copied().unwrap_or(1));
    let pixels = size / channels.max(1);
    // Position of PyTorch's k-th element in our order.
    let order = channels_first
        .then(|| (0..channels).flat_map(|channel| (0..pixels).map(move |pixel| pixel * channels + channel)).collect());
    Ok(Signal { shape: vec![size], order, ..flat })
}
