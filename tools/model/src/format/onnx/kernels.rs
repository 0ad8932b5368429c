//! Convolutions and poolings over one step or over a whole sequence.

use tidegate::internals::{activation::Activation, cell::CellKind};

use super::graph::{Attributes, Session, Stop};
use super::{made::Layered, moves::given, moves::needed, value::Value};
use crate::canonical::{MAX_SIZE, Tensor};
use crate::format::axis::{Axis, Placed};
use crate::format::{layer::Layer, refuse::fail_if, weights::channels_last};

/// Height and width of an image, and the kernel over them. A single dimension is the height of an image that is one pixel
/// wide.
type Kernel = [(Axis, Placed); 2];

fn kernel(attributes: &Attributes<'_>, sizes: &[usize], taps: &[usize]) -> Result<Kernel, String> {
    let axes = sizes.len();
    let misfit = !(1..=2).contains(&axes) || taps.len() != axes;
    fail_if(misfit, format_args!("it covers {axes} dimensions, but only 1 or 2 are supported"))?;
    let list = |name: &str, usual: i64, len: usize| -> Result<Vec<usize>, String> {
        let values = attributes.ints(name)?.unwrap_or_else(|| vec![usual; len]);
        let fits = |&value: &i64| usize::try_from(value).ok().filter(|&value| value <= MAX_SIZE);
        let sizes: Option<Vec<usize>> = values.iter().map(fits).collect();
        sizes.filter(|sizes| sizes.len() == len).ok_or_else(|| format!("attribute {name} = {values:?}"))
    };
    let (strides, dilations) = (list("strides", 1, axes)?, list("dilations", 1, axes)?);
    let pads = list("pads", 0, 2 * axes)?;
    let auto = attributes.text("auto_pad", "NOTSET")?;
    let one = Axis { length: 1, kernel: 1, stride: 1, dilation: 1 };
    let mut all = [(one, Placed { before: 0, after: 0, positions: 1 }); 2];
    for (k, own) in all.iter_mut().enumerate().take(axes) {
        let axis = Axis { length: sizes[k], kernel: taps[k], stride: strides[k], dilation: dilations[k] };
        let Axis { length, kernel, stride, dilation } = axis;
        fail_if([length, kernel, stride, dilation].contains(&0), "a stride, a dilation or a size of 0")?;
        axis.covers().ok_or("it reaches too far")?;
        let placed = match auto.as_str() {
            "NOTSET" => axis.padded(pads[k], pads[k + axes]),
            "VALID" => axis.padded(0, 0),
            "SAME_UPPER" => axis.same(),
            "SAME_LOWER" => axis.same().map(|Placed { before, after, positions }| Placed {
                before: after,
                after: before,
                positions,
            }),
            other => return Err(format!("attribute auto_pad = {other:?}")),
        };
        *own = (axis, placed.ok_or("its kernel is larger than its input")?);
    }
    Ok(all)
}

