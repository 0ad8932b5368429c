//! `MUL`, `ADD` and `SUB`: of two computed values, or by a constant for each channel.

use tidegate::internals::{activation::Activation, cell::CellKind};

use super::integers::{Counted, Counts, LIMITS, Multiplier, limits};
use super::lower::{Along, Reader, Refused, Trouble, Value};
use super::options::FUSED;
use super::schema::{Operator, Type};
use crate::canonical::Tensor;
use crate::format::{layer::Layer, refuse::fail_if};

/// Fraction bits of the terms of an integer sum beyond those of the coarser one.
const LIFT: u32 = 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Arithmetic {
    Multiply,
    Add,
    Subtract,
}

impl Arithmetic {
    fn of(operator: &Operator<'_>) -> Self {
        match operator.op {
            "MUL" => Self::Multiply,
            "ADD" => Self::Add,
            _ => Self::Subtract,
        }
    }

    /// Option of the cell `merge`.
    fn merged(self) -> &'static str {
        match self {
            Self::Multiply => "multiply",
            Self::Add => "add",
            Self::Subtract => "subtract",
        }
    }
}

/// Gives two values the same number of dimensions, by leading dimensions of 1.
fn of_one_rank(mut a: Value, mut b: Value) -> [Value; 2] {
    let rank = a.shape.len().max(b.shape.len());
    for value in [&mut a, &mut b] {
        let added = rank - value.shape.len();
        value.along = value.along.moved(|axis| axis + added);
        value.shape.splice(0..0, std::iter::repeat_n(1, added));
    }
    [a, b]
}

