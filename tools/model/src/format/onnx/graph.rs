//! Reads a graph node by node: values by name, attributes, and the facts about the inputs that must be known before a
//! network can be built.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::made::{Made, MadeOf, Moved, Operand, StateOf};
use super::past::{AllDelays, Key, depths};
use super::proto::{AttributeProto, GraphProto, NodeProto, TensorProto, kind};
use super::value::{Axis, Data, Element, Value, constant, elem, len};
use super::{Lens, Role};
use crate::format::{network::Network, refuse::err_if, refuse::fail_if, refuse::limit_if};
use crate::{budget::Budget, canonical::Tensor, data::one_line, error::ImportError};

/// Work of reading a node, as a number of elements.
pub(super) const NODE: usize = 64;
/// Memory of an element in bytes while a node moves it: its place in the old and in the new value, as an element and as
/// a position.
const ELEMENT: usize = 64;
/// The same for a number that is known.
const KNOWN: usize = 24;
pub(super) const MAX_DEPTH: usize = 16;

pub(super) const PADDED: &str = "it reads all steps of an operator with sequence_lens, whose sequences may end earlier";

pub(super) enum Stop {
    Refused(ImportError),
    /// The current node is not supported, for this reason.
    Reason(String),
    /// The role of an input's dimension was found. Reading starts again with this knowledge.
    Learnt(Axis, Role),
    /// This input must be a constant.
    Constant(usize),
    /// These states are delays. Reading starts again with this knowledge.
    Delays(AllDelays),
    /// This state depends on itself within a step, so that it is an input and an output of the network.
    Port(usize),
    /// This input selects a part of the graph: it is compared with this number.
    Choice(usize, i64),
}

impl<T: Into<String>> From<T> for Stop {
    fn from(reason: T) -> Self {
        Self::Reason(reason.into())
    }
}

impl From<ImportError> for Stop {
    fn from(error: ImportError) -> Self {
        Self::Refused(error)
    }
}

/// An input of the graph without a bound constant.
#[derive(Clone, Debug)]
pub(super) struct GraphInput {
    pub name: String,
    /// Shape for one sequence; open dimensions have a stand-in.
    pub shape: Vec<usize>,
    /// Dimensions as given; `None` for an open one.
    pub said: Vec<Option<usize>>,
    pub whole: bool,
}

/// Facts about a model that are known before its graph is read.
pub(super) struct Setup<'a> {
    pub graph: &'a GraphProto,
    pub version: i64,
    pub initializers: &'a HashMap<String, Value>,
    pub inputs: Vec<GraphInput>,
    pub bound: HashMap<String, Value>,
    pub roles: &'a HashMap<Axis, Role>,
    /// Whether the network processes all steps at once.
    pub windowed: bool,
    /// States that are delays.
    pub delays: &'a AllDelays,
    /// States that are inputs and outputs of the network.
    pub ports: &'a BTreeSet<String>,
    /// Pairs of an input and an output that the user names as states.
    pub states: &'a BTreeMap<String, String>,
    /// The values of states before the first step, by the names of their inputs, unless they are zero.
    pub starts: &'a BTreeMap<String, Vec<f32>>,
    /// Work that is left for all readings.
    pub work: &'a Cell<usize>,
}

/// Converts a graph to a network.
pub(super) struct Session<'a> {
    pub(super) setup: Setup<'a>,
    pub(super) scopes: Vec<HashMap<String, Value>>,
    pub(super) node: Option<&'a NodeProto>,
    pub(super) network: Network,
    pub(super) made: Vec<MadeOf>,
    /// The key of each output that a layer computes.
    pub(super) keys: Vec<Option<Key>>,
    pub(super) by_key: HashMap<Key, u32>,
    /// The maximum number of steps by which the output of a layer is delayed.
    pub(super) depths: HashMap<Key, usize>,
    /// The next key.
    pub(super) key: Key,
    /// Windows over outputs of layers, and the number of earlier steps that they hold.
    pub(super) windows: HashMap<Key, (Made, usize)>,
    pub(super) ports: HashMap<u32, Made>,
    pub(super) states: Vec<StateOf>,
    pub(super) lens: Option<Lens>,
    /// Last outputs of layers over sequences, or first outputs if the flag is set.
    pub(super) ends: HashMap<(Made, bool), Made>,
    /// Moved values, by a hash of their elements.
    pub(super) moved: HashMap<u64, Vec<Moved>>,
    /// Activated and squared outputs of layers.
    pub(super) activated: HashMap<(Made, String), Made>,
    /// Outputs that are the truth of a comparison: 0 or 1.
    pub(super) truths: HashSet<Made>,
    /// Initializers that nodes have read; `floats` is the total number of their floats.
    pub(super) seen: HashSet<&'a str>,
    pub(super) floats: usize,
    /// Memory for the values and layers of this reading.
    pub(super) budget: Budget,
    /// Memory for the network once the values are gone.
    pub(super) packed: Budget,
}

