//! Translates the nodes of a graph to expressions. Nodes are evaluated in the order of their edges, without recursion.
//! The variables of a `while` loop are evaluated first, as states with an unknown next value; the outputs of the loop
//! follow once its body has been evaluated.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::symbol::{Arena, Dim, Id, Padded, is_symbol};
use super::{exports, front_end::FrontEnd, graph::Graph, graph::Source};
use crate::budget::FIXED;
use crate::error::{ImportError, Result};
use crate::format::graphdef::{AttrValue, attr_value::Value as Attr};

/// Maximum length of a vector of integers: one entry for each time step.
pub(super) const MAX_INTS: usize = 65_535;
const MAX_ALL_INTS: usize = 1 << 22;
/// Maximum number of integers copied from node to node.
const MAX_COPIES: usize = 1 << 26;
const MAX_OUTPUTS: usize = 1 << 20;
const MAX_STATES: usize = 1024;
/// Maximum number of nodes that fail without being needed by an output.
const MAX_FAILURES: usize = 64;
const MAX_NOTES: usize = 16;
pub(super) const MAX_PARTS: usize = 65_535;

/// An intermediate value in the normalization of `x`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Moment {
    pub x: Id,
    pub part: Part,
    /// Epsilon (bits), factor and shift, once they are known.
    pub epsilon: Option<u32>,
    pub gain: Option<Id>,
    pub shift: Option<Id>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Part {
    Mean,
    /// The squared difference from the mean.
    Deviation,
    Variance,
    /// `s`
    Scale,
    /// `x s`
    Scaled,
    /// `mean s`
    ScaledMean,
    /// `shift - mean s`
    Rest,
}

/// The value on an edge of the graph.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Real(Id),
    /// A scalar or a vector of integers.
    Ints {
        is_scalar: bool,
        data: Vec<Dim>,
    },
    /// A matrix of integers with two columns.
    Paddings(Vec<[Dim; 2]>),
    Padded(Box<Padded>),
    /// `0..n` for an unknown number of steps.
    Range(Dim),
    /// A time-major sequence with a step of zeros in front.
    Since(Id),
    /// Pairs of integers, the first from one vector and the second from another.
    Pairs(Box<[Self; 2]>),
    /// The counter of a loop plus a constant.
    Counter {
        merge: usize,
        plus: i64,
    },
    /// Whether each of these counters is below its bound.
    Below(Vec<(usize, Dim)>),
    /// A tensor whose elements are all the same flag.
    Bool {
        value: bool,
        shape: Vec<Dim>,
    },
    Random {
        low: f32,
        high: f32,
    },
    Moment(Moment),
    /// A TensorArray, by its node.
    Array(usize),
    /// The content of a TensorArray or of a tensor list.
    Content(Content),
    /// No value, because the other branch of a condition was taken.
    Dead,
    /// An unknown value, by the number of the failure. It is an error only if an output needs it.
    Failed(usize),
    /// A value that has no effect on the outputs.
    Nothing,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Content {
    Empty(usize),
    Sequence(usize, Id),
    /// A state of a loop, by its Merge.
    Carried(usize),
    Written {
        array: usize,
        merge: usize,
        value: Id,
    },
    /// A value written at the same index in every iteration.
    Kept(Id),
}

