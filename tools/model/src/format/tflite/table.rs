//! The indices of a table, as converters write them.
//!
//! ```text
//! GATHER(table, c)                                   c = CAST(x)   Keras declares the input of an Embedding as floats
//! GATHER(table, SELECT(LESS(c, 0), ADD(c, rows), c))               negative indices count from the end
//! ```
//!
//! The `GATHER` reads the input itself, because the indices of words are whole numbers from 0.

use std::collections::{BTreeSet, HashMap};

use tidegate::internals::cell::CellKind;

use super::lower::{Along, Reader, Refused, Value};
use super::options::FUSED;
use super::schema::{Operator, Type, integers};
use crate::canonical::Tensor;
use crate::error::Result;
use crate::format::{layer::Layer, refuse::fail_if};

impl Reader<'_> {
    /// Finds the inputs that are indices.
    pub fn find_indices(&mut self) -> Result<()> {
        let main = &self.model.main;
        let of_tables = || main.operators.iter().filter(|operator| operator.op == "GATHER");
        if of_tables().next().is_none() {
            return Ok(());
        }
        let mut makers = HashMap::new();
        for operator in &main.operators {
            makers.extend(operator.outputs.iter().flatten().map(|&output| (output, operator)));
        }
        for gather in of_tables() {
            let Some(&Some(index)) = gather.inputs.get(1) else { continue };
            let mut between = BTreeSet::new();
            let table = gather.inputs.first().copied().flatten();
            let shape = table.map(|table| main.tensors[table].shape()).transpose()?;
            let rows = shape.and_then(|shape| shape.first().copied()).unwrap_or(0);
            let input = match self.wrapped(&makers, (index, rows), &mut between)? {
                Some(start) => self.uncast(&makers, start, &mut between),
                None => self.uncast(&makers, index, &mut between),
            };
            if main.inputs.contains(&input) && (input != index || main.tensors[input].of != Type::F32) {
                self.indices.insert(index, input);
                self.folded.extend(between);
            }
        }
        Ok(())
    }

    /// Whether an input of the graph is indices.
    pub fn is_index(&self, input: usize) -> bool {
        self.indices.values().any(|&of| of == input)
    }

    /// Whether a tensor holds rows of a table.
    pub fn is_of_table(&self, tensor: usize) -> bool {
        let gathers = |of: &&Operator<'_>| of.op == "GATHER" && of.outputs.contains(&Some(tensor));
        let gather = self.model.main.operators.iter().find(gathers);
        gather.and_then(|of| of.inputs.get(1).copied().flatten()).is_some_and(|index| self.indices.contains_key(&index))
    }

    /// The indices in front of a `CAST` to integers.
    fn uncast(&self, makers: &HashMap<usize, &Operator<'_>>, tensor: usize, between: &mut BTreeSet<usize>) -> usize {
        let cast = makers.get(&tensor).filter(|of| of.op == "CAST" && self.is_whole(tensor));
        let Some(&Some(from)) = cast.and_then(|of| of.inputs.first()) else { return tensor };
        between.insert(tensor);
        from
    }

    fn is_whole(&self, tensor: usize) -> bool {
        matches!(self.model.main.tensors[tensor].of, Type::I32 | Type::I64)
    }

    /// Indices of which the negative ones count from the end, before this is resolved.
    fn wrapped(
        &self,
        makers: &HashMap<usize, &Operator<'_>>,
        (tensor, rows): (usize, usize),
        between: &mut BTreeSet<usize>,
    ) -> Result<Option<usize>> {
        let made = |tensor: usize, ops: &[&str]| makers.get(&tensor).filter(|of| ops.contains(&of.op));
        let two = |of: &Operator<'_>| match *of.inputs.as_slice() {
            [Some(a), Some(b)] => Some([a, b]),
            _ => None,
        };
        let Some(choice) = made(tensor, &["SELECT", "SELECT_V2"]) else { return Ok(None) };
        let &[Some(condition), Some(end), Some(start)] = choice.inputs.as_slice() else { return Ok(None) };
        let less = made(condition, &["LESS"]).and_then(|of| two(of));
        let (Some([x, zero]), Some(add)) = (less, made(end, &["ADD"])) else { return Ok(None) };
        let Some([a, b]) = two(add) else { return Ok(None) };
        let number = |tensor: usize| integers(self.model, &self.model.main.tensors[tensor]);
        let is_zero = number(zero)? == Some(vec![0]);
        let by_rows = if a == start { number(b)? } else { number(a)? } == Some(vec![rows as i64]);
        let of_start = x == start && (a == start || b == start) && by_rows && add.option(FUSED, 0_i8)? == 0;
        if is_zero && of_start {
            between.extend([tensor, condition, end]);
        }
        Ok((is_zero && of_start).then_some(start))
    }

    /// Rows of a table, by an input of the graph.
    pub(super) fn table(&mut self, operator: &Operator<'_>) -> Refused {
        let index = self.input_number(operator, 1)?;
        let input = self.indices.get(&index).copied();
        let input = input.ok_or("its indices are no input of the graph, which is not supported")?;
        let (axis, batch) = (operator.option("axis", 0_i32)?, operator.option("batch_dims", 0_i32)?);
        fail_if(axis != 0, format_args!("attribute axis is {axis}, not 0, which is not supported"))?;
        fail_if(batch != 0, format_args!("attribute batch_dims is {batch}, not 0, which is not supported"))?;
        // Weights of int8 in a table make no product, so nothing is rounded.
        let hybrid = self.hybrid;
        let (shape, data) = self.floats(operator, 0)?.ok_or("its table is not a constant")?;
        self.hybrid = hybrid;
        let &[rows, width] = shape.as_slice() else {
            return Err(format!("its table is {shape:?}, not a matrix").into());
        };
        let x = self.values.get(&input).cloned().ok_or("its indices are not known")?;
        let shape = self.output_shape(operator)?;
        let same = shape.split_last() == Some((&width, x.shape.as_slice()));
        fail_if(!same, format_args!("its output is {shape:?} for indices of {:?}", x.shape))?;
        let x = self.in_rows_of(x, 1)?;
        let count = x.source.rows();
        let along = match (x.along, count) {
            (Along::Nothing, Some(rows)) => x.shape.iter().position(|&dim| dim == rows).map_or(x.along, Along::Rows),
            (along, _) => along,
        };
        let table = Layer::new(CellKind::Embedding, 1, width).extent("vocabulary", rows);
        let table = table.tensor("weights", Tensor { shape: vec![rows, width], data });
        let source = self.network.add(table, &[&x.source]);
        let source = if along == Along::Nothing { source.flat() } else { source };
        Ok(Value { source, shape, along, ..x })
    }
}
