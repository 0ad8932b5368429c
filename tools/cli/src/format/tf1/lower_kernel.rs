//! Convolutions and pools over time: frame by frame with a window under the kernel, or over all frames of one window.

use tidegate::activation::Activation;
use tidegate::cell::CellKind;

use super::lower::Lowering;
use super::symbol::{Arena, Dim, Expr, Id, Kernel, Over};
use crate::canonical::{MAX_SIZE, Tensor};
use crate::error::ImportError;
use crate::format::layer::Layer;
use crate::format::network::Source;
use crate::format::weights::Named;

impl Lowering<'_, '_> {
    #[expect(clippy::too_many_arguments, reason = "a convolution takes what stands behind it in")]
    pub(super) fn kernel(
        &mut self,
        id: Id,
        x: Id,
        kernel: Kernel,
        over: Over,
        scale: Option<(Id, Id)>,
        activation: Activation,
        needed: Option<usize>,
        depth: usize,
    ) -> Result<Source, ImportError> {
        let from = self.graph.arena.shape(x).to_vec();
        let to = self.graph.arena.shape(id).to_vec();
        let Some(axis) = time_axis(&self.graph.arena, x) else { return self.fail(id, "it must go over steps") };
        // A convolution over one axis has its steps along the width of an image of height 1.
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
        let source = self.lower(x, Some(if self.windowed { tall.input } else { used }), depth)?;
        let along =
            if self.windowed { tall } else { Along { input: tall.reach(), output: 1, before: 0, behind: 0, ..tall } };
        let filters = match over {
            Over::Conv { weights } => self.graph.arena.tensors[weights].shape[3],
            Over::Max | Over::Average => channels,
        };
        let kind = if matches!(over, Over::Conv { .. }) { CellKind::Conv } else { CellKind::Pool };
        let mut layer = Layer::new(kind, along.input * wide.input * channels, filters)
            .extent("in_height", along.input)
            .extent("in_width", wide.input)
            .extent("in_channels", channels)
            .extent("kernel_height", along.taps)
            .extent("kernel_width", wide.taps)
            .extent("stride_height", along.stride)
            .extent("stride_width", wide.stride)
            .extent("dilation_height", along.dilation)
            .extent("dilation_width", wide.dilation)
            .extent("pad_top", along.before)
            .extent("pad_bottom", along.behind)
            .extent("pad_left", wide.before)
            .extent("pad_right", wide.behind)
            .extent("out_height", along.output)
            .extent("out_width", wide.output);
        layer.output_size = along.output * wide.output * filters;
        if [layer.input_size, layer.output_size].iter().any(|size| *size > MAX_SIZE) {
            return self.fail(id, "its image is too large");
        }
        match over {
            Over::Conv { weights } => {
                let arena = &self.graph.arena;
                let Tensor { shape, data } = &arena.tensors[weights];
                let rows = shape[0] * shape[1] * shape[2];
                let mut matrix = Tensor { shape: vec![rows, filters], data: data.clone() };
                if let Some((gain, _)) = scale {
                    for row in matrix.data.chunks_mut(filters) {
                        for (value, gain) in row.iter_mut().zip(arena.vector(gain)) {
                            *value *= gain;
                        }
                    }
                }
                let matrix = Named { name: "the kernel of a convolution", tensor: &matrix };
                layer = layer.tensor("weights", matrix.transposed(0, rows)?).activation("activation", activation);
                if let Some((_, shift)) = scale {
                    layer = layer.tensor("bias", Tensor { shape: vec![filters], data: arena.vector(shift).to_vec() });
                }
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

/// An axis of an image and of the kernel over it.
#[derive(Clone, Copy)]
pub(super) struct Along {
    input: usize,
    taps: usize,
    stride: usize,
    dilation: usize,
    pub before: usize,
    pub behind: usize,
    output: usize,
}

impl Along {
    pub fn new(input: usize, output: usize, kernel: &Kernel, axis: usize) -> Self {
        let [taps, stride, dilation] = [kernel.taps[axis], kernel.strides[axis], kernel.dilations[axis]];
        let reach = (taps - 1) * dilation + 1;
        // TensorFlow's SAME: what is missing, the smaller half in front (tensorflow/core/framework/common_shape_fns.cc).
        let missing = match kernel.same {
            true => ((output.max(1) - 1) * stride + reach).saturating_sub(input),
            false => 0,
        };
        Self { input, taps, stride, dilation, before: missing / 2, behind: missing - missing / 2, output }
    }

    fn reach(&self) -> usize {
        (self.taps - 1) * self.dilation + 1
    }
}

/// The dimension that is the time: behind the batch, but for a sequence that was made an image of height 1.
pub(super) fn time_axis(arena: &Arena, id: Id) -> Option<usize> {
    let mut id = id;
    if !matches!(arena.shape(id).len(), 3 | 4) {
        return None;
    }
    // Every turn goes to an operand, which was made earlier.
    while arena.shape(id).len() == 4 {
        match (arena.expr(id), arena.operands(id).first()) {
            (Expr::Reshape(_), Some(&inner)) if arena.shape(inner).len() == 3 => {
                let (image, sequence) = (arena.shape(id), arena.shape(inner));
                return Some(if image[1] == 1 && image[2..] == sequence[1..] { 2 } else { 1 });
            }
            (Expr::Reshape(_), _) | (_, None) => return Some(1),
            (_, Some(&operand)) => id = operand,
        }
    }
    Some(1)
}
