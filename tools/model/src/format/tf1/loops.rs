//! Loops over time: TensorFlow 1's `while` loops, made of Enter, Merge, Switch, Exit and NextIteration.

use super::evaluate::{Content, Evaluator, Outputs, Value};
use super::symbol::{At, Dim, Expr, Id, LENGTH, fail_if, intern, is_symbol};
use super::{graph::Source, sequence};
use crate::budget::FIXED;
use crate::format::graphdef::attr_value::Value as Attr;

/// Maximum number of loops; loops are found by a linear search for their name.
const MAX_LOOPS: usize = 1024;

const OTHER_MERGE: &str = "only the Merge of a loop is supported";

/// Advice for graphs whose sequences may end early.
pub(super) const FULL: &str = "only full sequences are supported; feed no more steps than each sequence has";

/// Whether a `sequence_length` covers all of the steps.
pub(super) fn is_full(length: Dim, steps: Dim) -> bool {
    length == LENGTH || length == steps || (!is_symbol(length) && !is_symbol(steps) && length >= steps)
}

impl<'g> Evaluator<'g> {
    /// The frame of the loop that an Exit leaves, found through Exit ← Switch ← Merge.
    pub(super) fn frame_of_exit(&self, exit: usize) -> Option<&Vec<(usize, usize)>> {
        let switch = self.graph.nodes[exit].inputs.first()?;
        let merge = self.graph.nodes[switch.node].inputs.first()?;
        let enter = self.graph.nodes[merge.node].inputs.first()?;
        match self.graph.attr(enter.node, "frame_name")? {
            Attr::Bytes(frame) => self.frames.get(frame.as_slice()),
            _ => None,
        }
    }

    pub(super) fn frame_number(&mut self, node: usize) -> Result<usize, String> {
        let Some(Attr::Bytes(frame)) = self.graph.attr(node, "frame_name") else {
            return Err("it has no frame_name".into());
        };
        let number = intern(&mut self.numbers, frame.as_slice(), MAX_LOOPS);
        number.ok_or_else(|| format!("it is in one of more than {MAX_LOOPS} loops, {FIXED}"))
    }

    /// Whether a Merge is the start of a loop's iterations. Otherwise it is the end of a condition.
    pub(super) fn is_loop(&self, merge: usize) -> bool {
        let inputs = &self.graph.nodes[merge].inputs;
        matches!(**inputs, [_, back] if self.op(back.node) == "NextIteration")
    }

    /// Whether the loop passes the value of this Merge on unchanged.
    fn is_invariant(&self, merge: usize) -> bool {
        let [_, back] = *self.graph.nodes[merge].inputs else { return false };
        let [next] = *self.graph.nodes[back.node].inputs else { return false };
        let switch = self.graph.behind(next);
        self.op(switch.node) == "Switch"
            && switch.output == 1
            && self.graph.nodes[switch.node].inputs.first() == Some(&Source { node: merge, output: 0 })
    }

    pub(super) fn merge(&mut self, node: usize) -> Outputs {
        let &[enter, _] = &*self.graph.nodes[node].inputs else { return Err(OTHER_MERGE.into()) };
        fail_if(self.op(enter.node) != "Enter", OTHER_MERGE)?;
        fail_if(self.graph.flag(enter.node, "is_constant", false)?, "is_constant of its Enter must be false")?;
        let frame = self.frame_number(enter.node)?;
        if self.is_invariant(node) {
            return Ok(vec![self.value(enter)?]);
        }
        Ok(vec![match self.value(enter)? {
            Value::Real(initial) => {
                self.variables.insert(node, self.arena.variables.len());
                Value::Real(self.arena.state(frame, initial)?)
            }
            Value::Ints { is_scalar: true, data } if data == [0] => Value::Counter { merge: node, plus: 0 },
            Value::Ints { .. } => return Err("the loop's counter must start at 0".into()),
            Value::Content(Content::Empty(_)) => Value::Content(Content::Carried(node)),
            _ => return Err("it is not a known kind of loop state".into()),
        }])
    }

