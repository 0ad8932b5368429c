//! Transposed convolutions as convolutions, with neither new layers nor zeros between pixels. With a stride of s there
//! are s times as many filters: each computes one of s neighboring pixels.
//!
//! ```text
//! y[o] = Σ x[i] w[t]      where o = s i + d t - p
//! s = 1:  flipped taps, d (k - 1) - p zeros before the input
//! d = 1:  y[s q + r] = Σ x[q + e] w[r - s e + p]
//! ```

use tidegate::internals::cell::CellKind;

use super::graph::{Attributes, Session, Stop};
use super::{made::Layered, moves::given, moves::needed, value::Value};
use crate::canonical::{MAX_SIZE, Tensor};
use crate::format::axis::{Axis, Placed};
use crate::format::{layer::Layer, refuse::fail_if};

/// One dimension of a transposed convolution, as a convolution.
struct Along {
    axis: Axis,
    placed: Placed,
    /// Pixels of the output.
    out: usize,
    /// Pixels of the input before and after those that the convolution reads.
    unread: [usize; 2],
    /// For each of the pixels that a position computes, and for each tap of the convolution: the tap of the weights.
    taps: Vec<Vec<Option<usize>>>,
}

/// The attributes of one dimension.
#[derive(Clone, Copy)]
struct Given {
    length: usize,
    taps: usize,
    stride: usize,
    dilation: usize,
    pads: [usize; 2],
    more: usize,
}

impl Along {
    fn new(of: Given) -> Result<Self, String> {
        let Given { length, taps, stride, dilation, pads: [before, after], more } = of;
        fail_if([length, taps, stride, dilation].contains(&0), "a stride, a dilation or a size of 0")?;
        fail_if(stride > 1 && dilation > 1, format_args!("a stride of {stride} with a dilation of {dilation}"))?;
        fail_if(more > 0 && more >= stride, format_args!("output_padding of {more} with a stride of {stride}"))?;
        let reach = (taps - 1) * dilation;
        let out = ((length - 1) * stride + reach + 1 + more).checked_sub(before + after);
        let out = out.filter(|&out| (1..=MAX_SIZE).contains(&out)).ok_or("its pads leave no output")?;
        let positions = out.div_ceil(stride);
        // The first pixel that a position reads, relative to the position, and the taps from there on.
        let (first, taps) = if stride == 1 {
            (before as i64 - reach as i64, vec![(0..taps).rev().map(Some).collect()])
        } else {
            let (stride, before) = (stride as i64, before as i64);
            let tap =
                |phase: i64, at: i64| usize::try_from(phase - stride * at + before).ok().filter(|&tap| tap < taps);
            let (first, last) = ((before - taps as i64 + 1).div_euclid(stride), (stride - 1 + before) / stride);
            (first, (0..stride).map(|phase| (first..=last).map(|at| tap(phase, at)).collect()).collect())
        };
        let kernel = taps.first().map_or(0, Vec::len);
        let end = positions as i64 - 1 + first + ((kernel - 1) * dilation) as i64 + 1;
        let zeros = [-first, end - length as i64];
        let unread = zeros.map(|zeros| usize::try_from(-zeros).unwrap_or(0));
        let [before, after] = zeros.map(|zeros| usize::try_from(zeros).unwrap_or(0));
        let read = length.checked_sub(unread[0] + unread[1]).filter(|&read| read > 0);
        let axis = Axis { length: read.ok_or("its pads leave no input")?, kernel, stride: 1, dilation };
        let placed = axis.padded(before, after).filter(|placed| placed.positions == positions);
        Ok(Self { axis, placed: placed.ok_or("its kernel does not fit its input")?, out, unread, taps })
    }
}

/// The dimensions of the operator; a single dimension gets a second one of length 1.
fn along(attributes: &Attributes<'_>, sizes: &[usize], taps: &[usize]) -> Result<[Along; 2], String> {
    let axes = sizes.len();
    let misfit = !(1..=2).contains(&axes) || taps.len() != axes;
    fail_if(misfit, format_args!("it covers {axes} dimensions, but only 1 or 2 are supported"))?;
    fail_if(attributes.has("output_shape"), "attribute output_shape")?;
    let auto = attributes.text("auto_pad", "NOTSET")?;
    fail_if(!matches!(auto.as_str(), "NOTSET" | "VALID"), format_args!("attribute auto_pad = {auto:?}"))?;
    let list = |name: &str, usual: i64, len: usize| -> Result<Vec<usize>, String> {
        let values = attributes.ints(name)?.unwrap_or_else(|| vec![usual; len]);
        let fits = |&value: &i64| usize::try_from(value).ok().filter(|&value| value <= MAX_SIZE);
        let sizes: Option<Vec<usize>> = values.iter().map(fits).collect();
        sizes.filter(|sizes| sizes.len() == len).ok_or_else(|| format!("attribute {name} = {values:?}"))
    };
    let (strides, dilations) = (list("strides", 1, axes)?, list("dilations", 1, axes)?);
    let (pads, more) = (list("pads", 0, 2 * axes)?, list("output_padding", 0, axes)?);
    fail_if(sizes.iter().chain(taps).any(|&size| size > MAX_SIZE), "it is too large")?;
    let one = |k: usize| {
        let given = Given {
            length: sizes[k],
            taps: taps[k],
            stride: strides[k],
            dilation: dilations[k],
            pads: [pads[k], pads[k + axes]],
            more: more[k],
        };
        Along::new(given)
    };
    let single = || Along::new(Given { length: 1, taps: 1, stride: 1, dilation: 1, pads: [0; 2], more: 0 });
    Ok([one(0)?, if axes > 1 { one(1)? } else { single()? }])
}

