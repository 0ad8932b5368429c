//! Convolutions and pooling over time: frame by frame with a window under the kernel, or over all frames of one window.

use tidegate::internals::{activation::Activation, cell::CellKind};

use super::symbol::{Dim, Id, Kernel, Over};
use super::{along::Along, along::time_axis, lower::Lowered, lower::Lowering};
use crate::canonical::{MAX_SIZE, Tensor};
use crate::format::{layer::Layer, picture, weights::Named};

impl Lowering<'_, '_> {
    /// The layer of a kernel over `x`. A convolution can have a factor and a shift for each filter.
    pub(super) fn kernel(
        &mut self,
        id: Id,
        (x, kernel, over): (Id, Kernel, Over),
        scale: Option<(Id, Id)>,
        activation: Activation,
        needed: Option<usize>,
    ) -> Lowered {
        let from = self.graph.arena.shape(x).to_vec();
        let to = self.graph.arena.shape(id).to_vec();
        let Some(axis) = time_axis(&self.graph.arena, x) else { return self.fail(id, "it must go over steps") };
        // A convolution over one axis is an image of height 1, with its steps along the width.
        let (height, width) = if axis == 1 { (0, Some(1)) } else { (1, None) };
        let size = |shape: &[Dim], axis: usize| usize::try_from(shape[axis]).unwrap_or(0);
        let channels = size(&from, 3);
        let tall = Along::new(size(&from, 1 + height), size(&to, 1 + height), &kernel, height);
        let wide = width.map(|axis| Along::new(size(&from, 1 + axis), size(&to, 1 + axis), &kernel, axis));
        let wide = wide.unwrap_or(Along { input: 1, taps: 1, stride: 1, dilation: 1, before: 0, behind: 0, output: 1 });
        if width.is_none() && kernel.taps[0] != 1 {
            return self.fail(id, "its kernel is higher than its image");
        }

        let out = needed.unwrap_or(tall.output).min(tall.output).max(1);
        let used = ((out - 1) * tall.stride + tall.reach()).saturating_sub(tall.before).min(tall.input);
        let source = self.lower(x, Some(if self.windowed { tall.input } else { used }))?;
        let along =
            if self.windowed { tall } else { Along { input: tall.reach(), output: 1, before: 0, behind: 0, ..tall } };
        // Rows of the weights as a matrix with a column for each filter.
        let rows =
            |weights: usize, axes: usize| self.graph.arena.tensors[weights].shape[..axes].iter().product::<usize>();
        let (kind, rows, filters) = match over {
            Over::Conv { weights } => (CellKind::Conv, rows(weights, 3), self.graph.arena.tensors[weights].shape[3]),
            Over::Depthwise { weights } => {
                let multiplier = self.graph.arena.tensors[weights].shape[3];
                (CellKind::DepthwiseConv, rows(weights, 2), channels * multiplier)
            }
            Over::Max | Over::Average => (CellKind::Pool, 0, channels),
        };
        let placed = picture::Kernel {
            taps: [along.taps, wide.taps],
            stride: [along.stride, wide.stride],
            dilation: [along.dilation, wide.dilation],
            before: [along.before, wide.before],
            after: [along.behind, wide.behind],
        };
        let (image, outputs) = ([along.input, wide.input, channels], [along.output, wide.output]);
        let mut layer = placed.placed(Layer::new(kind, 0, filters), image, outputs, true)?;
        if [layer.input_size, layer.output_size].iter().any(|size| *size > MAX_SIZE) {
            return self.fail(id, "its image is too large");
        }
        match over {
            Over::Conv { weights } | Over::Depthwise { weights } => {
                let arena = &self.graph.arena;
                let Tensor { shape, data } = &arena.tensors[weights];
                if kind == CellKind::DepthwiseConv {
                    layer = layer.extent("multiplier", shape[3]);
                }
                let mut matrix = Tensor { shape: vec![rows, filters], data: data.clone() };
                if let Some((gain, _)) = scale {
                    for row in matrix.data.chunks_mut(filters) {
                        row.iter_mut().zip(arena.vector(gain)).for_each(|(value, gain)| *value *= gain);
                    }
                }
                let matrix = Named { name: "the kernel of a convolution", tensor: &matrix };
                layer = layer.tensor("weights", matrix.transposed(0, rows)?).activation("activation", activation);
                layer = layer.optional("bias", scale.map(|(_, shift)| arena.constant_vector(shift)));
            }
            Over::Max => layer = layer.option("max"),
            Over::Average => layer = layer.option("average"),
        }
        if self.windowed {
            self.check(&layer)?;
            return Ok(self.network.whole(layer, &source, Some(tall.output)));
        }
        if tall.reach() == 1 && tall.stride == 1 && tall.before == 0 {
            return self.add(layer, &[&source]);
        }
        let window = Layer::new(CellKind::Window, source.size(), source.size() * tall.reach())
            .extent("length", tall.reach())
            .extent("hop", tall.stride)
            .extent("prefill", tall.before);
        let window = self.add(window, &[&source])?;
        self.add(layer, &[&window])
    }
}