impl Session<'_> {
    pub(super) fn conv(&mut self, inputs: &[Option<Value>]) -> Result<Value, Stop> {
        let x = needed(inputs, 0)?;
        let attributes = self.attributes("auto_pad dilations group kernel_shape pads strides")?;
        let weights = self.known(&needed(inputs, 1)?, "W")?;
        let (&[_, channels, ref sizes @ ..], &[filters, seen, ref taps @ ..]) = (&x.shape[..], &weights.shape[..])
        else {
            return Err(format!("X is {:?} and W is {:?}", x.shape, weights.shape).into());
        };
        let groups = usize::try_from(attributes.int("group", 1)?).map_err(|_| "a negative group")?;
        let fits = groups > 0 && seen.checked_mul(groups) == Some(channels) && filters % groups == 0;
        let misfit = !fits || filters == 0 || seen == 0;
        fail_if(misfit, format_args!("{channels} channels meet {filters} filters over {seen} in {groups} groups"))?;
        if let Some(said) = attributes.ints("kernel_shape")?
            && !said.iter().map(|&size| usize::try_from(size).ok()).eq(taps.iter().map(|&size| Some(size)))
        {
            return Err(format!("attribute kernel_shape = {said:?}, but W has {taps:?}").into());
        }
        let kernel = kernel(&attributes, sizes, taps)?;
        let time = self.frames(&x, 0)?;
        let per_tap: usize = taps.iter().product();
        let bias = match given(inputs, 2) {
            None => None,
            Some(bias) => {
                let bias = self.known(&bias, "B")?;
                fail_if(bias.shape != [filters], format_args!("B is {:?}, but [{filters}] is needed", bias.shape))?;
                Some(bias)
            }
        };
        // One tap over one step: this dimension of the input may be the time of a graph that is run step by step.
        let is_step = |(axis, &dim): (&Option<_>, &usize)| axis.is_some() && dim == 1;
        let moves = per_tap > 1 || groups > 1 || kernel.iter().any(|(_, of)| of.before + of.after > 0);
        let is_single = x.len() == channels && x.axes.iter().zip(&x.shape).skip(2).any(is_step);
        // The same over every step of a sequence.
        let strides = kernel.iter().any(|(of, placed)| of.length != placed.positions);
        let is_per_step = !strides && self.steps_axis(&x).is_some_and(|axis| axis > 1);
        if !moves && (is_single || is_per_step) {
            let weights = Tensor { shape: vec![filters, seen], data: weights.data };
            return self.over_rows(&x, &[1], |_| Layer::dense(weights, bias, Activation::Identity));
        }
        let data = channels_last(&weights.data, seen, per_tap);
        let layer = Layer::new(CellKind::Conv, channels * sizes.iter().product::<usize>(), filters)
            .extent("groups", groups)
            .tensor("weights", Tensor { shape: vec![filters, per_tap * seen], data })
            .optional("bias", bias);
        self.slid(&x, time, &kernel, layer, filters)
    }

    pub(super) fn pool(&mut self, op: &str, inputs: &[Option<Value>]) -> Result<Value, Stop> {
        let x = needed(inputs, 0)?;
        let attributes = self.attributes(match op {
            "MaxPool" => "auto_pad ceil_mode dilations kernel_shape pads storage_order strides",
            "AveragePool" => "auto_pad ceil_mode count_include_pad dilations kernel_shape pads strides",
            _ => "",
        })?;
        let &[_, channels, ref sizes @ ..] = &x.shape[..] else { return Err(format!("X is {:?}", x.shape).into()) };
        if let (Some(how), Some(1)) = (op.strip_prefix("Global"), self.steps_axis(&x)) {
            // The channels are steps.
            let over: Vec<usize> = (2..x.shape.len()).collect();
            return self.reduced(if how == "MaxPool" { "ReduceMax" } else { "ReduceMean" }, &x, &over, true);
        }
        fail_if(self.wanted() > 1, "its second output is used")?;
        fail_if(attributes.int("ceil_mode", 0)? != 0, "attribute ceil_mode = 1")?;
        let taps: Vec<usize> = if op.starts_with("Global") {
            sizes.to_vec()
        } else {
            let said = attributes.ints("kernel_shape")?.ok_or("it has no kernel_shape")?;
            let fits = |&size: &i64| usize::try_from(size).ok().filter(|&size| size <= MAX_SIZE);
            said.iter().map(fits).collect::<Option<_>>().ok_or_else(|| format!("attribute kernel_shape = {said:?}"))?
        };
        let kernel = kernel(&attributes, sizes, &taps)?;
        let padded = kernel.iter().any(|(_, placed)| placed.before + placed.after > 0);
        let counted = op == "AveragePool" && padded && attributes.int("count_include_pad", 0)? != 0;
        fail_if(counted, "attribute count_include_pad = 1 with pads")?;
        let time = self.frames(&x, 0)?;
        let how = if op.ends_with("MaxPool") { "max" } else { "average" };
        let layer = Layer::new(CellKind::Pool, channels * sizes.iter().product::<usize>(), channels).option(how);
        self.slid(&x, time, &kernel, layer, channels)
    }

    /// A layer over all other dimensions than the first one, which is one sequence, or its steps if it is `time`.
    fn slid(
        &mut self,
        x: &Value,
        time: Option<usize>,
        kernel: &Kernel,
        layer: Layer,
        filters: usize,
    ) -> Result<Value, Stop> {
        let rank = x.shape.len();
        let order: Vec<usize> = (usize::from(time.is_some())..rank).filter(|&k| k != 1).chain([1]).collect();
        let operand = self.operand(x, &order, 0, time, false)?;
        let mut layer = layer.extent("in_channels", x.shape[1]).over(kernel);
        let positions = kernel.map(|(_, placed)| placed.positions);
        let size = positions[0].checked_mul(positions[1]).and_then(|all| all.checked_mul(filters));
        layer.output_size = size.filter(|&size| size <= MAX_SIZE).ok_or("its output is too large")?;
        let made = self.layered(Layered::plain(layer), &operand)?;
        let mut shape = vec![x.shape[0]];
        shape.extend(&positions[..rank - 2]);
        shape.push(filters);
        let mut axes = vec![None; rank];
        axes[0] = x.axes[0];
        let back: Vec<usize> = [0, rank - 1].into_iter().chain(1..rank - 1).collect();
        Ok(made.value(shape).with_axes(axes).transposed(&back)?)
    }
}
