//! Keras's convolutions, poolings, and layers that change the shape of a step or a sequence. Channels are last.

use tidegate::internals::{activation::Activation, cell::CellKind};

use super::activation::{add_function, take_function};
use super::attention;
use super::products::transposed;
use crate::format::picture::{Kernel, over_time, pool_over_time};
use crate::format::refuse::{needs_window_if, unsupported_if};
use crate::format::{case::Case, case::unsupported, layer::Layer, network::Network, signal::Signal, weights::Named};
use crate::{canonical::Tensor, error::ImportError, error::Result};

/// Adds the layer if its class is one of these.
pub(super) fn add(case: &mut Case<'_>, network: &mut Network, x: &Signal, each_step: bool) -> Result<Option<Signal>> {
    let mut at = Place { network, x, each_step };
    let (class, axes) = match (case.cls.strip_suffix("1D"), case.cls.strip_suffix("2D")) {
        (Some(class), _) => (class, 1),
        (_, Some(class)) => (class, 2),
        _ => (case.cls.as_str(), 0),
    };
    Ok(Some(match (class, axes) {
        ("Conv", 1..) => conv(case, &mut at, axes)?,
        ("DepthwiseConv", 1..) => depthwise(case, &mut at, axes)?,
        ("SeparableConv", 1..) => separable(case, &mut at, axes)?,
        ("MaxPooling", 1..) => pool(case, &mut at, axes, "max")?,
        ("AveragePooling", 1..) => pool(case, &mut at, axes, "average")?,
        ("GlobalMaxPooling", 1..) => pool_all(case, &mut at, axes, "max")?,
        ("GlobalAveragePooling", 1..) => pool_all(case, &mut at, axes, "average")?,
        ("ZeroPadding", 1..) => zeros(case, &mut at, axes)?,
        ("Flatten", 0) => flatten(case, &mut at)?,
        ("Reshape", 0) => reshape(case, &mut at)?,
        ("Permute", 0) => permute(case, &mut at)?,
        ("RepeatVector", 0) => repeat(case, &mut at)?,
        ("AttentionWeightedAverage", 0) => attention::weighted_average(case, at.network, at.x)?,
        _ => return Ok(None),
    }))
}

/// A layer's input and the network that it is added to.
struct Place<'a> {
    network: &'a mut Network,
    x: &'a Signal,
    /// Whether the layer runs over the image in each step instead of over time.
    each_step: bool,
}

impl Place<'_> {
    /// Height (if known), width and channels of the image.
    fn image(&self, axes: usize) -> Result<(Option<usize>, usize, usize)> {
        if !self.each_step {
            let (width, channels) = over_time(self.x, axes)?;
            return Ok((self.x.source.rows().or(self.x.steps), width, channels));
        }
        match (axes, self.x.shape.as_slice()) {
            (1, &[length, channels]) => Ok((Some(length), 1, channels)),
            (2, &[height, width, channels]) => Ok((Some(height), width, channels)),
            (_, shape) => Err(ImportError::Unsupported(format!("an image of {} dimensions", shape.len()))),
        }
    }

    fn go(&mut self, kernel: Kernel, layer: Layer, axes: usize) -> Result<Signal> {
        let (height, width, channels) = self.image(axes)?;
        match height.filter(|_| self.each_step) {
            Some(height) => kernel.within(self.network, self.x, layer, [height, width, channels]),
            None => kernel.slide(self.network, self.x, layer, (width, channels)),
        }
    }
}

/// Takes an argument that has a value for each axis. An image with one axis has a width of one.
fn per_axis(case: &mut Case<'_>, name: &str, axes: usize) -> Result<Option<[usize; 2]>> {
    let sizes = if axes == 1 { case.size_or_sizes(name)? } else { case.per_axis(name, axes)? };
    match sizes.as_deref() {
        None => Ok(None),
        Some(&[time]) if axes == 1 => Ok(Some([time, 1])),
        Some(&[time, width]) if axes == 2 => Ok(Some([time, width])),
        Some(_) => Err(ImportError::Unsupported(format!("argument {name} of other than {axes} numbers"))),
    }
}

fn channels_last(case: &mut Case<'_>) -> Result<()> {
    match case.text("data_format")?.as_deref() {
        None | Some("channels_last") => Ok(()),
        Some(other) => Err(ImportError::Unsupported(format!("argument data_format = {other:?}"))),
    }
}