impl Session<'_> {
    pub(super) fn conv_transpose(&mut self, inputs: &[Option<Value>]) -> Result<Value, Stop> {
        let mut x = needed(inputs, 0)?;
        let names = "auto_pad dilations group kernel_shape output_padding output_shape pads strides";
        let attributes = self.attributes(names)?;
        let weights = self.known(&needed(inputs, 1)?, "W")?;
        let (&[_, channels, ref sizes @ ..], &[seen, own, ref taps @ ..]) = (&x.shape[..], &weights.shape[..]) else {
            return Err(format!("X is {:?} and W is {:?}", x.shape, weights.shape).into());
        };
        let groups = usize::try_from(attributes.int("group", 1)?).map_err(|_| "a negative group")?;
        let misfit = groups == 0 || seen != channels || own == 0 || channels == 0 || !channels.is_multiple_of(groups);
        fail_if(misfit, format_args!("{channels} channels meet weights for {seen} in {groups} groups"))?;
        if let Some(said) = attributes.ints("kernel_shape")?
            && !said.iter().map(|&size| usize::try_from(size).ok()).eq(taps.iter().map(|&size| Some(size)))
        {
            return Err(format!("attribute kernel_shape = {said:?}, but W has {taps:?}").into());
        }
        let along = along(&attributes, sizes, taps)?;
        let time = self.frames(&x, 0)?;
        let bias = given(inputs, 2).map(|bias| self.known(&bias, "B")).transpose()?;
        let filters = own.checked_mul(groups).filter(|&filters| filters <= MAX_SIZE).ok_or("it is too large")?;
        if let Some(bias) = &bias {
            fail_if(bias.shape != [filters], format_args!("B is {:?}, but [{filters}] is needed", bias.shape))?;
        }
        let rank = x.shape.len();
        for (k, of) in along.iter().enumerate().take(rank - 2) {
            let places: Vec<Option<usize>> = (of.unread[0]..of.unread[0] + of.axis.length).map(Some).collect();
            x = x.picked(k + 2, &places, 0.0)?;
        }
        let phases = along[0].taps.len() * along[1].taps.len();
        let per_group = channels / groups;
        let size = [filters, phases, along[0].axis.kernel, along[1].axis.kernel, per_group];
        let size = size.iter().try_fold(1_usize, |size, &dim| size.checked_mul(dim));
        self.budget.take(size.ok_or("it is too large")?, size_of::<f32>()).map_err(crate::error::ImportError::from)?;
        let all: usize = taps.iter().product();
        let width = taps.get(1).copied().unwrap_or(1);
        let mut data = Vec::new();
        // Filters [group, phase, filter], taps, channels of the group.
        for group in 0..groups {
            for (rows, cols) in along[0].taps.iter().flat_map(|rows| along[1].taps.iter().map(move |cols| (rows, cols)))
            {
                for filter in 0..own {
                    for tap in rows.iter().flat_map(|&row| cols.iter().map(move |&col| Some(row? * width + col?))) {
                        data.extend((0..per_group).map(|channel| {
                            let from = ((group * per_group + channel) * own + filter) * all;
                            tap.map_or(0.0, |tap| weights.data[from + tap])
                        }));
                    }
                }
            }
        }
        let units = filters * phases;
        let bias = bias.map(|bias| {
            let each = |group: usize| std::iter::repeat_n(&bias.data[group * own..(group + 1) * own], phases);
            Tensor { shape: vec![units], data: (0..groups).flat_map(each).flatten().copied().collect() }
        });
        let kernel = along.each_ref().map(|of| (of.axis, of.placed));
        let mut layer = Layer::new(CellKind::Conv, x.len() / x.shape[0].max(1), units)
            .extent("groups", groups)
            .extent("in_channels", channels)
            .tensor("weights", Tensor { shape: vec![units, data.len() / units], data })
            .optional("bias", bias)
            .over(&kernel);
        let [high, wide] = along.each_ref().map(|of| of.placed.positions);
        let size = high.checked_mul(wide).and_then(|all| all.checked_mul(units));
        layer.output_size = size.filter(|&size| size <= MAX_SIZE).ok_or("its output is too large")?;
        let order: Vec<usize> = (usize::from(time.is_some())..rank).filter(|&k| k != 1).chain([1]).collect();
        let operand = self.operand(&x, &order, 0, time, false)?;
        let made = self.layered(Layered::plain(layer), &operand)?;
        let [tall, broad] = along.each_ref().map(|of| of.taps.len());
        let steps = x.shape[0];
        let pixels = made.value(vec![steps, high, wide, groups, tall, broad, own]);
        let pixels = pixels.transposed(&[0, 3, 6, 1, 4, 2, 5])?;
        let mut image = pixels.reshaped(vec![steps, filters, high * tall, wide * broad])?;
        for (k, of) in along.iter().enumerate() {
            image = image.picked(k + 2, &(0..of.out).map(Some).collect::<Vec<_>>(), 0.0)?;
        }
        let mut shape = image.shape.clone();
        shape.truncate(rank);
        let mut axes = vec![None; rank];
        axes[0] = x.axes[0];
        Ok(image.reshaped(shape)?.with_axes(axes))
    }
}
