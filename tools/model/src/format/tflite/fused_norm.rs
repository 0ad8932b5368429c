//! Layer normalization as Keras 2 writes it: `FusedBatchNormV3` over the features, with the steps in the place of channels.
//! Converters take this apart too:
//!
//! ```text
//! RESHAPE [1, steps, features, 1], TRANSPOSE [1, features, 1, steps], a normalization over all but the last dimension,
//! TRANSPOSE, RESHAPE
//! ```
//!
//! With a single step there are no transpositions.

use std::collections::HashMap;

use super::lower::{Along, Reader, Trouble, Value};
use super::moment::{FusedNorm, Made, Moment, Operand, made};
use super::schema::{Operator, Type};
use crate::error::ImportError;
use crate::format::refuse::fail_if;

/// A tensor of one of the forms `[1, steps, features, 1]` and `[1, features, 1, steps]`.
struct Turned {
    tensor: usize,
    steps: usize,
    features: usize,
    /// Whether transpositions surround the normalization.
    is_transposed: bool,
}

const DIMS: [i64; 3] = [0, 1, 2];
const TO_CHANNELS: [i64; 4] = [0, 2, 3, 1];
const FROM_CHANNELS: [i64; 4] = [0, 3, 1, 2];

impl<'a> Reader<'a> {
    /// Finds all such normalizations. The operators of one that is not whole are read, or refused, like any others.
    pub(super) fn find_fused_norms(&mut self) -> Result<(), ImportError> {
        for at in 0..self.model.main.operators.len() {
            let mut inside = Vec::new();
            match self.fused_norm_from(at, &mut inside) {
                Ok(Some((output, norm))) => {
                    self.fused_norms.insert(output, norm);
                    self.folded.extend(inside);
                }
                Ok(None) | Err(Trouble::Reason(_)) => {}
                Err(Trouble::Whole(error)) => return Err(error),
            }
        }
        Ok(())
    }

    /// The normalization that begins with an operator, its output, and the tensors inside.
    fn fused_norm_from(&mut self, at: usize, inside: &mut Vec<usize>) -> Result<Option<(usize, FusedNorm)>, Trouble> {
        let operators = &self.model.main.operators[at..];
        let Some(operator) = operators.first().filter(|operator| operator.op == "RESHAPE") else { return Ok(None) };
        let Some(turned) = self.turned(operator, inside)? else { return Ok(None) };
        let Some(moment) = self.normalized(operators, turned.tensor, inside)? else { return Ok(None) };
        let Some(output) = self.turned_back(&turned, inside)? else { return Ok(None) };
        for operator in operators {
            if operator.outputs.iter().flatten().any(|output| inside.contains(output)) {
                operator.check_options()?;
            }
        }
        let x = self.input_number(operator, 0)?;
        // Keras adds the real gain and bias behind the normalization, and writes ones and zeros here.
        let is = |of: &Option<Vec<f32>>, number: f32| of.as_ref().is_some_and(|of| *of == [number]);
        let gain = moment.gain.clone().filter(|_| !is(&moment.gain, 1.0));
        let bias = moment.bias.clone().filter(|_| !is(&moment.bias, 0.0));
        let moment = Moment { gain, bias, ..moment };
        Ok(Some((output, FusedNorm { x, features: turned.features, moment })))
    }

    /// The tensor that is normalized, if a `RESHAPE` is the first operator of a normalization.
    fn turned(&mut self, operator: &Operator<'_>, inside: &mut Vec<usize>) -> Result<Option<Turned>, Trouble> {
        let &[Some(output)] = operator.outputs.as_slice() else { return Ok(None) };
        if self.model.main.tensors[output].of != Type::F32 {
            return Ok(None);
        }
        inside.push(output);
        let (first, features, steps) = match self.shape_of(output)?.as_slice() {
            &[1, first, second, 1] => (first, second, first),
            _ => return Ok(None),
        };
        if let Some((tensor, true)) = self.transposed(output, &TO_CHANNELS)? {
            inside.push(tensor);
            return Ok(Some(Turned { tensor, steps, features, is_transposed: true }));
        }
        let is_row = features == 1;
        Ok(is_row.then_some(Turned { tensor: output, steps: 1, features: first, is_transposed: false }))
    }

    /// The output of the only operator that reads a tensor if it is a `TRANSPOSE`, and whether it has this order.
    fn transposed(&mut self, tensor: usize, order: &[i64]) -> Result<Option<(usize, bool)>, Trouble> {
        let Some(reader) = self.only_reader(tensor) else { return Ok(None) };
        let &[Some(output)] = reader.outputs.as_slice() else { return Ok(None) };
        if reader.op != "TRANSPOSE" {
            return Ok(None);
        }
        let found = self.integers(reader, 1, Type::I32)?.is_some_and(|(_, found, _)| found == order);
        Ok(Some((output, found)))
    }