pub(super) struct Output {
    pub name: String,
    pub value: Value,
}

impl<'a> Session<'a> {
    pub fn new(setup: Setup<'a>, budget: Budget, packed: Budget) -> Self {
        let mut network = Network::new();
        network.fresh = true;
        Self {
            scopes: Vec::new(),
            node: None,
            network,
            made: Vec::new(),
            keys: Vec::new(),
            by_key: HashMap::new(),
            depths: depths(setup.delays),
            key: (0, 0),
            windows: HashMap::new(),
            ports: HashMap::new(),
            states: Vec::new(),
            lens: None,
            ends: HashMap::new(),
            moved: HashMap::new(),
            seen: HashSet::new(),
            floats: 0,
            activated: HashMap::new(),
            truths: HashSet::new(),
            budget,
            packed,
            setup,
        }
    }

    pub fn read(&mut self) -> Result<Vec<Output>, Stop> {
        let graph = self.setup.graph;
        let mut scope = HashMap::new();
        for (k, input) in self.setup.inputs.iter().enumerate() {
            let count = len(&input.shape).map_err(|reason| named(&format!("input {:?}", input.name), &reason))?;
            room(&self.budget, count, ELEMENT)?;
            self.budget.take(count, size_of::<Element>()).map_err(ImportError::from)?;
            let elements = (0..count as u32).map(|at| Element::Input(k as u32, at)).collect();
            let axes = (0..input.shape.len()).map(|axis| Some((k, axis))).collect();
            let mut value = Value::open(input.shape.clone(), elements).with_axes(axes);
            value.whole = input.whole;
            scope.insert(input.name.clone(), value);
        }
        for (name, value) in &self.setup.bound {
            scope.insert(name.clone(), value.clone());
        }
        self.scopes.push(scope);
        self.nodes(graph, 0)?;
        let outputs = graph.output.iter().map(|output| {
            let value = self.value(&output.name).ok_or_else(|| {
                let reason = format!("output {:?} is not computed by any node", one_line(&output.name));
                Stop::Refused(super::malformed(reason))
            })?;
            Ok(Output { name: output.name.clone(), value })
        });
        outputs.collect()
    }

    pub(super) fn value(&self, name: &str) -> Option<Value> {
        let found = self.scopes.iter().rev().find_map(|scope| scope.get(name));
        found.or_else(|| self.setup.initializers.get(name)).cloned()
    }

    /// Number of elements of a value that a node is about to make; an error if there is no memory for them. `known` says
    /// whether they are constants.
    pub fn room(&self, shape: &[usize], known: bool) -> Result<usize, Stop> {
        let count = len(shape)?;
        // Nodes select positions in a dimension even if another dimension is empty.
        let places = shape.iter().map(|&dim| dim.max(1)).product();
        room(&self.budget, places, if known { KNOWN } else { ELEMENT })?;
        Ok(count)
    }

    pub(super) fn work(&self, count: usize) -> Result<(), Stop> {
        let left = self.setup.work.get().checked_sub(count);
        self.setup.work.set(left.ok_or(ImportError::Limit { most: super::MAX_WORK, what: "elements to examine" })?);
        Ok(())
    }