/// A graph and the values of the nodes evaluated so far.
pub struct Evaluator<'g> {
    pub graph: &'g Graph<'g>,
    pub arena: Arena,
    /// Number of steps of the input sequences, if the user gives it.
    pub(super) window: Option<usize>,
    /// Shapes of placeholders by name, from the user.
    pub(super) shapes: &'g BTreeMap<String, Vec<usize>>,
    /// Whether an input has `window` steps.
    pub window_used: bool,
    /// Placeholders whose shape in `shapes` was asked for.
    pub shapes_used: BTreeSet<String>,
    /// An input with another number of steps than the user gave.
    pub other_window: Option<(String, usize)>,
    /// Outputs by node; `None` until the node is evaluated.
    values: Vec<Option<Vec<Value>>>,
    /// The (Merge, NextIteration) pairs of each loop, by the name of its frame.
    pub(super) frames: HashMap<&'g [u8], Vec<(usize, usize)>>,
    /// Names of the loops, in the order in which they are entered.
    pub(super) numbers: Vec<&'g [u8]>,
    /// Arena variables by Merge.
    pub(super) variables: HashMap<usize, usize>,
    /// Sequence lengths that the counter of the loop with this Merge is compared with.
    pub(super) lengths: Vec<(usize, Dim)>,
    /// The last step of an unrolled loop that is compared with a fed length.
    pub latest: Option<Dim>,
    /// Outputs by op, inputs and attributes. An unrolled loop contains the same ops again and again.
    known: HashMap<String, Vec<Value>>,
    ints_left: usize,
    /// Remaining budgets: integers to copy, and outputs of nodes.
    copies_left: usize,
    outputs_left: usize,
    /// Number of iterations of each loop whose body has been evaluated, by its first Merge.
    pub(super) loops: HashMap<usize, Dim>,
    failures: Vec<(usize, String)>,
    pub front_end: Option<FrontEnd>,
    pub notes: Vec<String>,
}

pub(super) type Outputs = Result<Vec<Value>, String>;

impl<'g> Evaluator<'g> {
    pub fn new(graph: &'g Graph<'g>, window: Option<usize>, shapes: &'g BTreeMap<String, Vec<usize>>) -> Result<Self> {
        // Slices, transposes and folded factors take a few copies of every constant.
        let values = held(graph).saturating_add(1 << 16).saturating_mul(8).min(1 << 27);
        let mut evaluator = Self {
            graph,
            arena: Arena::new(values),
            window,
            shapes,
            window_used: false,
            shapes_used: BTreeSet::new(),
            other_window: None,
            values: vec![None; graph.nodes.len()],
            frames: HashMap::new(),
            numbers: Vec::new(),
            variables: HashMap::new(),
            lengths: Vec::new(),
            latest: None,
            known: HashMap::new(),
            ints_left: MAX_ALL_INTS,
            copies_left: MAX_COPIES,
            outputs_left: MAX_OUTPUTS,
            loops: HashMap::new(),
            failures: Vec::new(),
            front_end: None,
            notes: Vec::new(),
        };
        for (merge, node) in graph.nodes.iter().enumerate() {
            if let ("Merge", &[enter, back]) = (node.def.op.as_str(), &*node.inputs)
                && let Some(Attr::Bytes(frame)) = graph.attr(enter.node, "frame_name")
            {
                let states = evaluator.frames.entry(frame).or_default();
                states.push((merge, back.node));
                if states.len() > MAX_STATES {
                    return evaluator.fail(merge, format!("its loop has more than {MAX_STATES} states, {FIXED}"));
                }
            }
        }
        Ok(evaluator)
    }

    /// Number of values of all constants that are in the file.
    pub fn held(&self) -> usize {
        held(self.graph)
    }

    /// Refuses a node; without a reason, because its op is not supported.
    pub fn fail<T>(&self, node: usize, reason: impl Into<String>) -> Result<T> {
        let def = self.graph.nodes[node].def;
        let (node, op, reason) = (def.name.clone(), def.op.clone(), reason.into());
        let error = match reason.is_empty() {
            true => ImportError::UnreadOp { node, op },
            false => ImportError::Node { node, op, reason },
        };
        Err(match exports::advice(&def.op) {
            Some(advice) => ImportError::Refused { found: error.to_string(), advice },
            None => error,
        })
    }

