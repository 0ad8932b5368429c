//! What a graph decides: whether a step still counts, and what only training does. Every condition must be known when
//! the network is imported; a sequence that is fed is full, so that all of its steps count.

use super::evaluate::{Evaluator, Outputs, Value};
use super::loops::{FULL, is_full};
use super::symbol::{Dim, Expr, Id, LENGTH, is_symbol};
use crate::format::graphdef::FLOAT;
use crate::format::graphdef::attr_value::Value as Attr;

fn flag(value: bool) -> Outputs {
    Ok(vec![Value::Bool { value, shape: Vec::new() }])
}

impl Evaluator<'_> {
    pub(super) fn conditional(&mut self, op: &str, inputs: &[Value]) -> Outputs {
        match (op, inputs) {
            ("Switch", [x, Value::Below(_)]) => Ok(vec![x.clone(), x.clone()]),
            ("Switch", [x, Value::Bool { value, .. }]) => Ok(match value {
                false => vec![x.clone(), Value::Dead],
                true => vec![Value::Dead, x.clone()],
            }),
            ("Switch", _) => Err("it obeys a condition that is not known when the network is imported".into()),
            ("GreaterEqual", [Value::Counter { merge, plus: 0 }, Value::Ints { data, .. }])
            | ("LessEqual", [Value::Ints { data, .. }, Value::Counter { merge, plus: 0 }]) => {
                self.lengths.extend(data.iter().map(|&length| (*merge, length)));
                flag(false)
            }
            ("GreaterEqual" | "Less", [Value::Ints { is_scalar: true, data: step }, Value::Ints { data, .. }]) => {
                flag(self.is_before(step[0], data)? == (op == "Less"))
            }
            ("LessEqual", [Value::Ints { data, .. }, Value::Ints { is_scalar: true, data: step }]) => {
                flag(!self.is_before(step[0], data)?)
            }
            ("Greater", [Value::Ints { data, .. }, Value::Ints { is_scalar: true, data: step }]) => {
                flag(self.is_before(step[0], data)?)
            }
            // The mask of a sequence_length.
            ("Less", [Value::Ints { is_scalar: false, data: steps }, Value::Ints { is_scalar: false, data }]) => {
                let count = steps.len() as Dim;
                if !steps.iter().copied().eq(0..count) || !data.iter().all(|&length| is_full(length, count)) {
                    return Err(format!("it masks steps: {FULL}"));
                }
                Ok(vec![Value::Bool { value: true, shape: vec![data.len() as Dim, count] }])
            }
            ("GreaterEqual", [Value::Random { low, .. }, Value::Real(x)])
                if self.arena.scalar(*x).is_some_and(|least| *low >= least) =>
            {
                flag(true)
            }
            ("Floor", [Value::Random { low, high }]) if low.fract() == 0.0 && *high <= low + 1.0 => {
                let id = self.arena.make(Expr::Fill(low.to_bits()), vec![])?;
                Ok(vec![Value::Real(id)])
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

    /// Whether a step is one of those that count, which all lengths must agree on.
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
            if *before.get_or_insert(is) != is {
                return Err(format!("its sequences end at different steps: {FULL}"));
            }
        }
        before.ok_or_else(|| "it compares with nothing".into())
    }

    /// Random numbers times or plus a number.
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
            Value::Real(_) if !to_floats => Err("it makes something else of floats".into()),
            Value::Bool { value, shape } if to_floats => {
                let fill = Expr::Fill(if *value { 1.0_f32 } else { 0.0 }.to_bits());
                Ok(vec![Value::Real(self.arena.make(fill, shape.clone())?)])
            }
            Value::Ints { .. } | Value::Range(_) if to_floats => Err("it makes floats of integers".into()),
            _ => Ok(vec![x.clone()]),
        }
    }

    /// The input of a Merge behind a condition that was known.
    pub(super) fn live(&mut self, node: usize) -> Outputs {
        let inputs = self.inputs(node)?;
        let mut live = inputs.iter().filter(|input| **input != Value::Dead);
        match (live.next(), live.next()) {
            (None, _) => Ok(vec![Value::Dead]),
            (Some(one), None) => Ok(vec![one.clone(), Value::Nothing]),
            _ => Err("it ends a condition that is not known when the network is imported".into()),
        }
    }

    /// The end of a Switch that a constant within a condition comes after.
    pub(super) fn branch(&self, node: usize) -> Option<usize> {
        let is_pivot = |&&control: &&usize| match *self.graph.nodes[control].inputs {
            [switch] => self.op(control) == "Identity" && self.op(switch.node) == "Switch",
            _ => false,
        };
        self.graph.nodes[node].control.iter().find(is_pivot).copied()
    }

    pub(super) fn reverse_sequence(&mut self, node: usize, x: Id, lengths: &[Dim]) -> Outputs {
        let (time, batch) = (self.int(node, "seq_dim", 0)?, self.int(node, "batch_dim", 0)?);
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

    /// The state after as many steps as each sequence has.
    pub(super) fn state_after_each(&mut self, x: Id, [lengths, sequences]: &[Value; 2]) -> Outputs {
        let &[time, batch, _] = self.arena.shape(x) else { return Err("it must take a state".into()) };
        self.in_order(sequences, batch)?;
        match lengths {
            Value::Ints { data, .. }
                if !data.is_empty() && data.iter().all(|&length| length == LENGTH || length == time) =>
            {
                let sequence = self.arena.swap(x)?;
                Ok(vec![Value::Real(self.arena.step(sequence, super::symbol::At::Last)?)])
            }
            _ => Err(format!("it takes states of different steps: {FULL}")),
        }
    }

    /// The last step of each sequence that has a length.
    pub(super) fn last_of_each(&mut self, x: Id, [sequences, steps]: &[Value; 2]) -> Outputs {
        let shape = self.arena.shape(x).to_vec();
        let (Value::Ints { data, .. }, [batch, time, _]) = (steps, &*shape) else {
            return Err("it must take the last step of each sequence".into());
        };
        let last = [self.arena.less(LENGTH, 1)?, self.arena.less(*time, 1)?];
        self.in_order(sequences, *batch)?;
        if data.is_empty() || data.iter().any(|step| !last.contains(step)) {
            return Err("it must take the last step of each sequence".into());
        }
        Ok(vec![Value::Real(self.arena.step(x, super::symbol::At::Last)?)])
    }
}
