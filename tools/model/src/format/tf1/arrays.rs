//! TensorArrays, and the tensor lists that replace them in TensorFlow 2. Both hold sequences that a loop reads and
//! writes step by step.

use super::evaluate::{Content, Evaluator, Outputs, Value};
use super::symbol::{At, Dim, Id, is_symbol};

const MISUSED: &str = "it is not used as in a loop over time";

impl Evaluator<'_> {
    pub(super) fn array(&mut self, op: &str, inputs: &[Value]) -> Outputs {
        let unknown = || Err(if op.starts_with("TensorArray") { MISUSED.into() } else { String::new() });
        let [Value::Array(array), args @ .., Value::Content(content)] = inputs else { return unknown() };
        if let Content::Empty(of) | Content::Sequence(of, _) = content
            && of != array
        {
            return Err("it belongs to another array".into());
        }
        match (op, args, content) {
            ("TensorArrayScatterV3", [indices, Value::Real(value)], Content::Empty(_)) => {
                let steps = self.arena.shape(*value).first().copied().unwrap_or(0);
                self.in_order(indices, steps)?;
                Ok(vec![Value::Content(Content::Sequence(*array, *value))])
            }
            ("TensorArrayReadV3", [index], Content::Sequence(_, x)) => self.read_step(*x, index),
            ("TensorArrayWriteV3", [Value::Counter { merge, plus: 0 }, Value::Real(value)], Content::Carried(_)) => {
                Ok(vec![Value::Content(Content::Written { array: *array, merge: *merge, value: *value })])
            }
            ("TensorArraySizeV3", [], Content::Sequence(_, x)) => self.ints(true, vec![self.arena.shape(*x)[0]]),
            ("TensorArrayGatherV3", [indices], Content::Sequence(_, x)) => {
                self.in_order(indices, self.arena.shape(*x)[0])?;
                Ok(vec![Value::Real(*x)])
            }
            _ => unknown(),
        }
    }

    /// Evaluates an op on a tensor list. Unlike a TensorArray, a tensor list is its own handle.
    pub(super) fn list(&mut self, node: usize, op: &str, inputs: &[Value]) -> Outputs {
        match (op, inputs) {
            ("TensorListReserve", _) => Ok(vec![Value::Content(Content::Empty(node))]),
            ("TensorListFromTensor", [Value::Real(x), _]) => {
                self.arena.swap(*x)?;
                Ok(vec![Value::Content(Content::Sequence(node, *x))])
            }
            ("TensorListGetItem", [Value::Content(Content::Sequence(_, x)), index, _]) => self.read_step(*x, index),
            ("TensorListSetItem", [Value::Content(Content::Carried(_)), index, Value::Real(value)]) => match index {
                Value::Counter { merge, plus: 0 } => {
                    Ok(vec![Value::Content(Content::Written { array: node, merge: *merge, value: *value })])
                }
                // A list of length one: only the value of the last step is kept.
                Value::Ints { is_scalar: true, data } if **data == [0] => {
                    Ok(vec![Value::Content(Content::Kept(*value))])
                }
                _ => Err(MISUSED.into()),
            },
            ("TensorListLength", [Value::Content(Content::Sequence(_, x))]) => {
                self.ints(true, vec![self.arena.shape(*x)[0]])
            }
            ("TensorListStack", [Value::Content(Content::Sequence(_, x)), ..]) => Ok(vec![Value::Real(*x)]),
            _ => Err(MISUSED.into()),
        }
    }

    /// Reads one step of the time-major sequence `x`.
    fn read_step(&mut self, x: Id, index: &Value) -> Outputs {
        let sequence = self.arena.swap(x)?;
        let at = match index {
            Value::Counter { merge, plus: 0 } => At::Turn(self.frame_number(self.graph.nodes[*merge].inputs[0].node)?),
            Value::Ints { is_scalar: true, data } => {
                let steps = self.arena.shape(sequence)[1];
                self.arena.at(data[0], steps)?
            }
            _ => return Err("it reads a step that is not known".into()),
        };
        Ok(vec![Value::Real(self.arena.step(sequence, at)?)])
    }

    /// Checks that the indices are 0, 1, ... over all steps.
    pub(super) fn in_order(&self, indices: &Value, steps: Dim) -> Result<(), String> {
        match indices {
            Value::Range(to) if *to == steps => Ok(()),
            Value::Ints { is_scalar: false, data } if !is_symbol(steps) && data.iter().copied().eq(0..steps) => Ok(()),
            _ => Err("it must take all steps in their order".into()),
        }
    }
}
