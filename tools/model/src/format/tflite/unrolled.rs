//! Recurrent layers whose loop over time a converter has unrolled: Keras with `unroll=True`, PyTorch's layers.
//!
//! The operators of each step are recognized as a cell in the normal form. The cell must have the same weights in all
//! steps, and run over all steps of one sequence. Everything that the network's outputs need beside these cells is read
//! operator by operator.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::algebra::{Algebra, Item, steps_axis};
use super::lower::{Reader, Trouble, Value};
use super::over_steps::{Layers, in_steps};
use super::schema::{Operator, Type};
use super::unsupported;
use crate::error::{ImportError, Result};
use crate::format::tf1::{Arena, Expr, Id, chain, find_cell, of_steps};

/// The cells of a graph with an unrolled loop.
pub struct Unrolled {
    layers: Layers,
    /// By the tensors that cells compute.
    outputs: BTreeMap<usize, Rolled>,
    /// Tensors that the outputs of the graph need, without those inside of cells.
    needed: BTreeSet<usize>,
    pub hybrid: bool,
}

/// A tensor that cells compute.
struct Rolled {
    /// The sequence of all outputs.
    id: Id,
    /// The dimension of the tensor that counts the steps. `None` for the output of the last step.
    axis: Option<usize>,
    /// Sequences that other operators compute, and their tensors.
    read: BTreeMap<Id, usize>,
}

impl Unrolled {
    /// Whether a sequence of this many steps is read.
    pub fn has_steps(&self, steps: usize) -> bool {
        let mut read = self.outputs.values().flat_map(|of| of.read.keys());
        read.any(|&id| self.layers.arena.shape(id).get(1) == Some(&(steps as i64)))
    }

    /// Whether an operator computes something inside of cells, or nothing that the graph's outputs need.
    pub fn leaves_out(&self, operator: &Operator<'_>) -> bool {
        !operator.outputs.iter().flatten().any(|output| self.needed.contains(output))
    }

    /// Whether any cell runs from the last step to the first.
    pub fn has_backwards(&self) -> bool {
        let mut open: Vec<Id> = self.outputs.values().map(|of| of.id).collect();
        let mut seen: BTreeSet<Id> = self.outputs.values().flat_map(|of| of.read.keys().copied()).collect();
        while let Some(id) = open.pop() {
            if seen.insert(id) {
                if matches!(self.layers.arena.expr(id), Expr::Reverse(_)) {
                    return true;
                }
                open.extend(self.layers.arena.operands(id));
            }
        }
        false
    }
}