fn kernel(case: &mut Case<'_>, at: &Place<'_>, axes: usize, taps: [usize; 2], stride: [usize; 2]) -> Result<Kernel> {
    let stride = per_axis(case, "strides", axes)?.unwrap_or(stride);
    let dilation = per_axis(case, "dilation_rate", axes)?.unwrap_or([1, 1]);
    let mut kernel = Kernel { stride, dilation, ..Kernel::of(taps) }.checked()?;
    let (height, width, _) = at.image(axes)?;
    match case.text("padding")?.as_deref().map(str::to_lowercase).as_deref() {
        None | Some("valid") => {}
        Some("same") => kernel = kernel.same([height, Some(width)]),
        // Keras has no causal padding for an image over time, but RTNeural does.
        Some("causal") => kernel.before[0] = kernel.covers(0) - 1,
        Some(other) => return Err(ImportError::Unsupported(format!("argument padding = {other:?}"))),
    }
    Ok(kernel)
}

/// The shape of a kernel tensor: taps, then `[channels, filters]`. Checks the number of elements.
fn shape(named: Named<'_>, axes: usize) -> Result<([usize; 2], [usize; 2])> {
    let (taps, last) = match (axes, named.tensor.shape.as_slice()) {
        (1, &[taps, channels, filters]) => ([taps, 1], [channels, filters]),
        (2, &[height, width, channels, filters]) => ([height, width], [channels, filters]),
        _ => return named.refuse(format!("it must have {} dimensions", axes + 2)),
    };
    let product = [taps[0], taps[1], last[0], last[1]].iter().try_fold(1_usize, |len, &dim| len.checked_mul(dim));
    match product {
        Some(len) if len > 0 && len == named.tensor.data.len() => Ok((taps, last)),
        _ => named.refuse("it must have numbers".into()),
    }
}

/// Transposes a tensor `[rows.., cols]` to `[cols, rows]`.
fn turned(named: Named<'_>, cols: usize) -> Result<Tensor> {
    let rows = named.tensor.data.len() / cols.max(1);
    let matrix = Tensor { shape: vec![rows, cols], data: named.tensor.data.clone() };
    Named { tensor: &matrix, ..named }.transposed(0, rows)
}

fn taps_agree(case: &mut Case<'_>, axes: usize, taps: [usize; 2]) -> Result<()> {
    let differs = per_axis(case, "kernel_size", axes)?.is_some_and(|given| given != taps);
    unsupported_if(differs, "a kernel_size that differs from the kernel")
}

fn finished(case: &mut Case<'_>, at: &mut Place<'_>, kernel: Kernel, mut layer: Layer, axes: usize) -> Result<Signal> {
    if case.flag("use_bias", true)? {
        let bias = case.vector("bias", layer.hidden_size)?;
        layer = layer.tensor("bias", bias);
    }
    let function = take_function(case, "activation")?;
    if let Some(activation) = function.as_activation() {
        return at.go(kernel, layer.activation("activation", activation), axes);
    }
    let value = at.go(kernel, layer, axes)?;
    add_function(at.network, &value, function)
}

fn conv(case: &mut Case<'_>, at: &mut Place<'_>, axes: usize) -> Result<Signal> {
    channels_last(case)?;
    let named = case.named("kernel")?;
    let (taps, [seen, filters]) = shape(named, axes)?;
    case.units("filters", filters)?;
    taps_agree(case, axes, taps)?;
    let groups = case.size("groups")?.unwrap_or(1);
    let (_, _, channels) = at.image(axes)?;
    let fits = seen.checked_mul(groups) == Some(channels);
    unsupported_if(!fits, format_args!("{channels} channels where the kernel has {groups} groups of {seen}"))?;
    let kernel = kernel(case, at, axes, taps, [1, 1])?;
    let layer = Layer::new(CellKind::Conv, 0, filters).tensor("weights", turned(named, filters)?);
    let layer = if groups > 1 { layer.extent("groups", groups) } else { layer };
    finished(case, at, kernel, layer, axes)
}

/// A depthwise convolution: each channel has its own kernel with `depth_multiplier` filters.
fn depthwise_layer(case: &mut Case<'_>, at: &Place<'_>, axes: usize) -> Result<(Kernel, Layer)> {
    channels_last(case)?;
    let named = case.named("depthwise_kernel")?;
    let (taps, [channels, multiplier]) = shape(named, axes)?;
    case.units("depth_multiplier", multiplier)?;
    // Arguments that the layer inherits from its base class and that Keras 2 writes too.
    case.units("groups", 1)?;
    if case.cls.starts_with("Depthwise") {
        case.ignore("filters");
    }
    taps_agree(case, axes, taps)?;
    let (_, _, found) = at.image(axes)?;
    unsupported_if(found != channels, format_args!("{found} channels where the kernel has {channels}"))?;
    let kernel = kernel(case, at, axes, taps, [1, 1])?;
    let filters = channels.saturating_mul(multiplier);
    let layer = Layer::new(CellKind::DepthwiseConv, 0, filters).extent("multiplier", multiplier);
    Ok((kernel, layer.tensor("weights", turned(named, filters)?)))
}

