//! `Loop` over the rows of a sequence: a recurrent layer that an exporter has written as a loop, as tf2onnx writes the GRU
//! and the simple recurrent layer of Keras.
//!
//! The body is read once. Values that depend on the step are outputs of stand-ins, so that operators that only move
//! elements are evaluated as in any graph. Each stand-in is a number of the step, a condition on it, or an expression in
//! the normal form of [`tf1`](crate::format::tf1), in which a cell has the same form however an exporter wrote it.

use std::collections::{HashMap, HashSet};

use super::Role;
use super::graph::{MAX_DEPTH, NODE, Session, Stop, is_whole, label, needs};
use super::made::{Layered, Made, MadeOf};
use super::moves::{concat, needed};
use super::proto::{GraphProto, NodeProto};
use super::value::{Data, Element, MAX_ELEMENTS, Value, both};
use crate::canonical::{MAX_NODES, Tensor};
use crate::format::refuse::{err_if, fail_if, limit_if};
use crate::format::tf1::{Arena, At, Expr, Id, of_loop};
use crate::{data::one_line, error::ImportError};

/// Memory in bytes for each weight that the body may make: in the arena, in a cell and in a layer.
const VALUE: usize = 32;
/// Maximum number of cells that read each other's outputs in one step.
const MOST_DEPTH: usize = 16;
/// Maximum number of sequences that a loop reads.
const MOST_SEQUENCES: usize = 16;

/// The meaning of a stand-in.
#[derive(Clone, Copy)]
enum Stand {
    /// The number of the step, from 0, plus this.
    Count(i64),
    /// Whether the number of the step is below this.
    Below(i64),
    /// A row of numbers.
    Row(Id),
}

/// The body of a loop.
struct Body {
    arena: Arena,
    stands: HashMap<u32, Stand>,
    /// The sequences that it reads, `[steps, 1, features]`, by the number of their [`Expr::Input`].
    sequences: Vec<Value>,
    /// Layers of cells, by their expressions.
    layers: HashMap<Id, Made>,
}

impl Body {
    /// The meaning of a scalar.
    fn scalar(&self, value: &Value) -> Option<Stand> {
        match value.elements().as_slice() {
            &[Element::Of(made, 0)] => self.stands.get(&made).copied(),
            _ => None,
        }
    }

    fn count(&self, value: &Value) -> Option<i64> {
        match self.scalar(value)? {
            Stand::Count(offset) => Some(offset),
            _ => None,
        }
    }

    /// The number of steps for which a condition holds. A condition that is known and true always holds.
    fn below(&self, value: &Value) -> Option<i64> {
        match (self.scalar(value), value.known_ints()) {
            (Some(Stand::Below(bound)), _) => Some(bound),
            (_, Ok(&[1])) => Some(i64::MAX),
            _ => None,
        }
    }

    fn depends(&self, value: &Value) -> bool {
        let is_stand = |element: &Element| element.made().is_some_and(|made| self.stands.contains_key(&made));
        match &value.data {
            Data::Open(elements) => elements.iter().any(is_stand),
            Data::Ints(_) | Data::Floats(_) => false,
        }
    }

    /// A value as an expression: a constant, or parts of rows side by side.
    fn expr(&mut self, value: &Value) -> Result<Id, Stop> {
        let width = value.shape.last().copied().unwrap_or(1);
        if value.is_constant() {
            let shape = if value.len() == width { vec![width] } else { value.shape.clone() };
            return Ok(self.arena.constant(Tensor { shape, data: value.known_floats()? })?);
        }
        fail_if(value.len() != width, format_args!("it computes {:?}, not one row", value.shape))?;
        let elements = value.elements();
        let mut parts = Vec::new();
        let follows = |a: &Element, b: &Element| match (a, b) {
            (Element::Of(made, at), Element::Of(other, next)) => made == other && at + 1 == *next,
            _ => false,
        };
        for run in elements.chunk_by(follows) {
            let of = run[0].made().and_then(|made| self.stands.get(&made));
            let (Some(&Stand::Row(row)), Element::Of(_, first)) = (of, run[0]) else {
                return Err("it reads something else than rows of sequences, states and constants".into());
            };
            parts.push(self.arena.slice(row, first as usize, run.len())?);
        }
        Ok(self.arena.concat(&parts)?)
    }
}

