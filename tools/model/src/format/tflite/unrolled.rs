//! Recurrent layers whose loop over time a converter has unrolled: Keras with `unroll=True`, PyTorch's layers.
//!
//! The operators of each step are recognized as a cell in the normal form. The cell must have the same weights in all
//! steps, and run over all steps of one sequence. Everything that the network's outputs need beside these cells is read
//! operator by operator.

use std::collections::{BTreeSet, HashMap};

use super::algebra::{Algebra, Item, steps_axis};
use super::lower::{Reader, Trouble, Value};
use super::over_steps::{Layers, in_steps};
use super::rolled::{Rolled, Unrolled};
use super::schema::{Operator, Type};
use super::unsupported;
use crate::error::{ImportError, Result};
use crate::format::tf1::{Arena, Expr, Id, chain, find_cell, of_steps};

/// The advice about steps that do not form an unrolled layer.
pub const WITHOUT: &str =
    "convert the network without unroll=True or TimeDistributed, or import the file of its own framework";

/// The sequences that `of` reads, sorted: itself if no step of it is computed here. `tensors` has the tensors of
/// sequences that operators compute.
fn reads(arena: &Arena, of: Id, tensors: &HashMap<Id, usize>) -> Option<Vec<(Id, usize)>> {
    let (mut open, mut seen, mut read) = (vec![of], BTreeSet::new(), Vec::new());
    while let Some(id) = open.pop() {
        if !seen.insert(id) {
            continue;
        }
        match (arena.expr(id), tensors.get(&id).filter(|_| id != of)) {
            // A cell that has no layer is left to the operators.
            (Expr::Rnn(cell, x), _) => {
                arena.cells[*cell].layer(arena).ok()?;
                open.push(*x);
            }
            (Expr::Reverse(x), _) => open.push(*x),
            (_, Some(tensor)) => read.push((id, *tensor)),
            (Expr::Linear(_) | Expr::Unary(..) | Expr::Softmax(_) | Expr::Concat(_), None) => {
                open.extend(arena.operands(id));
            }
            (_, None) => read.push((id, *tensors.get(&id)?)),
        }
    }
    read.sort_unstable();
    Some(read)
}

/// The cell states of all cells.
fn cell_states(algebra: &mut Algebra<'_, '_>) -> BTreeSet<Id> {
    let rows = algebra.items.values().filter_map(|item| if let Item::Real(row) = item { Some(*row) } else { None });
    let rows: BTreeSet<Id> = rows.collect();
    let state = |row| find_cell(&mut algebra.arena, row)?.state.map(|[_, new]| new);
    rows.into_iter().filter_map(state).collect()
}

/// Whether an operator may join the steps of a loop.
fn joins(operator: &Operator<'_>) -> bool {
    matches!(operator.op, "PACK" | "CONCATENATION")
}

/// Whether an operator reads several values, none of which is a sequence.
fn joins_rows(algebra: &Algebra<'_, '_>, operator: &Operator<'_>) -> bool {
    let is_sequence = |input: &usize| matches!(algebra.items.get(input), Some(Item::Sequence(_)));
    operator.inputs.len() > 1 && !operator.inputs.iter().flatten().any(is_sequence)
}

/// The sequence of a cell's outputs up to this one; `None` if it is no output of a cell. An error if it is one, but the steps
/// before it are not those of the same cell.
fn up_to(arena: &mut Arena, id: Id) -> Result<Option<Id>, String> {
    match chain(arena, id) {
        Some(steps) if steps.len() > 1 => of_steps(arena, &steps, 0).map(Some),
        Some(_) => Ok(None),
        None if find_cell(arena, id).is_some() => {
            Err("the first step is not that of the same cell with states of zeros".into())
        }
        None => Ok(None),
    }
}

