//! The inputs and the outputs of a graph.

use std::collections::BTreeSet;

use super::{Along, LSTM, Reader, Value};
use crate::error::Result;
use crate::format::refuse::{err_if, unsupported_if};
use crate::format::tflite::rolled::Unrolled;
use crate::format::tflite::schema::{Operator, Type};
use crate::format::tflite::timeline::rows_and_size;
use crate::format::tflite::{malformed, unsupported};

impl Reader<'_> {
    pub(super) fn input(&mut self, number: usize) -> Result<()> {
        let tensor = &self.model.main.tensors[number];
        let (name, shape) = (tensor.name()?, tensor.shape()?);
        let of = |what: String| unsupported(format!("input {name:?} {what}"));
        let is_index = self.is_index(number);
        let counts = match tensor.of {
            Type::F32 => None,
            Type::I32 | Type::I64 if is_index => None,
            Type::I8 | Type::U8 => {
                Some(self.counts(number)?.ok_or_else(|| of(format!("of {} without a scale", tensor.of.name())))?)
            }
            other => return Err(of(format!("of {}", other.name()))),
        };
        let open = tensor.open().unwrap_or_default();
        if let Some(axis) = (1..shape.len()).find(|&axis| open.get(axis) == Some(&true)) {
            return Err(of(format!("whose dimension {axis} is open")));
        }
        let has = |of: &[&str]| self.model.main.operators.iter().any(|operator| of.contains(&operator.op));
        let backwards = self.unrolled.as_ref().map(Unrolled::has_backwards);
        let is_unrolled = |steps| self.unrolled.as_ref().is_some_and(|unrolled| unrolled.has_steps(steps));
        let streams = |steps| has(&[LSTM, "WHILE"]) || is_unrolled(steps);
        let is_reversed = has(&["REVERSE_V2"]) || backwards == Some(true);
        let (size, along) = match *shape {
            // A step is a row.
            [1, ..] if self.timeline.has(number) => (rows_and_size(&shape).1, Along::Nothing),
            [1, steps, features] | [steps, 1, features] if steps > 1 && streams(steps) => {
                let known = *self.steps.get_or_insert(steps);
                err_if(known != steps, || of(format!("of {steps} steps beside another of {known}")))?;
                (features, Along::Stream(usize::from(shape[0] == 1)))
            }
            [1, steps, _, _, ..] if steps > 1 && streams(steps) && self.is_batch_of(number, steps) => {
                let known = *self.steps.get_or_insert(steps);
                err_if(known != steps, || of(format!("of {steps} steps beside another of {known}")))?;
                (shape[2..].iter().product(), Along::Stream(1))
            }
            [1, steps] if steps > 1 && streams(steps) && is_index => {
                let known = *self.steps.get_or_insert(steps);
                err_if(known != steps, || of(format!("of {steps} steps beside another of {known}")))?;
                (1, Along::Stream(1))
            }
            [1, ..] => (shape.iter().product(), Along::Nothing),
            _ => return Err(of(format!("of a batch: it is {shape:?}"))),
        };
        err_if(self.network.has_input(&name), || of("occurs twice".into()))?;
        let source = self.network.input(&name, size);
        if self.timeline.has(number) {
            self.network.called_with(&name, rows_and_size(&shape).0);
        } else if let (Along::Nothing, Some(&features)) = (along, shape.last().filter(|&&last| last != size)) {
            self.network.called_with_frames(&name, features);
        } else if let (Some(axis), true) = (along.axis(), shape.len() > 3) {
            self.network.called_with(&name, shape[axis]);
        }
        let value = match counts {
            None => {
                self.floats.insert(name);
                Value { source, shape, along, counts: None, reversed: false }
            }
            Some(counts) => self.quantized_input(Value { source, shape, along, counts: None, reversed: false }, counts),
        };
        let value = match along {
            Along::Stream(axis) if value.counts.is_none() && (is_reversed || self.in_windows) => {
                self.in_rows(value, axis)
            }
            _ => value,
        };
        self.values.insert(number, value);
        Ok(())
    }

    /// Whether all operators that read an input of more than three dimensions make its steps a batch.
    fn is_batch_of(&self, input: usize, steps: usize) -> bool {
        let mut readers = self.model.main.operators.iter().filter(|of| of.inputs.contains(&Some(input))).peekable();
        let is_batch = |of: &Operator<'_>| {
            let shape = of.outputs.first().copied().flatten().and_then(|output| self.shape_of(output).ok());
            of.op == "RESHAPE" && shape.is_some_and(|shape| shape.len() > 2 && shape.first() == Some(&steps))
        };
        readers.peek().is_some() && readers.all(is_batch)
    }

    pub(super) fn outputs(&mut self) -> Result<()> {
        err_if(self.model.main.outputs.is_empty(), || malformed("it has no output".into()))?;
        let mut named = BTreeSet::new();
        for &number in self.model.main.outputs.iter() {
            if self.cells.outputs.contains(&number) {
                continue;
            }
            let name = self.model.main.tensors[number].name()?;
            let uncomputed = || unsupported(format!("output {name:?}, which nothing computes,"));
            let seen = self.seen(number).map_err(|_| uncomputed())?;
            let value = seen.or_else(|| self.values.get(&number).cloned()).ok_or_else(uncomputed)?;
            let backwards = format_args!("output {name:?}, which has its steps in reverse order,");
            unsupported_if(value.reversed, backwards)?;
            // If any operator needs a whole window, streams become windows too.
            let value = if self.whole { self.flat(value) } else { value };
            unsupported_if(!named.insert(name.clone()), format_args!("output {name:?}, which occurs twice,"))?;
            self.network.output(&name, &value.source);
        }
        Ok(())
    }

    /// The steps of a stream as the rows of a window.
    fn in_rows(&mut self, value: Value, axis: usize) -> Value {
        let (steps, features) = (value.shape[axis], value.features());
        let flat = self.flat(value);
        let source = flat.source.in_rows(steps);
        debug_assert_eq!(source.size(), features);
        Value { source, along: Along::Rows(axis), ..flat }
    }
}