impl<'a> Session<'a> {
    /// The outputs of a `Loop`.
    pub(super) fn over_steps(
        &mut self,
        node: &'a NodeProto,
        inputs: &[Option<Value>],
        depth: usize,
    ) -> Result<Vec<Value>, Stop> {
        let graph = self.attributes("body")?.graph("body").ok_or("it has no body")?;
        limit_if(depth > MAX_DEPTH, MAX_DEPTH, "levels of graphs within each other")?;
        limit_if(graph.node.len() > MAX_NODES, MAX_NODES, "operators in the body of a loop")?;
        let carried = inputs.get(2..).unwrap_or_default();
        let fits = graph.input.len() == carried.len() + 2
            && graph.output.len() > carried.len()
            && node.output.len() < graph.output.len();
        fail_if(!fits, "its body has another number of inputs or outputs")?;
        let begins = inputs.get(1).cloned().flatten().is_none_or(|on| matches!(on.known_ints(), Ok(&[1])));
        fail_if(!begins, "its condition before the first step is not known")?;
        let arena = Arena::new(MAX_ELEMENTS.min(self.budget.left() / VALUE));
        let mut body = Body { arena, stands: HashMap::new(), sequences: Vec::new(), layers: HashMap::new() };
        self.open_scope(graph)?;
        let states = self.enter(graph, carried, &mut body)?;
        for inner in &graph.node {
            let outer = self.node.replace(inner);
            let outputs = self.in_body(inner, &mut body, depth).map_err(|stop| match stop {
                Stop::Reason(reason) if reason.is_empty() => within(inner, "it is not supported in a recurrent cell"),
                Stop::Reason(reason) => within(inner, &reason),
                other => other,
            })?;
            self.node = outer;
            self.work(NODE + outputs.iter().map(Value::len).sum::<usize>())?;
            let scope = self.scopes.last_mut().expect("the body has a scope");
            for (name, value) in inner.output.iter().zip(outputs).filter(|(name, _)| !name.is_empty()) {
                self.budget.take(value.held(), 1).map_err(ImportError::from)?;
                scope.insert(name.clone(), value);
            }
        }
        let outputs = self.leave(node, graph, inputs, &states, &mut body);
        self.scopes.pop();
        outputs
    }

    /// Gives the inputs of the body their values. Returns, for each value that the loop carries, the variable of the arena
    /// if it is a state.
    fn enter(
        &mut self,
        graph: &GraphProto,
        carried: &[Option<Value>],
        body: &mut Body,
    ) -> Result<Vec<Option<usize>>, Stop> {
        let turn = self.stand(body, vec![], 1, Stand::Count(0))?;
        let mut values = vec![turn, Value::ints(vec![], vec![1])];
        let mut states = Vec::new();
        for (at, value) in carried.iter().enumerate() {
            let value = value.clone().ok_or_else(|| format!("its input {} is missing", at + 2))?;
            let (name, next) = (&graph.input[at + 2].name, &graph.output[at + 1].name);
            let mut state = None;
            values.push(match &value.data {
                _ if unchanged(graph, next) == name => value,
                Data::Ints(start) if start.len() == 1 => {
                    self.stand(body, value.shape.clone(), 1, Stand::Count(start[0]))?
                }
                Data::Floats(start) if start.iter().all(|start| *start == 0.0) => {
                    let width = value.shape.last().copied().unwrap_or(1);
                    fail_if(width != value.len(), format_args!("its state {name:?} is {:?}", value.shape))?;
                    let zeros = body.arena.make(Expr::Fill(0), vec![1, width as i64])?;
                    let id = body.arena.state(0, zeros)?;
                    state = Some(body.arena.variables.len() - 1);
                    self.stand(body, value.shape.clone(), width, Stand::Row(id))?
                }
                _ => return Err(format!("its state {:?} does not start from zero", one_line(name)).into()),
            });
            states.push(state);
        }
        let scope = self.scopes.last_mut().expect("the body has a scope");
        scope.extend(graph.input.iter().map(|input| input.name.clone()).zip(values));
        Ok(states)
    }

