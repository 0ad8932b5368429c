//! `CONV_2D` and `DEPTHWISE_CONV_2D`.

use tidegate::internals::cell::CellKind;

use super::lower::{Along, Blocked, Reader, Refused, Trouble, Value};
use super::rows::{Filters, Precision, Rows};
use super::schema::Operator;
use crate::canonical::Tensor;
use crate::format::{axis::Around, axis::Axis, layer::Layer, refuse::fail_if};

/// The value `SAME` of the schema's `Padding`.
pub const SAME: i8 = 0;
/// A convolution along time and channels, or along time alone.
const DEPTHWISE: &str = "DEPTHWISE_CONV_2D";

/// Whether an operator is a convolution.
pub fn is_conv(op: &str) -> bool {
    matches!(op, "CONV_2D" | DEPTHWISE)
}

impl Reader<'_> {
    pub(super) fn conv(&mut self, operator: &Operator<'_>) -> Refused {
        let x = self.value(operator, 0)?;
        let x = self.flat(x);
        let &[1, height, width, channels] = x.shape.as_slice() else {
            return Err(format!("its input is {:?}, not [1, height, width, channels]", x.shape).into());
        };
        let depthwise = operator.op == DEPTHWISE;
        let filters = if depthwise { Filters::Last } else { Filters::First };
        let rows = self.rows(operator, x.counts, Precision::OfProducts, filters)?;
        let Rows { shape: weights_shape, weights: data, bias, activation, integers } = rows;
        let &[filters, kernel_height, kernel_width, seen] = weights_shape.as_slice() else {
            return Err(format!("its weights are {weights_shape:?}").into());
        };
        let fits = if depthwise {
            filters.is_multiple_of(channels)
        } else {
            seen > 0 && channels.is_multiple_of(seen) && filters.is_multiple_of(channels / seen)
        };
        fail_if(!fits, format_args!("its weights are {weights_shape:?} for {channels} channels"))?;
        let padding = operator.option("padding", SAME)?;
        fail_if(!(0..=1).contains(&padding), format_args!("attribute padding is {padding}"))?;
        let number = |name: &str| -> Result<usize, Trouble> {
            let value = operator.option(name, 1_i32)?;
            match usize::try_from(value) {
                Ok(value) if value > 0 => Ok(value),
                _ => Err(format!("attribute {name} is {value}").into()),
            }
        };
        let stride_width = number("stride_w")?;
        let stride_height = number("stride_h")?;
        let mut dilation_width = number("dilation_w_factor")?;
        let mut dilation_height = number("dilation_h_factor")?;
        let mut around = self.port(operator, 0).and_then(|input| self.padded.get(&input)).copied().unwrap_or_default();
        let blocked = self.blocked(operator);
        if let Some(of) = &blocked {
            let is_plain = [stride_width, stride_height, dilation_width, dilation_height] == [1; 4] && padding != SAME;
            fail_if(
                !is_plain || of.convolved,
                "it reads blocks with padding, a stride or a dilation, or convolved blocks",
            )?;
            (dilation_height, dilation_width, around) = (of.blocks[1], of.blocks[2], [of.around[1], of.around[2]]);
        }
        let placed = |length, kernel, stride, dilation, [before, after]: Around| {
            let axis = Axis { length, kernel, stride, dilation };
            let placed = if padding == SAME { axis.same() } else { axis.padded(before, after) };
            placed.map(|placed| (axis, placed)).ok_or("its kernel is too large")
        };
        let rows = placed(height, kernel_height, stride_height, dilation_height, around[0])?;
        let cols = placed(width, kernel_width, stride_width, dilation_width, around[1])?;
        let positions = [rows.1.positions, cols.1.positions];
        let shape = vec![1, positions[0], positions[1], filters];
        match blocked {
            None => self.has_shape(operator, &shape)?,
            Some(of) => {
                let output = operator.outputs.first().copied().flatten().ok_or("it has no output")?;
                self.in_blocks(output, Blocked { convolved: true, ..of })?;
            }
        }
        let size = positions[0].checked_mul(positions[1]).and_then(|positions| positions.checked_mul(filters));
        let (kind, last) = match depthwise {
            true => (CellKind::DepthwiseConv, ("multiplier", filters / channels)),
            false => (CellKind::Conv, ("groups", channels / seen)),
        };
        let mut layer = Layer::new(kind, x.features(), filters)
            .tensor("weights", Tensor { shape: vec![filters, kernel_height * kernel_width * seen], data })
            .activation("activation", activation)
            .extent("in_channels", channels)
            .extent(last.0, last.1)
            .over(&[rows, cols]);
        layer.output_size = size.ok_or("it is too large")?;
        if let Some(data) = bias {
            fail_if(data.len() != filters, format_args!("its bias has {} values, not {filters}", data.len()))?;
            layer = layer.tensor("bias", Tensor { shape: vec![filters], data });
        }
        let (source, counts) = self.counted(layer, &x.source, integers);
        Ok(Value { source, shape, along: Along::Nothing, counts, reversed: false })
    }
}
