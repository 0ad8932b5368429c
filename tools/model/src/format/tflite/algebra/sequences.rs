//! Operators on whole sequences: they take single steps out of a sequence, compute each step alike, or join the steps of
//! an unrolled loop.

use super::{Algebra, Item, Items};
use crate::format::refuse::fail_if;
use crate::format::tf1::{At, Expr, Id, of_steps};
use crate::format::tflite::cut::{cuts, parts};
use crate::format::tflite::lower::Trouble;
use crate::format::tflite::options::FUSED;
use crate::format::tflite::schema::Operator;

/// Maximum number of operators, one behind the other, that compute each step of a sequence alike.
const MOST_DEPTH: usize = 100;

/// The dimension that counts the steps of a sequence of rows, if there are several of one sequence.
pub fn steps_axis(shape: &[usize]) -> Option<usize> {
    let axis = shape.iter().position(|&dim| dim != 1)?;
    let features = shape.len().checked_sub(1).filter(|&last| axis < last)?;
    shape[axis + 1..features].iter().all(|&dim| dim == 1).then_some(axis)
}

impl Algebra<'_, '_> {
    /// A row, or the rows of a sequence.
    pub(super) fn item_of(&self, id: Id) -> Item {
        if self.arena.shape(id).len() == 3 && !self.arena.is_constant(id) { Item::Sequence(id) } else { Item::Real(id) }
    }

    /// The rows of a sequence as an operator reads them, and the dimension that counts them.
    fn sequence(&mut self, operator: &Operator<'_>, id: Id) -> Result<usize, Trouble> {
        let shape = self.shape(operator, 0)?;
        let axis = steps_axis(&shape).filter(|&axis| shape[axis] as i64 == self.arena.shape(id)[1]);
        Ok(axis.ok_or_else(|| format!("its input is {shape:?}, in which no dimension counts the steps"))?)
    }

    /// One step of a sequence. What is computed alike for all steps is computed for this step.
    fn step(&mut self, sequence: Id, step: usize) -> Result<Id, Trouble> {
        self.step_at(sequence, step, 0)
    }

    fn step_at(&mut self, sequence: Id, step: usize, depth: usize) -> Result<Id, Trouble> {
        if let Some(&known) = self.steps.get(&(sequence, step)) {
            return Ok(known);
        }
        fail_if(depth == MOST_DEPTH, "its sequence is computed by too many operators")?;
        self.arena.spend_steps(1)?;
        if self.arena.is_stepwise(sequence) {
            let operands = self.arena.operands(sequence).into_iter();
            let operands = operands.map(|operand| self.step_at(operand, step, depth + 1));
            let operands = operands.collect::<Result<Vec<_>, _>>()?;
            let made = self.arena.with_operands(sequence, &operands)?;
            self.steps.insert((sequence, step), made);
            return Ok(made);
        }
        if let Expr::Reverse(forward) = *self.arena.expr(sequence) {
            let last = usize::try_from(self.arena.shape(sequence)[1]).unwrap_or(0).saturating_sub(1);
            return self.step_at(forward, last.saturating_sub(step), depth + 1);
        }
        let is_last = self.arena.shape(sequence)[1] == step as i64 + 1;
        Ok(self.arena.step(sequence, if is_last { At::Last } else { At::Step(step) })?)
    }

    /// `UNPACK`: all steps of a sequence.
    pub(super) fn unpacked(&mut self, operator: &Operator<'_>, sequence: Id) -> Items {
        let (axis, given) = (self.sequence(operator, sequence)?, operator.option("axis", 0_i32)?);
        let rank = self.shape(operator, 0)?.len();
        let given = if given < 0 { i64::from(given) + rank as i64 } else { given.into() };
        fail_if(given != axis as i64, format_args!("attribute axis is {given}, not the dimension of the steps"))?;
        (0..operator.outputs.len()).map(|step| Ok(Item::Real(self.step(sequence, step)?))).collect()
    }

