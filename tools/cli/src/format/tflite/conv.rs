//! `CONV_2D`.

use tidegate::cell::CellKind;

use super::layers::activation;
use super::lower::{Along, Reader, Refused, Trouble, Value};
use super::rows::Precision;
use super::schema::Operator;
use crate::canonical::Tensor;
use crate::format::layer::Layer;

/// Options of the schema's `Conv2DOptions`.
mod option {
    pub const PADDING: usize = 0;
    pub const STRIDE_WIDTH: usize = 1;
    pub const STRIDE_HEIGHT: usize = 2;
    pub const ACTIVATION: usize = 3;
    pub const DILATION_WIDTH: usize = 4;
    pub const DILATION_HEIGHT: usize = 5;
}

/// Padding of the schema's `Padding`.
const SAME: i8 = 0;

impl Reader<'_> {
    pub(super) fn conv(&mut self, operator: &Operator<'_>) -> Refused {
        let x = self.value(operator, 0)?;
        let x = self.flat(x);
        let &[1, height, width, channels] = x.shape.as_slice() else {
            return Err(format!("its input is {:?}, not [1, height, width, channels]", x.shape).into());
        };
        let (weights_shape, data, bias, activation, integers) = match x.counts {
            None => {
                let Some((shape, data)) = self.floats(operator, 1)? else {
                    return Err("its weights are missing".into());
                };
                let code = operator.option(option::ACTIVATION, 0_i8)?;
                let activation =
                    activation(code).ok_or_else(|| format!("attribute fused_activation_function is {code}"))?;
                let bias = self.floats(operator, 2)?.map(|(_, data)| data);
                (shape, data, bias, activation, None)
            }
            Some(input) => {
                let rows = self.rows(operator, option::ACTIVATION, input, Precision::OfProducts)?;
                (rows.shape, rows.weights, Some(rows.bias), rows.activation, Some((rows.output, rows.counted)))
            }
        };
        let &[filters, kernel_height, kernel_width, seen] = weights_shape.as_slice() else {
            return Err(format!("its weights are {weights_shape:?}").into());
        };
        if seen == 0 || !channels.is_multiple_of(seen) || !filters.is_multiple_of(channels / seen) {
            return Err(format!("its weights see {seen} of {channels} channels").into());
        }
        let padding = operator.option(option::PADDING, SAME)?;
        if !(0..=1).contains(&padding) {
            return Err(format!("attribute padding is {padding}").into());
        }
        let number = |field: usize, name: &str| -> Result<usize, Trouble> {
            let value = operator.option(field, 1_i32)?;
            match usize::try_from(value) {
                Ok(value) if value > 0 => Ok(value),
                _ => Err(format!("attribute {name} is {value}").into()),
            }
        };
        let stride_width = number(option::STRIDE_WIDTH, "stride_w")?;
        let stride_height = number(option::STRIDE_HEIGHT, "stride_h")?;
        let dilation_width = number(option::DILATION_WIDTH, "dilation_w_factor")?;
        let dilation_height = number(option::DILATION_HEIGHT, "dilation_h_factor")?;
        let rows = Axis::new(height, kernel_height, stride_height, dilation_height, padding)?;
        let cols = Axis::new(width, kernel_width, stride_width, dilation_width, padding)?;
        let shape = vec![1, rows.out, cols.out, filters];
        if self.output_shape(operator)? != shape {
            return Err(format!("its output is {:?}, not {shape:?}", self.output_shape(operator)?).into());
        }
        let size = rows
            .out
            .checked_mul(cols.out)
            .and_then(|positions| positions.checked_mul(filters))
            .ok_or("it is too large")?;
        let mut layer = Layer::new(CellKind::Conv, x.features(), filters)
            .tensor("weights", Tensor { shape: vec![filters, kernel_height * kernel_width * seen], data })
            .activation("activation", activation);
        layer.output_size = size;
        for (name, value) in [
            ("in_height", height),
            ("in_width", width),
            ("in_channels", channels),
            ("kernel_height", kernel_height),
            ("kernel_width", kernel_width),
            ("stride_height", stride_height),
            ("stride_width", stride_width),
            ("dilation_height", dilation_height),
            ("dilation_width", dilation_width),
            ("pad_top", rows.before),
            ("pad_bottom", rows.after),
            ("pad_left", cols.before),
            ("pad_right", cols.after),
            ("out_height", rows.out),
            ("out_width", cols.out),
            ("groups", channels / seen),
        ] {
            layer = layer.extent(name, value);
        }
        if let Some(data) = bias {
            if data.len() != filters {
                return Err(format!("its bias has {} values, not {filters}", data.len()).into());
            }
            layer = layer.tensor("bias", Tensor { shape: vec![filters], data });
        }
        let source = self.network.add(layer, &[&x.source]);
        let counts = integers.map(|(output, counted)| {
            self.network.counts(&source, counted.integers());
            output
        });
        Ok(Value { source, shape, along: Along::Nothing, counts })
    }
}

/// How a kernel moves over an axis.
struct Axis {
    before: usize,
    after: usize,
    out: usize,
}

impl Axis {
    fn new(len: usize, kernel: usize, stride: usize, dilation: usize, padding: i8) -> Result<Self, Trouble> {
        let too_large = || Trouble::from("its kernel is too large");
        let reach =
            kernel.checked_sub(1).and_then(|gaps| gaps.checked_mul(dilation)).and_then(|reach| reach.checked_add(1));
        let reach = reach.ok_or_else(too_large)?;
        if padding == SAME {
            let out = len.div_ceil(stride);
            let needed = (out - 1).checked_mul(stride).and_then(|at| at.checked_add(reach)).ok_or_else(too_large)?;
            let pads = needed.saturating_sub(len);
            return Ok(Self { before: pads / 2, after: pads - pads / 2, out });
        }
        let room = len.checked_sub(reach).ok_or_else(too_large)?;
        Ok(Self { before: 0, after: 0, out: room / stride + 1 })
    }
}
