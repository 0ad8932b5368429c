//! ConvLSTMs of TensorFlow 1 and Keras: kernels `[taps.., channels, 4 · filters]`, and their placement over an image
//! `[lengths.., channels]`.

use std::ops::Range;

use tidegate::internals::cell::CellKind;

pub use super::axis::Axis;
use super::{layer::Layer, refuse::unsupported_if, weights::Named};
use crate::{canonical::Tensor, error::ImportError, error::Result};

/// A kernel of four gates.
#[derive(Clone, Copy, Debug)]
pub struct Kernel<'a> {
    named: Named<'a>,
    pub taps: &'a [usize],
    pub channels: usize,
    /// Number of filters of each gate.
    pub filters: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Padding {
    /// No padding: the kernel stays within the image.
    Valid,
    /// The padding for which a kernel with stride 1 has one position for each pixel; an odd zero is at the end.
    Same,
}

impl<'a> Kernel<'a> {
    /// Reads a kernel over `axes` axes.
    pub fn read(named: Named<'a>, axes: usize) -> Result<Self> {
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

    /// The canonical weights of a range of channels, in the kernel's own gate order.
    pub fn weights(self, channels: Range<usize>) -> Result<Tensor> {
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

/// A layer without weights over an image with one axis (height), two (height and width) or three.
pub fn layer(axes: &[Axis], channels: usize, filters: usize, padding: Padding) -> Result<Layer> {
    unsupported_if(!(1..=3).contains(&axes.len()), format_args!("a ConvLSTM over {} axes", axes.len()))?;
    let placed = |&axis: &Axis| {
        let placed = if padding == Padding::Same { axis.same() } else { axis.padded(0, 0) };
        let Axis { length, kernel, stride, dilation } = axis;
        let of = || format!("a kernel of {kernel} taps, {dilation} apart, in steps of {stride}, over {length} pixels");
        Ok((axis, placed.ok_or_else(|| ImportError::Unsupported(of()))?))
    };
    let placed = axes.iter().map(placed).collect::<Result<Vec<_>>>()?;
    let layer = Layer::new(CellKind::ConvLstm, channels, filters).extent("in_channels", channels).over(&placed);
    let pixels: usize = axes.iter().map(|axis| axis.length).product();
    let positions: usize = placed.iter().map(|(_, placed)| placed.positions).product();
    Ok(Layer { input_size: layer.input_size * pixels, output_size: layer.output_size * positions, ..layer })
}

#[cfg(test)]
mod tests {
    use super::*;

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
