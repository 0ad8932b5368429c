//! From the nodes of a graph to what they compute. Nodes are read in the order of their edges, without recursion; a
//! `while` loop's variables are read first as states that are not known yet, and its outputs once its body is read.

use std::collections::HashMap;

use super::front_end::FrontEnd;
use super::graph::{Graph, Source};
use super::moments::Moment;
use super::symbol::{Arena, Dim, Id, is_symbol};
use crate::error::ImportError;
use crate::format::graphdef::AttrValue;
use crate::format::graphdef::attr_value::Value as Attr;

/// Longest vector of integers: one entry for each time step.
pub(super) const MAX_INTS: usize = 65_535;
/// Most integers of all vectors together.
const MAX_ALL_INTS: usize = 1 << 22;
/// Most integers that are copied from node to node.
const MAX_COPIES: usize = 1 << 26;
/// Most outputs of all nodes together.
const MAX_OUTPUTS: usize = 1 << 20;
/// Most states of a loop.
const MAX_STATES: usize = 1024;
/// Most nodes that may fail, where an output does not need them.
const MAX_FAILURES: usize = 64;
/// Most lines for a person.
const MAX_NOTES: usize = 16;
/// Most outputs of a node.
pub(super) const MAX_PARTS: usize = 65_535;

/// What an edge carries.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    /// Floats.
    Real(Id),
    /// A scalar or a vector of integers.
    Ints { is_scalar: bool, data: Vec<Dim> },
    /// `0..n` for a number of steps that the graph leaves open.
    Range(Dim),
    /// The zeros before the first step of a sequence, then its steps; time first.
    Since(Id),
    /// Pairs of integers: one of the first with one of the second.
    Pairs(Box<[Self; 2]>),
    /// The counter of a loop, and what was added to it.
    Counter { merge: usize, plus: i64 },
    /// Whether these counters are below these bounds.
    Below(Vec<(usize, Dim)>),
    /// The same flag everywhere.
    Bool { value: bool, shape: Vec<Dim> },
    /// Random floats from `low` up to `high`, which is not among them.
    Random { low: f32, high: f32 },
    /// A part of a normalization.
    Moment(Moment),
    /// A TensorArray.
    Array(usize),
    /// What a TensorArray or a list of tensors holds.
    Content(Content),
    /// Nothing: the other side of a condition runs.
    Dead,
    /// What is not known, by the number of the failure: an error if an output needs it.
    Failed(usize),
    /// Nothing that counts.
    Nothing,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Content {
    Empty(usize),
    /// A sequence, time first.
    Sequence(usize, Id),
    /// A state of a loop: its Merge.
    Carried(usize),
    /// Written at the counter in this turn.
    Written {
        array: usize,
        merge: usize,
        value: Id,
    },
    /// Written at the same place in every turn.
    Kept(Id),
}

/// A graph as it is read.
pub struct Evaluator<'g> {
    pub graph: &'g Graph<'g>,
    pub arena: Arena,
    /// Steps of the sequences that are fed, as a person says.
    pub(super) window: Option<usize>,
    /// Whether an input has these steps.
    pub window_used: bool,
    /// Outputs, by node.
    values: Vec<Option<Vec<Value>>>,
    /// The nodes that end and begin each loop: Merge and NextIteration.
    pub(super) frames: HashMap<&'g [u8], Vec<(usize, usize)>>,
    /// Loops by name, in the order in which they were entered.
    pub(super) numbers: Vec<&'g [u8]>,
    /// Variables of the arena by Merge.
    pub(super) variables: HashMap<usize, usize>,
    /// What the counter of the loop with this Merge must not reach.
    pub(super) lengths: Vec<(usize, Dim)>,
    /// The last step of an unrolled loop that was compared with a length that is fed.
    pub latest: Option<Dim>,
    /// What was read with these inputs: an unrolled loop writes the same again and again.
    known: HashMap<String, Vec<Value>>,
    ints_left: usize,
    /// Integers that may still be copied, and outputs that nodes may still have.
    copies_left: usize,
    outputs_left: usize,
    /// Turns of the loops whose body is read, by their first Merge.
    pub(super) loops: HashMap<usize, Dim>,
    /// Nodes that were not understood, and why.
    failures: Vec<(usize, String)>,
    pub front_end: Option<FrontEnd>,
    /// What a person should know.
    pub notes: Vec<String>,
}

pub(super) type Outputs = Result<Vec<Value>, String>;