    /// Evaluates the nodes that the outputs of a graph depend on.
    fn nodes(&mut self, graph: &'a GraphProto, depth: usize) -> Result<(), Stop> {
        limit_if(depth > MAX_DEPTH, MAX_DEPTH, "levels of graphs within each other")?;
        self.work(graph.node.len())?;
        let mut needed: HashSet<&str> = graph.output.iter().map(|output| output.name.as_str()).collect();
        // For each node that is evaluated, the names that no later node reads.
        let mut read = vec![None; graph.node.len()];
        for (node, read) in graph.node.iter().zip(&mut read).rev() {
            if node.output.iter().any(|output| needed.contains(output.as_str())) {
                needs(node, &mut needed, read.insert(Vec::new()), depth);
            }
        }
        for (node, last) in graph.node.iter().zip(&read) {
            let Some(last) = last else { continue };
            let outer = self.node.replace(node);
            let outputs = self.evaluate(node, depth).map_err(|stop| match stop {
                Stop::Reason(reason) if reason.is_empty() => {
                    Stop::Refused(ImportError::UnreadOp { node: label(node), op: one_line(&full_op(node)) })
                }
                Stop::Reason(reason) => Stop::Refused(ImportError::Node {
                    node: label(node),
                    op: one_line(&full_op(node)),
                    reason: one_line(&reason),
                }),
                other => other,
            })?;
            self.node = outer;
            let scope = self.scopes.last_mut().expect("a graph that is read has a scope");
            let lists = node.attribute.iter().map(|of| of.ints.len() + of.floats.len() + of.strings.len());
            let mut work = NODE + lists.sum::<usize>();
            for (name, value) in node.output.iter().zip(outputs).filter(|(name, _)| !name.is_empty()) {
                work += value.len();
                self.budget.take(value.held(), 1).map_err(ImportError::from)?;
                let before = scope.insert(name.clone(), value);
                self.budget.give(before.map_or(0, |value| value.held()), 1);
            }
            for name in last {
                let value = scope.remove(*name);
                self.budget.give(value.map_or(0, |value| value.held()), 1);
            }
            self.work(work)?;
        }
        Ok(())
    }

    /// The values of a node's inputs.
    pub(super) fn inputs_of_node(&self, node: &NodeProto) -> Result<Vec<Option<Value>>, String> {
        let input = |name: &String| match name.as_str() {
            "" => Ok(None),
            name => self.value(name).map(Some).ok_or_else(|| format!("its input {name:?} is not computed by any node")),
        };
        node.input.iter().map(input).collect()
    }

    pub(super) fn evaluate(&mut self, node: &'a NodeProto, depth: usize) -> Result<Vec<Value>, Stop> {
        err_if(!matches!(node.domain.as_str(), "" | "ai.onnx"), String::new)?;
        self.key = (self.key.0 + 1, 0);
        let inputs = self.inputs_of_node(node)?;
        for name in node.input.iter().filter(|name| !name.is_empty()) {
            if let Some(Value { data: Data::Floats(data), .. }) = self.setup.initializers.get(name)
                && self.seen.insert(name)
            {
                self.floats += data.len();
            }
        }
        match node.op_type.as_str() {
            "If" => self.branch(node, &inputs, depth),
            "Loop" => self.over_steps(node, &inputs, depth),
            op @ ("LSTM" | "GRU" | "RNN") => self.recurrent(op, &inputs),
            op => {
                if let Some(outputs) = self.moved(op, &inputs)? {
                    return Ok(outputs);
                }
                if let Some(output) = self.computed(op, &inputs)? {
                    self.floats += if op == "Constant" && !output.whole { output.len() } else { 0 };
                    return Ok(vec![output]);
                }
                self.layer(op, &inputs)
            }
        }
    }

    /// Opens the scope of a graph within this one, with the values of its initializers.
    pub(super) fn open_scope(&mut self, graph: &GraphProto) -> Result<(), ImportError> {
        let own = graph.initializer.iter();
        let own = own.map(|tensor| Ok((tensor.name.clone(), initializer(tensor, &mut self.budget)?)));
        let own = own.collect::<Result<HashMap<_, _>, ImportError>>()?;
        self.floats += own.values().filter(|value| !value.whole).map(Value::len).sum::<usize>();
        self.scopes.push(own);
        Ok(())
    }