    /// The outputs of the loop: the values that it carries, and the rows of all steps.
    fn leave(
        &mut self,
        node: &NodeProto,
        graph: &GraphProto,
        inputs: &[Option<Value>],
        states: &[Option<usize>],
        body: &mut Body,
    ) -> Result<Vec<Value>, Stop> {
        let missing = |name: &str| format!("output {:?} of its body is not computed by any node", one_line(name));
        let value = |this: &Self, name: &str| this.value(name).ok_or_else(|| missing(name));
        let condition = value(self, &graph.output[0].name)?;
        let below = body.below(&condition).ok_or("its condition is not that the step is below a number")?;
        let most = match inputs.first().cloned().flatten() {
            Some(most) => most.known_ints()?.first().copied().unwrap_or(0),
            None => i64::MAX,
        };
        // The condition after a step decides whether there is another one.
        let turns = most.min(below.saturating_add(1));
        let steps = body.sequences.first().map(|x| x.shape[0]).ok_or("its body reads no row of a sequence")?;
        fail_if(turns != steps as i64, format_args!("it has {turns} steps over a sequence of {steps}"))?;
        for (at, state) in states.iter().enumerate() {
            let next = value(self, &graph.output[at + 1].name)?;
            if let Some(variable) = *state {
                let id = body.expr(&next)?;
                body.arena.variables[variable].next = Some(id);
            } else if let Some(offset) = self.value(&graph.input[at + 2].name).and_then(|before| body.count(&before)) {
                let counts = body.count(&next) == Some(offset.saturating_add(1));
                fail_if(!counts, format_args!("its value {:?} is no counter", one_line(&graph.input[at + 2].name)))?;
            }
        }
        let read = self.read_names()?;
        let mut outputs = Vec::new();
        for (at, name) in node.output.iter().enumerate() {
            let next = value(self, &graph.output[at + 1].name)?;
            let state = states.get(at).copied();
            outputs.push(match state {
                _ if !read.contains(name.as_str()) => Value::ints(vec![], vec![0]),
                Some(None) if !body.depends(&next) => next,
                Some(None) => return Err("it returns a counter of its steps".into()),
                _ => {
                    let id = body.expr(&next)?;
                    let all = of_loop(&mut body.arena, 0, id, turns, 0)?;
                    let rows = self.rows_of(body, all, 0)?;
                    // A state is the row of the last step.
                    if state.is_some() { rows.picked(0, &[Some(steps - 1)], 0.0)?.narrowed(0)? } else { rows }
                }
            });
        }
        Ok(outputs)
    }

