//! Conditions in a graph: whether a step is within its sequence, and whether the network is being trained. Every
//! condition must be known at import time. Sequences that are fed are assumed to be full, so that every step is within
//! its sequence.

use super::evaluate::{Evaluator, Outputs, Value};
use super::loops::{FULL, is_full};
use super::symbol::{At, Dim, Expr, Id, LENGTH, fail_if, is_symbol};
use crate::format::graphdef::{FLOAT, attr_value::Value as Attr};

fn flag(value: bool) -> Outputs {
    Ok(vec![Value::Bool { value, shape: Vec::new() }])
}

impl Evaluator<'_> {
    pub(super) fn conditional(&mut self, op: &str, inputs: &[Value]) -> Outputs {
        match (op, inputs) {
            ("Switch", [x, Value::Below(_)]) => Ok(vec![x.clone(), x.clone()]),
            ("Switch", [x, Value::Bool { value: false, .. }]) => Ok(vec![x.clone(), Value::Dead]),
            ("Switch", [x, Value::Bool { value: true, .. }]) => Ok(vec![Value::Dead, x.clone()]),
            ("Switch", _) => Err("it depends on a condition that is not known when the network is imported".into()),
            ("GreaterEqual", [Value::Counter { merge, plus: 0 }, Value::Ints { data, .. }])
            | ("LessEqual", [Value::Ints { data, .. }, Value::Counter { merge, plus: 0 }]) => {
                self.lengths.extend(data.iter().map(|&length| (*merge, length)));
                flag(false)
            }
            ("GreaterEqual" | "Less", [Value::Ints { is_scalar: true, data: step }, Value::Ints { data, .. }])
            | ("LessEqual" | "Greater", [Value::Ints { data, .. }, Value::Ints { is_scalar: true, data: step }]) => {
                flag(self.is_before(step[0], data)? == matches!(op, "Less" | "Greater"))
            }
            // The mask that `tf.sequence_mask` computes from a `sequence_length`.
            ("Less", [Value::Ints { is_scalar: false, data: steps }, Value::Ints { is_scalar: false, data }]) => {
                let count = steps.len() as Dim;
                let full = steps.iter().copied().eq(0..count) && data.iter().all(|&length| is_full(length, count));
                fail_if(!full, format_args!("it masks steps: {FULL}"))?;
                Ok(vec![Value::Bool { value: true, shape: vec![data.len() as Dim, count] }])
            }
            ("GreaterEqual", [Value::Random { low, .. }, Value::Real(x)])
                if self.arena.scalar(*x).is_some_and(|least| *low >= least) =>
            {
                flag(true)
            }
            ("Floor", [Value::Random { low, high }]) if low.fract() == 0.0 && *high <= low + 1.0 => {
                Ok(vec![Value::Real(self.arena.make(Expr::Fill(low.to_bits()), vec![])?)])
            }
            ("GreaterEqual" | "Floor", [Value::Random { .. }, ..]) => {
                Err("it drops features at random: freeze the graph with a keep_prob of 1".into())
            }
            ("RandomUniform", _) => Ok(vec![Value::Random { low: 0.0, high: 1.0 }]),
            ("LogicalNot", [Value::Bool { value, shape }]) => {
                Ok(vec![Value::Bool { value: !value, shape: shape.clone() }])
            }
            ("Select" | "SelectV2", [Value::Bool { value, .. }, yes, no]) => {
                Ok(vec![if *value { yes.clone() } else { no.clone() }])
            }
            _ => Err("its value is not known when the network is imported".into()),
        }
    }

    /// Whether `step` is before the end of the sequence. All lengths must give the same answer.
    fn is_before(&mut self, step: Dim, lengths: &[Dim]) -> Result<bool, String> {
        let mut before = None;
        for &length in lengths {
            let is = match length {
                _ if is_symbol(step) => return Err("it compares a step that is not known".into()),
                LENGTH => {
                    self.latest = self.latest.max(Some(step));
                    true
                }
                _ if is_symbol(length) => return Err("it compares with a length that is not known".into()),
                _ => step < length,
            };
            fail_if(*before.get_or_insert(is) != is, format_args!("its sequences end at different steps: {FULL}"))?;
        }
        before.ok_or_else(|| "it compares with nothing".into())
    }

    /// The range of random numbers after an arithmetic op with one number.
    pub(super) fn random(&mut self, op: &str, [low, high]: [f32; 2], x: Id) -> Outputs {
        let moved = match (op, self.arena.scalar(x)) {
            ("Mul", Some(gain)) if gain >= 0.0 => [low * gain, high * gain],
            ("Add" | "AddV2", Some(shift)) => [low + shift, high + shift],
            ("Sub", Some(shift)) => [low - shift, high - shift],
            _ => return Err("it computes with random numbers".into()),
        };
        Ok(vec![Value::Random { low: moved[0], high: moved[1] }])
    }

    pub(super) fn cast(&mut self, node: usize, x: &Value) -> Outputs {
        let to_floats = self.graph.attr(node, "DstT") == Some(&Attr::Type(FLOAT));
        match x {
            Value::Real(_) if !to_floats => Err("it converts floats to another type".into()),
            Value::Bool { value, shape } if to_floats => {
                let fill = Expr::Fill(if *value { 1.0_f32 } else { 0.0 }.to_bits());
                Ok(vec![Value::Real(self.arena.make(fill, shape.clone())?)])
            }
            Value::Ints { .. } | Value::Range(_) if to_floats => Err("it converts integers to floats".into()),
            _ => Ok(vec![x.clone()]),
        }
    }

    /// The input of a Merge from the branch that is taken.
    pub(super) fn live(&mut self, node: usize) -> Outputs {
        let inputs = self.inputs(node)?;
        let mut live = inputs.iter().filter(|input| **input != Value::Dead);
        match (live.next(), live.next()) {
            (None, _) => Ok(vec![Value::Dead]),
            (Some(one), None) => Ok(vec![one.clone(), Value::Nothing]),
            _ => Err("it ends a condition that is not known when the network is imported".into()),
        }
    }

    /// The pivot of the condition that a constant belongs to: an Identity on an output of a Switch.
    pub(super) fn branch(&self, node: usize) -> Option<usize> {
        let is_pivot = |&&control: &&usize| match *self.graph.nodes[control].inputs {
            [switch] => self.op(control) == "Identity" && self.op(switch.node) == "Switch",
            _ => false,
        };
        self.graph.nodes[node].control.iter().find(is_pivot).copied()
    }

    pub(super) fn reverse_sequence(&mut self, node: usize, x: Id, lengths: &[Dim]) -> Outputs {
        let (time, batch) = (self.graph.int(node, "seq_dim", 0)?, self.graph.int(node, "batch_dim", 0)?);
        let sequence = match (time, batch) {
            (1, 0) => x,
            (0, 1) => self.arena.swap(x)?,
            _ => return Err("it must reverse the time".into()),
        };
        let steps = self.arena.shape(sequence).get(1).copied().unwrap_or(0);
        if let Some(length) = lengths.iter().find(|&&length| length != LENGTH && length != steps) {
            return Err(format!("it reverses {length} of {steps} steps: {FULL}"));
        }
        let reversed = self.arena.reverse(sequence)?;
        Ok(vec![Value::Real(if time == 1 { reversed } else { self.arena.swap(reversed)? })])
    }

    /// The state of each sequence at its last step.
    pub(super) fn state_after_each(&mut self, x: Id, [lengths, sequences]: &[Value; 2]) -> Outputs {
        let &[time, batch, _] = self.arena.shape(x) else { return Err("it must take a state".into()) };
        self.in_order(sequences, batch)?;
        let is_last = |&length: &Dim| length == LENGTH || length == time;
        let full = matches!(lengths, Value::Ints { data, .. } if !data.is_empty() && data.iter().all(is_last));
        fail_if(!full, format_args!("it takes states of different steps: {FULL}"))?;
        let sequence = self.arena.swap(x)?;
        Ok(vec![Value::Real(self.arena.step(sequence, At::Last)?)])
    }

    /// The output at the last step of each sequence.
    pub(super) fn last_of_each(&mut self, x: Id, [sequences, steps]: &[Value; 2]) -> Outputs {
        let shape = self.arena.shape(x).to_vec();
        let partial = "it must take the last step of each sequence";
        let (Value::Ints { data, .. }, [batch, time, _]) = (steps, &*shape) else { return Err(partial.into()) };
        let last = [self.arena.less(LENGTH, 1)?, self.arena.less(*time, 1)?];
        self.in_order(sequences, *batch)?;
        fail_if(data.is_empty() || data.iter().any(|step| !last.contains(step)), partial)?;
        Ok(vec![Value::Real(self.arena.step(x, At::Last)?)])
    }
}
