//! PyTorch's convolutions and poolings. Time is the height of an image whose width are the features of a step, one for
//! those of one dimension; channels are last. In a stream they look at the last steps; over the rows of a window, at the
//! whole of it, with the zeros around it.

use tidegate::cell::CellKind;

use crate::canonical::Tensor;
use crate::error::ImportError;
use crate::format::description::Value;
use crate::format::golden::Case;
use crate::format::layer::Layer;
use crate::format::network::Network;

/// How a kernel goes over time and over the features.
struct Kernel {
    taps: [usize; 2],
    stride: [usize; 2],
    dilation: [usize; 2],
    before: [usize; 2],
    after: [usize; 2],
}

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

/// Width and channels of what comes in at a step.
fn image(x: &Value, axes: usize) -> Result<(usize, usize), ImportError> {
    match (axes, x.shape.as_slice()) {
        _ if x.order.is_some() => Err(ImportError::Unsupported("an image of features that were flattened".into())),
        _ if !x.sequence => Err(ImportError::Unsupported("a kernel over time where there is none".into())),
        (1, _) => Ok((1, x.source.size())),
        (_, &[width]) => Ok((width, 1)),
        (_, &[width, channels]) => Ok((width, channels)),
        (_, shape) => Err(ImportError::Unsupported(format!("an image of {} dimensions", shape.len() + 1))),
    }
}

impl Kernel {
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

    fn read(case: &mut Case<'_>, axes: usize, taps: [usize; 2], stride: [usize; 2]) -> Result<Self, ImportError> {
        let stride = Self::per_axis(case, "stride", axes)?.unwrap_or(stride);
        let dilation = Self::per_axis(case, "dilation", axes)?.unwrap_or([1, 1]);
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
                let padding = Self::per_axis(case, "padding", axes)?.unwrap_or([0, 0]);
                (padding, padding)
            }
        };
        if [taps, stride, dilation].concat().contains(&0) {
            return Err(ImportError::Unsupported("a kernel, stride or dilation of 0".into()));
        }
        Ok(Self { taps, stride, dilation, before, after })
    }

    /// Pixels that it covers.
    fn covers(&self, axis: usize) -> usize {
        self.taps[axis].saturating_sub(1).saturating_mul(self.dilation[axis]).saturating_add(1)
    }

    /// How often it fits.
    fn positions(&self, axis: usize, size: usize, padded: bool) -> Result<usize, ImportError> {
        let padding = if padded { self.before[axis].saturating_add(self.after[axis]) } else { 0 };
        let (all, covers) = (size.saturating_add(padding), self.covers(axis));
        match all.checked_sub(covers) {
            Some(rest) => Ok(rest / self.stride[axis] + 1),
            None => Err(ImportError::Unsupported(format!("a kernel over {covers} of {all}"))),
        }
    }

    /// Adds a layer that goes so; `layer` lacks the sizes of the image.
    fn slide(
        &self,
        network: &mut Network,
        x: &Value,
        layer: Layer,
        (width, channels): (usize, usize),
    ) -> Result<Value, ImportError> {
        let (window, rows, height, padded) = match x.source.rows() {
            Some(rows) => (x.source.clone(), Some(rows), rows, true),
            None => {
                // In a stream nothing comes before the first step or behind the last, and the last output is due at
                // the last step.
                let length = self.covers(0);
                let due =
                    x.steps.is_none_or(|steps| steps >= length && (steps - length).is_multiple_of(self.stride[0]));
                if self.before[0] + self.after[0] > 0 || !due {
                    return Err(ImportError::NeedsWindow { what: "a kernel over the ends of a sequence".into() });
                }
                let frames = (length, self.stride[0]);
                let window = if frames == (1, 1) {
                    x.source.clone().in_rows(1)
                } else {
                    network.frames(&x.source, frames.0, frames.1)
                };
                (window, None, length, false)
            }
        };
        let (out_height, out_width) = (self.positions(0, height, padded)?, self.positions(1, width, true)?);
        let units = layer.hidden_size;
        let mut layer = layer
            .extent("in_height", height)
            .extent("in_width", width)
            .extent("in_channels", channels)
            .extent("kernel_height", self.taps[0])
            .extent("kernel_width", self.taps[1])
            .extent("stride_height", self.stride[0])
            .extent("stride_width", self.stride[1])
            .extent("dilation_height", self.dilation[0])
            .extent("dilation_width", self.dilation[1])
            .extent("pad_top", if padded { self.before[0] } else { 0 })
            .extent("pad_bottom", if padded { self.after[0] } else { 0 })
            .extent("pad_left", self.before[1])
            .extent("pad_right", self.after[1])
            .extent("out_height", out_height)
            .extent("out_width", out_width);
        let size = |parts: &[usize]| {
            let product = parts.iter().try_fold(1_usize, |product, &part| product.checked_mul(part));
            product.ok_or_else(|| ImportError::Unsupported("an image as large as this".into()))
        };
        layer.input_size = size(&[height, width, channels])?;
        layer.output_size = size(&[out_height, out_width, units])?;
        let source = network.whole(layer, &window, rows.map(|_| out_height));
        let streams = rows.is_none() && self.covers(0) + self.stride[0] > 2;
        let steps = x.steps.map(|steps| self.positions(0, steps, padded)).transpose()?;
        let shape = if out_width == 1 && x.shape.len() == 1 { vec![units] } else { vec![out_width, units] };
        Ok(Value { source, shape, steps, pace: x.pace + usize::from(streams), ..x.clone() })
    }
}

