//! Layers that Keras's `TimeDistributed` applies to every step of a sequence, such as convolutions in front of an LSTM.
//!
//! Keras 2 makes the steps a batch: `RESHAPE [steps, ...]`, operators over the batch, `RESHAPE`. Keras 3 repeats the operators
//! for each step, between a slice of the sequence and a `PACK` of all steps. Here the operators become layers that run once
//! for each step.

use std::collections::{BTreeSet, HashMap};

use super::conv::is_conv;
use super::cut::Cut;
use super::lower::{Along, Distributed, Reader, Refused, Trouble, Value};
use super::rows_in_time::axis_of;
use super::schema::{Operator, Type};
use crate::error::ImportError;
use crate::format::refuse::fail_if;

/// The most operators between a slice and the `PACK`.
const MOST: usize = 64;

/// Operators that may be between a slice of a step and the `PACK` of all steps.
fn is_repeated(op: &str) -> bool {
    is_conv(op)
        || is_reduced(op)
        || matches!(op, "RESHAPE" | "SQUEEZE" | "EXPAND_DIMS" | "FULLY_CONNECTED" | "SOFTMAX")
        || matches!(op, "LOGISTIC" | "TANH" | "RELU" | "RELU6" | "HARD_SWISH" | "ELU" | "GELU" | "LEAKY_RELU")
}

fn is_reduced(op: &str) -> bool {
    matches!(op, "AVERAGE_POOL_2D" | "MAX_POOL_2D" | "MEAN" | "REDUCE_MAX")
}

impl<'a> Reader<'a> {
    /// Finds the operators that are repeated for all steps of a sequence, by the `PACK` of their results.
    pub(super) fn find_distributed(&mut self) -> Result<(), ImportError> {
        let main = &self.model.main;
        let is_pack = |operator: &&Operator<'_>| operator.op == "PACK" && operator.inputs.len() > 1;
        if !main.operators.iter().any(|operator| is_pack(&operator)) {
            return Ok(());
        }
        let mut makers = HashMap::new();
        for (number, operator) in main.operators.iter().enumerate() {
            makers.extend(operator.outputs.iter().flatten().map(|&output| (output, number)));
        }
        for operator in main.operators.iter().filter(is_pack) {
            let &[Some(output)] = operator.outputs.as_slice() else { continue };
            match self.repeated_for_steps(operator, &makers) {
                Ok(Some(distributed)) => drop(self.distributed.insert(output, distributed)),
                Ok(None) | Err(Trouble::Reason(_)) => {}
                Err(Trouble::Whole(error)) => return Err(error),
            }
        }
        Ok(())
    }

    /// Leaves out the operators of all steps, except for those that belong to unrolled cells.
    pub(super) fn leave_out_distributed(&mut self) {
        let is_unrolled = |output: &usize| self.unrolled.as_ref().is_some_and(|of| of.outputs.contains_key(output));
        self.distributed.retain(|output, _| !is_unrolled(output));
        let main = &self.model.main;
        let mut inside: BTreeSet<usize> = self.distributed.values().flat_map(|of| of.inside.iter().copied()).collect();
        // A value that another operator reads is computed as usual, and so are the values that it needs.
        loop {
            let is_left_out = |output: &Option<usize>| {
                output.is_some_and(|output| inside.contains(&output) || self.distributed.contains_key(&output))
            };
            let is_needed = |operator: &&Operator<'_>| !operator.outputs.iter().all(is_left_out);
            let read = main.operators.iter().filter(is_needed).flat_map(|operator| operator.inputs.iter().flatten());
            let needed: Vec<usize> =
                read.chain(main.outputs.iter()).filter(|of| inside.contains(of)).copied().collect();
            if needed.is_empty() {
                break;
            }
            inside.retain(|of| !needed.contains(of));
        }
        self.folded.extend(inside);
    }