    /// `SLICE` or `STRIDED_SLICE`: one step of a sequence, or the same features of each step.
    pub(super) fn selected(&mut self, operator: &Operator<'_>, sequence: Id) -> Result<Item, Trouble> {
        let (axis, shape) = (self.sequence(operator, sequence)?, self.shape(operator, 0)?);
        let count = if operator.op == "SLICE" { 2 } else { 3 };
        let lists = (1..=count).map(|index| self.whole(operator, index)).collect::<Result<Vec<_>, _>>()?;
        let all = if operator.op == "SLICE" { parts(&shape, &lists)? } else { cuts(operator, &shape, &lists)? };
        let (mut step, mut features) = (None, (0, self.arena.width(sequence)));
        for (at, (cut, &dim)) in all.iter().zip(&shape).enumerate() {
            let whole = (cut.first, cut.behind) == (0, dim as i64);
            let within = 0 <= cut.first && cut.first < cut.behind && cut.behind <= dim as i64;
            let size = cut.behind - cut.first;
            match (usize::try_from(cut.first), usize::try_from(size)) {
                _ if whole => {}
                (Ok(first), Ok(1)) if within && at == axis => step = Some(first),
                (Ok(first), Ok(size)) if within && at + 1 == shape.len() => features = (first, size),
                _ => return Err(format!("it selects {size} from {} on of dimension {at}", cut.first).into()),
            }
        }
        let id = step.map_or(Ok(sequence), |step| self.step(sequence, step))?;
        let part = self.arena.slice(id, features.0, features.1)?;
        Ok(self.item_of(part))
    }

    /// Operators that leave the elements of each step and the order of the steps as they are.
    pub(super) fn same_steps(&mut self, operator: &Operator<'_>, sequence: Id) -> Result<Item, Trouble> {
        let (_, shape) = (self.sequence(operator, sequence)?, self.shape(operator, 0)?);
        if operator.op == "TRANSPOSE" {
            let order = self.whole(operator, 1)?;
            let moved = order.iter().map(|&axis| usize::try_from(axis).ok().filter(|&axis| axis < shape.len()));
            let moved: Option<Vec<usize>> = moved.collect();
            let moved = moved.ok_or("its perm is not a permutation of its input's dimensions")?;
            let keeps = moved.into_iter().filter(|&axis| shape[axis] != 1).is_sorted();
            fail_if(!keeps, "it moves the elements of steps")?;
        }
        let output = operator.outputs.first().copied().flatten().ok_or("it has no output")?;
        let output = self.graph.tensors[output].shape()?;
        let steps =
            |shape: &[usize]| steps_axis(shape).map(|axis| (shape[axis], shape[axis..].iter().product::<usize>()));
        let same = steps(&output) == steps(&shape);
        fail_if(!same, format_args!("it makes {output:?} of {shape:?}"))?;
        Ok(Item::Sequence(sequence))
    }

    /// `REVERSE_V2` of the steps.
    pub(super) fn turned(&mut self, operator: &Operator<'_>, sequence: Id) -> Result<Item, Trouble> {
        let (axis, rank) = (self.sequence(operator, sequence)?, self.shape(operator, 0)?.len() as i64);
        let axes = self.whole(operator, 1)?;
        let of_steps = matches!(*axes, [given] if given == axis as i64 || given.saturating_add(rank) == axis as i64);
        fail_if(!of_steps, format_args!("it reverses {axes:?}, which are not the steps"))?;
        Ok(Item::Sequence(self.arena.reverse(sequence)?))
    }

    /// `PACK` or `CONCATENATION` of the steps of an unrolled loop, in their order. `None` if they are something else.
    pub(super) fn joined(&mut self, operator: &Operator<'_>) -> Result<Option<Item>, Trouble> {
        let output = operator.outputs.first().copied().flatten().ok_or("it has no output")?;
        let (output, count) = (self.graph.tensors[output].shape()?, operator.inputs.len());
        let axis = steps_axis(&output).filter(|&axis| output[axis] == count && count > 1);
        let given = i64::from(operator.option("axis", 0_i32)?);
        let given = if given < 0 { given + output.len() as i64 } else { given };
        if axis.is_none_or(|axis| axis as i64 != given) {
            return Ok(None);
        }
        let steps = (0..count).map(|index| self.input(operator, index)).collect::<Result<Vec<_>, _>>()?;
        let steps = steps.into_iter().map(|item| if let Item::Real(id) = item { Some(id) } else { None });
        let Some(steps) = steps.collect::<Option<Vec<Id>>>() else { return Ok(None) };
        let fused = operator.op == "CONCATENATION" && operator.option(FUSED, 0_i8)? != 0;
        fail_if(fused, format_args!("attribute {FUSED} is not 0"))?;
        Ok(Some(Item::Sequence(of_steps(&mut self.arena, &steps, 0)?)))
    }
}