    /// The names that nodes of the whole graph read, and its outputs.
    fn read_names(&self) -> Result<HashSet<&'a str>, Stop> {
        let graph = self.setup.graph;
        self.work(graph.node.len())?;
        let mut read = graph.output.iter().map(|output| output.name.as_str()).collect();
        for node in &graph.node {
            needs(node, &mut read, &mut Vec::new(), 0);
        }
        Ok(read)
    }

    /// A value that stands for something in the body.
    fn stand(&mut self, body: &mut Body, shape: Vec<usize>, width: usize, stand: Stand) -> Result<Value, Stop> {
        let of = MadeOf { time: None, rows: 1, width, backward: false, source: None, pending: None };
        let made = self.push(of)?;
        body.stands.insert(made.0, stand);
        self.room(&shape, false)?;
        let mut value = made.value(shape);
        value.whole = !matches!(stand, Stand::Row(_));
        Ok(value)
    }

    /// The outputs of a node in the body.
    fn in_body(&mut self, node: &'a NodeProto, body: &mut Body, depth: usize) -> Result<Vec<Value>, Stop> {
        err_if(!matches!(node.domain.as_str(), "" | "ai.onnx"), String::new)?;
        let inputs = self.inputs_of_node(node)?;
        self.work(inputs.iter().flatten().map(Value::len).sum())?;
        if !inputs.iter().flatten().any(|value| body.depends(value)) {
            return self.evaluate(node, depth + 1);
        }
        let op = node.op_type.as_str();
        match op {
            "Gather" if !body.depends(&needed(&inputs, 0)?) => return Ok(vec![self.row(&inputs, body)?]),
            "Cast" => {
                let x = needed(&inputs, 0)?;
                let rounds = !x.whole && is_whole(self.attributes("to")?.int("to", 0)? as i32) != Some(false);
                fail_if(rounds, "it converts computed values to integers")?;
                return Ok(vec![x]);
            }
            _ => {}
        }
        if let Some(outputs) = self.moved(op, &inputs)? {
            return Ok(outputs);
        }
        if let Some(output) = self.computed(op, &inputs)? {
            return Ok(vec![output]);
        }
        let (x, y) = (needed(&inputs, 0)?, inputs.get(1).cloned().flatten());
        if let Some(y) = &y
            && let Some((stand, shape)) = of_counts(op, &x, y, body)?
        {
            self.attributes("")?;
            return Ok(vec![self.stand(body, shape, 1, stand)?]);
        }
        let id = self.computed_row(op, &inputs, body)?;
        let width = body.arena.width(id);
        let mut shape = match (op, &y) {
            ("Add" | "Sub" | "Mul", Some(y)) => both(&x.shape, &y.shape)?,
            _ => x.shape.clone(),
        };
        if let Some(last) = shape.last_mut() {
            *last = width;
        }
        fail_if(shape.iter().product::<usize>() != width, format_args!("it computes {shape:?}, not one row"))?;
        Ok(vec![self.stand(body, shape, width, Stand::Row(id))?])
    }

    /// The row of the current step in a sequence.
    fn row(&mut self, inputs: &[Option<Value>], body: &mut Body) -> Result<Value, Stop> {
        let (x, at) = (needed(inputs, 0)?, needed(inputs, 1)?);
        let axis = self.attributes("axis")?.int("axis", 0)?;
        let current = body.count(&at) == Some(0) && at.shape.is_empty() && axis == 0;
        fail_if(!current, "it does not take the row of the current step")?;
        let &[steps, _, features] = x.shape.as_slice() else {
            return Err(format!("it takes a row of {:?}; three dimensions are needed", x.shape).into());
        };
        self.batch(&x, 1)?;
        self.time(&x, 0)?;
        fail_if(x.shape[1] != 1, "it reads several sequences that the graph itself makes")?;
        self.work(x.len().saturating_mul(1 + body.sequences.len()))?;
        let known = body.sequences.iter().position(|known| known.elements() == x.elements());
        fail_if(known.is_none() && body.sequences.len() == MOST_SEQUENCES, "it reads too many sequences")?;
        let number = known.unwrap_or(body.sequences.len());
        if known.is_none() {
            fail_if(body.sequences.iter().any(|known| known.shape[0] != steps), "its sequences differ in length")?;
            body.sequences.push(x);
        }
        let sequence = body.arena.make(Expr::Input(number), vec![1, steps as i64, features as i64])?;
        let id = body.arena.step(sequence, At::Turn(0))?;
        self.stand(body, vec![1, features], features, Stand::Row(id))
    }

    /// The expression that an operator computes.
    fn computed_row(&mut self, op: &str, inputs: &[Option<Value>], body: &mut Body) -> Result<Id, Stop> {
        if let Some(activation) = self.activation(op)? {
            let x = body.expr(&needed(inputs, 0)?)?;
            return Ok(body.arena.unary(activation, x)?);
        }
        let x = body.expr(&needed(inputs, 0)?)?;
        let other = |body: &mut Body| body.expr(&needed(inputs, 1)?);
        Ok(match op {
            "MatMul" => {
                self.attributes("")?;
                let weights = other(body)?;
                body.arena.matmul(x, weights)?
            }
            "Gemm" => {
                let attributes = self.attributes("alpha beta transA transB")?;
                let scaled = [attributes.float("alpha", 1.0)?, attributes.float("beta", 1.0)?] != [1.0; 2];
                fail_if(scaled || attributes.int("transA", 0)? != 0, "attribute alpha, beta or transA")?;
                let weights = needed(inputs, 1)?;
                let turned = attributes.int("transB", 0)? != 0;
                let weights = body.expr(&if turned { weights.transposed(&[1, 0])? } else { weights })?;
                let product = body.arena.matmul(x, weights)?;
                match inputs.get(2).cloned().flatten() {
                    Some(bias) => {
                        let bias = body.expr(&bias)?;
                        body.arena.add(product, bias)?
                    }
                    None => product,
                }
            }
            "Add" | "Sub" | "Mul" => {
                self.attributes("")?;
                let y = other(body)?;
                let arena = &mut body.arena;
                arena.are_alike(x, y)?;
                match op {
                    "Add" => arena.add(x, y)?,
                    "Mul" => arena.mul(x, y)?,
                    _ => arena.sub(x, y)?,
                }
            }
            "Clip" => {
                let attributes = self.attributes("min max")?;
                let bound = |at: usize, name: &str, none: f32| -> Result<f32, Stop> {
                    match inputs.get(at).cloned().flatten() {
                        Some(value) => match value.known_floats()?.as_slice() {
                            &[bound] => Ok(bound),
                            _ => Err("its bound is not a number".into()),
                        },
                        None => Ok(attributes.float(name, none)?),
                    }
                };
                let (least, most) = (bound(1, "min", f32::NEG_INFINITY)?, bound(2, "max", f32::INFINITY)?);
                body.arena.clip(x, least, most)?
            }
            _ => return Err(String::new().into()),
        })
    }

    /// An expression over all steps, `[steps, 1, features]`.
    fn rows_of(&mut self, body: &mut Body, id: Id, depth: usize) -> Result<Value, Stop> {
        fail_if(depth == MOST_DEPTH, "its cells are nested too deeply")?;
        match body.arena.expr(id).clone() {
            Expr::Input(number) => Ok(body.sequences[number].clone()),
            Expr::Concat(parts) => {
                let parts = parts.into_iter().map(|part| self.rows_of(body, part, depth + 1));
                Ok(concat(&parts.collect::<Result<Vec<_>, _>>()?, 2)?)
            }
            Expr::Rnn(cell, x) => {
                let x = self.rows_of(body, x, depth + 1)?;
                let made = match body.layers.get(&id) {
                    Some(&made) => made,
                    None => {
                        let layer = body.arena.cells[cell].layer(&body.arena)?;
                        // Otherwise the graph itself iterates over the steps.
                        let operand = match self.axis_with(&x, Role::Time) {
                            Some(0) => self.operand(&x, &[1, 2], 0, Some(0), false)?,
                            _ => self.operand(&x, &[0, 1, 2], 1, None, false)?,
                        };
                        self.layered(Layered::plain(layer), &operand)?
                    }
                };
                body.layers.insert(id, made);
                let (steps, width) = (x.shape[0], body.arena.width(id));
                self.room(&[steps, width], false)?;
                Ok(made.value(vec![steps, 1, width]).with_axes(vec![x.axes[0], x.axes[1], None]))
            }
            _ => Err("its body computes something else than a recurrent cell of its states".into()),
        }
    }
}

