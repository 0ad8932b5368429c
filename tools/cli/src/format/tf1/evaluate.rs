//! From the nodes of a graph to what they compute. Nodes are read in the order of their edges, without recursion; a
//! `while` loop's variables are read first as states that are not known yet, and its outputs once its body is read.

use std::collections::HashMap;

use super::front_end::FrontEnd;
use super::graph::{Graph, Source};
use super::sequence;
use super::symbol::{Arena, At, BATCH, Dim, Expr, Id, TIME, Variable, is_symbol};
use crate::error::ImportError;
use crate::format::graphdef::attr_value::Value as Attr;
use crate::format::graphdef::{FLOAT, INT32, INT64, TensorShape};

/// Longest vector of integers: one entry for each time step.
pub(super) const MAX_INTS: usize = 65_535;
/// Most integers of all vectors together.
const MAX_ALL_INTS: usize = 1 << 22;
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
    /// The counter of a loop, and what was added to it.
    Counter { merge: usize, plus: i64 },
    /// Whether these counters are below these bounds.
    Below(Vec<(usize, Dim)>),
    /// A TensorArray.
    Array(usize),
    /// What a TensorArray holds.
    Content(Content),
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
}

/// A graph as it is read.
pub struct Evaluator<'g> {
    pub graph: &'g Graph<'g>,
    pub arena: Arena,
    /// Outputs, by node.
    values: Vec<Option<Vec<Value>>>,
    /// The nodes that end and begin each loop: Merge and NextIteration.
    frames: HashMap<&'g [u8], Vec<(usize, usize)>>,
    /// Loops by name, in the order in which they were entered.
    pub(super) numbers: Vec<&'g [u8]>,
    /// Variables of the arena by Merge.
    variables: HashMap<usize, usize>,
    /// What was read with these inputs: an unrolled loop writes the same again and again.
    known: HashMap<String, Vec<Value>>,
    ints_left: usize,
    pub front_end: Option<FrontEnd>,
}

pub(super) type Outputs = Result<Vec<Value>, String>;