impl<'g> Evaluator<'g> {
    pub fn new(graph: &'g Graph<'g>, window: Option<usize>) -> Result<Self, ImportError> {
        let constants = graph.nodes.iter().filter_map(|node| match node.def.attr.get("value")?.value.as_ref()? {
            Attr::Tensor(proto) => Some(proto.held()),
            _ => None,
        });
        // Slices, transposes and folded factors: a few copies of everything.
        let values = constants.fold(1_usize << 16, usize::saturating_add).saturating_mul(8).min(1 << 27);
        let mut evaluator = Self {
            graph,
            arena: Arena::new(values),
            window,
            window_used: false,
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
                    return evaluator.fail(merge, format!("its loop has more than {MAX_STATES} states"));
                }
            }
        }
        Ok(evaluator)
    }

    /// The error of a node that does not fit.
    pub fn fail<T>(&self, node: usize, reason: impl Into<String>) -> Result<T, ImportError> {
        let def = self.graph.nodes[node].def;
        Err(ImportError::Node { node: def.name.clone(), op: def.op.clone(), reason: reason.into() })
    }

    /// What this output computes.
    pub fn read(&mut self, source: Source) -> Result<Id, ImportError> {
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
            // Above one that waits lie only those that it waits for.
            if std::mem::replace(&mut begun[node], true) {
                return self.fail(node, "it needs its own output");
            }
            open.push((node, true));
            open.extend(
                self.before(node).into_iter().filter(|&before| self.values[before].is_none()).map(|k| (k, false)),
            );
        }
        match self.value(source) {
            Ok(Value::Real(id)) => Ok(id),
            Ok(Value::Failed(number)) => self.failure(number),
            Ok(_) => self.fail(source.node, "its output is no tensor of floats"),
            Err(reason) => self.fail(source.node, reason),
        }
    }

    fn failure<T>(&self, number: usize) -> Result<T, ImportError> {
        let (node, reason) = &self.failures[number];
        let def = self.graph.nodes[*node].def;
        match reason.as_str() {
            "" => Err(ImportError::UnreadOp { node: def.name.clone(), op: def.op.clone() }),
            _ => self.fail(*node, reason),
        }
    }

    /// A failure of a node, or that of what it needs.
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

    /// The nodes that must be read before this one.
    pub(super) fn before(&self, node: usize) -> Vec<usize> {
        let inputs = &self.graph.nodes[node].inputs;
        match self.op(node) {
            // What comes back is read with the loop's Exit.
            "Merge" if self.is_loop(node) => inputs.iter().take(1).map(|input| input.node).collect(),
            "Exit" => {
                let frame = self.frame_of_exit(node).map_or(&[][..], Vec::as_slice);
                let body = frame.iter().flat_map(|&(merge, back)| [merge, back]);
                let condition = frame.iter().filter_map(|&(merge, _)| self.graph.condition_of(merge));
                body.chain(condition).chain(inputs.iter().map(|input| input.node)).collect()
            }
            // A TensorArray is known by its node.
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

    /// The first output of a node.
    pub(super) fn first(&self, node: usize) -> Option<&Value> {
        self.values[node].as_ref()?.first()
    }

    pub(super) fn inputs(&mut self, node: usize) -> Result<Vec<Value>, String> {
        let mut values = Vec::new();
        for &input in &self.graph.nodes[node].inputs {
            let outputs = self.values[input.node].as_ref().and_then(|outputs| outputs.get(input.output));
            let copied = match outputs {
                Some(Value::Ints { data, .. }) => data.len(),
                // Of a steps' and a sequences' vector.
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
        match self.ints_left.checked_sub(count).filter(|_| count <= MAX_INTS) {
            Some(left) => {
                self.ints_left = left;
                Ok(())
            }
            None => Err(format!("it makes more than {MAX_INTS} integers")),
        }
    }

    /// Something that a person should know, once.
    pub(super) fn note(&mut self, line: String) {
        if !self.notes.contains(&line) && self.notes.len() < MAX_NOTES {
            self.notes.push(line);
        }
    }

    pub(super) fn ints(&mut self, is_scalar: bool, data: Vec<Dim>) -> Outputs {
        self.spend_ints(data.len())?;
        Ok(vec![Value::Ints { is_scalar, data }])
    }

    /// The outputs of a node whose inputs are known. An empty reason: the op is not read.
    pub(super) fn outputs(&mut self, node: usize) -> Outputs {
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
        // What only a side of a condition has that does not run may fail.
        if let Some(failed) = inputs.iter().find(|input| matches!(input, Value::Failed(_)) && op != "Switch") {
            return Ok(vec![failed.clone()]);
        }
        // Attributes matter as much as inputs; constants and names are not among them here.
        let attrs = &self.graph.nodes[node].def.attr;
        let is_short = |attr: &AttrValue| !matches!(attr.value, Some(Attr::Tensor(_) | Attr::List(_) | Attr::Bytes(_)));
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

/// The one axis that is given, of so many.
pub(super) fn axis(given: &[Dim], rank: usize) -> Result<usize, String> {
    let &[axis] = given else { return Err("it must have one axis".into()) };
    let wrapped = if axis < 0 && !is_symbol(axis) { axis + rank as Dim } else { axis };
    match usize::try_from(wrapped) {
        Ok(wrapped) if wrapped < rank => Ok(wrapped),
        _ => Err(format!("its axis is {axis} of {rank} dimensions")),
    }
}
