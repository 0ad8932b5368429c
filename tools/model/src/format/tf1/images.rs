//! Convolutions and pooling, over images or along time.

use super::evaluate::{Evaluator, Outputs, Value};
use super::symbol::{Dim, Expr, Id, Kernel, Over, Padding, fail_if, is_symbol};

impl Evaluator<'_> {
    pub(super) fn kernel(&self, node: usize) -> Result<([usize; 2], [usize; 2], Padding), String> {
        self.graph.channels_last(node)?;
        let strides = self.graph.sizes(node, "strides")?.ok_or("it has no strides")?;
        let dilations = self.graph.sizes(node, "dilations")?.unwrap_or([1, 1]);
        match self.graph.text(node, "padding", "")? {
            "VALID" => Ok((strides, dilations, Padding::NONE)),
            "SAME" => Ok((strides, dilations, Padding::Same)),
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
            let positions = match kernel.padding {
                Padding::Same => size.div_ceil(kernel.strides[axis]),
                Padding::Of(zeros) => {
                    let size = size.saturating_add(zeros[axis].iter().sum());
                    fail_if(
                        zeros[axis].iter().any(|&zeros| zeros >= reach),
                        "it is padded by more than its kernel reaches",
                    )?;
                    fail_if(size < reach, "its kernel is larger than its image")?;
                    (size - reach) / kernel.strides[axis] + 1
                }
            };
            Ok(positions as Dim)
        };
        let shape = vec![batch, positions(height, 0)?, positions(width, 1)?, channels];
        Ok(vec![Value::Real(self.arena.make(Expr::Kernel(x, kernel, over), shape)?)])
    }

    /// A convolution, or one of each channel on its own. `zeros` and `dilations` are those that the ops before it give its
    /// input; the op itself must then have neither.
    pub(super) fn conv(&mut self, node: usize, x: Id, weights: Id, zeros: Padding, dilations: [usize; 2]) -> Outputs {
        let (strides, own_dilations, own_padding) = self.kernel(node)?;
        let is_plain = zeros == Padding::NONE && dilations == [1, 1];
        fail_if(
            !is_plain && own_padding != Padding::NONE,
            "its input is padded already, so its padding must be VALID",
        )?;
        let is_split = dilations != [1, 1];
        fail_if(is_split && own_dilations != [1, 1], "its input is split already, so its dilations must be 1")?;
        fail_if(is_split && strides != [1, 1], "its input is split, so its strides must be 1")?;
        let padding = if is_plain { own_padding } else { zeros };
        let dilations = if is_split { dilations } else { own_dilations };
        let weights = self.arena.tensor(weights)?;
        let [height, width, channels, filters] = *self.arena.tensors[weights].shape else {
            return Err("its weights must be [height, width, channels, filters]".into());
        };
        let (width_of_x, empty) = (self.arena.width(x), [height, width, channels, filters].contains(&0));
        let what = format_args!("its weights see {channels} channels of {width_of_x}");
        fail_if(empty || channels != width_of_x, what)?;
        let kernel = Kernel { taps: [height, width], strides, dilations, padding };
        if self.graph.nodes[node].def.op == "Conv2D" {
            self.over(x, kernel, Over::Conv { weights }, filters as Dim)
        } else {
            self.over(x, kernel, Over::Depthwise { weights }, channels.saturating_mul(filters) as Dim)
        }
    }

    pub(super) fn pool(&mut self, node: usize, x: Id, over: Over) -> Outputs {
        let (strides, dilations, padding) = self.kernel(node)?;
        let taps = self.graph.sizes(node, "ksize")?.ok_or("it has no ksize")?;
        let channels = self.arena.width(x) as Dim;
        self.over(x, Kernel { taps, strides, dilations, padding }, over, channels)
    }
}