impl<'g> Evaluator<'g> {
    pub fn new(graph: &'g Graph<'g>) -> Self {
        let constants = graph.nodes.iter().filter_map(|node| match node.def.attr.get("value")?.value.as_ref()? {
            Attr::Tensor(proto) => proto.dims().ok().map(|dims| dims.iter().product::<usize>()),
            _ => None,
        });
        // Slices, transposes and folded factors: a few copies of everything.
        let values = constants.fold(1_usize << 16, usize::saturating_add).saturating_mul(8).min(1 << 27);
        let mut evaluator = Self {
            graph,
            arena: Arena::new(values),
            values: vec![None; graph.nodes.len()],
            frames: HashMap::new(),
            numbers: Vec::new(),
            variables: HashMap::new(),
            known: HashMap::new(),
            ints_left: MAX_ALL_INTS,
            front_end: None,
        };
        for (merge, node) in graph.nodes.iter().enumerate() {
            if let ("Merge", &[enter, back]) = (node.def.op.as_str(), &*node.inputs)
                && let Some(Attr::Bytes(frame)) = graph.attr(enter.node, "frame_name")
            {
                evaluator.frames.entry(frame).or_default().push((merge, back.node));
            }
        }
        evaluator
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
                let def = self.graph.nodes[node].def;
                let outputs = self.outputs(node).or_else(|reason| match reason.as_str() {
                    "" => Err(ImportError::UnreadOp { node: def.name.clone(), op: def.op.clone() }),
                    reason => self.fail(node, reason),
                })?;
                self.values[node] = Some(outputs);
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
            Ok(_) => self.fail(source.node, "its output is no tensor of floats"),
            Err(reason) => self.fail(source.node, reason),
        }
    }

    /// The nodes that must be read before this one.
    pub(super) fn before(&self, node: usize) -> Vec<usize> {
        let inputs = &self.graph.nodes[node].inputs;
        match self.op(node) {
            // What comes back is read with the loop's Exit.
            "Merge" => inputs.iter().take(1).map(|input| input.node).collect(),
            "Exit" => {
                let frame = self.frame_of_exit(node).map_or(&[][..], Vec::as_slice);
                let body = frame.iter().flat_map(|&(merge, back)| [merge, back]);
                let condition = frame.iter().filter_map(|&(merge, _)| self.graph.condition_of(merge));
                body.chain(condition).chain(inputs.iter().map(|input| input.node)).collect()
            }
            // A TensorArray is known by its node.
            "Const" | "Placeholder" | "Mfcc" => Vec::new(),
            _ => inputs.iter().map(|input| input.node).collect(),
        }
    }

    pub(super) fn op(&self, node: usize) -> &'g str {
        &self.graph.nodes[node].def.op
    }

    /// Exit ← Switch ← Merge.
    pub(super) fn frame_of_exit(&self, exit: usize) -> Option<&Vec<(usize, usize)>> {
        let switch = self.graph.nodes[exit].inputs.first()?;
        let merge = self.graph.nodes[switch.node].inputs.first()?;
        let enter = self.graph.nodes[merge.node].inputs.first()?;
        match self.graph.attr(enter.node, "frame_name")? {
            Attr::Bytes(frame) => self.frames.get(frame.as_slice()),
            _ => None,
        }
    }

    pub(super) fn value(&self, source: Source) -> Result<Value, String> {
        let outputs = self.values[source.node].as_ref().ok_or("it is read before it is known")?;
        outputs.get(source.output).cloned().ok_or_else(|| format!("it has no output {}", source.output))
    }

    pub(super) fn inputs(&self, node: usize) -> Result<Vec<Value>, String> {
        self.graph.nodes[node].inputs.iter().map(|&input| self.value(input)).collect()
    }

    pub(super) fn int(&self, node: usize, name: &str, default: i64) -> Result<i64, String> {
        match self.graph.attr(node, name) {
            None => Ok(default),
            Some(&Attr::Int(int)) => Ok(int),
            Some(_) => Err(format!("its attribute {name} must be an integer")),
        }
    }

    pub(super) fn float(&self, node: usize, name: &str, default: f32) -> Result<f32, String> {
        match self.graph.attr(node, name) {
            None => Ok(default),
            Some(&Attr::Float(float)) => Ok(float),
            Some(_) => Err(format!("its attribute {name} must be a number")),
        }
    }

    pub(super) fn flag(&self, node: usize, name: &str, default: bool) -> Result<bool, String> {
        match self.graph.attr(node, name) {
            None => Ok(default),
            Some(&Attr::Bool(flag)) => Ok(flag),
            Some(_) => Err(format!("its attribute {name} must be a flag")),
        }
    }

    pub(super) fn must_not(&self, node: usize, names: &[&str]) -> Result<(), String> {
        for name in names {
            if self.flag(node, name, false)? {
                return Err(format!("{name} must be false"));
            }
        }
        Ok(())
    }

    pub(super) fn sizes(&self, node: usize, name: &str) -> Result<Option<[usize; 2]>, String> {
        match self.graph.attr(node, name) {
            None => Ok(None),
            Some(Attr::List(list)) => match *list.i {
                [1, height, width, 1] if height > 0 && width > 0 && height <= 65_535 && width <= 65_535 => {
                    Ok(Some([height as usize, width as usize]))
                }
                _ => Err(format!("its {name} are {:.80?}, but must be [1, height, width, 1]", list.i)),
            },
            Some(_) => Err(format!("its {name} must be a list of integers")),
        }
    }

    pub(super) fn text(&self, node: usize, name: &str, default: &'static str) -> &str {
        match self.graph.attr(node, name) {
            Some(Attr::Bytes(text)) => std::str::from_utf8(text).unwrap_or("?"),
            _ => default,
        }
    }

    pub(super) fn channels_last(&self, node: usize) -> Result<(), String> {
        match self.text(node, "data_format", "NHWC") {
            "NHWC" => Ok(()),
            _ => Err("its data_format must be NHWC".into()),
        }
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
            "Merge" => return self.merge(node),
            "Exit" => return self.exit(node),
            "TensorArrayV3" => return Ok(vec![Value::Array(node), Value::Content(Content::Empty(node))]),
            _ => {}
        }
        let inputs = self.inputs(node)?;
        // Attributes matter as much as inputs; constants and names are not among them here.
        let key = match inputs.iter().all(|input| matches!(input, Value::Real(_))) {
            true => Some(format!("{op} {inputs:?} {:?}", self.graph.nodes[node].def.attr)),
            false => None,
        };
        if let Some(known) = key.as_ref().and_then(|key| self.known.get(key)) {
            return Ok(known.clone());
        }
        let outputs = self.apply(node, op, inputs)?;
        if let Some(key) = key.filter(|key| key.len() < 1000) {
            self.known.insert(key, outputs.clone());
        }
        Ok(outputs)
    }

    pub(super) fn constant(&mut self, node: usize) -> Outputs {
        let Some(Attr::Tensor(proto)) = self.graph.attr(node, "value") else { return Err("it has no value".into()) };
        if proto.dtype == FLOAT {
            let len: usize = proto.dims()?.iter().product();
            self.arena.spend(len)?;
            let id = self.arena.constant(proto.floats()?)?;
            return Ok(vec![Value::Real(id)]);
        }
        if proto.dtype != INT32 && proto.dtype != INT64 {
            return Ok(vec![Value::Nothing]);
        }
        let len: usize = proto.dims()?.iter().product();
        self.spend_ints(len)?;
        let (dims, data) = proto.ints()?;
        if dims.len() > 1 {
            return Err("integers must be a scalar or a vector".into());
        }
        // Symbols are integers that no graph has.
        if data.iter().any(|&value| value < i64::from(i32::MIN)) {
            return Err("its integers are too large".into());
        }
        Ok(vec![Value::Ints { is_scalar: dims.is_empty(), data }])
    }

    pub(super) fn placeholder(&mut self, node: usize) -> Outputs {
        match self.graph.attr(node, "dtype") {
            Some(&Attr::Type(FLOAT)) => {}
            _ => return Err("its value is not known when the network is imported, and only floats can be fed".into()),
        }
        let shape = match self.graph.attr(node, "shape") {
            Some(Attr::Shape(TensorShape { dim, unknown_rank: false })) if (2..=4).contains(&dim.len()) => dim,
            _ => return Err("its shape must be [batch, steps, features]".into()),
        };
        let mut dims = Vec::new();
        for (axis, dim) in shape.iter().enumerate() {
            dims.push(match (axis, dim.size) {
                (_, size) if (1..=65_535).contains(&size) => size,
                (0, -1) => BATCH,
                (1, -1) if shape.len() > 2 => TIME,
                _ => return Err("its shape must be [batch, steps, features], the features known".into()),
            });
        }
        Ok(vec![Value::Real(self.arena.make(Expr::Input(node), dims)?)])
    }

    pub(super) fn mfcc(&mut self, node: usize) -> Outputs {
        let front_end = FrontEnd::read(self.graph, node)?;
        let shape = vec![1, front_end.frames as Dim, Dim::from(front_end.mfcc.coefficients)];
        self.front_end = Some(front_end);
        Ok(vec![Value::Real(self.arena.make(Expr::Input(node), shape)?)])
    }

    // Loops.

    pub(super) fn frame_number(&mut self, node: usize) -> Result<usize, String> {
        let Some(Attr::Bytes(frame)) = self.graph.attr(node, "frame_name") else {
            return Err("it has no frame_name".into());
        };
        Ok(match self.numbers.iter().position(|known| *known == frame.as_slice()) {
            Some(number) => number,
            None => {
                self.numbers.push(frame);
                self.numbers.len() - 1
            }
        })
    }

    pub(super) fn merge(&mut self, node: usize) -> Outputs {
        let [enter, back] = *self.graph.nodes[node].inputs else {
            return Err("only a loop's Merge is read".into());
        };
        if self.op(enter.node) != "Enter" || self.op(back.node) != "NextIteration" {
            return Err("only a loop's Merge is read".into());
        }
        if self.flag(enter.node, "is_constant", false)? {
            return Err("is_constant of its Enter must be false".into());
        }
        let frame = self.frame_number(enter.node)?;
        Ok(vec![match self.value(enter)? {
            Value::Real(initial) => {
                let shape = self.arena.shape(initial).to_vec();
                let number = self.arena.variables.len();
                self.arena.variables.push(Variable { frame, initial, next: None });
                self.variables.insert(node, number);
                Value::Real(self.arena.make(Expr::Variable(number), shape)?)
            }
            Value::Ints { is_scalar: true, data } if data == [0] => Value::Counter { merge: node, plus: 0 },
            Value::Ints { .. } => return Err("the loop's counter must start at 0".into()),
            Value::Content(Content::Empty(_)) => Value::Content(Content::Carried(node)),
            _ => return Err("it is no state that this importer knows".into()),
        }])
    }

    /// How often a loop runs.
    pub(super) fn turns(&mut self, frame: &[(usize, usize)]) -> Result<Dim, String> {
        let mut turns: Option<Dim> = None;
        let mut conditions: Vec<usize> =
            frame.iter().filter_map(|&(merge, _)| self.graph.condition_of(merge)).collect();
        conditions.sort_unstable();
        conditions.dedup();
        let [condition] = *conditions else { return Err("the loop has no condition, or several".into()) };
        let Value::Below(bounds) = self.value(Source { node: condition, output: 0 })? else {
            return Err("the loop must run while a counter is below a bound".into());
        };
        for (merge, bound) in bounds {
            let Some(&(_, back)) = frame.iter().find(|(known, _)| *known == merge) else {
                return Err("the loop's condition belongs to another loop".into());
            };
            if self.value(Source { node: back, output: 0 })? != (Value::Counter { merge, plus: 1 }) {
                return Err("the loop's counter must count up by 1".into());
            }
            turns = Some(match turns {
                None => bound,
                Some(turns) if turns == bound => turns,
                Some(turns) if !is_symbol(turns) && !is_symbol(bound) => turns.min(bound),
                Some(_) => return Err("the loop's number of turns is not known".into()),
            });
        }
        match turns {
            Some(turns) if is_symbol(turns) || (1..=65_535).contains(&turns) => Ok(turns),
            Some(turns) => Err(format!("the loop runs {turns} times")),
            None => Err("the loop must run while a counter is below a bound".into()),
        }
    }

    pub(super) fn exit(&mut self, node: usize) -> Outputs {
        let frame = self.frame_of_exit(node).cloned().ok_or("it leaves no loop that is known")?;
        let switch = self.graph.nodes[node].inputs[0];
        let merge = self.graph.nodes[switch.node].inputs[0].node;
        if switch.output != 0 || self.op(switch.node) != "Switch" {
            return Err("it must leave where the loop ends".into());
        }
        let turns = self.turns(&frame)?;
        for &(merge, back) in &frame {
            if let Some(&variable) = self.variables.get(&merge) {
                let Value::Real(next) = self.value(Source { node: back, output: 0 })? else {
                    return Err("a state of the loop changes its kind".into());
                };
                self.arena.variables[variable].next = Some(next);
            }
        }
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
                if !frame.iter().any(|(known, _)| *known == counter) {
                    return Err("it collects what another loop counts".into());
                }
                let sequence = self.lifted(merge, value, turns)?;
                Value::Content(Content::Sequence(array, self.arena.swap(sequence)?))
            }
            _ => return Err("it shows a state that this importer does not know".into()),
        }])
    }

    /// The sequence [batch, time, ...] of what the body of the loop with this Merge computes.
    pub(super) fn lifted(&mut self, merge: usize, value: Id, turns: Dim) -> Result<Id, String> {
        let frame = self.frame_number(self.graph.nodes[merge].inputs[0].node)?;
        sequence::of_loop(&mut self.arena, frame, value, turns)
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
