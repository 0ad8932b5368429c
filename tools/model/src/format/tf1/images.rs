//! Convolutions and pooling, over images or along time.

use super::evaluate::{Evaluator, Outputs, Value};
use super::symbol::{Dim, Expr, Id, Kernel, Over, fail_if, is_symbol};

impl Evaluator<'_> {
    pub(super) fn kernel(&self, node: usize) -> Result<([usize; 2], [usize; 2], bool), String> {
        self.graph.channels_last(node)?;
        let strides = self.graph.sizes(node, "strides")?.ok_or("it has no strides")?;
        let dilations = self.graph.sizes(node, "dilations")?.unwrap_or([1, 1]);
        match self.graph.text(node, "padding", "")? {
            "VALID" => Ok((strides, dilations, false)),
            "SAME" => Ok((strides, dilations, true)),
            other => Err(format!("its padding is {other:.20?}, but must be VALID or SAME")),
        }
    }

    pub(super) fn over(&mut self, x: Id, kernel: Kernel, over: Over, channels: Dim) -> Outputs {
        let &[batch, height, width, _] = self.arena.shape(x) else {
            return Err("it must go over [batch, height, width, channels]".into());
        };
        let positions = |size: Dim, axis: usize| {
            if is_symbol(size) {
                return Err("the size of its image must be known".to_owned());
            }
            let reach = (kernel.taps[axis] - 1) * kernel.dilations[axis] + 1;
            let size = size as usize;
            let positions = match kernel.same {
                true => size.div_ceil(kernel.strides[axis]),
                false if size >= reach => (size - reach) / kernel.strides[axis] + 1,
                false => return Err("its kernel is larger than its image".into()),
            };
            Ok(positions as Dim)
        };
        let shape = vec![batch, positions(height, 0)?, positions(width, 1)?, channels];
        Ok(vec![Value::Real(self.arena.make(Expr::Kernel(x, kernel, over), shape)?)])
    }

    /// A convolution, or one of each channel on its own.
    pub(super) fn conv(&mut self, node: usize, x: Id, weights: Id, depthwise: bool) -> Outputs {
        let (strides, dilations, same) = self.kernel(node)?;
        let weights = self.arena.tensor(weights)?;
        let [height, width, channels, filters] = *self.arena.tensors[weights].shape else {
            return Err("its weights must be [height, width, channels, filters]".into());
        };
        let (width_of_x, empty) = (self.arena.width(x), [height, width, channels, filters].contains(&0));
        let what = format_args!("its weights see {channels} channels of {width_of_x}");
        fail_if(empty || channels != width_of_x, what)?;
        let kernel = Kernel { taps: [height, width], strides, dilations, same };
        match depthwise {
            false => self.over(x, kernel, Over::Conv { weights }, filters as Dim),
            true => self.over(x, kernel, Over::Depthwise { weights }, channels.saturating_mul(filters) as Dim),
        }
    }

    pub(super) fn pool(&mut self, node: usize, x: Id, over: Over) -> Outputs {
        let (strides, dilations, same) = self.kernel(node)?;
        let taps = self.graph.sizes(node, "ksize")?.ok_or("it has no ksize")?;
        let channels = self.arena.width(x) as Dim;
        self.over(x, Kernel { taps, strides, dilations, same }, over, channels)
    }
}