impl<'a> Reader<'a> {
    /// An error of a graph with steps that do not form an unrolled layer, with the reason.
    pub fn of_no_loop(&self, error: ImportError) -> ImportError {
        match (&self.no_loop, error) {
            (Some((found, advice)), ImportError::UnreadOp { .. } | ImportError::Node { .. }) => {
                ImportError::Refused { found: found.clone(), advice }
            }
            (_, error) => error,
        }
    }

    /// Finds the cells of unrolled loops.
    pub fn find_unrolled(&mut self) -> Result<()> {
        let main = &self.model.main;
        let takes_steps = |operator: &Operator<'_>| match operator.op {
            "UNPACK" => operator.outputs.len() > 1,
            "SLICE" | "STRIDED_SLICE" => true,
            _ => false,
        };
        if !main.operators.iter().any(takes_steps) {
            return Ok(());
        }
        let mut budget = self.budget.clone();
        let mut algebra = Algebra::new(self.model, main, &mut budget);
        algebra.has_sequences = true;
        let mut tensors = HashMap::new();
        for operator in &main.operators {
            self.enter(&mut algebra, &mut tensors, operator)?;
            match algebra.read(operator) {
                // The budget is left to the operators.
                Err(Trouble::Whole(ImportError::TooCostly(_))) => return Ok(()),
                Err(Trouble::Reason(reason)) if joins(operator) && joins_rows(&algebra, operator) => {
                    let output = operator.outputs.iter().flatten().next();
                    if output.is_some_and(|output| self.distributed.contains_key(output)) {
                        continue;
                    }
                    let name = output.map_or_else(|| Ok(String::new()), |&output| main.tensors[output].name())?;
                    let reason = format!("{name:?} joins steps that do not form an unrolled layer: {reason}");
                    self.no_loop.get_or_insert((reason, WITHOUT));
                }
                // The outputs of an operator that the algebra does not know become inputs of the algebra.
                Err(_) => {}
                Ok(()) => {
                    for &output in operator.outputs.iter().flatten() {
                        if let Some(&Item::Sequence(id)) = algebra.items.get(&output) {
                            tensors.entry(id).or_insert(output);
                        }
                    }
                }
            }
        }
        let mut makers = HashMap::new();
        for operator in &main.operators {
            makers.extend(operator.outputs.iter().flatten().map(|&output| (output, operator)));
        }
        let states = cell_states(&mut algebra);
        for &output in main.outputs.iter() {
            if matches!(algebra.items.get(&output), Some(Item::Real(id)) if states.contains(id)) {
                let found = format!(
                    "{:?}, the last cell state of a recurrent layer, is an output",
                    main.tensors[output].name()?
                );
                self.no_loop.get_or_insert((found, "export the network without this output"));
            }
        }
        let (mut open, mut needed, mut outputs) = (main.outputs.to_vec(), BTreeSet::new(), HashMap::new());
        while let Some(tensor) = open.pop() {
            if !needed.insert(tensor) {
                continue;
            }
            let maker = makers.get(&tensor);
            match self.rolled(&mut algebra, &tensors, tensor, maker.is_some_and(|of| joins(of)))? {
                Some(rolled) => {
                    open.extend(rolled.read.iter().map(|(_, tensor)| *tensor));
                    outputs.insert(tensor, rolled);
                }
                None => open.extend(maker.into_iter().flat_map(|operator| operator.inputs.iter().flatten())),
            }
        }
        let Algebra { arena, hybrid, .. } = algebra;
        if !outputs.is_empty() {
            self.unrolled = Some(Unrolled { arena, outputs, needed, known: HashMap::new(), hybrid });
        }
        Ok(())
    }

    /// Makes the float inputs of an operator that nothing has computed yet inputs of the algebra: rows, or sequences, which
    /// `tensors` then has as well.
    fn enter(
        &self,
        algebra: &mut Algebra<'_, 'a>,
        tensors: &mut HashMap<Id, usize>,
        operator: &Operator<'_>,
    ) -> Result<()> {
        for &input in operator.inputs.iter().flatten() {
            let tensor = &self.model.main.tensors[input];
            if algebra.items.contains_key(&input) || self.is_constant(Some(input)) || tensor.of != Type::F32 {
                continue;
            }
            let shape = tensor.shape()?;
            let Some(&features) = shape.last() else { continue };
            let axis = steps_axis(&shape);
            let item = match axis {
                Some(axis) => {
                    let sequence = vec![1, shape[axis] as i64, features as i64];
                    let id = algebra.arena.make(Expr::Input(input), sequence).map_err(unsupported)?;
                    tensors.insert(id, input);
                    Item::Sequence(id)
                }
                None if shape.iter().product::<usize>() == features => {
                    let row = algebra.arena.make(Expr::Input(input), vec![1, features as i64]);
                    Item::Real(row.map_err(unsupported)?)
                }
                None => continue,
            };
            algebra.items.insert(input, item);
        }
        Ok(())
    }

    /// The cells that compute a tensor, if they do. Other operators over sequences are read one by one, except for those that
    /// join steps.
    fn rolled(
        &mut self,
        algebra: &mut Algebra<'_, 'a>,
        tensors: &HashMap<Id, usize>,
        tensor: usize,
        is_joined: bool,
    ) -> Result<Option<Rolled>> {
        let of = &self.model.main.tensors[tensor];
        let (id, axis) = match algebra.items.get(&tensor) {
            Some(&Item::Sequence(id)) => (id, steps_axis(&of.shape()?)),
            Some(&Item::Real(id)) => match up_to(&mut algebra.arena, id) {
                Ok(Some(sequence)) => (sequence, None),
                Ok(None) => return Ok(None),
                Err(reason) => {
                    let reason = format!("{:?} ends steps that do not form an unrolled layer: {reason}", of.name()?);
                    self.no_loop.get_or_insert((reason, WITHOUT));
                    return Ok(None);
                }
            },
            _ => return Ok(None),
        };
        let is_cell = match algebra.arena.expr(id) {
            Expr::Rnn(..) => true,
            Expr::Reverse(of) => matches!(algebra.arena.expr(*of), Expr::Rnn(..)),
            Expr::Linear(_) | Expr::Unary(..) | Expr::Softmax(_) | Expr::Concat(_) => is_joined && axis.is_some(),
            _ => false,
        };
        let read = if is_cell { reads(&algebra.arena, id, tensors) } else { None };
        Ok(read.map(|read| Rolled { id, axis, read }))
    }

    /// The outputs of unrolled cells that an operator computes.
    pub fn unrolled_at(&mut self, operator: &Operator<'_>) -> Result<Vec<(usize, Value)>, Trouble> {
        let Some(mut unrolled) = self.unrolled.take() else { return Ok(Vec::new()) };
        let outputs = operator.outputs.iter().flatten().map(|&output| self.output_of(&mut unrolled, output));
        let outputs = outputs.collect::<Result<Vec<_>, _>>();
        self.unrolled = Some(unrolled);
        Ok(outputs?.into_iter().flatten().collect())
    }

    fn output_of(&mut self, unrolled: &mut Unrolled, output: usize) -> Result<Option<(usize, Value)>, Trouble> {
        let Unrolled { arena, outputs, known, hybrid, .. } = unrolled;
        let Some(&Rolled { id, axis, ref read }) = outputs.get(&output) else { return Ok(None) };
        self.hybrid |= *hybrid;
        let mut sequences = HashMap::new();
        for &(id, tensor) in read {
            if let Some(value) = self.values.get(&tensor) {
                let steps = usize::try_from(arena.shape(id)[1]).unwrap_or(0);
                let value = in_steps(value.clone(), steps);
                let along = value.along.moved(|_| 0);
                sequences.insert(id, Value { along, ..value });
            }
        }
        let value = self.over_steps(&mut Layers { arena, sequences: &sequences, known }, id)?;
        let shape = self.shape_of(output)?;
        Ok(Some((output, self.shown(value, axis, shape))))
    }
}
