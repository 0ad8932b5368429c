//! A kernel that goes over an image: what the convolutions and poolings of frameworks have in common. Time is the height
//! of an image whose width are the features of a step, one for those of one dimension; channels are last. In a stream it
//! looks at the last steps; over the rows of a window, at the whole of it, with the zeros around it. Within a step there
//! is no time: the image is all there.

use tidegate::cell::CellKind;

use super::description::Value;
use super::layer::Layer;
use super::network::Network;
use crate::error::ImportError;

/// How a kernel goes over height and width.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kernel {
    pub taps: [usize; 2],
    pub stride: [usize; 2],
    pub dilation: [usize; 2],
    /// Zeros before the image.
    pub before: [usize; 2],
    /// Zeros behind it.
    pub after: [usize; 2],
}

/// Width and channels of what comes in at a step, where time is an axis of the image.
pub(crate) fn over_time(x: &Value, axes: usize) -> Result<(usize, usize), ImportError> {
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
    /// That stays where it is, without zeros.
    pub fn of(taps: [usize; 2]) -> Self {
        Self { taps, stride: [1, 1], dilation: [1, 1], before: [0, 0], after: [0, 0] }
    }

    /// Refuses what never moves, or sees nothing.
    pub fn checked(self) -> Result<Self, ImportError> {
        if [self.taps, self.stride, self.dilation].concat().contains(&0) {
            return Err(ImportError::Unsupported("a kernel, stride or dilation of 0".into()));
        }
        Ok(self)
    }

    /// The same with as many zeros as let it be at every stride of an image of these sizes, half of them before it; one
    /// that is not known may have as many as that takes at most.
    pub fn same(self, sizes: [Option<usize>; 2]) -> Self {
        let mut kernel = self;
        for (axis, size) in sizes.into_iter().enumerate() {
            let covers = kernel.covers(axis);
            let zeros = match size {
                Some(size) => {
                    let stride = kernel.stride[axis];
                    let last = (size.saturating_sub(1) / stride.max(1)).saturating_mul(stride);
                    last.saturating_add(covers).saturating_sub(size)
                }
                None => covers - 1,
            };
            kernel.before[axis] = zeros / 2;
            kernel.after[axis] = zeros - zeros / 2;
        }
        kernel
    }

    /// Pixels that it covers.
    pub fn covers(&self, axis: usize) -> usize {
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

    /// Adds a layer that goes so over time and the features of a step; `layer` lacks the sizes of the image.
    pub fn slide(
        &self,
        network: &mut Network,
        x: &Value,
        layer: Layer,
        (width, channels): (usize, usize),
    ) -> Result<Value, ImportError> {
        let [before, after] = [self.before[0], self.after[0]];
        let (window, rows, height, padded) = match x.source.rows() {
            Some(rows) => (x.source.clone(), Some(rows), rows, true),
            None => {
                // In a stream nothing comes behind the last step, and the last output is due at the last step. Zeros
                // before the first may be there from the start.
                let length = self.covers(0);
                let last = |steps: usize| steps.saturating_add(before).checked_sub(length);
                let due = x.steps.is_none_or(|steps| last(steps).is_some_and(|at| at.is_multiple_of(self.stride[0])));
                if after > 0 || before >= length || !due {
                    return Err(ImportError::NeedsWindow { what: "a kernel over the ends of a sequence".into() });
                }
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
        // It gives at every step if it moves by one, from the first step on.
        let slower = rows.is_none() && (self.stride[0] > 1 || before + 1 < self.covers(0));
        let steps = x.steps.map(|steps| self.positions(0, steps, true)).transpose()?;
        let shape = if out_width == 1 && x.shape.len() == 1 { vec![units] } else { vec![out_width, units] };
        Ok(Value { source, shape, steps, pace: x.pace + usize::from(slower), ..x.clone() })
    }

    /// Adds a layer that goes so over the image that each step is: `[height, width, channels]`.
    pub fn within(
        &self,
        network: &mut Network,
        x: &Value,
        layer: Layer,
        image: [usize; 3],
    ) -> Result<Value, ImportError> {
        let out = [self.positions(0, image[0], true)?, self.positions(1, image[1], true)?];
        let units = layer.hidden_size;
        let layer = self.placed(layer, image, out, true)?;
        let source = network.add(layer, &[&x.source]);
        let shape = if x.shape.len() < 3 { vec![out[0], units] } else { vec![out[0], out[1], units] };
        Ok(Value { source, shape, ..x.clone() })
    }

    fn placed(
        &self,
        layer: Layer,
        [height, width, channels]: [usize; 3],
        [out_height, out_width]: [usize; 2],
        padded: bool,
    ) -> Result<Layer, ImportError> {
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
        Ok(layer)
    }
}

/// The whole sequence as one vector, channels last.
pub(crate) fn flat(network: &mut Network, x: &Value) -> Result<Value, ImportError> {
    let source = x.source.clone().flat();
    match x.source.rows() {
        Some(_) => network.only_full_windows(),
        None if x.sequence => return Err(ImportError::NeedsWindow { what: "a flattened sequence".into() }),
        None => {}
    }
    Ok(Value { shape: vec![source.size()], source, sequence: false, ..x.clone() })
}

/// One number of each channel for a whole sequence: `how` is the pooling's option.
pub(crate) fn pool_over_time(
    network: &mut Network,
    x: &Value,
    axes: usize,
    how: &'static str,
) -> Result<Value, ImportError> {
    let (width, channels) = over_time(x, axes)?;
    let Some(rows) = x.source.rows() else {
        return Err(ImportError::NeedsWindow { what: "a pooling over all steps".into() });
    };
    let layer = Layer::new(CellKind::Pool, 0, channels).option(how);
    let value = Kernel::of([rows, width]).slide(network, x, layer, (width, channels))?;
    Ok(Value { source: value.source.clone().flat(), shape: vec![channels], sequence: false, ..value })
}
