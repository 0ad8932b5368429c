//! Kernels over an image: the common part of the frameworks' convolutions and poolings. Time is the height of the image
//! and the features of a step are its width, which is one for one-dimensional layers; channels are last. In a stream
//! the kernel covers the last steps; over the rows of a window it covers the whole window, with zero padding. Within a
//! step there is no time axis: the whole image is available.

use tidegate::internals::cell::CellKind;

use super::axis::{Axis, Placed};
use super::{layer::Layer, network::Network, refuse::needs_window_if, refuse::unsupported_if, signal::Signal};
use crate::error::{ImportError, Result};

/// Placement of a kernel over height and width.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kernel {
    pub taps: [usize; 2],
    pub stride: [usize; 2],
    pub dilation: [usize; 2],
    pub before: [usize; 2],
    pub after: [usize; 2],
}

/// Width and channels of the input at a step, if time is an axis of the image.
pub(crate) fn over_time(x: &Signal, axes: usize) -> Result<(usize, usize)> {
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
    /// A kernel with stride 1 and without zeros.
    pub fn of(taps: [usize; 2]) -> Self {
        Self { taps, stride: [1, 1], dilation: [1, 1], before: [0, 0], after: [0, 0] }
    }

    /// Rejects a kernel with a stride of 0 or without taps.
    pub fn checked(self) -> Result<Self> {
        let empty = [self.taps, self.stride, self.dilation].concat().contains(&0);
        unsupported_if(empty, "a kernel, stride or dilation of 0")?;
        Ok(self)
    }

    /// The same kernel with zeros for `same` padding over an image of these sizes, half of them before it. For an
    /// unknown size, the greatest possible number of zeros is assumed.
    pub fn same(self, sizes: [Option<usize>; 2]) -> Self {
        let mut kernel = self;
        for (axis, size) in sizes.into_iter().enumerate() {
            let zeros = kernel.covers(axis) - 1;
            let placed = size.and_then(|size| kernel.axis(axis, size).same());
            (kernel.before[axis], kernel.after[axis]) =
                placed.map_or((zeros / 2, zeros.div_ceil(2)), |placed| (placed.before, placed.after));
        }
        kernel
    }

    fn axis(&self, axis: usize, length: usize) -> Axis {
        Axis { length, kernel: self.taps[axis], stride: self.stride[axis], dilation: self.dilation[axis] }
    }

    pub fn covers(&self, axis: usize) -> usize {
        self.taps[axis].saturating_sub(1).saturating_mul(self.dilation[axis]).saturating_add(1)
    }

    fn positions(&self, axis: usize, size: usize, padded: bool) -> Result<usize> {
        let padding = if padded { self.before[axis].saturating_add(self.after[axis]) } else { 0 };
        let (all, covers) = (size.saturating_add(padding), self.covers(axis));
        unsupported_if(covers > all, format_args!("a kernel over {covers} of {all}"))?;
        Ok((all - covers) / self.stride[axis] + 1)
    }

    /// Adds a layer with this kernel over time and the features of a step; `layer` lacks the sizes of the image.
    pub fn slide(&self, network: &mut Network, x: &Signal, layer: Layer, image: (usize, usize)) -> Result<Signal> {
        let (width, channels) = image;
        let [before, after] = [self.before[0], self.after[0]];
        let (window, rows, height, padded) = match x.source.rows() {
            Some(rows) => (x.source.clone(), Some(rows), rows, true),
            None => {
                // In a stream no zeros can follow the last step, since the last output is due there. Zeros before the
                // first step may be present from the start.
                let length = self.covers(0);
                let last = |steps: usize| steps.saturating_add(before).checked_sub(length);
                let due = x.steps.is_none_or(|steps| last(steps).is_some_and(|at| at.is_multiple_of(self.stride[0])));
                needs_window_if(after > 0 || before >= length || !due, "a kernel over the ends of a sequence")?;
                let frames = (length, self.stride[0]);
                let window = if frames == (1, 1) {
                    x.source.clone().in_rows(1)
                } else {
                    network.frames(&x.source, frames.0, frames.1, before)
                };
                (window, None, length, false)
            }
        };
        let (out_height, out_width) = (self.positions(0, height, padded)?, self.positions(1, width, true)?);
        let units = layer.hidden_size;
        let layer = self.placed(layer, [height, width, channels], [out_height, out_width], padded)?;
        let source = network.whole(layer, &window, rows.map(|_| out_height));
        // With stride 1, it has an output at every step from the first on.
        let slower = rows.is_none() && (self.stride[0] > 1 || before + 1 < self.covers(0));
        let steps = x.steps.map(|steps| self.positions(0, steps, true)).transpose()?;
        let shape = if out_width == 1 && x.shape.len() == 1 { vec![units] } else { vec![out_width, units] };
        Ok(Signal { source, shape, steps, pace: x.pace + usize::from(slower), ..x.clone() })
    }

    /// Adds a layer with this kernel over the image of each step: `[height, width, channels]`.
    pub fn within(&self, network: &mut Network, x: &Signal, layer: Layer, image: [usize; 3]) -> Result<Signal> {
        let out = [self.positions(0, image[0], true)?, self.positions(1, image[1], true)?];
        let units = layer.hidden_size;
        let layer = self.placed(layer, image, out, true)?;
        let source = network.add(layer, &[&x.source]);
        let shape = if x.shape.len() < 3 { vec![out[0], units] } else { vec![out[0], out[1], units] };
        Ok(Signal { source, shape, ..x.clone() })
    }

    pub fn placed(&self, layer: Layer, image: [usize; 3], out: [usize; 2], padded: bool) -> Result<Layer> {
        let [height, width, channels] = image;
        let units = layer.hidden_size;
        let zeros = |axis: usize| if padded || axis > 0 { [self.before[axis], self.after[axis]] } else { [0, 0] };
        let axis = |axis: usize| {
            let [before, after] = zeros(axis);
            (self.axis(axis, image[axis]), Placed { before, after, positions: out[axis] })
        };
        let mut layer = layer.extent("in_channels", channels).over(&[axis(0), axis(1)]);
        let size = |parts: [usize; 3]| {
            let product = parts.iter().try_fold(1_usize, |product, &part| product.checked_mul(part));
            product.ok_or_else(|| ImportError::Unsupported("an image as large as this".into()))
        };
        layer.input_size = size([height, width, channels])?;
        layer.output_size = size([out[0], out[1], units])?;
        Ok(layer)
    }
}

/// The whole sequence as one vector, channels last.
pub(crate) fn flat(network: &mut Network, x: &Signal) -> Result<Signal> {
    let source = x.source.clone().flat();
    match x.source.rows() {
        Some(_) => network.only_full_windows(),
        None if x.sequence => return Err(ImportError::NeedsWindow { what: "a flattened sequence".into() }),
        None => {}
    }
    Ok(Signal { shape: vec![source.size()], source, sequence: false, ..x.clone() })
}

/// One number for each channel over a whole sequence: `how` is the pooling's option.
pub(crate) fn pool_over_time(network: &mut Network, x: &Signal, axes: usize, how: &'static str) -> Result<Signal> {
    let (width, channels) = over_time(x, axes)?;
    let rows = x.source.rows().ok_or_else(|| ImportError::NeedsWindow { what: "a pooling over all steps".into() })?;
    let layer = Layer::new(CellKind::Pool, 0, channels).option(how);
    let value = Kernel::of([rows, width]).slide(network, x, layer, (width, channels))?;
    Ok(Signal { source: value.source.clone().flat(), shape: vec![channels], sequence: false, ..value })
}