    pub fn read(&mut self, source: Source) -> Result<Id> {
        let mut open = vec![(source.node, false)];
        let mut begun = vec![false; self.graph.nodes.len()];
        while let Some((node, ready)) = open.pop() {
            if self.values[node].is_some() {
                continue;
            }
            if ready {
                self.arena.origin = node;
                let outputs = self.outputs(node).and_then(|outputs| {
                    let left = self.outputs_left.checked_sub(outputs.len());
                    self.outputs_left = left.ok_or("the graph's nodes have too many outputs")?;
                    Ok(outputs)
                });
                let outputs = outputs.unwrap_or_else(|reason| vec![self.failed(node, reason)]);
                self.values[node] = Some(outputs);
                if self.failures.len() > MAX_FAILURES {
                    return self.failure(MAX_FAILURES);
                }
                continue;
            }
            // Only nodes that a waiting node needs are above it on the stack, so meeting it again means a cycle.
            if std::mem::replace(&mut begun[node], true) {
                return self.fail(node, "it needs its own output");
            }
            open.push((node, true));
            let before = self.before(node).into_iter().filter(|&before| self.values[before].is_none());
            open.extend(before.map(|before| (before, false)));
        }
        match self.value(source) {
            Ok(Value::Real(id)) => Ok(id),
            Ok(Value::Failed(number)) => self.failure(number),
            Ok(_) => self.fail(source.node, "its output is not a float tensor"),
            Err(reason) => self.fail(source.node, reason),
        }
    }

    fn failure<T>(&self, number: usize) -> Result<T> {
        let (node, reason) = &self.failures[number];
        self.fail(*node, reason)
    }

    /// Records the failure of a node, or passes on that of one of its inputs.
    fn failed(&mut self, node: usize, reason: String) -> Value {
        let cause = |&before: &usize| match self.values[before].as_deref() {
            Some([Value::Failed(number)]) => Some(*number),
            _ => None,
        };
        let number = self.before(node).iter().find_map(cause).unwrap_or(self.failures.len());
        if number == self.failures.len() {
            self.failures.push((node, reason));
        }
        Value::Failed(number)
    }

    /// The nodes that must be evaluated before this one.
    pub(super) fn before(&self, node: usize) -> Vec<usize> {
        let inputs = &self.graph.nodes[node].inputs;
        match self.op(node) {
            // The NextIteration input of a loop is evaluated with the loop's Exit.
            "Merge" if self.is_loop(node) => inputs.iter().take(1).map(|input| input.node).collect(),
            "Exit" => {
                let frame = self.frame_of_exit(node).map_or(&[][..], Vec::as_slice);
                let body = frame.iter().flat_map(|&(merge, back)| [merge, back]);
                let condition = frame.iter().filter_map(|&(merge, _)| self.graph.conditions[merge]);
                body.chain(condition).chain(inputs.iter().map(|input| input.node)).collect()
            }
            // A constant depends only on the branch of a condition that it belongs to.
            "Const" => self.branch(node).into_iter().collect(),
            "Placeholder" | "Mfcc" => Vec::new(),
            _ => inputs.iter().map(|input| input.node).collect(),
        }
    }

