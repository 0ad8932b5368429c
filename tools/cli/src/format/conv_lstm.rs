//! What the ConvLSTMs of TensorFlow 1 and of Keras have in common: kernels `[taps.., channels, 4 · filters]`, and how
//! they are placed over an image `[lengths.., channels]`.

use std::ops::Range;

use tidegate::cell::CellKind;

use super::layer::Layer;
use super::weights::Named;
use crate::canonical::Tensor;
use crate::error::ImportError;

/// A kernel of four gates.
#[derive(Clone, Copy, Debug)]
pub struct Kernel<'a> {
    named: Named<'a>,
    /// Along each axis.
    pub taps: &'a [usize],
    /// That it sees.
    pub channels: usize,
    /// Of each gate.
    pub filters: usize,
}

/// Whether there are zeros around the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Padding {
    /// None: the kernel stays within the image.
    Valid,
    /// As many as let a kernel that moves by 1 have as many positions as the image has pixels; an odd one is behind.
    Same,
}

/// An axis of an image and of the kernel over it.
#[derive(Clone, Copy, Debug)]
pub struct Axis {
    /// Pixels.
    pub length: usize,
    /// Taps.
    pub kernel: usize,
    /// From one position to the next.
    pub stride: usize,
    /// From one tap to the next.
    pub dilation: usize,
}

/// Extents of the cell for one axis: length, taps, stride, dilation, zeros before and behind, positions.
const EXTENTS: [[&str; 7]; 3] = [
    ["in_depth", "kernel_depth", "stride_depth", "dilation_depth", "pad_front", "pad_back", "out_depth"],
    ["in_height", "kernel_height", "stride_height", "dilation_height", "pad_top", "pad_bottom", "out_height"],
    ["in_width", "kernel_width", "stride_width", "dilation_width", "pad_left", "pad_right", "out_width"],
];

impl<'a> Kernel<'a> {
    /// Over so many axes.
    ///
    /// # Errors
    /// If the tensor has another shape.
    pub fn read(named: Named<'a>, axes: usize) -> Result<Self, ImportError> {
        let len = named.tensor.shape.iter().try_fold(1_usize, |product, &dim| product.checked_mul(dim));
        match named.tensor.shape.split_last_chunk::<2>() {
            Some((taps, &[channels, cols]))
                if taps.len() == axes && cols % 4 == 0 && len == Some(named.tensor.data.len()) && len != Some(0) =>
            {
                Ok(Self { named, taps, channels, filters: cols / 4 })
            }
            _ => named.refuse(format!("it must have {axes} dimensions of taps, then channels, then four gates")),
        }
    }

    /// The canonical weights of some of the channels, in the kernel's own gate order.
    ///
    /// # Errors
    /// If the kernel does not see so many channels.
    pub fn weights(self, channels: Range<usize>) -> Result<Tensor, ImportError> {
        if channels.is_empty() || channels.end > self.channels {
            return self.named.refuse(format!("it must see channels {channels:?}"));
        }
        let cols = 4 * self.filters;
        let of_tap = |tap: &'a [f32]| &tap[channels.start * cols..channels.end * cols];
        let data: Vec<f32> = self.named.tensor.data.chunks(self.channels * cols).flat_map(of_tap).copied().collect();
        let rows = Tensor { shape: vec![data.len() / cols, cols], data };
        Named { tensor: &rows, ..self.named }.transposed(0, rows.shape[0])
    }
}

impl Axis {
    /// Zeros before and behind, and positions; none where the kernel does not fit.
    fn placed(self, padding: Padding) -> Option<[usize; 3]> {
        let Self { length, kernel, stride, dilation } = self;
        let reach = kernel.checked_sub(1)?.checked_mul(dilation)?.checked_add(1)?;
        match padding {
            Padding::Valid => Some([0, 0, length.checked_sub(reach)?.checked_div(stride)? + 1]),
            Padding::Same => {
                let positions = length.checked_sub(1)?.checked_div(stride)? + 1;
                let zeros = ((positions - 1) * stride).checked_add(reach)?.saturating_sub(length);
                Some([zeros / 2, zeros.div_ceil(2), positions])
            }
        }
    }
}

/// A layer without weights over an image of one axis (its height), two (height and width) or three.
///
/// # Errors
/// If there are more axes, or the kernel does not fit into the image.
pub fn layer(axes: &[Axis], channels: usize, filters: usize, padding: Padding) -> Result<Layer, ImportError> {
    let names = match axes.len() {
        1 => &EXTENTS[1..2],
        2 => &EXTENTS[1..],
        3 => &EXTENTS[..],
        other => return Err(ImportError::Unsupported(format!("a ConvLSTM over {other} axes"))),
    };
    let mut layer = Layer::new(CellKind::ConvLstm, channels, filters).extent("in_channels", channels);
    for (axis, names) in axes.iter().zip(names) {
        let Axis { length, kernel, stride, dilation } = *axis;
        let Some([before, behind, positions]) = axis.placed(padding) else {
            return Err(ImportError::Unsupported(format!(
                "a kernel of {kernel} taps, {dilation} apart, in steps of {stride}, over {length} pixels"
            )));
        };
        for (name, value) in names.iter().zip([length, kernel, stride, dilation, before, behind, positions]) {
            layer = layer.extent(name, value);
        }
        layer.input_size *= length;
        layer.output_size *= positions;
    }
    Ok(layer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_odd_zero_is_behind() {
        let placed = |[length, kernel, stride, dilation]: [usize; 4], padding| {
            Axis { length, kernel, stride, dilation }.placed(padding)
        };
        assert_eq!(placed([8, 3, 1, 1], Padding::Valid), Some([0, 0, 6]));
        assert_eq!(placed([8, 3, 2, 1], Padding::Valid), Some([0, 0, 3]));
        assert_eq!(placed([11, 3, 1, 2], Padding::Valid), Some([0, 0, 7]));
        assert_eq!(placed([8, 4, 1, 1], Padding::Same), Some([1, 2, 8]));
        assert_eq!(placed([8, 4, 2, 1], Padding::Same), Some([1, 1, 4]));
        assert_eq!(placed([5, 1, 3, 1], Padding::Same), Some([0, 0, 2]));
        assert_eq!(placed([7, 3, 1, 3], Padding::Same), Some([3, 3, 7]));
        assert_eq!(placed([2, 3, 1, 1], Padding::Valid), None);
        assert_eq!(placed([2, 3, 0, 1], Padding::Same), None);
    }

    #[test]
    fn weights_have_the_gates_as_rows_and_the_taps_as_columns() {
        // Two taps, three channels, one filter: tap, channel and gate are the digits.
        let digits = |k: usize| (100 * (k / 12) + 10 * (k / 4 % 3) + k % 4) as f32;
        let tensor = Tensor { shape: vec![2, 3, 4], data: (0..24).map(digits).collect() };
        let kernel = Kernel::read(Named { name: "kernel", tensor: &tensor }, 1).unwrap();
        assert_eq!((kernel.channels, kernel.filters), (3, 1));
        let weights = kernel.weights(1..3).unwrap();
        assert_eq!(weights.shape, [4, 4]);
        assert_eq!(weights.data[..8], [10.0, 20.0, 110.0, 120.0, 11.0, 21.0, 111.0, 121.0]);
        assert!(kernel.weights(1..4).is_err() && kernel.weights(1..1).is_err());
        assert!(Kernel::read(Named { name: "kernel", tensor: &tensor }, 2).is_err());
    }
}
