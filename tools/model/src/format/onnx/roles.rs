//! The roles of dimensions: the operators show which dimension of an input is time and which one is the batch.

use super::Role;
use super::graph::{Session, Stop};
use super::value::{Axis, Value};
use crate::format::refuse::fail_if;

impl Session<'_> {
    /// The dimension of a value that is an input's dimension with this role.
    pub fn axis_with(&self, value: &Value, role: Role) -> Option<usize> {
        value.axes.iter().position(|axis| axis.is_some_and(|axis| self.setup.roles.get(&axis) == Some(&role)))
    }

    /// Marks a dimension as the batch, whose sequences are read one by one, and returns their number.
    pub fn batch(&self, value: &Value, axis: usize) -> Result<usize, Stop> {
        match value.axes[axis] {
            Some(of) => match self.setup.roles.get(&of) {
                Some(Role::Batch) => Ok(self.setup.inputs[of.0].said[of.1].unwrap_or(1)),
                Some(Role::Time) => Err("one dimension of an input is both time and batch".into()),
                None => Err(Stop::Learnt(of, Role::Batch)),
            },
            None if value.shape[axis] == 1 => Ok(1),
            None => Err("it reads several sequences that the graph itself makes, but only one is supported".into()),
        }
    }

    /// Marks a dimension as the batch of an operator without state. If its entries are the steps of a sequence, the
    /// operator reads each step alone, and the dimension is returned.
    pub fn frames(&self, value: &Value, axis: usize) -> Result<Option<usize>, Stop> {
        let of = value.axes[axis].and_then(|of| self.setup.roles.get(&of));
        match of {
            Some(Role::Time) => Ok(Some(axis)),
            _ => self.batch(value, axis).map(|_| None),
        }
    }

    /// Marks a dimension as the steps of a sequence, even if an operator without state reads its entries as a batch.
    pub fn time(&self, value: &Value, axis: usize) -> Result<(), Stop> {
        match value.axes[axis] {
            Some(of) => match self.setup.roles.get(&of) {
                Some(Role::Time) => Ok(()),
                // A single step of a graph that is called step by step.
                Some(Role::Batch) if self.setup.inputs[of.0].said[of.1] == Some(1) => Ok(()),
                // An operator with state that reads it as a batch refuses steps.
                Some(Role::Batch) | None => Err(Stop::Learnt(of, Role::Time)),
            },
            None => Ok(()),
        }
    }

    /// Gives dimensions of inputs that meet in an operator the same role, unless they are known to be 1.
    pub fn same_roles(&self, a: &Value, b: &Value) -> Result<(), Stop> {
        let dims = a.axes.iter().zip(&a.shape).rev().zip(b.axes.iter().zip(&b.shape).rev());
        for ((a, of_a), (b, of_b)) in dims {
            let (Some(a), Some(b)) = (*a, *b) else { continue };
            let is_one = |axis: Axis, dim: usize| dim == 1 && self.setup.inputs[axis.0].said[axis.1] == Some(1);
            if is_one(a, *of_a) || is_one(b, *of_b) {
                continue;
            }
            match (self.setup.roles.get(&a), self.setup.roles.get(&b)) {
                (Some(&role), None) => return Err(Stop::Learnt(b, role)),
                (None, Some(&role)) => return Err(Stop::Learnt(a, role)),
                (Some(Role::Time), Some(Role::Batch)) => return Err(Stop::Learnt(b, Role::Time)),
                (Some(Role::Batch), Some(Role::Time)) => return Err(Stop::Learnt(a, Role::Time)),
                _ => {}
            }
        }
        Ok(())
    }

    /// Refuses an operator that combines the sequences of a batch, unless there is only one.
    pub fn within_sequence(&self, value: &Value, axis: usize) -> Result<(), Stop> {
        let is_several = |of: Axis| self.setup.inputs[of.0].said[of.1] != Some(1);
        let across = self.axis_with(value, Role::Batch) == Some(axis) && value.axes[axis].is_some_and(is_several);
        Ok(fail_if(across, "it combines the sequences of a batch, which run independently here")?)
    }
}
