//! Convolutions and poolings of every framework. Time is the height of an image whose width are the features of a step,
//! one for those of one dimension; channels are last. In a stream they look at the last steps; over the rows of a
//! window, at the whole of it, with the zeros around it.

use tidegate::cell::CellKind;

use super::description::Value;
use super::layer::Layer;
use super::network::Network;
use crate::error::ImportError;

/// How a kernel goes over time and over the features.
#[derive(Clone, Debug)]
pub(crate) struct Kernel {
    /// Taps over time and over the features.
    pub taps: [usize; 2],
    /// From one position to the next.
    pub stride: [usize; 2],
    /// From one tap to the next.
    pub dilation: [usize; 2],
    /// What is around the image.
    pub padding: Padding,
}

/// Zeros around an image, or what a pooling does not see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Padding {
    /// So many before and behind, over time and over the features.
    Given([usize; 2], [usize; 2]),
    /// As many as there are positions for every stride's first pixel; where they are odd, one more is behind.
    Same,
}

impl Padding {
    /// None.
    pub const VALID: Self = Self::Given([0, 0], [0, 0]);
}

/// Width and channels of what comes in at a step, for a kernel over so many axes.
pub(crate) fn image(x: &Value, axes: usize) -> Result<(usize, usize), ImportError> {
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
    /// One that goes nowhere: over all of `rows` rows at once.
    pub fn over_all(rows: usize) -> Self {
        Self { taps: [rows, 1], stride: [1, 1], dilation: [1, 1], padding: Padding::VALID }
    }

    /// Pixels that it covers.
    pub fn covers(&self, axis: usize) -> usize {
        self.taps[axis].saturating_sub(1).saturating_mul(self.dilation[axis]).saturating_add(1)
    }

    /// What is before and behind so many pixels.
    fn around(&self, axis: usize, size: usize) -> (usize, usize) {
        match self.padding {
            Padding::Given(before, after) => (before[axis], after[axis]),
            Padding::Same => {
                let last = size.div_ceil(self.stride[axis]).saturating_sub(1).saturating_mul(self.stride[axis]);
                let all = last.saturating_add(self.covers(axis)).saturating_sub(size);
                (all / 2, all - all / 2)
            }
        }
    }

    /// How often it fits.
    fn positions(&self, axis: usize, size: usize, (before, after): (usize, usize)) -> Result<usize, ImportError> {
        let (all, covers) = (size.saturating_add(before).saturating_add(after), self.covers(axis));
        match all.checked_sub(covers) {
            Some(rest) => Ok(rest / self.stride[axis] + 1),
            None => Err(ImportError::Unsupported(format!("a kernel over {covers} of {all}"))),
        }
    }

    /// Adds a layer that goes so; `layer` lacks the sizes of the image.
    ///
    /// # Errors
    /// If the kernel is larger than the image, or looks over the ends of a sequence of which nobody says how long it is.
    pub fn slide(
        &self,
        network: &mut Network,
        x: &Value,
        layer: Layer,
        (width, channels): (usize, usize),
    ) -> Result<Value, ImportError> {
        if [self.taps, self.stride, self.dilation].concat().contains(&0) {
            return Err(ImportError::Unsupported("a kernel, stride or dilation of 0".into()));
        }
        let (window, rows, height, (top, bottom)) = match x.source.rows() {
            Some(rows) => (x.source.clone(), Some(rows), rows, self.around(0, rows)),
            None => {
                // In a stream nothing comes before the first step or behind the last, and the last output is due at
                // the last step.
                let length = self.covers(0);
                let open = match (self.padding, x.steps) {
                    (Padding::Same, None) => length > 1,
                    (_, steps) => self.around(0, steps.unwrap_or(0)) != (0, 0),
                };
                let due =
                    x.steps.is_none_or(|steps| steps >= length && (steps - length).is_multiple_of(self.stride[0]));
                if open || !due {
                    return Err(ImportError::NeedsWindow { what: "a kernel over the ends of a sequence".into() });
                }
                let frames = (length, self.stride[0]);
                let window = if frames == (1, 1) {
                    x.source.clone().in_rows(1)
                } else {
                    network.frames(&x.source, frames.0, frames.1)
                };
                (window, None, length, (0, 0))
            }
        };
        let (left, right) = self.around(1, width);
        let out_height = self.positions(0, height, (top, bottom))?;
        let out_width = self.positions(1, width, (left, right))?;
        let units = layer.output_size;
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
            .extent("pad_top", top)
            .extent("pad_bottom", bottom)
            .extent("pad_left", left)
            .extent("pad_right", right)
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
        // In a stream that is padded nowhere, as the check above has seen.
        let steps = x.steps.map(|steps| self.positions(0, steps, (top, bottom))).transpose()?;
        let shape = if out_width == 1 && x.shape.len() == 1 { vec![units] } else { vec![out_width, units] };
        Ok(Value { source, shape, steps, pace: x.pace + usize::from(streams), ..x.clone() })
    }
}

/// What a pooling of each feature over a whole sequence gives: its `max` or its `average`.
///
/// # Errors
/// If nobody says how long the sequence is.
pub(crate) fn over_time(network: &mut Network, x: &Value, how: &'static str) -> Result<Value, ImportError> {
    let (width, channels) = image(x, 1)?;
    let Some(rows) = x.source.rows() else {
        return Err(ImportError::NeedsWindow { what: "a pooling over all steps".into() });
    };
    let layer = Layer::new(CellKind::Pool, 0, channels).option(how);
    let value = Kernel::over_all(rows).slide(network, x, layer, (width, channels))?;
    Ok(Value { source: value.source.clone().flat(), sequence: false, shape: x.shape.clone(), ..value })
}

/// The whole sequence as one vector, channels last.
///
/// # Errors
/// If nobody says how long the sequence is.
pub(crate) fn flat(network: &mut Network, x: &Value) -> Result<Value, ImportError> {
    let source = x.source.clone().flat();
    match x.source.rows() {
        Some(_) => network.only_full_windows(),
        None if x.sequence => return Err(ImportError::NeedsWindow { what: "a flattened sequence".into() }),
        None => {}
    }
    Ok(Value { shape: vec![source.size()], source, sequence: false, ..x.clone() })
}