    /// The operators before a `PACK` if they are the same for all steps of one sequence.
    fn repeated_for_steps(
        &mut self,
        pack: &Operator<'_>,
        makers: &HashMap<usize, usize>,
    ) -> Result<Option<Distributed>, Trouble> {
        let operators = &self.model.main.operators;
        let mut steps = (0..pack.inputs.len()).map(|at| self.input_number(pack, at)).collect::<Result<Vec<_>, _>>()?;
        let (last, mut inside, mut operators_of_a_step) = (steps[0], Vec::new(), Vec::new());
        for _ in 0..MOST {
            let Some(all) = steps.iter().map(|step| makers.get(step).map(|&at| &operators[at])).collect() else {
                return Ok(None);
            };
            let all: Vec<&Operator<'a>> = all;
            inside.extend(&steps);
            if let Some((sequence, axis)) = self.sliced(&all, &steps)? {
                operators_of_a_step.reverse();
                let (first, operators) = (steps[0], operators_of_a_step);
                return Ok(Some(Distributed { sequence, axis, first, operators, last, inside }));
            }
            let Some(before) = self.before(&all)? else { return Ok(None) };
            operators_of_a_step.push(makers[&steps[0]]);
            steps = before;
        }
        Ok(None)
    }

    /// The sequence whose steps are the outputs of these operators, in order, and its dimension of steps.
    fn sliced(&mut self, all: &[&Operator<'_>], steps: &[usize]) -> Result<Option<(usize, usize)>, Trouble> {
        let sequence = self.input_number(all[0], 0)?;
        let shape = self.shape_of(sequence)?;
        let mut found = None;
        for (step, operator) in all.iter().enumerate() {
            if operator.op != "STRIDED_SLICE" || self.input_number(operator, 0)? != sequence {
                return Ok(None);
            }
            let cuts = self.cuts(operator, &shape)?;
            let is_whole = |(cut, &dim): (&Cut, &usize)| (cut.first, cut.behind) == (0, dim as i64);
            let Some(axis) = cuts.iter().zip(&shape).position(|pair| !is_whole(pair)) else { return Ok(None) };
            let is_step = (cuts[axis].first, cuts[axis].behind) == (step as i64, step as i64 + 1);
            let others = cuts.iter().zip(&shape).skip(axis + 1).all(is_whole);
            if !(is_step && others && shape[axis] == steps.len() && found.is_none_or(|found| found == axis)) {
                return Ok(None);
            }
            operator.check_options()?;
            found = Some(axis);
        }
        Ok(found.map(|axis| (sequence, axis)))
    }

    /// The computed inputs of operators that are alike in everything else.
    fn before(&mut self, all: &[&Operator<'_>]) -> Result<Option<Vec<usize>>, Trouble> {
        let first = all[0];
        let &[Some(output)] = first.outputs.as_slice() else { return Ok(None) };
        if !is_repeated(first.op) {
            return Ok(None);
        }
        let mut before = Vec::new();
        for operator in all {
            let &[Some(other)] = operator.outputs.as_slice() else { return Ok(None) };
            let alike = operator.op == first.op
                && operator.inputs.len() == first.inputs.len()
                && operator.has_options_of(first)?
                && self.shape_of(other)? == self.shape_of(output)?
                && self.counts(other)? == self.counts(output)?;
            let constants = operator.inputs.iter().zip(&first.inputs).skip(1);
            if !alike
                || !constants
                    .map(|(&a, &b)| self.is_same_constant(a, b))
                    .collect::<Result<Vec<_>, _>>()?
                    .iter()
                    .all(|&same| same)
            {
                return Ok(None);
            }
            operator.check_options()?;
            before.push(self.input_number(operator, 0)?);
        }
        Ok((!self.is_constant(before.first().copied())).then_some(before))
    }

    fn is_same_constant(&self, a: Option<usize>, b: Option<usize>) -> Result<bool, Trouble> {
        let (Some(a), Some(b)) = (a, b) else { return Ok(a == b) };
        let [x, y] = [a, b].map(|number| &self.model.main.tensors[number]);
        let of_one_kind = x.of == y.of && matches!(x.of, Type::F32 | Type::I32);
        let same = a == b || (of_one_kind && x.shape()? == y.shape()? && self.model.data(x)? == self.model.data(y)?);
        Ok(same && self.is_constant(Some(a)))
    }

    /// The results of all steps, if an operator joins them.
    pub(super) fn distributed_at(&mut self, operator: &Operator<'_>) -> Result<Option<(usize, Value)>, Trouble> {
        let &[Some(output)] = operator.outputs.as_slice() else { return Ok(None) };
        let Some(of) = self.distributed.get(&output).cloned() else { return Ok(None) };
        let shape = self.output_shape(operator)?;
        let axis = axis_of(operator.option("axis", 0_i32)?, shape.len()).ok_or("its output has no such axis")?;
        let x = self.values.get(&of.sequence).cloned();
        let x = self.in_steps_of(x.ok_or("its steps are not computed by an earlier operator")?, of.axis)?;
        let step = self.shape_of(of.first)?;
        let y = self.at_a_step(&x, step, |reader, value| {
            // Other readers of a step must not get the values of all steps.
            let outside = reader.values.clone();
            reader.values.insert(of.first, value);
            for &at in &of.operators {
                let operator = &reader.model.main.operators[at];
                let values = reader.operator(operator).map_err(|trouble| reader.named(operator, trouble))?;
                reader.values.extend(values);
            }
            let y = reader.values.get(&of.last).cloned();
            reader.values = outside;
            Ok(y.ok_or("its steps are not computed")?)
        })?;
        let fits = shape.iter().take(axis).all(|&dim| dim == 1) && shape[axis] == operator.inputs.len();
        fail_if(!fits, format_args!("its output is {shape:?}, where dimension {axis} is not that of the steps"))?;
        Ok(Some((output, Value { shape, along: x.along.moved(|_| axis), reversed: x.reversed, ..y })))
    }

    /// An operator over a batch that consists of the steps of a sequence; `None` for any other operator.
    pub(super) fn over_batch(&mut self, operator: &Operator<'a>) -> Option<Refused> {
        let number = self.port(operator, 0).filter(|_| is_conv(operator.op) || is_reduced(operator.op))?;
        let in_steps = |x: &&Value| matches!(x.along.axis(), None | Some(0)) && x.shape.len() > 2 && x.shape[0] > 1;
        let whole = self.values.get(&number).filter(in_steps)?.clone();
        let x = match self.in_steps_of(whole.clone(), 0) {
            Ok(x) => x,
            Err(trouble) => return Some(Err(trouble)),
        };
        let (&steps, rest) = x.shape.split_first()?;
        let step = [&[1], rest].concat();
        let of_a_step = |reader: &mut Self, value: Value| {
            reader.values.insert(number, value);
            reader.batch = steps;
            let y = reader.unblocked(operator);
            reader.batch = 1;
            reader.values.insert(number, whole);
            y
        };
        let y = self.at_a_step(&x, step, of_a_step);
        Some(y.map(|mut y| {
            y.shape[0] = steps;
            Value { along: x.along, reversed: x.reversed, ..y }
        }))
    }

    /// A value whose steps dimension `axis` counts. A whole value becomes rows.
    fn in_steps_of(&mut self, x: Value, axis: usize) -> Refused {
        if x.along.axis() == Some(axis) {
            return Ok(x);
        }
        let leads = x.along == Along::Nothing && !x.reversed && x.shape.iter().take(axis).all(|&dim| dim == 1);
        fail_if(
            !leads,
            format_args!("its steps are those of dimension {axis} of {:?}, which are no sequence", x.shape),
        )?;
        let source = x.source.flat().in_rows(x.shape[axis]);
        Ok(Value { source, along: Along::Rows(axis), ..x })
    }

    /// The output of layers that run at each step of a sequence, given the shape of a step.
    fn at_a_step(
        &mut self,
        x: &Value,
        step: Vec<usize>,
        of_a_step: impl FnOnce(&mut Self, Value) -> Refused,
    ) -> Refused {
        let size = x.features();
        let misfit = step.iter().product::<usize>() != size;
        fail_if(misfit, format_args!("a step has {size} elements, not {step:?}"))?;
        let y = of_a_step(self, Value { shape: step, along: Along::Nothing, reversed: false, ..x.clone() })?;
        let y = if x.source.rows().is_none() { self.flat(y) } else { y };
        // A layer over rows inside of a step would need rows of rows.
        let fits = y.source.rows() == x.source.rows() && y.shape.iter().product::<usize>() == y.features();
        fail_if(!fits, "a layer runs over parts of a step, which is not supported if the steps are those of a window")?;
        Ok(y)
    }
}
