//! Values of whole windows, such as the outputs of convolutions, position by position.

use super::integers::{Counted, LIMITS, Multiplier};
use super::lower::{Along, Reader, Refused, Value};
use super::options::FUSED;
use super::schema::{Operator, Type};
use crate::format::{layer::Layer, network::Source, refuse::fail_if};

impl Value {
    /// Whether each row, or the only one, has the features of one position.
    pub fn is_by_positions(&self) -> bool {
        self.shape.last() == Some(&self.features())
    }

    /// A whole value with a row for each position; `None` for any other value, and if several dimensions count the positions.
    pub fn in_positions(self) -> Option<Self> {
        let (&features, dims) = self.shape.split_last()?;
        let axis = dims.iter().position(|&dim| dim != 1)?;
        let rows = dims[axis];
        let is_whole = self.along == Along::Nothing && self.source.rows().is_none();
        let fits = is_whole && rows.checked_mul(features) == Some(self.features());
        fits.then(|| Self { source: self.source.flat().in_rows(rows), along: Along::Rows(axis), ..self })
    }
}

impl Reader<'_> {
    /// Values side by side, along the last dimension.
    pub(super) fn concatenation(&mut self, operator: &Operator<'_>) -> Refused {
        let parts =
            (0..operator.inputs.len()).map(|index| self.value(operator, index)).collect::<Result<Vec<_>, _>>()?;
        let shape = self.output_shape(operator)?;
        let parts = self.of_one_kind(parts);
        let first = parts.first().ok_or("it has no input")?.clone();
        let axis = operator.option("axis", 0_i32)?;
        let last = shape.len().saturating_sub(1);
        let is_last = axis == -1 || usize::try_from(axis) == Ok(last);
        // The elements of each step are those of the parts, one part behind the other.
        let mut others = shape[..last].iter().enumerate().filter(|(at, _)| Some(*at) != first.along.axis());
        let fits = is_last && others.all(|(_, &dim)| dim == 1) && first.along.axis() != Some(last);
        fail_if(!fits, format_args!("attribute axis is {axis} with an output of {shape:?}, which is not supported"))?;
        let differ = parts.iter().any(|part| part.along != first.along || part.counts != first.counts);
        fail_if(differ, "its inputs differ in scale, in zero point or in their steps")?;
        self.same_counts(operator, &first)?;
        let other = operator.option(FUSED, 0_i8)? != 0;
        fail_if(other, format_args!("attribute {FUSED} is not 0, which is not supported"))?;
        let sources: Vec<&Source> = parts.iter().map(|part| &part.source).collect();
        let size = parts.iter().map(Value::features).sum();
        let counted = first
            .counts
            .map(|counts| (counts, Counted::of(counts).requantized("", Multiplier::ONE).limited(counts, LIMITS)));
        let (source, counts) = self.counted_of(Layer::identity(size), &sources, counted);
        self.shaped(Value { source, counts, ..first }, shape)
    }

    /// The values, with rows in place of whole values if each of them has positions.
    pub(super) fn of_one_kind(&mut self, values: Vec<Value>) -> Vec<Value> {
        let is_whole = |value: &Value| value.along == Along::Nothing && value.clone().in_positions().is_some();
        if !values.iter().any(is_whole) {
            return values;
        }
        let mut rows = Vec::new();
        for value in &values {
            let value = match value.along {
                Along::Rows(_) => Some(value.clone()),
                _ => self.flat(value.clone()).in_positions(),
            };
            rows.extend(value);
        }
        if rows.len() == values.len() { rows } else { values }
    }

    /// `TILE` of one row to equal rows, as a Keras `RepeatVector`.
    pub(super) fn tile(&mut self, operator: &Operator<'_>) -> Refused {
        let x = self.value(operator, 0)?;
        fail_if(x.counts.is_some(), "its input is of integers, which is not supported")?;
        let shape = self.output_shape(operator)?;
        let times = self.integers(operator, 1, Type::I32)?.map(|(_, times, _)| times).unwrap_or_default();
        let sizes = x.shape.iter().zip(&times).map(|(&dim, &times)| usize::try_from(times).ok()?.checked_mul(dim));
        let fits = times.len() == x.shape.len() && sizes.collect::<Option<Vec<_>>>().as_ref() == Some(&shape);
        fail_if(!fits, format_args!("it makes {shape:?} of {times:?} times {:?}", x.shape))?;
        let mut repeated = (0..times.len()).filter(|&axis| times[axis] != 1);
        let (axis, other) = (repeated.next(), repeated.next());
        let Some(axis) = axis else { return Ok(x) };
        let is_row = x.along == Along::Nothing && x.is_by_positions() && x.source.rows().is_none();
        let of_rows = other.is_none() && axis + 1 < shape.len() && is_row;
        fail_if(!of_rows, format_args!("it repeats {:?} {times:?} times, which is not one row", x.shape))?;
        let source = self.network.repeated(&x.source, shape[axis]);
        Ok(Value { source, shape, along: Along::Rows(axis), ..x })
    }
}