    pub(super) fn turns(&mut self, frame: &[(usize, usize)]) -> Result<Dim, String> {
        let mut turns: Option<Dim> = None;
        let mut conditions: Vec<usize> = frame.iter().filter_map(|&(merge, _)| self.graph.conditions[merge]).collect();
        conditions.sort_unstable();
        conditions.dedup();
        let [condition] = *conditions else { return Err("the loop has no condition, or several".into()) };
        let Value::Below(bounds) = self.value(Source { node: condition, output: 0 })? else {
            return Err("the loop must run while a counter is below a bound".into());
        };
        for (merge, bound) in bounds {
            fail_if(!frame.iter().any(|(known, _)| *known == merge), "the loop's condition belongs to another loop")?;
            turns = Some(match turns {
                None => bound,
                Some(turns) if turns == bound => turns,
                Some(turns) if !is_symbol(turns) && !is_symbol(bound) => turns.min(bound),
                Some(_) => return Err("the loop's number of iterations is not known".into()),
            });
        }
        let turns = match turns {
            Some(turns) if is_symbol(turns) || (1..=65_535).contains(&turns) => turns,
            Some(turns) => return Err(format!("the loop runs {turns} times")),
            None => return Err("the loop must run while a counter is below a bound".into()),
        };
        for &(merge, back) in frame {
            if matches!(self.first(merge), Some(Value::Counter { merge: of, .. }) if *of == merge)
                && self.first(back) != Some(&Value::Counter { merge, plus: 1 })
            {
                return Err("the loop's counter must count up by 1".into());
            }
        }
        for &(merge, length) in &self.lengths {
            let partial = frame.iter().any(|(known, _)| *known == merge) && !is_full(length, turns);
            fail_if(partial, format_args!("a sequence_length of {length} in a loop of {turns} iterations: {FULL}"))?;
        }
        Ok(turns)
    }

    /// Sets the next value of each state of the loop to the result of the loop's body.
    fn close(&mut self, frame: &[(usize, usize)]) -> Result<(), String> {
        for (merge, back) in frame {
            if let Some(&variable) = self.variables.get(merge) {
                let Some(&Value::Real(next)) = self.first(*back) else {
                    return Err("a state of the loop changes its kind".into());
                };
                self.arena.variables[variable].next = Some(next);
            }
        }
        Ok(())
    }

    pub(super) fn exit(&mut self, node: usize) -> Outputs {
        let frame = self.frame_of_exit(node).cloned().ok_or("it does not leave a known loop")?;
        let switch = self.graph.nodes[node].inputs[0];
        let merge = self.graph.nodes[switch.node].inputs[0].node;
        fail_if(switch.output != 0 || self.op(switch.node) != "Switch", "it must leave where the loop ends")?;
        if self.is_invariant(merge) {
            return Ok(vec![self.value(Source { node: merge, output: 0 })?]);
        }
        let turns = match self.loops.get(&frame[0].0) {
            Some(&turns) => turns,
            None => {
                let turns = self.turns(&frame)?;
                self.close(&frame)?;
                self.loops.insert(frame[0].0, turns);
                turns
            }
        };
        let Some(&(_, back)) = frame.iter().find(|(known, _)| *known == merge) else {
            return Err("it must show a state of the loop".into());
        };
        let next = self.value(Source { node: back, output: 0 })?;
        Ok(vec![match (self.value(Source { node: merge, output: 0 })?, next) {
            (Value::Counter { .. }, Value::Counter { merge: counted, plus: 1 }) if counted == merge => {
                Value::Ints { is_scalar: true, data: vec![turns] }
            }
            (Value::Real(_), Value::Real(next)) => {
                let sequence = self.lifted(merge, next, turns)?;
                Value::Real(self.arena.step(sequence, At::Last)?)
            }
            (Value::Content(_), Value::Content(Content::Written { array, merge: counter, value })) => {
                fail_if(!frame.iter().any(|(known, _)| *known == counter), "it collects what another loop counts")?;
                let sequence = self.lifted(merge, value, turns)?;
                Value::Content(Content::Sequence(array, self.arena.swap(sequence)?))
            }
            (Value::Content(_), Value::Content(Content::Kept(value))) => {
                let sequence = self.lifted(merge, value, turns)?;
                let last = self.arena.step(sequence, At::Last)?;
                let mut shape = self.arena.shape(last).to_vec();
                shape.insert(1, 1);
                let one = self.arena.make(Expr::Stack(vec![last]), shape)?;
                Value::Content(Content::Sequence(0, self.arena.swap(one)?))
            }
            _ => return Err("it returns a loop state of an unknown kind".into()),
        }])
    }

    /// The values that `value`, in the body of the loop with this Merge, has in all iterations, as a sequence.
    pub(super) fn lifted(&mut self, merge: usize, value: Id, turns: Dim) -> Result<Id, String> {
        let frame = self.frame_number(self.graph.nodes[merge].inputs[0].node)?;
        sequence::of_loop(&mut self.arena, frame, value, turns, 0)
    }
}
