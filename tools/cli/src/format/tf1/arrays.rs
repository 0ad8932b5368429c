//! TensorArrays, and the lists of tensors that TensorFlow 2 has in their place: sequences that a loop reads step by
//! step, and collects step by step.

use super::evaluate::{Content, Evaluator, Outputs, Value};
use super::symbol::{At, Dim, Id, is_symbol};

impl Evaluator<'_> {
    pub(super) fn array(&mut self, op: &str, inputs: &[Value]) -> Outputs {
        let same = |array: &usize, of: &usize| match array == of {
            true => Ok(()),
            false => Err("it belongs to another array".to_owned()),
        };
        match (op, inputs) {
            (
                "TensorArrayScatterV3",
                [Value::Array(array), indices, Value::Real(value), Value::Content(Content::Empty(of))],
            ) => {
                same(array, of)?;
                let steps = self.arena.shape(*value).first().copied().unwrap_or(0);
                self.in_order(indices, steps)?;
                Ok(vec![Value::Content(Content::Sequence(*array, *value))])
            }
            ("TensorArrayReadV3", [Value::Array(array), index, Value::Content(Content::Sequence(of, x))]) => {
                same(array, of)?;
                self.read_step(*x, index)
            }
            (
                "TensorArrayWriteV3",
                [
                    Value::Array(array),
                    Value::Counter { merge, plus: 0 },
                    Value::Real(value),
                    Value::Content(Content::Carried(_)),
                ],
            ) => Ok(vec![Value::Content(Content::Written { array: *array, merge: *merge, value: *value })]),
            ("TensorArraySizeV3", [Value::Array(array), Value::Content(Content::Sequence(of, x))]) => {
                same(array, of)?;
                let steps = self.arena.shape(*x)[0];
                self.ints(true, vec![steps])
            }
            ("TensorArrayGatherV3", [Value::Array(array), indices, Value::Content(Content::Sequence(of, x))]) => {
                same(array, of)?;
                let steps = self.arena.shape(*x)[0];
                self.in_order(indices, steps)?;
                Ok(vec![Value::Real(*x)])
            }
            _ if op.starts_with("TensorArray") => Err("it is not used as loops over time use it".into()),
            _ => Err(String::new()),
        }
    }

    /// A list of tensors is its own handle.
    pub(super) fn list(&mut self, node: usize, op: &str, inputs: &[Value]) -> Outputs {
        match (op, inputs) {
            ("TensorListReserve", _) => Ok(vec![Value::Content(Content::Empty(node))]),
            ("TensorListFromTensor", [Value::Real(x), _]) => {
                self.arena.swap(*x)?;
                Ok(vec![Value::Content(Content::Sequence(node, *x))])
            }
            ("TensorListGetItem", [Value::Content(Content::Sequence(_, x)), index, _]) => self.read_step(*x, index),
            (
                "TensorListSetItem",
                [Value::Content(Content::Carried(_)), Value::Counter { merge, plus: 0 }, Value::Real(value)],
            ) => Ok(vec![Value::Content(Content::Written { array: node, merge: *merge, value: *value })]),
            // In a list of one, for what only the last step counts of.
            (
                "TensorListSetItem",
                [Value::Content(Content::Carried(_)), Value::Ints { is_scalar: true, data }, Value::Real(value)],
            ) if **data == [0] => Ok(vec![Value::Content(Content::Kept(*value))]),
            ("TensorListLength", [Value::Content(Content::Sequence(_, x))]) => {
                let steps = self.arena.shape(*x)[0];
                self.ints(true, vec![steps])
            }
            ("TensorListStack", [Value::Content(Content::Sequence(_, x)), ..]) => Ok(vec![Value::Real(*x)]),
            _ => Err("it is not used as loops over time use it".into()),
        }
    }

    /// A step of a sequence, time first.
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

    /// Indices must be 0, 1, ... of all steps.
    pub(super) fn in_order(&self, indices: &Value, steps: Dim) -> Result<(), String> {
        match indices {
            Value::Range(to) if *to == steps => Ok(()),
            Value::Ints { is_scalar: false, data } if !is_symbol(steps) && data.iter().copied().eq(0..steps) => Ok(()),
            _ => Err("it must take all steps in their order".into()),
        }
    }
}