    /// The normalization of a tensor over all but its last dimension, whose output is added to the tensors inside.
    fn normalized(
        &mut self,
        operators: &[Operator<'_>],
        x: usize,
        inside: &mut Vec<usize>,
    ) -> Result<Option<Moment>, Trouble> {
        let mut moments = HashMap::new();
        for operator in operators {
            let is_read = |input: &usize| *input == x || moments.contains_key(input);
            if !operator.inputs.iter().flatten().any(is_read) {
                continue;
            }
            let &[Some(output)] = operator.outputs.as_slice() else { return Ok(None) };
            if operator.limit_is_none().is_err() {
                return Ok(None);
            }
            let mut operands = Vec::new();
            let of_mean = operator.op == "MEAN";
            for index in 0..if of_mean { 1 } else { operator.inputs.len() } {
                let Some(operand) = self.turned_operand(operator, index, x, &moments)? else { return Ok(None) };
                operands.push(operand);
            }
            if of_mean && self.integers(operator, 1, Type::I32)?.is_none_or(|(_, axes, _)| axes != DIMS) {
                return Ok(None);
            }
            let mut operands = operands.into_iter();
            let Some(first) = operands.next() else { return Ok(None) };
            inside.push(output);
            match made(operator.op, first, operands.next()) {
                Some(Made::Inside(moment)) => drop(moments.insert(output, moment)),
                Some(Made::Whole(moment)) => return Ok(Some(moment)),
                None => return Ok(None),
            }
        }
        Ok(None)
    }

    /// An operand of a normalization; `None` for a constant whose numbers differ, which no feature of a step has.
    fn turned_operand(
        &mut self,
        operator: &Operator<'_>,
        index: usize,
        x: usize,
        moments: &HashMap<usize, Moment>,
    ) -> Result<Option<Operand>, Trouble> {
        let number = self.input_number(operator, index)?;
        if let Some(moment) = moments.get(&number) {
            return Ok(Some(Operand::Moment(moment.clone())));
        }
        if !self.is_constant(Some(self.behind(number))) {
            return Ok((number == x).then_some(Operand::Tensor(x)));
        }
        let (_, data) = self.floats(operator, index)?.ok_or("its constant is missing")?;
        let equal = data.first().filter(|first| data.iter().all(|number| number == *first));
        Ok(equal.map(|&number| Operand::Constant(vec![number])))
    }

    /// The output of the last operator of a normalization.
    fn turned_back(&mut self, turned: &Turned, inside: &mut Vec<usize>) -> Result<Option<usize>, Trouble> {
        let Some(&(mut tensor)) = inside.last() else { return Ok(None) };
        if turned.is_transposed {
            let Some((output, true)) = self.transposed(tensor, &FROM_CHANNELS)? else { return Ok(None) };
            inside.push(output);
            tensor = output;
        }
        let Some(reader) = self.only_reader(tensor).filter(|reader| reader.op == "RESHAPE") else { return Ok(None) };
        let &[Some(output)] = reader.outputs.as_slice() else { return Ok(None) };
        let shape = self.shape_of(output)?;
        let fits = shape.last() == Some(&turned.features)
            && shape.iter().product::<usize>() == turned.steps.saturating_mul(turned.features);
        let is_output = inside.iter().any(|tensor| self.model.main.outputs.contains(tensor));
        Ok((fits && !is_output).then_some(output))
    }

    /// The only operator that reads a tensor.
    fn only_reader(&self, tensor: usize) -> Option<&'a Operator<'a>> {
        let mut readers = self.model.main.operators.iter().filter(|operator| operator.inputs.contains(&Some(tensor)));
        readers.next().filter(|_| readers.next().is_none())
    }

    /// The value of a normalization that was found.
    pub(super) fn fused_norm(&mut self, output: usize) -> Result<Option<Vec<(usize, Value)>>, Trouble> {
        let Some(FusedNorm { x, features, moment }) = self.fused_norms.get(&output).cloned() else { return Ok(None) };
        let x = self.values.get(&x).cloned().ok_or("what it normalizes is not computed by an earlier operator")?;
        let is_whole = x.along == Along::Nothing;
        let other_rows = x.reversed && x.features() != features;
        fail_if(other_rows, "it changes the rows of a sequence in reverse order, which is not supported")?;
        let x = self.in_rows_of(x, features)?;
        let (moment, output) = self.affine(moment, output)?;
        let source = self.layer_norm(&x, moment)?;
        let shape = self.shape_of(output)?;
        let value = Value { source, ..x };
        let value =
            if is_whole { Value { source: value.source.flat(), shape, ..value } } else { self.shaped(value, shape)? };
        Ok(Some(vec![(output, value)]))
    }
}