impl Reader<'_> {
    pub(super) fn arithmetic(&mut self, operator: &Operator<'_>) -> Refused {
        let of = Arithmetic::of(operator);
        let is_constant = |index| self.is_constant(self.port(operator, index).map(|number| self.behind(number)));
        let constant = [is_constant(0), is_constant(1)];
        let shape = self.output_shape(operator)?;
        let value = match constant {
            [false, false] => self.merged(operator, of)?,
            [true, true] => return Err("both of its inputs are constants".into()),
            [true, false] if of == Arithmetic::Subtract => {
                return Err("it subtracts from a constant, which is not supported".into());
            }
            [first, _] => self.by_constant(operator, of, usize::from(first))?,
        };
        fail_if(value.shape != shape, format_args!("its output is {shape:?}, not {:?}", value.shape))?;
        Ok(value)
    }

    /// Two computed values.
    fn merged(&mut self, operator: &Operator<'_>, of: Arithmetic) -> Refused {
        let [a, b] = of_one_rank(self.value(operator, 0)?, self.value(operator, 1)?);
        let [a, b] = self.of_one_kind_or_whole(a, b);
        let a = self.repeated(a, &b)?;
        let b = self.repeated(b, &a)?;
        fail_if(a.shape != b.shape, format_args!("its inputs are {:?} and {:?}", a.shape, b.shape))?;
        let counted = match (a.counts, b.counts, self.output_counts(operator)?) {
            (None, None, _) => None,
            (Some(first), Some(second), Some(output)) => {
                let counted = Counted::of(output).limited(output, LIMITS);
                let counted = if of == Arithmetic::Multiply {
                    let whole = of_product(first, second, output);
                    whole.map(|whole| counted.of_terms([Multiplier::NONE; 2], whole))
                } else {
                    of_sum(first, second, output).map(|(terms, whole)| counted.of_terms(terms, whole))
                };
                Some((output, counted.ok_or("a quotient of its scales is out of range")?))
            }
            _ => return Err("only one of its inputs and its output is of int8".into()),
        };
        let layer = Layer::merge(of.merged(), 2, a.features());
        let (source, counts) = self.counted_of(layer, &[&a.source, &b.source], counted);
        self.activated(operator, Value { source, counts, ..a })
    }

    /// Two values with their steps or rows in the same dimension: the positions of a whole value beside the rows of a window
    /// are rows too. Otherwise both become whole, since steps beside a whole window are those of this window.
    fn of_one_kind_or_whole(&mut self, a: Value, b: Value) -> [Value; 2] {
        if a.along == b.along {
            return [a, b];
        }
        match <[Value; 2]>::try_from(self.of_one_kind(vec![a.clone(), b.clone()])) {
            Ok(both) if both[0].along == both[1].along => both,
            _ => [self.flat(a), self.flat(b)],
        }
    }

    /// The square of a value.
    pub(super) fn square(&mut self, operator: &Operator<'_>) -> Refused {
        let x = self.value(operator, 0)?;
        fail_if(x.counts.is_some(), "its input is of integers, which is not supported")?;
        let layer = Layer::merge(Arithmetic::Multiply.merged(), 2, x.features());
        let source = self.network.add(layer, &[&x.source, &x.source]);
        Ok(Value { source, ..x })
    }

    /// A value, each of whose dimensions is 1 or that of `like`, with the shape of `like`; any other value is unchanged.
    fn repeated(&mut self, x: Value, like: &Value) -> Result<Value, Trouble> {
        let (size, shape) = (x.features(), &like.shape);
        let dims = x.shape.iter().zip(shape);
        let fits = x.shape.len() == shape.len() && dims.clone().all(|(&own, &dim)| own == 1 || own == dim);
        let steps = x.along.axis().map_or(1, |axis| x.shape[axis]);
        let elements = x.shape.iter().product::<usize>();
        let alike = x.along == like.along && x.reversed == like.reversed && x.source.rows() == like.source.rows();
        if !(fits && alike && x.shape != *shape && Some(elements) == size.checked_mul(steps)) {
            return Ok(x);
        }
        // The dimensions behind the first that is not repeated.
        let repeats = dims.clone().rev().skip_while(|(own, dim)| own == dim).all(|(&own, _)| own == 1);
        if repeats && x.along == Along::Nothing && x.source.rows().is_none() {
            let times = shape.iter().product::<usize>() / size.max(1);
            let source = self.network.repeated(&x.source, times).flat();
            return Ok(Value { source, shape: shape.clone(), ..x });
        }
        self.spread(x, shape.clone())
    }

    /// A value and a constant; `index` is the computed input.
    fn by_constant(&mut self, operator: &Operator<'_>, of: Arithmetic, index: usize) -> Refused {
        let (x, other) = (self.value(operator, index)?, 1 - index);
        let Some(input) = x.counts else {
            let (shape, data) = self.floats(operator, other)?.ok_or("its constant is missing")?;
            let data = if of == Arithmetic::Subtract { data.iter().map(|value| -value).collect() } else { data };
            let layer = scale(of, &x, &shape, data)?;
            let source = self.network.add(layer, &[&x.source]);
            return self.activated(operator, Value { source, ..x });
        };
        let output = self.output_counts(operator)?.ok_or("its input is of int8, but its output is not")?;
        let (shape, data, _) = self.integers(operator, other, Type::I8)?.ok_or("its constant is missing")?;
        let by = self.port(operator, other).map(|number| self.counts(number)).transpose()?.flatten();
        let by = by.ok_or("its constant has no scale")?;
        let values: Vec<i32> = data.iter().map(|&integer| integer as i32 - by.zero_point).collect();
        let counted = Counted::of(output).limited(output, LIMITS);
        let counted = if of == Arithmetic::Multiply {
            product(counted, input, by, output, &values)
        } else {
            let negative = of == Arithmetic::Subtract;
            sum(counted, input, by, output, &values, negative)
        };
        let counted = counted.ok_or("a quotient of its scales is out of range")?;
        let sign = if of == Arithmetic::Subtract { -1.0 } else { 1.0 };
        let data = values.iter().map(|&value| sign * value as f32 * by.scale).collect();
        let layer = scale(of, &x, &shape, data)?;
        let (source, counts) = self.counted(layer, &x.source, Some((output, counted)));
        self.activated(operator, Value { source, counts, ..x })
    }

    /// The fused activation of an operator, as a layer.
    pub(super) fn activated(&mut self, operator: &Operator<'_>, x: Value) -> Refused {
        let of = operator.limit()?;
        if of == Activation::Identity {
            return Ok(x);
        }
        let refuse = || format!("attribute {FUSED} is {}, which integers do not support", of.name());
        let limits = |counts| limits(of, counts).map(|limits| Counted::of(counts).limited(counts, limits));
        let counted = x.counts.map(|counts| Some((counts, limits(counts)?.requantized("", Multiplier::ONE))));
        let counted = counted.map(|counted| counted.ok_or_else(refuse)).transpose()?;
        let layer = Layer::new(CellKind::Activation, x.features(), x.features()).activation("activation", of);
        let (source, counts) = self.counted(layer, &x.source, counted);
        Ok(Value { source, counts, ..x })
    }
}