fn conv(case: &mut Case<'_>, network: &mut Network, x: &Value, axes: usize) -> Result<Value, ImportError> {
    let (width, channels) = image(x, axes)?;
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
    if let Some(given) = Kernel::per_axis(case, "kernel_size", axes)?
        && given != taps
    {
        return Err(ImportError::Unsupported("a kernel_size that differs from the weight".into()));
    }
    let kernel = Kernel::read(case, axes, taps, [1, 1])?;
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
    let (width, channels) = image(x, axes)?;
    for argument in ["ceil_mode", "return_indices"] {
        case.must_be(argument, false)?;
    }
    let taps = Kernel::per_axis(case, "kernel_size", axes)?
        .ok_or_else(|| ImportError::Unsupported("a pooling without its kernel_size".into()))?;
    let counts_padding = case.flag("count_include_pad", how == "average")?;
    if case.given("divisor_override") {
        return Err(ImportError::Unsupported("argument divisor_override".into()));
    }
    let kernel = Kernel::read(case, axes, taps, taps)?;
    if counts_padding && kernel.before != [0, 0] {
        return Err(ImportError::Unsupported("a mean that counts its padding".into()));
    }
    kernel.slide(network, x, Layer::new(CellKind::Pool, 0, channels).option(how), (width, channels))
}

/// One number of each feature for a whole sequence.
fn over_time(case: &mut Case<'_>, network: &mut Network, x: &Value, how: &'static str) -> Result<Value, ImportError> {
    let (width, channels) = image(x, 1)?;
    if case.size_or_sizes("output_size")?.is_some_and(|size| size != [1]) {
        return Err(ImportError::Unsupported("an output_size other than 1".into()));
    }
    let Some(rows) = x.source.rows() else {
        return Err(ImportError::NeedsWindow { what: "a pooling over all steps".into() });
    };
    let kernel = Kernel { taps: [rows, 1], stride: [1, 1], dilation: [1, 1], before: [0, 0], after: [0, 0] };
    let value = kernel.slide(network, x, Layer::new(CellKind::Pool, 0, channels).option(how), (width, channels))?;
    Ok(Value { source: value.source.clone().flat(), sequence: false, ..value })
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
    if whole {
        network.only_full_windows();
    }
    let source = if whole { x.source.clone().flat() } else { x.source.clone() };
    let (size, channels) = (source.size(), x.shape.last().copied().unwrap_or(1));
    let pixels = size / channels.max(1);
    // Where PyTorch's k-th is here.
    let order = channels_first
        .then(|| (0..channels).flat_map(|channel| (0..pixels).map(move |pixel| pixel * channels + channel)).collect());
    Ok(Value { source, shape: vec![size], order, sequence: x.sequence && !whole, ..x.clone() })
}