    /// Evaluates an `If`. With a known condition, only the graph of its branch is read.
    fn branch(&mut self, node: &'a NodeProto, inputs: &[Option<Value>], depth: usize) -> Result<Vec<Value>, Stop> {
        let condition = inputs.first().cloned().flatten().ok_or("it has no condition")?;
        let attributes = self.attributes("then_branch else_branch")?;
        let graph = |name: &str| -> Result<&'a GraphProto, Stop> {
            let graph = attributes.graph(name).ok_or_else(|| format!("it has no {name}"))?;
            let outputs = graph.output.len();
            fail_if(outputs < node.output.len(), format_args!("its {name} has {outputs} outputs"))?;
            Ok(graph)
        };
        match (condition.known_ints(), condition.whole_input()) {
            (Ok(&[condition]), _) => {
                self.one_branch(graph(if condition != 0 { "then_branch" } else { "else_branch" })?, depth)
            }
            (_, Some(input)) => Err(Stop::Choice(input, 1)),
            _ if condition.len() == 1 && self.is_truth(&condition) => {
                let (then, other) = (graph("then_branch")?, graph("else_branch")?);
                for of in [then, other] {
                    if let Some(op) = recurrent(of, depth) {
                        return Err(format!("its condition is computed, and its branch has a state (op {op})").into());
                    }
                }
                let (then, other) = (self.one_branch(then, depth)?, self.one_branch(other, depth)?);
                let pairs = then.iter().zip(&other).take(node.output.len());
                let on = condition.reshaped(Vec::new())?;
                let select = |(yes, no): (&Value, &Value)| {
                    let (a, b) = (&yes.shape, &no.shape);
                    fail_if(a != b, format_args!("its branches compute {a:?} and {b:?}"))?;
                    fail_if(yes.whole || no.whole, "its condition is computed, and it selects integers")?;
                    self.selected(&on, yes, no)
                };
                pairs.map(select).collect()
            }
            _ => Err(
                "its condition is neither known when the model is read nor a comparison of a computed value with a \
                      known number; export the model with one of its branches"
                    .into(),
            ),
        }
    }

    /// The outputs of a branch.
    fn one_branch(&mut self, graph: &'a GraphProto, depth: usize) -> Result<Vec<Value>, Stop> {
        self.open_scope(graph)?;
        self.nodes(graph, depth + 1)?;
        let outputs = graph.output.iter().map(|output| {
            let missing = || format!("output {:?} of its branch is not computed by any node", output.name);
            self.value(&output.name).ok_or_else(|| Stop::from(missing()))
        });
        let outputs = outputs.collect();
        self.scopes.pop();
        outputs
    }

    /// The attributes of the current node. Each must be among `known`, a list of names separated by spaces.
    pub fn attributes(&self, known: &str) -> Result<Attributes<'a>, Stop> {
        let all = self.node.map_or(&[][..], |node| &node.attribute);
        match all.iter().find(|attribute| !known.split_ascii_whitespace().any(|name| name == attribute.name)) {
            Some(other) => Err(format!("attribute {} is not known", other.name).into()),
            None => Ok(Attributes(all)),
        }
    }

    /// Number of outputs of the current node, used or not.
    pub fn listed(&self) -> usize {
        self.node.map_or(0, |node| node.output.len())
    }

    /// Number of outputs of the current node that are used.
    pub fn wanted(&self) -> usize {
        let outputs = self.node.map_or(&[][..], |node| &node.output);
        outputs.iter().rposition(|name| !name.is_empty()).map_or(0, |last| last + 1)
    }

    /// The value as a constant. An input that could be a constant stops the reading, so that it is bound first.
    pub fn known(&self, value: &Value, name: &str) -> Result<Tensor, Stop> {
        if value.is_constant() {
            return Ok(value.tensor()?);
        }
        match value.elements().first() {
            Some(&Element::Input(input, _)) => Err(Stop::Constant(input as usize)),
            _ => Err(format!("{name} must be known when the model is read").into()),
        }
    }

    pub fn operand(
        &mut self,
        value: &Value,
        order: &[usize],
        split: usize,
        time: Option<usize>,
        padded: bool,
    ) -> Result<Operand, Stop> {
        fail_if(value.padded && !padded, PADDED)?;
        let time = time.filter(|&axis| self.axis_with(value, Role::Time) == Some(axis));
        self.rows(value, order, split, time)
    }
}

/// Collects the names that a node and the graphs within it read; `new` are those that were not collected before.
pub(super) fn needs<'n>(node: &'n NodeProto, needed: &mut HashSet<&'n str>, new: &mut Vec<&'n str>, depth: usize) {
    new.extend(node.input.iter().map(String::as_str).filter(|name| needed.insert(name)));
    if depth > MAX_DEPTH {
        return;
    }
    for graph in node.attribute.iter().filter_map(|attribute| attribute.g.as_deref()) {
        new.extend(graph.output.iter().map(|output| output.name.as_str()).filter(|name| needed.insert(name)));
        for node in &graph.node {
            needs(node, needed, new, depth + 1);
        }
    }
}

/// The first operator in a graph that keeps a state, which would advance even if the graph were not chosen.
fn recurrent(graph: &GraphProto, depth: usize) -> Option<&str> {
    graph.node.iter().find_map(|node| {
        let op = node.op_type.as_str();
        let mut inner = node.attribute.iter().filter_map(|of| of.g.as_deref());
        let own = ["LSTM", "GRU", "RNN", "Loop", "Scan"].contains(&op) || depth > MAX_DEPTH;
        if own { Some(op) } else { inner.find_map(|graph| recurrent(graph, depth + 1)) }
    })
}