/// The sequences that `of` reads: itself if no step of it is computed here. `tensors` has the tensors of sequences that
/// operators compute.
fn reads(arena: &Arena, of: Id, tensors: &HashMap<Id, usize>) -> Option<BTreeMap<Id, usize>> {
    let (mut open, mut seen, mut read) = (vec![of], BTreeSet::new(), BTreeMap::new());
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
            (_, Some(tensor)) => drop(read.insert(id, *tensor)),
            (Expr::Linear(_) | Expr::Unary(..) | Expr::Concat(_), None) => open.extend(arena.operands(id)),
            (_, None) => drop(read.insert(id, *tensors.get(&id)?)),
        }
    }
    Some(read)
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
    /// An error of a graph with steps that are no unrolled layer, with the reason.
    pub fn of_no_loop(&self, error: ImportError) -> ImportError {
        match (&self.no_loop, error) {
            (Some(reason), ImportError::UnreadOp { .. } | ImportError::Node { .. }) => ImportError::Refused {
                found: reason.clone(),
                advice: "convert the network without unroll=True, or import the file of its own framework",
            },
            (_, error) => error,
        }
    }

    /// Finds the cells of unrolled loops.
    pub fn find_unrolled(&mut self) -> Result<()> {
        let main = &self.model.main;
        // A step is taken out of a sequence, or several steps are joined.
        let takes = |operator: &Operator<'_>| match operator.op {
            "UNPACK" => operator.outputs.len() > 1,
            "SLICE" | "STRIDED_SLICE" => true,
            _ => false,
        };
        if !main.operators.iter().any(takes) {
            return Ok(());
        }
        let mut budget = self.budget.clone();
        let mut algebra = Algebra::new(self.model, main, &mut budget);
        algebra.has_sequences = true;
        let (mut tensors, mut maker, mut no_loop) = (HashMap::new(), HashMap::new(), None);
        let joins = |of: &Operator<'_>| matches!(of.op, "PACK" | "CONCATENATION");
        for operator in &main.operators {
            for &input in operator.inputs.iter().flatten() {
                if algebra.items.contains_key(&input) || self.is_constant(Some(input)) {
                    continue;
                }
                let shape = main.tensors[input].shape()?;
                let (Some(&features), Type::F32) = (shape.last(), main.tensors[input].of) else { continue };
                let shape = match steps_axis(&shape) {
                    Some(axis) => vec![1, shape[axis] as i64, features as i64],
                    None if shape.iter().product::<usize>() == features => vec![1, features as i64],
                    None => continue,
                };
                let is_sequence = shape.len() == 3;
                let id = algebra.arena.make(Expr::Input(input), shape).map_err(unsupported)?;
                algebra.items.insert(input, if is_sequence { Item::Sequence(id) } else { Item::Real(id) });
                if is_sequence {
                    tensors.insert(id, input);
                }
            }
            // The outputs of an operator that the algebra does not know become inputs of the algebra.
            match algebra.read(operator) {
                // The budget is left to the operators.
                Err(Trouble::Whole(ImportError::TooCostly(_))) => return Ok(()),
                Err(Trouble::Reason(reason)) if joins(operator) && operator.inputs.len() > 1 => {
                    let output = operator.outputs.iter().flatten().next();
                    let name = output.map_or_else(|| Ok(String::new()), |&output| main.tensors[output].name())?;
                    no_loop.get_or_insert(format!("{name:?} joins steps that are no unrolled layer: {reason}"));
                }
                Err(_) => {}
                Ok(()) => {
                    for &output in operator.outputs.iter().flatten() {
                        if let Some(&Item::Sequence(id)) = algebra.items.get(&output) {
                            tensors.entry(id).or_insert(output);
                        }
                    }
                }
            }
            maker.extend(operator.outputs.iter().flatten().map(|&output| (output, operator)));
        }
        let (mut open, mut needed) = (main.outputs.to_vec(), BTreeSet::new());
        let mut outputs = BTreeMap::new();
        while let Some(tensor) = open.pop() {
            if !needed.insert(tensor) {
                continue;
            }
            let sequence = match algebra.items.get(&tensor) {
                Some(&Item::Sequence(id)) => Some((id, steps_axis(&main.tensors[tensor].shape()?))),
                Some(&Item::Real(id)) => match up_to(&mut algebra.arena, id) {
                    Ok(sequence) => sequence.map(|sequence| (sequence, None)),
                    Err(reason) => {
                        let name = main.tensors[tensor].name()?;
                        no_loop.get_or_insert(format!("{name:?} ends steps that are no unrolled layer: {reason}"));
                        None
                    }
                },
                _ => None,
            };
            let is_joined = maker.get(&tensor).is_some_and(|of| joins(of));
            // Other operators over sequences are read one by one.
            let sequence = sequence.filter(|(id, axis)| match algebra.arena.expr(*id) {
                Expr::Rnn(..) => true,
                Expr::Reverse(of) => matches!(algebra.arena.expr(*of), Expr::Rnn(..)),
                Expr::Linear(_) | Expr::Unary(..) | Expr::Concat(_) => is_joined && axis.is_some(),
                _ => false,
            });
            let found = sequence.and_then(|(id, axis)| Some((id, axis, reads(&algebra.arena, id, &tensors)?)));
            match (found, maker.get(&tensor)) {
                (Some((id, axis, read)), _) => {
                    open.extend(read.values());
                    outputs.insert(tensor, Rolled { id, axis, read });
                }
                (None, Some(operator)) => open.extend(operator.inputs.iter().flatten()),
                (None, None) => {}
            }
        }
        let Algebra { arena, hybrid, .. } = algebra;
        self.no_loop = no_loop;
        if !outputs.is_empty() {
            self.unrolled = Some(Unrolled { layers: Layers::new(arena, BTreeMap::new()), outputs, needed, hybrid });
        }
        Ok(())
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
        let Unrolled { layers, outputs, hybrid, .. } = unrolled;
        let Some(&Rolled { id, axis, ref read }) = outputs.get(&output) else { return Ok(None) };
        self.hybrid |= *hybrid;
        layers.sequences.clear();
        for (&id, tensor) in read {
            if let Some(value) = self.values.get(tensor) {
                let steps = usize::try_from(layers.arena.shape(id)[1]).unwrap_or(0);
                let value = in_steps(value.clone(), steps);
                let along = value.along.moved(|_| 0);
                layers.sequences.insert(id, Value { along, ..value });
            }
        }
        let value = self.over_steps(layers, id)?;
        let shape = self.shape_of(output)?;
        Ok(Some((output, self.shown(value, axis, shape))))
    }
}
