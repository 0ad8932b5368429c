//! The operands of operators: shapes, quantization, computed values, and constants.

use super::integers::Counts;
use super::lower::{Reader, Trouble, Value};
use super::schema::{Operator, Quantization, Type, floats, integers};
use super::unsupported;
use crate::error::Result;
use crate::format::refuse::fail_if;

/// Memory of a number of a constant in bytes: an f32 in the model, and what the integer form of a row adds to it.
const NUMBER: usize = 6;
/// Memory of an integer in bytes while its tensor is read.
const READ: usize = 8;

/// Shape and numbers of a float constant.
pub type Floats = (Vec<usize>, Vec<f32>);

/// Shape, numbers and quantization of an integer constant.
pub type Whole = (Vec<usize>, Vec<i64>, Option<Quantization>);

impl Reader<'_> {
    /// Number of the tensor at input `index` of an operator; `None` if it is left out.
    pub fn port(&self, operator: &Operator<'_>, index: usize) -> Option<usize> {
        operator.inputs.get(index).copied().flatten()
    }

    /// Number of the tensor at input `index` of an operator.
    pub fn input_number(&self, operator: &Operator<'_>, index: usize) -> Result<usize, Trouble> {
        Ok(self.port(operator, index).ok_or_else(|| format!("its input {index} is missing"))?)
    }

    /// Shape of the tensor with this number.
    pub fn shape_of(&self, number: usize) -> Result<Vec<usize>, Trouble> {
        Ok(self.model.main.tensors[number].shape()?)
    }

    /// Shape of the first input of an operator.
    pub fn input_shape(&self, operator: &Operator<'_>) -> Result<Vec<usize>, Trouble> {
        self.shape_of(self.input_number(operator, 0)?)
    }

    /// The computed value at input `index` of an operator, which must have its steps in order.
    pub fn value(&mut self, operator: &Operator<'_>, index: usize) -> Result<Value, Trouble> {
        let value = self.value_in_any_order(operator, index)?;
        let reversed = "has its steps in reverse order, which only loops and operators that move values may read";
        fail_if(value.reversed, format_args!("its input {index} {reversed}"))?;
        Ok(value)
    }

    /// The computed value at input `index` of an operator.
    pub fn value_in_any_order(&mut self, operator: &Operator<'_>, index: usize) -> Result<Value, Trouble> {
        let number = self.input_number(operator, index)?;
        let is_port = self.model.main.tensors[number].of == Type::U8;
        let converts = matches!(operator.op, "QUANTIZE" | "DEQUANTIZE");
        fail_if(is_port && !converts, format_args!("its input {index} is of uint8, which only QUANTIZE may read"))?;
        if let Some(seen) = self.seen(number)? {
            return Ok(seen);
        }
        match self.values.get(&number) {
            Some(value) => Ok(value.clone()),
            None => {
                let name = self.model.main.tensors[number].name()?;
                let kind = match self.cells.inputs.is_empty() {
                    true => "is not computed by an earlier operator",
                    false => "is neither computed by an earlier operator nor outside of a recurrent cell",
                };
                Err(format!("its input {index}, {name:?}, {kind}").into())
            }
        }
    }

    fn output(&self, operator: &Operator<'_>) -> Result<usize, Trouble> {
        Ok(operator.outputs.first().copied().flatten().ok_or("it has no output")?)
    }

    /// The shape of an operator's output according to the file; that of one step, if the first dimension counts steps.
    pub fn output_shape(&self, operator: &Operator<'_>) -> Result<Vec<usize>, Trouble> {
        let mut shape = self.model.main.tensors[self.output(operator)?].shape()?;
        if let Some(batch) = shape.first_mut().filter(|batch| **batch == self.batch) {
            *batch = 1;
        }
        Ok(shape)
    }

    /// Refuses an operator whose output has another shape in the file.
    pub fn has_shape(&self, operator: &Operator<'_>, shape: &[usize]) -> Result<(), Trouble> {
        let found = self.output_shape(operator)?;
        Ok(fail_if(found != shape, format_args!("its output is {found:?}, not {shape:?}"))?)
    }

    /// Quantization of an operator's output; `None` if the output is a float tensor.
    pub fn output_counts(&self, operator: &Operator<'_>) -> Result<Option<Counts>, Trouble> {
        let output = self.output(operator)?;
        match self.model.main.tensors[output].of {
            Type::F32 => Ok(None),
            Type::I8 => Ok(Some(self.counts(output)?.ok_or("its output is of int8 without a scale")?)),
            other => Err(format!("its output is of {}", other.name()).into()),
        }
    }

    pub fn is_constant(&self, number: Option<usize>) -> bool {
        number.is_some_and(|number| {
            let tensor = &self.model.main.tensors[number];
            !self.values.contains_key(&number) && self.model.data(tensor).is_ok_and(|data| data.is_some())
        })
    }

    /// Quantization of an 8-bit or 16-bit tensor, which must have a single scale.
    pub fn counts(&self, number: usize) -> Result<Option<Counts>> {
        let tensor = &self.model.main.tensors[number];
        let Some(Quantization { scales, zero_points, .. }) = tensor.quantization()? else { return Ok(None) };
        // 128 is subtracted from the integers of uint8, so that they are those of int8.
        let middle = if tensor.of == Type::U8 { 128 } else { 0 };
        match (scales.as_slice(), zero_points.as_slice()) {
            (&[scale], &[zero_point]) if (-128..=127).contains(&zero_point.saturating_sub(middle)) => {
                Ok(Some(Counts { scale, zero_point: (zero_point - middle) as i32 }))
            }
            _ => {
                let name = tensor.name()?;
                Err(unsupported(format!("tensor {name:?} with several scales, or with a zero point out of range")))
            }
        }
    }

    /// The constant that a `DEQUANTIZE` converts to this tensor, if there is one; otherwise the tensor itself.
    pub fn behind(&self, number: usize) -> usize {
        let gives = |of: &&Operator<'_>| of.op == "DEQUANTIZE" && of.outputs.first() == Some(&Some(number));
        match self.model.main.operators.iter().find(gives) {
            Some(of) if self.model.main.tensors[number].of == Type::F32 => {
                of.inputs.first().copied().flatten().unwrap_or(number)
            }
            _ => number,
        }
    }

    /// Subtracts the memory of `count` things of `each` bytes.
    pub fn take_numbers(&mut self, count: usize, each: usize) -> Result<()> {
        Ok(self.budget.take(count, each)?)
    }

    /// Subtracts the memory of the integers of rows: three, and a scale.
    pub fn take_rows(&mut self, rows: usize) -> Result<()> {
        Ok(self.budget.take(rows, 4 * size_of::<i32>())?)
    }

    /// Subtracts the memory of a constant and of its rows, each time that an operator reads it.
    fn take(&mut self, number: usize) -> Result<()> {
        let shape = self.model.main.tensors[number].shape()?;
        let (elements, rows) = (shape.iter().product(), shape.first().copied().unwrap_or(1));
        self.budget.take(elements, NUMBER)?;
        self.take_rows(rows)?;
        Ok(self.budget.clone().take(elements, READ)?)
    }

    /// Shape and numbers of the float constant at input `index` of an operator; `None` if it is left out.
    pub fn floats(&mut self, operator: &Operator<'_>, index: usize) -> Result<Option<Floats>, Trouble> {
        let Some(given) = self.port(operator, index) else { return Ok(None) };
        let number = self.behind(given);
        let tensor = self.model.main.tensors[number];
        self.hybrid |= tensor.of == Type::I8 && number == given;
        self.take(number)?;
        match floats(self.model, &tensor)? {
            Some(values) => Ok(Some((tensor.shape()?, values))),
            None => Err(format!("its input {index}, {:?}, is not a constant", tensor.name()?).into()),
        }
    }

    /// Shape, numbers and quantization of the integer constant at input `index`, whose type must be `of`; `None` if it
    /// is left out.
    pub fn integers(&mut self, operator: &Operator<'_>, index: usize, of: Type) -> Result<Option<Whole>, Trouble> {
        let Some(number) = self.port(operator, index) else { return Ok(None) };
        let tensor = self.model.main.tensors[number];
        if tensor.of != of {
            let (name, found) = (tensor.name()?, tensor.of.name());
            return Err(format!("its input {index}, {name:?}, is of {found}, not {}", of.name()).into());
        }
        self.take(number)?;
        match integers(self.model, &tensor)? {
            Some(values) => Ok(Some((tensor.shape()?, values, tensor.quantization()?))),
            None => Err(format!("its input {index}, {:?}, is not a constant", tensor.name()?).into()),
        }
    }
}