fn depthwise(case: &mut Case<'_>, at: &mut Place<'_>, axes: usize) -> Result<Signal> {
    let (kernel, layer) = depthwise_layer(case, at, axes)?;
    finished(case, at, kernel, layer, axes)
}

/// A depthwise convolution followed by a pointwise one (a single tap over all channels).
fn separable(case: &mut Case<'_>, at: &mut Place<'_>, axes: usize) -> Result<Signal> {
    let (kernel, layer) = depthwise_layer(case, at, axes)?;
    let between = at.go(kernel, layer, axes)?;
    let named = case.named("pointwise_kernel")?;
    let (taps, [seen, filters]) = shape(named, axes)?;
    case.units("filters", filters)?;
    if taps != [1, 1] {
        return named.refuse("it must have one tap".into());
    }
    let mut behind = Place { network: at.network, x: &between, each_step: at.each_step };
    let (_, _, channels) = behind.image(axes)?;
    unsupported_if(seen != channels, format_args!("{channels} channels where the kernel has {seen}"))?;
    let layer = Layer::new(CellKind::Conv, 0, filters).tensor("weights", turned(named, filters)?);
    finished(case, &mut behind, Kernel::of([1, 1]), layer, axes)
}

fn pool(case: &mut Case<'_>, at: &mut Place<'_>, axes: usize, how: &'static str) -> Result<Signal> {
    channels_last(case)?;
    let taps = per_axis(case, "pool_size", axes)?.unwrap_or(if axes == 1 { [2, 1] } else { [2, 2] });
    let (_, _, channels) = at.image(axes)?;
    let kernel = kernel(case, at, axes, taps, taps)?;
    at.go(kernel, Layer::new(CellKind::Pool, 0, channels).option(how), axes)
}

fn pool_all(case: &mut Case<'_>, at: &mut Place<'_>, axes: usize, how: &'static str) -> Result<Signal> {
    channels_last(case)?;
    case.must_be("keepdims", false)?;
    let (height, width, channels) = at.image(axes)?;
    unsupported_if(at.x.mask.is_some() && !at.each_step && how == "average", "an average over masked steps")?;
    match height.filter(|_| at.each_step) {
        Some(height) => {
            let layer = Layer::new(CellKind::Pool, 0, channels).option(how);
            let value = at.go(Kernel::of([height, width]), layer, axes)?;
            Ok(Signal { shape: vec![channels], ..value })
        }
        None => pool_over_time(at.network, at.x, axes, how),
    }
}

/// Zero padding around an image, as a kernel of one tap with weight 1.
fn zeros(case: &mut Case<'_>, at: &mut Place<'_>, axes: usize) -> Result<Signal> {
    channels_last(case)?;
    let given = case.value("padding").unwrap_or_else(|| 1.into());
    let refuse = || unsupported("padding", &given);
    let number = |value: &serde_json::Value| value.as_u64().and_then(|size| usize::try_from(size).ok());
    let pair = |value: &serde_json::Value| -> Option<[usize; 2]> {
        match (number(value), value.as_array()?.as_slice()) {
            (Some(both), _) => Some([both, both]),
            (None, [before, after]) => Some([number(before)?, number(after)?]),
            _ => None,
        }
    };
    let both = |value: &serde_json::Value| number(value).map(|size| [size, size]).or_else(|| pair(value));
    let sides: [[usize; 2]; 2] = match (axes, &given) {
        (1, given) => [both(given).ok_or_else(refuse)?, [0, 0]],
        (_, serde_json::Value::Array(list)) => match list.as_slice() {
            [rows, cols] => [both(rows).ok_or_else(refuse)?, both(cols).ok_or_else(refuse)?],
            _ => return Err(refuse()),
        },
        (_, given) => [both(given).ok_or_else(refuse)?; 2],
    };
    let mut kernel = Kernel::of([1, 1]);
    for (axis, [before, after]) in sides.into_iter().enumerate() {
        kernel.before[axis] = before;
        kernel.after[axis] = after;
    }
    let (_, _, channels) = at.image(axes)?;
    let ones = Tensor { shape: vec![channels, 1], data: vec![1.0; channels] };
    let layer = Layer::new(CellKind::DepthwiseConv, 0, channels).tensor("weights", ones);
    at.go(kernel, layer.activation("activation", Activation::Identity), axes)
}

fn flatten(case: &mut Case<'_>, at: &mut Place<'_>) -> Result<Signal> {
    let x = at.x;
    // With channels first, Keras moves the dimension after the batch to the end. A vector has no other dimension.
    if x.shape.len() > 1 || (x.sequence && !at.each_step) {
        channels_last(case)?;
    }
    case.ignore("data_format");
    if at.each_step || !x.sequence {
        return Ok(Signal { shape: vec![x.source.size()], ..x.clone() });
    }
    whole(at, "a flattened sequence")
}