/// The stand-in for arithmetic on the number of the step, and its shape; `None` for any other operator.
fn of_counts(op: &str, x: &Value, y: &Value, body: &Body) -> Result<Option<(Stand, Vec<usize>)>, Stop> {
    let number = |value: &Value| match value.known_floats().ok()?.as_slice() {
        // Every whole number below this is exact in f32.
        &[number] if number.abs() < 16_777_216.0 && number.fract() == 0.0 => Some(number as i64),
        _ => None,
    };
    let stand = match (op, body.count(x), body.count(y)) {
        ("Add", Some(offset), None) => number(y).map(|by| Stand::Count(offset.saturating_add(by))),
        ("Add", None, Some(offset)) => number(x).map(|by| Stand::Count(offset.saturating_add(by))),
        ("Less", Some(offset), None) => number(y).map(|bound| Stand::Below(bound.saturating_sub(offset))),
        ("Greater", None, Some(offset)) => number(x).map(|bound| Stand::Below(bound.saturating_sub(offset))),
        ("And", ..) => body.below(x).zip(body.below(y)).map(|(a, b)| Stand::Below(a.min(b))),
        _ => None,
    };
    Ok(match stand {
        Some(stand) => Some((stand, both(&x.shape, &y.shape)?)),
        None => None,
    })
}

/// The name of the value that an output of the body is a copy of.
fn unchanged<'g>(graph: &'g GraphProto, mut name: &'g str) -> &'g str {
    for node in graph.node.iter().rev() {
        if let ("Identity", [from], [to]) = (node.op_type.as_str(), &node.input[..], &node.output[..])
            && to == name
        {
            name = from;
        }
    }
    name
}

/// A reason with the node in the body.
fn within(node: &NodeProto, reason: &str) -> Stop {
    format!("{} {:?} in its body: {reason}", one_line(&node.op_type), label(node)).into()
}