    pub(super) fn op(&self, node: usize) -> &'g str {
        &self.graph.nodes[node].def.op
    }

    pub(super) fn value(&self, source: Source) -> Result<Value, String> {
        let outputs = self.values[source.node].as_ref().ok_or("it is read before it is known")?;
        if let [one @ (Value::Dead | Value::Failed(_))] = &**outputs {
            return Ok(one.clone());
        }
        outputs.get(source.output).cloned().ok_or_else(|| format!("it has no output {}", source.output))
    }

    pub(super) fn first(&self, node: usize) -> Option<&Value> {
        self.values[node].as_ref()?.first()
    }

    pub(super) fn inputs(&mut self, node: usize) -> Result<Vec<Value>, String> {
        let mut values = Vec::new();
        for &input in &self.graph.nodes[node].inputs {
            let outputs = self.values[input.node].as_ref().and_then(|outputs| outputs.get(input.output));
            let copied = match outputs {
                Some(Value::Ints { data, .. }) => data.len(),
                // Two vectors: one of steps and one of sequences.
                Some(Value::Pairs(_)) => 2 * MAX_INTS,
                _ => 1,
            };
            let left = self.copies_left.checked_sub(copied);
            self.copies_left = left.ok_or("the graph moves too many integers")?;
            values.push(self.value(input)?);
        }
        Ok(values)
    }

    pub(super) fn spend_ints(&mut self, count: usize) -> Result<(), String> {
        let left = self.ints_left.checked_sub(count).filter(|_| count <= MAX_INTS);
        self.ints_left = left.ok_or_else(|| format!("it makes more than {MAX_INTS} integers, {FIXED}"))?;
        Ok(())
    }

    /// Adds a note to the user, unless it is already there.
    pub(super) fn note(&mut self, line: String) {
        if !self.notes.contains(&line) && self.notes.len() < MAX_NOTES {
            self.notes.push(line);
        }
    }

    pub(super) fn ints(&mut self, is_scalar: bool, data: Vec<Dim>) -> Outputs {
        self.spend_ints(data.len())?;
        Ok(vec![Value::Ints { is_scalar, data }])
    }

    /// Evaluates a node whose inputs are known. An empty reason means that the op is not supported.
    pub(super) fn outputs(&mut self, node: usize) -> Outputs {
        let outputs = self.computed(node)?;
        if !matches!(*outputs, [Value::Dead | Value::Failed(_)]) {
            self.graph.check_attributes(node)?;
        }
        Ok(outputs)
    }

    fn computed(&mut self, node: usize) -> Outputs {
        let op = self.op(node);
        match op {
            "Const" => return self.constant(node),
            "Placeholder" => return self.placeholder(node),
            "Mfcc" => return self.mfcc(node),
            "NoOp" => return Ok(vec![Value::Nothing]),
            "Merge" if self.is_loop(node) => return self.merge(node),
            "Merge" => return self.live(node),
            "Exit" => return self.exit(node),
            "TensorArrayV3" => return Ok(vec![Value::Array(node), Value::Content(Content::Empty(node))]),
            _ => {}
        }
        let inputs = self.inputs(node)?;
        if inputs.contains(&Value::Dead) {
            return Ok(vec![Value::Dead]);
        }
        // A failed input is passed on; a Switch may still discard it with the branch that is not taken.
        if let Some(failed) = inputs.iter().find(|input| matches!(input, Value::Failed(_)) && op != "Switch") {
            return Ok(vec![failed.clone()]);
        }
        // The key includes the attributes; nodes with constants, lists or strings as attributes are not cached.
        let attrs = &self.graph.nodes[node].def.attr;
        let is_short = |attr: &AttrValue| match &attr.value {
            Some(Attr::Shape(shape)) => shape.dim.len() <= 8,
            value => !matches!(value, Some(Attr::Tensor(_) | Attr::List(_) | Attr::Bytes(_))),
        };
        let is_plain = inputs.len() <= 16 && inputs.iter().all(|input| matches!(input, Value::Real(_)));
        let key = (is_plain && attrs.len() <= 8 && attrs.values().all(is_short))
            .then(|| format!("{op} {inputs:?} {attrs:?}"));
        if let Some(known) = key.as_ref().and_then(|key| self.known.get(key)) {
            return Ok(known.clone());
        }
        let outputs = self.apply(node, op, inputs)?;
        if let Some(key) = key {
            self.known.insert(key, outputs.clone());
        }
        Ok(outputs)
    }
}

fn held(graph: &Graph<'_>) -> usize {
    let constants = graph.nodes.iter().filter_map(|node| match node.def.attr.get("value")?.value.as_ref()? {
        Attr::Tensor(proto) => Some(proto.held()),
        _ => None,
    });
    constants.fold(0, usize::saturating_add)
}

/// The expressions of inputs that are all tensors of floats.
pub(super) fn reals(inputs: &[Value]) -> Option<Vec<Id>> {
    inputs.iter().map(|input| if let Value::Real(id) = input { Some(*id) } else { None }).collect()
}

/// The only element of `given`, as an axis of a tensor with `rank` dimensions.
pub(super) fn axis(given: &[Dim], rank: usize) -> Result<usize, String> {
    let &[axis] = given else { return Err("it must have one axis".into()) };
    let wrapped = if axis < 0 && !is_symbol(axis) { axis + rank as Dim } else { axis };
    match usize::try_from(wrapped) {
        Ok(wrapped) if wrapped < rank => Ok(wrapped),
        _ => Err(format!("its axis is {axis} of {rank} dimensions")),
    }
}

/// Like [`axis`], for several axes.
pub(super) fn axes_of(given: &[Dim], rank: usize) -> Result<Vec<usize>, String> {
    given.iter().map(|&on| axis(&[on], rank)).collect()
}