/// Concatenates the rows of a window.
fn whole(at: &mut Place<'_>, what: &str) -> Result<Signal> {
    let x = at.x;
    needs_window_if(x.source.rows().is_none(), what)?;
    at.network.only_full_windows();
    let source = x.source.clone().flat();
    Ok(Signal { shape: vec![source.size()], source, sequence: false, steps: None, ..x.clone() })
}

/// Changes the dimensions; the numbers and their order stay the same.
fn reshape(case: &mut Case<'_>, at: &mut Place<'_>) -> Result<Signal> {
    let Some(given) = case.value("target_shape") else {
        return Err(ImportError::Unsupported("a Reshape without target_shape".into()));
    };
    let dims: Option<Vec<i64>> = given.as_array().and_then(|list| list.iter().map(serde_json::Value::as_i64).collect());
    let Some(dims) = dims else { return Err(unsupported("target_shape", &given)) };
    let x = at.x;
    let size = x.source.size();
    let fitted = |dims: &[i64], total: usize| fit(dims, total).ok_or_else(|| unsupported("target_shape", &given));
    if at.each_step {
        return Ok(Signal { shape: fitted(&dims, size)?, ..x.clone() });
    }
    if !x.sequence {
        // A vector becomes a sequence or stays a vector.
        let shape = fitted(&dims, size)?;
        return Ok(match shape.as_slice() {
            [] | [_] => x.clone(),
            [steps, step @ ..] => {
                let source = x.source.clone().in_rows(*steps);
                Signal { source, shape: step.to_vec(), sequence: true, steps: Some(*steps), ..x.clone() }
            }
        });
    }
    let known = x.source.rows().or(x.steps);
    if let [time, step @ ..] = dims.as_slice()
        && !step.is_empty()
        && let Some(step) = fit(step, size)
    {
        // Each step keeps its shape.
        let steps = usize::try_from(*time).ok();
        if *time == -1 || (steps.is_some() && (known.is_none() || steps == known)) {
            return Ok(Signal { shape: step, ..x.clone() });
        }
    }
    let flat = whole(at, "a sequence with other steps")?;
    let shape = fitted(&dims, flat.source.size())?;
    Ok(match shape.as_slice() {
        [] | [_] => flat,
        [steps, step @ ..] => {
            let source = flat.source.clone().in_rows(*steps);
            Signal { source, shape: step.to_vec(), sequence: true, steps: Some(*steps), ..flat }
        }
    })
}

/// Resolves dimensions for `total` numbers; one of them may be -1.
fn fit(dims: &[i64], total: usize) -> Option<Vec<usize>> {
    let known = dims.iter().filter(|dim| **dim != -1);
    let product = known.clone().try_fold(1_usize, |product, &dim| product.checked_mul(usize::try_from(dim).ok()?))?;
    let open = dims.len() - known.count();
    let fits = match open {
        0 => product == total,
        1 => product > 0 && total.is_multiple_of(product),
        _ => false,
    };
    let rest = total.checked_div(product)?;
    fits.then(|| dims.iter().map(|&dim| usize::try_from(dim).unwrap_or(rest)).collect()).filter(|_| total > 0)
}

fn permute(case: &mut Case<'_>, at: &mut Place<'_>) -> Result<Signal> {
    let dims = case.sizes("dims")?.unwrap_or_default();
    if dims.iter().copied().eq(1..=dims.len()) {
        return Ok(at.x.clone());
    }
    if dims == [2, 1] && at.x.sequence && !at.each_step && at.x.shape.len() == 1 {
        return transposed(at.network, at.x);
    }
    Err(ImportError::Unsupported(format!("argument dims = {dims:?} (another order of dimensions)")))
}

fn repeat(case: &mut Case<'_>, at: &mut Place<'_>) -> Result<Signal> {
    let steps = case.needed_size("n")?;
    unsupported_if(steps == 0 || at.x.source.rows().is_some() || at.x.sequence, "an input that is a sequence")?;
    let source = at.network.repeated(&at.x.source, steps);
    Ok(Signal { source, sequence: true, steps: Some(steps), ..at.x.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_dimension_may_be_open() {
        assert_eq!(fit(&[3, 4], 12), Some(vec![3, 4]));
        assert_eq!(fit(&[-1, 4], 12), Some(vec![3, 4]));
        assert_eq!(fit(&[5, -1], 12), None);
        assert_eq!(fit(&[-1, -1], 12), None);
        assert_eq!(fit(&[-2, 6], 12), None);
        assert_eq!(fit(&[0, -1], 12), None);
        assert_eq!(fit(&[i64::MAX, i64::MAX], 12), None);
    }
}
