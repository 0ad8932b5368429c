//! The layers around an LSTM, and operators that only move values.

use tidegate::internals::{activation::Activation, cell::CellKind};

use super::cut::{Cut, cuts, parts};
use super::hard_swish;
use super::integers::{Counted, Counts, LIMITS, Multiplier, leaky_relu, limits, table};
use super::lower::{Along, Reader, Refused, Trouble, Value};
use super::rows::{Filters, Precision, Rows};
use super::schema::{Operator, Type};
use super::unrolled::WITHOUT;
use crate::canonical::Tensor;
use crate::format::{layer::Layer, refuse::fail_if};

/// Maximum number of features that the integer sums of a softmax can hold.
const MOST_CLASSES: usize = 511;
/// Integer bits of the exponents in an integer softmax.
const EXPONENT_BITS: i32 = 5;

impl Reader<'_> {
    /// The value with `features` features in each step or row. A value that is available as a whole may be split into
    /// rows.
    pub(super) fn in_rows_of(&mut self, value: Value, features: usize) -> Result<Value, Trouble> {
        if value.features() == features {
            return Ok(value);
        }
        let value = self.flat(value);
        let total = value.features();
        let fits = features > 0 && total.is_multiple_of(features);
        fail_if(!fits, format_args!("its input has {total} features, but it needs {features}"))?;
        let source = if total == features { value.source } else { value.source.in_rows(total / features) };
        Ok(Value { source, ..value })
    }

    /// The output of a layer over rows, as a tensor of shape `shape`.
    pub(super) fn shaped(&self, value: Value, shape: Vec<usize>) -> Refused {
        let outer = |steps: usize| match shape.iter().position(|&dim| dim != 1) {
            Some(axis) if shape[axis] == steps => Some(axis),
            _ => None,
        };
        let (steps, rows) = match (value.along, value.source.rows()) {
            (Along::Stream(axis), _) => (value.shape[axis], false),
            (_, Some(rows)) => (rows, true),
            (_, None) => (1, false),
        };
        let (elements, features) = (shape.iter().try_fold(1_usize, |all, &dim| all.checked_mul(dim)), value.features());
        let misfit = elements != steps.checked_mul(features);
        fail_if(misfit, format_args!("its output is {shape:?}, but it computes {steps} x {features}"))?;
        let along = match (outer(steps), rows) {
            _ if steps == 1 => Along::Nothing,
            (Some(axis), true) => Along::Rows(axis),
            (Some(axis), false) => Along::Stream(axis),
            (None, _) => return Err(format!("its output is {shape:?}, where no dimension counts {steps} steps").into()),
        };
        Ok(Value { shape, along, ..value })
    }

    pub(super) fn dense(&mut self, operator: &Operator<'_>) -> Refused {
        let x = self.value(operator, 0)?;
        let other = operator.option("weights_format", 0_i8)? != 0;
        fail_if(other, "attribute weights_format is not DEFAULT, which is not supported")?;
        let shape = self.output_shape(operator)?;
        let rows = self.rows(operator, x.counts, Precision::OfScales, Filters::First)?;
        let Rows { shape: weights_shape, weights, bias, activation, integers } = rows;
        let &[units, features] = weights_shape.as_slice() else { return Err("its weights are not a matrix".into()) };
        let misfit = bias.as_ref().is_some_and(|bias| bias.len() != units);
        fail_if(misfit, format_args!("its bias does not have {units} values"))?;
        let bias = bias.map(|data| Tensor { shape: vec![units], data });
        let x = self.in_rows_of(x, features)?;
        let layer = Layer::dense(Tensor { shape: weights_shape, data: weights }, bias, activation);
        let (source, counts) = self.counted(layer, &x.source, integers);
        self.shaped(Value { source, counts, ..x }, shape)
    }

    pub(super) fn reshape(&mut self, operator: &Operator<'_>) -> Refused {
        let x = self.value_in_any_order(operator, 0)?;
        let shape = self.output_shape(operator)?;
        self.same_counts(operator, &x)?;
        let misfit = shape.iter().product::<usize>() != x.shape.iter().product::<usize>();
        fail_if(misfit, format_args!("it makes {shape:?} of {:?}", x.shape))?;
        let Some(steps) = x.along.axis().map(|axis| x.shape[axis]) else { return Ok(Value { shape, ..x }) };
        // Steps stay steps if the first dimension longer than 1 still counts them.
        match shape.iter().position(|&dim| dim != 1) {
            Some(axis) if shape[axis] == steps && axis + 1 < shape.len() => {
                Ok(Value { shape, along: x.along.moved(|_| axis), ..x })
            }
            _ => {
                fail_if(x.reversed, "it changes the rows of a sequence in reverse order, which is not supported")?;
                Ok(Value { shape, ..self.flat(x) })
            }
        }
    }

    /// `PACK` or `UNPACK` of one value, which moves no element.
    pub(super) fn one(&mut self, operator: &Operator<'_>) -> Refused {
        if operator.inputs.len().max(operator.outputs.len()) > 1 {
            let what = "takes the steps of a sequence apart or joins them, but a recurrent layer in floats over all of them \
                        was not found";
            let node = self.node(operator);
            self.no_loop.get_or_insert((format!("{node:?} {what}"), WITHOUT));
            return Err(what.into());
        }
        self.reshape(operator)
    }

    pub(super) fn transpose(&mut self, operator: &Operator<'_>) -> Refused {
        let x = self.value_in_any_order(operator, 0)?;
        self.same_counts(operator, &x)?;
        let (_, order, _) = self.integers(operator, 1, Type::I32)?.ok_or("its perm is missing")?;
        let order: Option<Vec<usize>> = order.iter().map(|&axis| usize::try_from(axis).ok()).collect();
        let order = order.filter(|order| {
            let mut sorted = order.clone();
            sorted.sort_unstable();
            sorted.into_iter().eq(0..x.shape.len())
        });
        let order = order.ok_or("its perm is not a permutation of its input's dimensions")?;
        let moves = !order.iter().copied().filter(|&axis| x.shape[axis] != 1).is_sorted();
        if moves {
            let steps = matches!(x.along, Along::Stream(_)) || x.reversed;
            fail_if(steps, "it moves the elements of several steps, which is not supported")?;
            return self.reordered(x, &order);
        }
        let shape: Vec<usize> = order.iter().map(|&axis| x.shape[axis]).collect();
        let moved = |axis: usize| order.iter().position(|&from| from == axis).unwrap_or(axis);
        Ok(Value { shape, along: x.along.moved(moved), ..x })
    }

    /// `REVERSE_V2` of the steps.
    pub(super) fn reverse(&mut self, operator: &Operator<'_>) -> Refused {
        let x = self.value_in_any_order(operator, 0)?;
        let x = x.clone().in_positions().unwrap_or(x);
        let axes = self.integers(operator, 1, Type::I32)?.map(|(_, axes, _)| axes).unwrap_or_default();
        let along = match (x.along, axes.as_slice()) {
            (Along::Rows(axis), &[given]) => {
                Some(axis as i64) == [given, given + x.shape.len() as i64].into_iter().find(|&at| at >= 0)
            }
            _ => false,
        };
        fail_if(!along, format_args!("it reverses {axes:?} of {:?}, which are not the steps", x.shape))?;
        Ok(Value { reversed: !x.reversed, ..x })
    }

    /// The part of each dimension that a slice of a tensor of this shape selects.
    pub(super) fn cuts(&mut self, operator: &Operator<'_>, dims: &[usize]) -> Result<Vec<Cut>, Trouble> {
        let mut list = |index| Ok(self.integers(operator, index, Type::I32)?.map(|(_, values, _)| values));
        let last = if operator.op == "SLICE" { 2 } else { 3 };
        let lists: Result<Vec<_>, Trouble> = (1..=last).map(&mut list).collect();
        let lists: Vec<Vec<i64>> = lists?.into_iter().map(Option::unwrap_or_default).collect();
        if operator.op == "SLICE" { parts(dims, &lists) } else { cuts(operator, dims, &lists) }
    }

    /// Slices that keep the last step, all steps, or a part of one dimension.
    pub(super) fn strided_slice(&mut self, operator: &Operator<'_>) -> Refused {
        let x = self.value_in_any_order(operator, 0)?;
        self.same_counts(operator, &x)?;
        let cuts = self.cuts(operator, &x.shape)?;
        let steps = x.along.axis();
        let mut shape = Vec::new();
        let (mut is_last, mut part) = (false, None);
        for (axis, (&Cut { first, behind, shrinks }, &dim)) in cuts.iter().zip(&x.shape).enumerate() {
            let size = dim as i64;
            match (first, behind) {
                (0, behind) if behind == size => {}
                (first, behind) if Some(axis) == steps && first == size - 1 && behind == size => is_last = true,
                (first, behind) => {
                    let what = format!("it selects {first} to {behind} of dimension {axis}");
                    let within = (0..behind).contains(&first) && behind <= size;
                    fail_if(!within, format_args!("{what}, which has {size} elements"))?;
                    fail_if(
                        part.is_some(),
                        format_args!("{what} and a part of another dimension, which is not supported"),
                    )?;
                    part = Some((axis, first as usize, (behind - first) as usize));
                }
            }
            if !shrinks {
                let selected = part.filter(|(of, ..)| *of == axis).map(|(.., size)| size);
                shape.push(if Some(axis) == steps && is_last { 1 } else { selected.unwrap_or(dim) });
            }
        }
        // Dimensions that are left out move those behind them.
        let shifted = |axis: usize| axis - cuts.iter().take(axis).filter(|cut| cut.shrinks).count();
        if let Some(part) = part {
            fail_if(is_last, "it selects the last step and a part of another dimension, which is not supported")?;
            fail_if(x.reversed, "it selects a part of steps in reverse order, which is not supported")?;
            let value = self.part(x, shape, part)?;
            return Ok(Value { along: value.along.moved(shifted), ..value });
        }
        match x.along {
            along if !is_last => Ok(Value { shape, along: along.moved(shifted), ..x }),
            Along::Rows(_) => {
                let source = self.network.last(&x.source, x.reversed);
                Ok(Value { source, shape, along: Along::Nothing, reversed: false, ..x })
            }
            _ => Ok(Value { shape, ..self.last(x) }),
        }
    }

    /// The elements `first` to `first + size` of one dimension.
    fn part(&mut self, x: Value, shape: Vec<usize>, (axis, first, size): (usize, usize, usize)) -> Refused {
        let inner = x.shape[axis + 1..].iter().product::<usize>();
        let in_rows = x.along.axis().is_some_and(|steps| steps < axis) && inner * x.shape[axis] == x.features();
        let x = if in_rows { x } else { self.flat(x) };
        let outer = x.shape[..axis].iter().enumerate().filter(|(at, _)| x.along.axis() != Some(*at));
        let rows = outer.map(|(_, dim)| dim).product::<usize>();
        let of_steps = rows > 1 && x.along != Along::Nothing;
        fail_if(of_steps, format_args!("it selects a part of dimension {axis} of {:?}", x.shape))?;
        let whole = if rows > 1 { x.source.flat().in_rows(rows) } else { x.source };
        let source = self.network.part(&whole, first * inner, size * inner);
        let source = if rows > 1 { source.flat() } else { source };
        if let Some(counts) = x.counts {
            let counted = Counted::of(counts).requantized("", Multiplier::ONE).limited(counts, LIMITS);
            self.network.counts(&source, counted.integers());
        }
        Ok(Value { source, shape, ..x })
    }

    pub(super) fn softmax(&mut self, operator: &Operator<'_>) -> Refused {
        let x = self.value(operator, 0)?;
        let shape = self.output_shape(operator)?;
        let beta = operator.option("beta", 0.0_f32)?;
        let classes = x.shape.last().copied().unwrap_or(1);
        let output = self.output_counts(operator)?;
        let x = self.in_rows_of(x, classes)?;
        let layer = Layer::new(CellKind::Softmax, classes, classes);
        let (Some(input), Some(output)) = (x.counts, output) else {
            fail_if(x.counts.is_some() || output.is_some(), "only one of its input and its output is of int8")?;
            fail_if(beta != 1.0, format_args!("attribute beta is {beta}, not 1, which is not supported"))?;
            let source = self.network.add(layer, &[&x.source]);
            return self.shaped(Value { source, ..x }, shape);
        };
        if output != (Counts { scale: 1.0 / 256.0, zero_point: -128 }) {
            let Counts { scale, zero_point } = output;
            return Err(format!("its output has scale {scale} and zero point {zero_point}, not 1/256 and -128").into());
        }
        let many = classes > MOST_CLASSES;
        fail_if(many, format_args!("it has {classes} classes, but integers support only {MOST_CLASSES}"))?;
        let scaled = f64::from(beta) * f64::from(input.scale) * f64::from(1 << (31 - EXPONENT_BITS));
        let by = Multiplier::of(scaled.min(f64::from(i32::MAX))).filter(|by| by.shift >= 0);
        let by = by.ok_or_else(|| format!("attribute beta is {beta}, which integers do not support"))?;
        let most = f64::from((1 << EXPONENT_BITS) - 1) * f64::from(1 << (31 - EXPONENT_BITS));
        let reach = (most / f64::from(by.shift).exp2()).floor() as i32;
        let counted = Counted::of(output).number("factor", by.factor).number("lift", by.shift).number("reach", reach);
        let (source, counts) = self.counted(layer, &x.source, Some((output, counted)));
        self.shaped(Value { source, counts, ..x }, shape)
    }

    pub(super) fn quantize(&mut self, operator: &Operator<'_>) -> Refused {
        let x = self.value(operator, 0)?;
        let number = operator.outputs.first().copied().flatten().ok_or("it has no output")?;
        let is_float = self.model.main.tensors[number].of == Type::F32;
        fail_if(is_float, "its output is a float tensor")?;
        let output = self.counts(number)?.ok_or("its output has no scale")?;
        let Some(input) = x.counts else {
            let computed = !self.is_float_input(&x);
            fail_if(computed, "it quantizes the output of float operators, which is not supported")?;
            return Ok(self.quantized_input(x, output));
        };
        let by = Multiplier::of(f64::from(input.scale) / f64::from(output.scale))
            .ok_or("the quotient of its scales is out of range")?;
        Ok(self.brought(x, output, by))
    }

    /// Adds no layer: the scale and zero point of the output port say what its integers mean.
    pub(super) fn dequantize(&mut self, operator: &Operator<'_>) -> Refused {
        let x = self.value(operator, 0)?;
        if x.counts.is_none() && self.is_of_table(self.input_number(operator, 0)?) {
            return Ok(x);
        }
        fail_if(x.counts.is_none(), "its input is not of int8")?;
        let output = operator.outputs.first().copied().flatten();
        let is_read = self.model.main.operators.iter().any(|of| of.inputs.contains(&output));
        fail_if(is_read, "float operators read its output, which is not supported")?;
        Ok(x)
    }

    pub(super) fn activation(&mut self, operator: &Operator<'_>) -> Refused {
        let x = self.value(operator, 0)?;
        let of = match operator.op {
            "LOGISTIC" => Activation::Sigmoid,
            "TANH" => Activation::Tanh,
            "RELU" => Activation::Relu,
            "RELU6" => Activation::Relu6,
            "ELU" => Activation::Elu { alpha: 1.0 },
            "EXP" => Activation::Exp,
            "LOG" => Activation::Log { alpha: 1.0, beta: 0.0 },
            "GELU" if operator.option("approximate", 0_u8)? != 0 => Activation::GeluTanh,
            "GELU" => Activation::Gelu,
            "LEAKY_RELU" => Activation::LeakyRelu { alpha: operator.option("alpha", 0.0_f32)? },
            _ => Activation::HardSwish,
        };
        let layer = Layer::new(CellKind::Activation, x.features(), x.features()).activation("activation", of);
        let Some(input) = x.counts else {
            let source = self.network.add(layer, &[&x.source]);
            return Ok(Value { source, ..x });
        };
        let output = self.output_counts(operator)?.ok_or("its input is of int8, but its output is not")?;
        let counted = match limits(of, output) {
            Some(limits) => {
                // Computed in the precision of the scales, unlike in `QUANTIZE`.
                let by = Multiplier::of((input.scale / output.scale).into());
                let by = by.ok_or("the quotient of its scales is out of range")?;
                Counted::of(output).requantized("", by).limited(output, limits)
            }
            None => {
                let of_range = "a quotient of its scales is out of range";
                let table = match of {
                    Activation::HardSwish => hard_swish::table(input, output).ok_or(of_range)?,
                    Activation::LeakyRelu { alpha } => leaky_relu(alpha, input, output).ok_or(of_range)?,
                    _ => table(of, input, output).ok_or("its integer form is not supported")?,
                };
                let counted = Counted::of(output).requantized("", Multiplier::ONE).limited(input, LIMITS);
                counted.rows("table", table)
            }
        };
        let (source, counts) = self.counted(layer, &x.source, Some((output, counted)));
        Ok(Value { source, counts, ..x })
    }

    /// Checks that an operator that only moves integers leaves scale and zero point unchanged.
    pub(super) fn same_counts(&self, operator: &Operator<'_>, x: &Value) -> Result<(), Trouble> {
        let differ = self.output_counts(operator)? != x.counts;
        Ok(fail_if(differ, "its input and its output differ in scale or zero point")?)
    }
}