/// Checks that there is memory for a value of `count` elements of `each` bytes.
fn room(budget: &Budget, count: usize, each: usize) -> Result<(), ImportError> {
    Ok(budget.clone().take(count, each)?)
}

/// The value of an initializer.
pub(super) fn initializer(tensor: &TensorProto, budget: &mut Budget) -> Result<Value, ImportError> {
    let refused = |reason: String| super::malformed(one_line(&format!("initializer {:?}: {reason}", tensor.name)));
    let value = constant(tensor).map_err(refused)?;
    budget.take(value.held() + NODE, 1)?;
    Ok(value)
}

fn named(what: &str, reason: &str) -> Stop {
    Stop::Refused(super::malformed(one_line(&format!("{what}: {reason}"))))
}

/// The name of a node, or of its first output if it has none.
pub(super) fn label(node: &NodeProto) -> String {
    let given = || node.output.iter().find(|output| !output.is_empty());
    let name = if node.name.is_empty() { given() } else { Some(&node.name) };
    one_line(name.map_or("", String::as_str))
}

fn full_op(node: &NodeProto) -> String {
    match node.domain.as_str() {
        "" | "ai.onnx" => node.op_type.clone(),
        domain => format!("{domain}.{}", node.op_type),
    }
}

#[derive(Clone, Copy)]
pub(super) struct Attributes<'a>(&'a [AttributeProto]);

impl<'a> Attributes<'a> {
    pub fn of(node: &'a NodeProto) -> Self {
        Self(&node.attribute)
    }

    pub fn graph(&self, name: &str) -> Option<&'a GraphProto> {
        self.0.iter().find(|attribute| attribute.name == name)?.g.as_deref()
    }

    pub fn has(&self, name: &str) -> bool {
        self.0.iter().any(|attribute| attribute.name == name)
    }

    fn get(&self, name: &str, wanted: i32) -> Result<Option<&AttributeProto>, String> {
        match self.0.iter().find(|attribute| attribute.name == name) {
            None => Ok(None),
            // Files of the first versions leave out the type.
            Some(found) if (found.kind == wanted || found.kind == 0) && found.ref_attr_name.is_empty() => {
                Ok(Some(found))
            }
            Some(_) => Err(format!("attribute {name} has a different type than in ONNX")),
        }
    }

    pub fn int(&self, name: &str, default: i64) -> Result<i64, String> {
        Ok(self.get(name, kind::INT)?.map_or(default, |found| found.i))
    }

    pub fn float(&self, name: &str, default: f32) -> Result<f32, String> {
        Ok(self.get(name, kind::FLOAT)?.map_or(default, |found| found.f))
    }

    pub fn text(&self, name: &str, default: &str) -> Result<String, String> {
        let text = self.get(name, kind::STRING)?.map(|found| String::from_utf8_lossy(&found.s).into_owned());
        Ok(text.unwrap_or_else(|| default.to_owned()))
    }

    pub fn ints(&self, name: &str) -> Result<Option<Vec<i64>>, String> {
        Ok(self.get(name, kind::INTS)?.map(|found| found.ints.clone()))
    }

    pub fn floats(&self, name: &str) -> Result<Vec<f32>, String> {
        Ok(self.get(name, kind::FLOATS)?.map_or(Vec::new(), |found| found.floats.clone()))
    }

    pub fn texts(&self, name: &str) -> Result<Vec<String>, String> {
        let found = self.get(name, kind::STRINGS)?.map_or(&[][..], |found| &found.strings);
        Ok(found.iter().map(|text| String::from_utf8_lossy(text).into_owned()).collect())
    }

    pub fn tensor(&self, name: &str) -> Result<Option<Value>, String> {
        match self.get(name, kind::TENSOR)? {
            None => Ok(None),
            Some(found) => constant(found.t.as_ref().ok_or_else(|| format!("attribute {name} is empty"))?).map(Some),
        }
    }
}

/// Whether values of this element type are integers; `None` if the type is not supported.
pub(super) fn is_whole(elem_type: i32) -> Option<bool> {
    match elem_type {
        elem::FLOAT | elem::DOUBLE | elem::FLOAT16 => Some(false),
        elem::INT32 | elem::INT64 | elem::BOOL => Some(true),
        _ => None,
    }
}
