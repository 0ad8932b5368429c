//! The layers around an LSTM, and what only moves values.

use tidegate::activation::Activation;
use tidegate::cell::CellKind;

use super::integers::{Counted, Multiplier, limits};
use super::lower::{Along, Counts, Reader, Refused, Trouble, Value};
use super::rows::Precision;
use super::schema::{Operator, Type, op};
use crate::canonical::Tensor;
use crate::format::layer::Layer;

/// The activation of this number in the schema's `ActivationFunctionType`.
pub fn activation(code: i8) -> Option<Activation> {
    match code {
        0 => Some(Activation::Identity),
        1 => Some(Activation::Relu),
        2 => Some(Activation::HardTanh),
        3 => Some(Activation::Relu6),
        4 => Some(Activation::Tanh),
        _ => None,
    }
}

/// What the sums of a softmax have at most: features.
const MOST_CLASSES: usize = 511;
/// Integer bits of the exponents of a softmax of integers.
const EXPONENT_BITS: i32 = 5;

impl Reader<'_> {
    /// So many features a step or row: what is there at once may be several rows.
    fn in_rows_of(&mut self, value: Value, features: usize) -> Result<Value, Trouble> {
        if value.features() == features {
            return Ok(value);
        }
        let value = self.flat(value);
        let total = value.features();
        if features == 0 || !total.is_multiple_of(features) {
            return Err(format!("its input has {total} features, but it takes {features}").into());
        }
        if total == features {
            return Ok(value);
        }
        Ok(Value { source: value.source.in_rows(total / features), ..value })
    }

    /// What a layer over rows gives, as a tensor of this shape.
    fn shaped(&self, value: Value, shape: Vec<usize>) -> Refused {
        let outer = |steps: usize| match shape.iter().position(|&dim| dim != 1) {
            Some(axis) if shape[axis] == steps => Some(axis),
            _ => None,
        };
        let (steps, rows) = match (value.along, value.source.rows()) {
            (Along::Stream(axis), _) => (value.shape[axis], false),
            (_, Some(rows)) => (rows, true),
            (_, None) => (1, false),
        };
        let elements = shape.iter().try_fold(1_usize, |all, &dim| all.checked_mul(dim));
        if elements != steps.checked_mul(value.features()) {
            return Err(format!(
                "its output is {shape:?}, which is not what comes out: {} x {}",
                steps,
                value.features()
            )
            .into());
        }
        if steps == 1 {
            return Ok(Value { shape, along: Along::Nothing, ..value });
        }
        match (outer(steps), rows) {
            (Some(axis), true) => Ok(Value { shape, along: Along::Rows(axis), ..value }),
            (Some(axis), false) => Ok(Value { shape, along: Along::Stream(axis), ..value }),
            (None, _) => Err(format!("its output is {shape:?}, where no dimension counts {steps} steps").into()),
        }
    }

    pub(super) fn dense(&mut self, operator: &Operator<'_>) -> Refused {
        const ACTIVATION: usize = 0;
        const WEIGHTS_FORMAT: usize = 1;
        let x = self.value(operator, 0)?;
        if operator.option(WEIGHTS_FORMAT, 0_i8)? != 0 {
            return Err("attribute weights_format is not DEFAULT, which is not supported".into());
        }
        let shape = self.output_shape(operator)?;
        let Some(of_integers) = x.counts else {
            let code = operator.option(ACTIVATION, 0_i8)?;
            let activation =
                activation(code).ok_or_else(|| format!("attribute fused_activation_function is {code}"))?;
            let Some((weights_shape, data)) = self.floats(operator, 1)? else {
                return Err("its weights are missing".into());
            };
            let &[units, features] = weights_shape.as_slice() else { return Err("its weights are no matrix".into()) };
            let bias = self.floats(operator, 2)?;
            if bias.as_ref().is_some_and(|(shape, _)| shape.iter().product::<usize>() != units) {
                return Err(format!("its bias does not have {units} values").into());
            }
            let bias = bias.map(|(_, data)| Tensor { shape: vec![units], data });
            let x = self.in_rows_of(x, features)?;
            let layer = Layer::dense(Tensor { shape: weights_shape, data }, bias, activation);
            let source = self.network.add(layer, &[&x.source]);
            return self.shaped(Value { source, counts: None, ..x }, shape);
        };
        let rows = self.rows(operator, ACTIVATION, of_integers, Precision::OfScales)?;
        let &[units, features] = rows.shape.as_slice() else { return Err("its weights are no matrix".into()) };
        let layer = Layer::dense(
            Tensor { shape: vec![units, features], data: rows.weights },
            Some(Tensor { shape: vec![units], data: rows.bias }),
            rows.activation,
        );
        let x = self.in_rows_of(x, features)?;
        let source = self.network.add(layer, &[&x.source]);
        self.network.counts(&source, rows.counted.integers());
        self.shaped(Value { source, counts: Some(rows.output), ..x }, shape)
    }

    pub(super) fn reshape(&mut self, operator: &Operator<'_>) -> Refused {
        let x = self.value(operator, 0)?;
        let shape = self.output_shape(operator)?;
        self.same_counts(operator, &x)?;
        if shape.iter().product::<usize>() != x.shape.iter().product::<usize>() {
            return Err(format!("it makes {shape:?} of {:?}", x.shape).into());
        }
        let steps = match x.along {
            Along::Nothing => return Ok(Value { shape, ..x }),
            Along::Stream(axis) | Along::Rows(axis) => x.shape[axis],
        };
        // Steps stay steps where the first dimension that counts anything counts them.
        match shape.iter().position(|&dim| dim != 1) {
            Some(axis) if shape[axis] == steps && axis + 1 < shape.len() => {
                let along = if matches!(x.along, Along::Stream(_)) { Along::Stream(axis) } else { Along::Rows(axis) };
                Ok(Value { shape, along, ..x })
            }
            _ => Ok(Value { shape, ..self.flat(x) }),
        }
    }

    pub(super) fn transpose(&mut self, operator: &Operator<'_>) -> Refused {
        let x = self.value(operator, 0)?;
        self.same_counts(operator, &x)?;
        let Some((_, order, _)) = self.integers(operator, 1, Type::I32)? else {
            return Err("its perm is missing".into());
        };
        let order: Option<Vec<usize>> = order.iter().map(|&axis| usize::try_from(axis).ok()).collect();
        let order = order.filter(|order| {
            let mut sorted = order.clone();
            sorted.sort_unstable();
            sorted.into_iter().eq(0..x.shape.len())
        });
        let order = order.ok_or("its perm is no order of its input's dimensions")?;
        let counting =
            |axes: &mut dyn Iterator<Item = usize>| axes.filter(|&axis| x.shape[axis] != 1).collect::<Vec<_>>();
        if counting(&mut order.iter().copied()) != counting(&mut (0..x.shape.len())) {
            return Err("it moves elements, which is not supported".into());
        }
        let shape: Vec<usize> = order.iter().map(|&axis| x.shape[axis]).collect();
        let moved = |axis: usize| order.iter().position(|&from| from == axis).unwrap_or(axis);
        let along = match x.along {
            Along::Nothing => Along::Nothing,
            Along::Stream(axis) => Along::Stream(moved(axis)),
            Along::Rows(axis) => Along::Rows(moved(axis)),
        };
        Ok(Value { shape, along, ..x })
    }

    /// The last step, or all of them.
    pub(super) fn strided_slice(&mut self, operator: &Operator<'_>) -> Refused {
        const BEGIN_MASK: usize = 0;
        const END_MASK: usize = 1;
        const SHRINK_MASK: usize = 4;
        let x = self.value(operator, 0)?;
        self.same_counts(operator, &x)?;
        for (field, name) in [(2, "ellipsis_mask"), (3, "new_axis_mask")] {
            if operator.option(field, 0_i32)? != 0 {
                return Err(format!("attribute {name} is set, which is not supported").into());
            }
        }
        let mask = |field: usize| operator.option(field, 0_i32);
        let (begins, ends, shrinks) = (mask(BEGIN_MASK)?, mask(END_MASK)?, mask(SHRINK_MASK)?);
        let mut list = |index: usize| -> Result<Vec<i64>, Trouble> {
            match self.integers(operator, index, Type::I32)? {
                Some((_, values, _)) if values.len() == x.shape.len() => Ok(values),
                _ => Err(format!("its input {index} has no number for each dimension of its input").into()),
            }
        };
        let (begin, end, strides) = (list(1)?, list(2)?, list(3)?);
        let steps = match x.along {
            Along::Stream(axis) | Along::Rows(axis) => Some(axis),
            Along::Nothing => None,
        };
        let mut shape = Vec::new();
        let mut is_last = false;
        for (axis, &dim) in x.shape.iter().enumerate() {
            let (bit, size) = (1 << axis, dim as i64);
            let from = |at: i64| if at < 0 { at.saturating_add(size) } else { at };
            let shrinks = shrinks & bit != 0;
            let first = if begins & bit != 0 && !shrinks { 0 } else { from(begin[axis]) };
            let behind = match () {
                () if shrinks => first.saturating_add(1),
                () if ends & bit != 0 => size,
                () => from(end[axis]).min(size),
            };
            if strides[axis] != 1 {
                return Err(format!("its stride {axis} is {}, which is not supported", strides[axis]).into());
            }
            match (first, behind) {
                (0, behind) if behind == size => {}
                (first, behind) if Some(axis) == steps && first == size - 1 && behind == size => is_last = true,
                _ => {
                    return Err(format!(
                        "it takes {first} to {behind} of dimension {axis}, which is neither all nor the last step"
                    )
                    .into());
                }
            }
            if !shrinks {
                shape.push(if Some(axis) == steps && is_last { 1 } else { dim });
            }
        }
        let along = match (is_last, x.along) {
            (false, along) => {
                let shifted = |axis: usize| axis - (0..axis).filter(|of| shrinks & 1 << of != 0).count();
                match along {
                    Along::Nothing => Along::Nothing,
                    Along::Stream(axis) => Along::Stream(shifted(axis)),
                    Along::Rows(axis) => Along::Rows(shifted(axis)),
                }
            }
            (true, Along::Rows(_)) => {
                let source = self.network.last(&x.source, false);
                return Ok(Value { source, shape, along: Along::Nothing, counts: x.counts });
            }
            (true, _) => return Ok(Value { shape, ..self.last(x) }),
        };
        Ok(Value { shape, along, ..x })
    }

    pub(super) fn softmax(&mut self, operator: &Operator<'_>) -> Refused {
        let x = self.value(operator, 0)?;
        let shape = self.output_shape(operator)?;
        let beta = operator.option(0, 0.0_f32)?;
        let classes = x.shape.last().copied().unwrap_or(1);
        let output = self.output_counts(operator)?;
        let x = self.in_rows_of(x, classes)?;
        let layer = Layer::new(CellKind::Softmax, classes, classes);
        let (Some(input), Some(output)) = (x.counts, output) else {
            if x.counts.is_some() || output.is_some() {
                return Err("only one of its input and its output is of int8".into());
            }
            if beta != 1.0 {
                return Err(format!("attribute beta is {beta}, not 1, which is not supported").into());
            }
            let source = self.network.add(layer, &[&x.source]);
            return self.shaped(Value { source, ..x }, shape);
        };
        if output != (Counts { scale: 1.0 / 256.0, zero_point: -128 }) {
            return Err(
                format!("its output counts {} from {}, not 1/256 from -128", output.scale, output.zero_point).into()
            );
        }
        if classes > MOST_CLASSES {
            return Err(format!("it has {classes} classes, of which integers count {MOST_CLASSES}").into());
        }
        let scaled = f64::from(beta) * f64::from(input.scale) * f64::from(1 << (31 - EXPONENT_BITS));
        let by = Multiplier::of(scaled.min(f64::from(i32::MAX))).filter(|by| by.shift >= 0);
        let by = by.ok_or_else(|| format!("attribute beta is {beta}, which integers do not support"))?;
        let most = f64::from((1 << EXPONENT_BITS) - 1) * f64::from(1 << (31 - EXPONENT_BITS));
        let reach = (most / f64::from(by.shift).exp2()).floor() as i32;
        let source = self.network.add(layer, &[&x.source]);
        let counted = Counted::of(output).number("factor", by.factor).number("lift", by.shift).number("reach", reach);
        self.network.counts(&source, counted.integers());
        self.shaped(Value { source, counts: Some(output), ..x }, shape)
    }

    pub(super) fn quantize(&mut self, operator: &Operator<'_>) -> Refused {
        let x = self.value(operator, 0)?;
        let Some(output) = self.output_counts(operator)? else { return Err("its output is of floats".into()) };
        let Some(input) = x.counts else {
            if self.is_float_input(&x) {
                return Ok(self.quantized_input(x, output));
            }
            return Err("it quantizes what operators of floats gave, which is not supported".into());
        };
        let by = Multiplier::of(f64::from(input.scale) / f64::from(output.scale))
            .ok_or("the quotient of its scales is out of range")?;
        Ok(self.brought(x, output, by))
    }

    /// Nothing more is computed: a port says what its integers stand for.
    pub(super) fn dequantize(&mut self, operator: &Operator<'_>) -> Refused {
        let x = self.value(operator, 0)?;
        if x.counts.is_none() {
            return Err("its input is not of int8".into());
        }
        let output = operator.outputs.first().copied().flatten();
        if self.model.operators.iter().any(|of| of.inputs.contains(&output)) {
            return Err("operators of floats read what it gives, which is not supported".into());
        }
        Ok(x)
    }

    pub(super) fn activation(&mut self, operator: &Operator<'_>) -> Refused {
        let x = self.value(operator, 0)?;
        let of = match operator.code {
            op::LOGISTIC => Activation::Sigmoid,
            op::TANH => Activation::Tanh,
            op::RELU => Activation::Relu,
            _ => Activation::Relu6,
        };
        let layer = Layer::new(CellKind::Activation, x.features(), x.features()).activation("activation", of);
        let Some(input) = x.counts else {
            let source = self.network.add(layer, &[&x.source]);
            return Ok(Value { source, ..x });
        };
        let Some(output) = self.output_counts(operator)? else {
            return Err("its input is of int8, but its output is not".into());
        };
        let limits = limits(of, output).ok_or("it is of integers, which is not supported")?;
        // In the precision of the scales, which is not that of `QUANTIZE`.
        let by =
            Multiplier::of((input.scale / output.scale).into()).ok_or("the quotient of its scales is out of range")?;
        let source = self.network.add(layer, &[&x.source]);
        self.network.counts(&source, Counted::of(output).requantized("", by).limited(output, limits).integers());
        Ok(Value { source, counts: Some(output), ..x })
    }

    /// What moves integers leaves what they stand for.
    fn same_counts(&self, operator: &Operator<'_>, x: &Value) -> Result<(), Trouble> {
        if self.output_counts(operator)? == x.counts {
            return Ok(());
        }
        Err("its input and its output do not stand for the same".into())
    }
}