/// The layer for a constant of this shape, which must repeat over the steps and the leading dimensions of `x`.
fn scale(of: Arithmetic, x: &Value, shape: &[usize], data: Vec<f32>) -> Result<Layer, Trouble> {
    let own = shape.iter().position(|&dim| dim != 1).map_or(&[][..], |first| &shape[first..]);
    let (channels, features) = (data.len(), x.features());
    let repeats = x.shape.ends_with(own) && channels > 0 && features.is_multiple_of(channels);
    fail_if(!repeats, format_args!("its constant is {shape:?}, which does not repeat over {:?}", x.shape))?;
    let layer = Layer::new(CellKind::Scale, features, features).extent("channels", channels);
    let constant = Tensor { shape: vec![channels], data };
    Ok(match of {
        Arithmetic::Multiply => layer.option("gain").tensor("gain", constant),
        Arithmetic::Add | Arithmetic::Subtract => layer.tensor("bias", constant),
    })
}

/// The scale of a product; `None` if it is out of range.
fn of_product(x: Counts, by: Counts, output: Counts) -> Option<Multiplier> {
    // Computed in the precision of the scales, unlike in sums.
    Multiplier::of((x.scale * by.scale / output.scale).into())
}

/// The scales of both terms of a sum, and of the sum; `None` if one is out of range.
fn of_sum(x: Counts, by: Counts, output: Counts) -> Option<([Multiplier; 2], Multiplier)> {
    let [x, by, output] = [x, by, output].map(|counts| f64::from(counts.scale));
    let unit = 2.0 * x.max(by);
    let terms = [Multiplier::of(x / unit)?, Multiplier::of(by / unit)?];
    Some((terms, Multiplier::of(unit / (f64::from(1 << LIFT) * output))?))
}

impl Counted {
    /// Adds the scales of two terms and of the whole.
    fn of_terms(self, [first, second]: [Multiplier; 2], whole: Multiplier) -> Self {
        self.requantized("first_", first).requantized("second_", second).requantized("", whole)
    }
}

/// The integers of a product with a constant. `None` if a scale is out of range.
fn product(counted: Counted, x: Counts, by: Counts, output: Counts, gain: &[i32]) -> Option<Counted> {
    let counted = counted.requantized("input_", Multiplier::NONE);
    Some(counted.requantized("", of_product(x, by, output)?).rows("gain", gain.to_vec()))
}

/// The integers of a sum with a constant, or of a difference. `None` if a scale is out of range.
fn sum(counted: Counted, x: Counts, by: Counts, output: Counts, values: &[i32], negative: bool) -> Option<Counted> {
    let ([of_x, of_value], whole) = of_sum(x, by, output)?;
    let addend = |&value: &i32| {
        let term = of_value.apply(value << LIFT);
        if negative { -term } else { term }
    };
    let addends = values.iter().map(addend).collect();
    Some(counted.requantized("input_", of_x).requantized("", whole).rows("addends", addends))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The quotient in f64 would have another factor, and a product of 255 and 255 can be rounded to another value.
    #[test]
    fn the_scales_of_a_product_are_multiplied_in_f32() {
        let counts = |scale| Counts { scale, zero_point: 0 };
        let (x, by, output) = (counts(0.1_f32), counts(0.3_f32), counts(0.7_f32));
        let given = product(Counted::of(output), x, by, output, &[1]).unwrap().integers();
        let in_f32 = Multiplier::of((x.scale * by.scale / output.scale).into()).unwrap();
        let in_f64 = f64::from(x.scale) * f64::from(by.scale) / f64::from(output.scale);
        assert_ne!(in_f32, Multiplier::of(in_f64).unwrap());
        assert_eq!((given.numbers["factor"], given.numbers["shift"]), (in_f32.factor, in_f32.shift));
    }
}
