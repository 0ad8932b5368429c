//! `WHILE`: a recurrent layer that a converter has written as a loop over time.
//!
//! A value of the loop has the meaning that its next value in the body shows: a counter of the steps, a constant or the
//! input sequence, both unchanged, a state, or a list of which each step writes one row. The row that a step writes must
//! be the output of a cell in the normal form, whose states are those of the loop; any other body is refused.

use std::collections::{BTreeSet, HashMap};

use super::algebra::{Algebra, Count, Item, MOST_WHOLE};
use super::lower::Value;
use super::lower::{Reader, Trouble};
use super::over_steps::{Layers, in_steps};
use super::schema::{Graph, Operator, Type, floats, integers};
use super::variables::{Variables, name_of};
use crate::format::refuse::fail_if;
use crate::format::tf1::{Expr, of_loop};

/// The meaning of a value of the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Counter,
    Fixed,
    State,
    /// A list of this many rows. A list of one row holds the last output.
    List(usize),
}

impl Reader<'_> {
    /// The tensors of states that a loop keeps in variables from call to call. Empty if any variable is something else.
    pub fn carried_states(&mut self) -> Result<(BTreeSet<usize>, Vec<usize>), crate::error::ImportError> {
        let (mut handles, mut reads, mut variables) = (HashMap::new(), HashMap::new(), Variables::default());
        let mut carried = BTreeSet::new();
        let (mut assigned, mut is_replaced) = (HashMap::new(), false);
        for operator in &self.model.main.operators {
            let named = |trouble| self.named(operator, trouble);
            match (operator.op, operator.inputs.as_slice(), operator.outputs.as_slice()) {
                ("VAR_HANDLE", [], &[Some(handle)]) => drop(handles.insert(handle, name_of(operator).map_err(named)?)),
                ("READ_VARIABLE", &[Some(handle)], &[Some(value)]) => drop(reads.insert(value, handle)),
                // A value that a later assignment replaces, such as that of a reset, does not reach the next call.
                ("ASSIGN_VARIABLE", &[Some(handle), Some(value)], []) => {
                    is_replaced |= assigned.insert(handle, value).is_some();
                }
                _ => {}
            }
        }
        let of = |handle: &usize| handles.get(handle);
        for operator in self.model.main.operators.iter().filter(|operator| operator.op == "WHILE") {
            for (input, output) in operator.inputs.iter().zip(&operator.outputs) {
                let Some(handle) = input.as_ref().and_then(|input| reads.get(input)) else { continue };
                let next = assigned.iter().filter(|(to, _)| of(to) == of(handle)).min().map(|(_, value)| *value);
                if next.is_some() && next == *output {
                    carried.extend(*input);
                }
            }
        }
        let slots = |value: usize| {
            let inputs = self.model.main.operators.iter().flat_map(|operator| &operator.inputs);
            inputs.filter(|input| **input == Some(value)).count()
        };
        let is_read = |value: &usize| slots(*value) == 1 && !self.model.main.outputs.contains(value);
        let names: BTreeSet<_> = carried.iter().filter_map(|value| of(&reads[value])).collect();
        let all = carried.len() == reads.len() && assigned.len() == reads.len() && names.len() == reads.len();
        if is_replaced || !all || !carried.iter().all(is_read) {
            return Ok((BTreeSet::new(), Vec::new()));
        }
        for operator in self.model.main.operators.iter() {
            match (operator.op, operator.outputs.as_slice()) {
                ("CALL_ONCE", _) => {
                    self.call_once(operator, &mut variables).map_err(|trouble| self.named(operator, trouble))?;
                }
                ("READ_VARIABLE", &[Some(value)]) => {
                    let name = reads.get(&value).and_then(|handle| handles.get(handle)).cloned().unwrap_or_default();
                    let starts = self.starts_from_zero(&name, value, &variables);
                    starts.map_err(|trouble| self.named(operator, trouble))?;
                }
                _ => {}
            }
        }
        Ok((carried, variables.called))
    }

    /// The operators that read a tensor.
    fn readers(&self, tensor: usize) -> impl Iterator<Item = &Operator<'_>> {
        self.model.main.operators.iter().filter(move |operator| operator.inputs.contains(&Some(tensor)))
    }

    /// Whether anything reads the output of a loop. A variable that holds a state of the loop does not.
    fn is_used(&self, output: usize) -> bool {
        let uses = |operator: &Operator<'_>| operator.op != "ASSIGN_VARIABLE";
        self.model.main.outputs.contains(&output) || self.readers(output).any(uses)
    }

    /// Reads a loop, and returns its outputs that are read.
    pub(super) fn while_loop(&mut self, operator: &Operator<'_>) -> Result<Vec<(usize, Value)>, Trouble> {
        let graph = |name: &str| -> Result<usize, Trouble> {
            let index = operator.option(name, 0_i32)?;
            let index = usize::try_from(index).ok().filter(|&index| index > 0);
            Ok(index.ok_or_else(|| format!("attribute {name} is {}", operator.option(name, 0_i32).unwrap_or(0)))?)
        };
        let (condition, body) = (graph("cond_subgraph_index")?, graph("body_subgraph_index")?);
        self.called.extend([condition, body]);
        let condition = self.model.graph(condition, &mut self.budget)?;
        let body = self.model.graph(body, &mut self.budget)?;
        let count = operator.inputs.len();
        let values = "values of the loop in the graph of";
        let misfit = operator.outputs.len() != count || [body.inputs.len(), body.outputs.len()] != [count; 2];
        fail_if(misfit, format_args!("not all of its {count} inputs are {values} body_subgraph_index"))?;
        let misfit = condition.inputs.len() != count;
        fail_if(misfit, format_args!("not all of its {count} inputs are {values} cond_subgraph_index"))?;
        let roles = (0..count).map(|slot| self.role(operator, &body, slot)).collect::<Result<Vec<_>, _>>()?;
        let turns = self.turns(operator, &condition, &roles)?;
        let mut sequences = HashMap::new();
        let mut algebra = Algebra::new(self.model, &body, &mut self.budget);
        for (slot, role) in roles.iter().enumerate() {
            let (inner, outer) = (body.inputs[slot], operator.inputs[slot].unwrap_or_default());
            let item = match *role {
                Role::Counter => Item::Whole(vec![Count::Turn(0)]),
                Role::State => Item::Real(algebra.state(body.tensors[inner].shape()?.iter().product())?),
                Role::List(rows) => Item::Part { list: slot, from: Count::Is(0), to: Count::Is(rows as i64) },
                Role::Fixed => {
                    let shape = body.tensors[inner].shape()?;
                    match (self.values.get(&outer), shape.as_slice()) {
                        (Some(value), &[steps, 1, features]) => {
                            let shape = vec![1, steps as i64, features as i64];
                            let id = algebra.arena.make(Expr::Input(slot), shape)?;
                            sequences.insert(id, in_steps(value.clone(), steps));
                            Item::Sequence(id)
                        }
                        _ => continue,
                    }
                }
            };
            algebra.items.insert(inner, item);
        }
        for inner in &body.operators {
            algebra.read(inner).map_err(|trouble| within(inner, &body, "body_subgraph_index", trouble))?;
        }
        let next = (0..count).map(|slot| algebra.item(body.outputs[slot])).collect::<Vec<_>>();
        self.hybrid |= algebra.hybrid;
        let mut arena = algebra.arena;
        let mut lists = Vec::new();
        for (slot, (role, next)) in roles.iter().zip(next).enumerate() {
            match (*role, next) {
                (Role::Fixed, _) => {}
                (Role::Counter, Ok(Item::Whole(counts))) if counts == [Count::Turn(1)] => {}
                (Role::Counter, _) => return Err(format!("its value {slot} is not a counter of the steps").into()),
                (Role::State, Ok(Item::Real(id))) => lists.push((slot, None, id)),
                (Role::List(rows), Ok(Item::Written { list, value })) if list == slot && rows == turns => {
                    lists.push((slot, Some(rows), value));
                }
                (Role::List(1), Ok(Item::Real(id))) => lists.push((slot, Some(1), id)),
                (_, Err(trouble)) => return Err(trouble),
                _ => return Err(format!("its value {slot} is neither a state, a counter nor a list of outputs").into()),
            }
        }
        let states = roles.iter().enumerate().filter(|(_, role)| **role == Role::State).map(|(slot, _)| slot);
        for (variable, slot) in states.enumerate() {
            let next = lists.iter().find(|(of, ..)| *of == slot).map(|(.., id)| *id);
            arena.variables[variable].next = next;
        }
        let (mut values, mut known) = (Vec::new(), HashMap::new());
        for (slot, rows, id) in lists {
            let Some(output) = operator.outputs[slot].filter(|&output| self.is_used(output)) else { continue };
            let (shape, inner) = (self.shape_of(output)?, body.tensors[body.inputs[slot]].shape()?);
            fail_if(shape != inner, format_args!("its output {slot} is {shape:?}, and {inner:?} in its body"))?;
            let sequence = of_loop(&mut arena, 0, id, turns as i64, 0).map_err(Trouble::from);
            let value = sequence
                .and_then(|id| {
                    let mut layers = Layers { arena: &arena, sequences: &sequences, known: &mut known };
                    self.over_steps(&mut layers, id)
                })
                .map_err(|reason| match (rows, reason) {
                    (None, Trouble::Reason(reason)) => format!("its final state {slot} is read: {reason}").into(),
                    (_, reason) => reason,
                })?;
            values.push((output, self.shown(value, (rows == Some(turns)).then_some(0), shape)));
        }
        Ok(values)
    }

    /// The meaning of a value of the loop.
    fn role(&self, operator: &Operator<'_>, body: &Graph<'_>, slot: usize) -> Result<Role, Trouble> {
        let outer = operator.inputs[slot].ok_or_else(|| format!("its input {slot} is missing"))?;
        let (first, tensor) = (&self.model.main.tensors[outer], &body.tensors[body.inputs[slot]]);
        let (shape, next) = (tensor.shape()?, &body.tensors[body.outputs[slot]]);
        let fits = [first.of, next.of] == [tensor.of; 2] && first.shape()? == shape && next.shape()? == shape;
        fail_if(!fits, format_args!("its input {slot} has another shape or type than in its body"))?;
        if body.inputs[slot] == body.outputs[slot] {
            return Ok(Role::Fixed);
        }
        match (tensor.of, shape.as_slice()) {
            (Type::I32, []) => {
                let start = integers(self.model, first)?;
                fail_if(start != Some(vec![0]), format_args!("its counter, input {slot}, does not start at 0"))?;
                Ok(Role::Counter)
            }
            (Type::F32, &[rows, 1, _]) => Ok(Role::List(rows)),
            (Type::F32, [_] | [1, _]) => {
                let zero = match floats(self.model, &self.model.main.tensors[self.behind(outer)])? {
                    Some(data) => data.iter().all(|value| *value == 0.0),
                    None => self.carried.contains(&outer),
                };
                fail_if(!zero, format_args!("its state, input {slot}, does not start at zero"))?;
                Ok(Role::State)
            }
            _ => {
                let of = tensor.of.name();
                Err(format!("its value {slot} is {shape:?} of {of}; only loops over one sequence of floats are read")
                    .into())
            }
        }
    }

    /// The number of steps for which the condition holds.
    fn turns(&mut self, operator: &Operator<'_>, graph: &Graph<'_>, roles: &[Role]) -> Result<usize, Trouble> {
        let mut algebra = Algebra::new(self.model, graph, &mut self.budget);
        for (slot, role) in roles.iter().enumerate() {
            let (inner, outer) = (graph.inputs[slot], operator.inputs[slot].unwrap_or_default());
            let tensor = &self.model.main.tensors[outer];
            let is_short = tensor.shape()?.iter().product::<usize>() <= MOST_WHOLE;
            let known = || integers(self.model, tensor).ok().flatten();
            let counts = match role {
                Role::Counter => Some(vec![Count::Turn(0)]),
                Role::Fixed if is_short && tensor.of == Type::I32 => {
                    known().map(|data| data.into_iter().map(Count::Is).collect())
                }
                _ => None,
            };
            algebra.items.extend(counts.map(|counts| (inner, Item::Whole(counts))));
        }
        for inner in &graph.operators {
            algebra.read(inner).map_err(|trouble| within(inner, graph, "cond_subgraph_index", trouble))?;
        }
        let &[output] = graph.outputs.as_slice() else { return Err("its condition has not exactly one output".into()) };
        match algebra.item(output)? {
            Item::Below(turns) => {
                Ok(usize::try_from(turns).ok().filter(|&turns| turns > 0).ok_or("it has no steps")?)
            }
            _ => Err("its condition is not that the step is below a number".into()),
        }
    }
}

/// A reason with the operator in a graph of the loop, which `attribute` names.
fn within(operator: &Operator<'_>, graph: &Graph<'_>, attribute: &str, trouble: Trouble) -> Trouble {
    match trouble {
        Trouble::Reason(reason) => {
            let names = operator.outputs.iter().flatten().map(|&output| graph.tensors[output].name());
            let name = names.flatten().next().unwrap_or_default();
            format!("{} {name:?} in the graph of {attribute}: {reason}", operator.name()).into()
        }
        whole @ Trouble::Whole(_) => whole,
    }
}
