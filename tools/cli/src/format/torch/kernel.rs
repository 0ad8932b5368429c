//! PyTorch's convolutions and poolings.

use tidegate::cell::CellKind;

use crate::canonical::Tensor;
use crate::error::ImportError;
use crate::format::description::Value;
use crate::format::golden::Case;
use crate::format::image::{self, Kernel};
use crate::format::layer::Layer;
use crate::format::network::Network;

/// The layer of a class, if it is one of these.
pub(super) fn add(case: &mut Case<'_>, network: &mut Network, x: &Value) -> Result<Option<Value>, ImportError> {
    Ok(Some(match case.cls.as_str() {
        "Conv1d" => conv(case, network, x, 1)?,
        "Conv2d" => conv(case, network, x, 2)?,
        "MaxPool1d" => pool(case, network, x, 1, "max")?,
        "MaxPool2d" => pool(case, network, x, 2, "max")?,
        "AvgPool1d" => pool(case, network, x, 1, "average")?,
        "AvgPool2d" => pool(case, network, x, 2, "average")?,
        "AdaptiveMaxPool1d" => over_time(case, network, x, "max")?,
        "AdaptiveAvgPool1d" => over_time(case, network, x, "average")?,
        "Flatten" => flatten(case, network, x)?,
        _ => return Ok(None),
    }))
}

/// Takes an argument for each axis; time alone has one.
fn per_axis(case: &mut Case<'_>, name: &str, axes: usize) -> Result<Option<[usize; 2]>, ImportError> {
    let sizes = match axes {
        1 => case.size_or_sizes(name)?,
        _ => case.per_axis(name, axes)?,
    };
    match sizes.as_deref() {
        None => Ok(None),
        Some(&[time]) if axes == 1 => Ok(Some([time, usize::from(name != "padding")])),
        Some(&[time, width]) if axes == 2 => Ok(Some([time, width])),
        Some(_) => Err(ImportError::Unsupported(format!("argument {name} of other than {axes} numbers"))),
    }
}

fn kernel(case: &mut Case<'_>, axes: usize, taps: [usize; 2], stride: [usize; 2]) -> Result<Kernel, ImportError> {
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

fn conv(case: &mut Case<'_>, network: &mut Network, x: &Value, axes: usize) -> Result<Value, ImportError> {
    let (width, channels) = image::over_time(x, axes)?;
    if let Some(mode) = case.text("padding_mode")?
        && mode != "zeros"
    {
        return Err(ImportError::Unsupported(format!("argument padding_mode = {mode:?}")));
    }
    let weights = case.tensor("weight")?;
    let (filters, seen, taps) = match (axes, weights.shape.as_slice()) {
        (1, &[filters, seen, taps]) => (filters, seen, [taps, 1]),
        (2, &[filters, seen, height, width]) => (filters, seen, [height, width]),
        _ => return Err(ImportError::Unsupported(format!("a weight of {} dimensions", weights.shape.len()))),
    };
    let count = [seen, taps[0], taps[1]].iter().try_fold(filters, |count, &dim| count.checked_mul(dim));
    if count.is_none_or(|count| count == 0 || count != weights.data.len()) {
        return Err(ImportError::Unsupported("a weight without numbers".into()));
    }
    let groups = case.size("groups")?.unwrap_or(1);
    case.units("out_channels", filters)?;
    case.units("in_channels", channels)?;
    if seen.checked_mul(groups) != Some(channels) {
        let of = format!("{channels} channels where the weight has {groups} groups of {seen}");
        return Err(ImportError::Unsupported(of));
    }
    if let Some(given) = per_axis(case, "kernel_size", axes)?
        && given != taps
    {
        return Err(ImportError::Unsupported("a kernel_size that differs from the weight".into()));
    }
    let kernel = kernel(case, axes, taps, [1, 1])?;
    // [filter, channel, taps] to [filter, taps, channel].
    let positions = taps[0] * taps[1];
    let mut data = Vec::with_capacity(weights.data.len());
    for filter in weights.data.chunks(seen * positions) {
        for tap in 0..positions {
            data.extend(filter.iter().skip(tap).step_by(positions));
        }
    }
    let mut layer = Layer::new(CellKind::Conv, 0, filters).extent("groups", groups);
    layer = layer.tensor("weights", Tensor { shape: vec![filters, positions * seen], data });
    if case.flag("bias", true)? {
        layer = layer.tensor("bias", case.vector("bias", filters)?);
    }
    kernel.slide(network, x, layer, (width, channels))
}

fn pool(
    case: &mut Case<'_>,
    network: &mut Network,
    x: &Value,
    axes: usize,
    how: &'static str,
) -> Result<Value, ImportError> {
    let (width, channels) = image::over_time(x, axes)?;
    for argument in ["ceil_mode", "return_indices"] {
        case.must_be(argument, false)?;
    }
    let taps = per_axis(case, "kernel_size", axes)?
        .ok_or_else(|| ImportError::Unsupported("a pooling without its kernel_size".into()))?;
    let counts_padding = case.flag("count_include_pad", how == "average")?;
    if case.given("divisor_override") {
        return Err(ImportError::Unsupported("argument divisor_override".into()));
    }
    let kernel = kernel(case, axes, taps, taps)?;
    if counts_padding && kernel.before != [0, 0] {
        return Err(ImportError::Unsupported("a mean that counts its padding".into()));
    }
    kernel.slide(network, x, Layer::new(CellKind::Pool, 0, channels).option(how), (width, channels))
}

/// One number of each feature for a whole sequence.
fn over_time(case: &mut Case<'_>, network: &mut Network, x: &Value, how: &'static str) -> Result<Value, ImportError> {
    if case.size_or_sizes("output_size")?.is_some_and(|size| size != [1]) {
        return Err(ImportError::Unsupported("an output_size other than 1".into()));
    }
    image::pool_over_time(network, x, 1, how)
}

/// The features of a step (`start_dim` 2) or of the whole sequence (1) one after the other, in the order that PyTorch has
/// them in: `channels_first` says whether the channels are before the other dimensions then.
fn flatten(case: &mut Case<'_>, network: &mut Network, x: &Value) -> Result<Value, ImportError> {
    case.ignore("end_dim");
    let start = case.size("start_dim")?.unwrap_or(1);
    let first = match case.given_flag("channels_first")? {
        given if start == 1 && x.sequence => {
            if x.source.rows().is_none() {
                return Err(ImportError::NeedsWindow { what: "a flattened sequence".into() });
            }
            given
        }
        given => given.or((x.shape.len() < 2).then_some(false)),
    };
    let Some(channels_first) = first else {
        let of = "a Flatten that does not say whether channels_first is true (they are before time and features)";
        return Err(ImportError::Unsupported(of.into()));
    };
    if x.order.is_some() {
        return Err(ImportError::Unsupported("a second Flatten".into()));
    }
    let whole = start == 1 && x.sequence;
    let flat = if whole { image::flat(network, x)? } else { x.clone() };
    let (size, channels) = (flat.source.size(), x.shape.last().copied().unwrap_or(1));
    let pixels = size / channels.max(1);
    // Where PyTorch's k-th is here.
    let order = channels_first
        .then(|| (0..channels).flat_map(|channel| (0..pixels).map(move |pixel| pixel * channels + channel)).collect());
    Ok(Value { shape: vec![size], order, ..flat })
}
