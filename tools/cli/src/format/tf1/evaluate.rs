//! From the nodes of a graph to what they compute. Nodes are read in the order of their edges, without recursion; a
//! `while` loop's variables are read first as states that are not known yet, and its outputs once its body is read.

use std::collections::HashMap;

use tidegate::activation::Activation;

use super::front_end::FrontEnd;
use super::graph::{Graph, Source};
use super::sequence;
use super::symbol::{Arena, At, BATCH, Dim, Expr, Id, Kernel, Over, TIME, Variable, is_symbol};
use crate::canonical::Tensor;
use crate::error::ImportError;
use crate::format::graphdef::attr_value::Value as Attr;
use crate::format::graphdef::{FLOAT, INT32, INT64, TensorShape};

/// Longest vector of integers: one entry for each time step.
const MAX_INTS: usize = 65_535;
/// Most integers of all vectors together.
const MAX_ALL_INTS: usize = 1 << 22;
/// Most outputs of a node.
const MAX_PARTS: usize = 65_535;

/// What an edge carries.
#[derive(Clone, Debug, PartialEq)]
enum Value {
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
enum Content {
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
    numbers: Vec<&'g [u8]>,
    /// Variables of the arena by Merge.
    variables: HashMap<usize, usize>,
    /// What was read with these inputs: an unrolled loop writes the same again and again.
    known: HashMap<String, Vec<Value>>,
    ints_left: usize,
    pub front_end: Option<FrontEnd>,
}

type Outputs = Result<Vec<Value>, String>;

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
    fn before(&self, node: usize) -> Vec<usize> {
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

    fn op(&self, node: usize) -> &'g str {
        &self.graph.nodes[node].def.op
    }

    /// Exit ← Switch ← Merge.
    fn frame_of_exit(&self, exit: usize) -> Option<&Vec<(usize, usize)>> {
        let switch = self.graph.nodes[exit].inputs.first()?;
        let merge = self.graph.nodes[switch.node].inputs.first()?;
        let enter = self.graph.nodes[merge.node].inputs.first()?;
        match self.graph.attr(enter.node, "frame_name")? {
            Attr::Bytes(frame) => self.frames.get(frame.as_slice()),
            _ => None,
        }
    }

    fn value(&self, source: Source) -> Result<Value, String> {
        let outputs = self.values[source.node].as_ref().ok_or("it is read before it is known")?;
        outputs.get(source.output).cloned().ok_or_else(|| format!("it has no output {}", source.output))
    }

    fn inputs(&self, node: usize) -> Result<Vec<Value>, String> {
        self.graph.nodes[node].inputs.iter().map(|&input| self.value(input)).collect()
    }

    fn int(&self, node: usize, name: &str, default: i64) -> Result<i64, String> {
        match self.graph.attr(node, name) {
            None => Ok(default),
            Some(&Attr::Int(int)) => Ok(int),
            Some(_) => Err(format!("its attribute {name} must be an integer")),
        }
    }

    fn float(&self, node: usize, name: &str, default: f32) -> Result<f32, String> {
        match self.graph.attr(node, name) {
            None => Ok(default),
            Some(&Attr::Float(float)) => Ok(float),
            Some(_) => Err(format!("its attribute {name} must be a number")),
        }
    }

    fn flag(&self, node: usize, name: &str, default: bool) -> Result<bool, String> {
        match self.graph.attr(node, name) {
            None => Ok(default),
            Some(&Attr::Bool(flag)) => Ok(flag),
            Some(_) => Err(format!("its attribute {name} must be a flag")),
        }
    }

    fn must_not(&self, node: usize, names: &[&str]) -> Result<(), String> {
        for name in names {
            if self.flag(node, name, false)? {
                return Err(format!("{name} must be false"));
            }
        }
        Ok(())
    }

    fn sizes(&self, node: usize, name: &str) -> Result<Option<[usize; 2]>, String> {
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

    fn text(&self, node: usize, name: &str, default: &'static str) -> &str {
        match self.graph.attr(node, name) {
            Some(Attr::Bytes(text)) => std::str::from_utf8(text).unwrap_or("?"),
            _ => default,
        }
    }

    fn channels_last(&self, node: usize) -> Result<(), String> {
        match self.text(node, "data_format", "NHWC") {
            "NHWC" => Ok(()),
            _ => Err("its data_format must be NHWC".into()),
        }
    }

    fn spend_ints(&mut self, count: usize) -> Result<(), String> {
        match self.ints_left.checked_sub(count).filter(|_| count <= MAX_INTS) {
            Some(left) => {
                self.ints_left = left;
                Ok(())
            }
            None => Err(format!("it makes more than {MAX_INTS} integers")),
        }
    }

    fn ints(&mut self, is_scalar: bool, data: Vec<Dim>) -> Outputs {
        self.spend_ints(data.len())?;
        Ok(vec![Value::Ints { is_scalar, data }])
    }

    /// The outputs of a node whose inputs are known. An empty reason: the op is not read.
    fn outputs(&mut self, node: usize) -> Outputs {
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

    fn constant(&mut self, node: usize) -> Outputs {
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

    fn placeholder(&mut self, node: usize) -> Outputs {
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

    fn mfcc(&mut self, node: usize) -> Outputs {
        let front_end = FrontEnd::read(self.graph, node)?;
        let shape = vec![1, front_end.frames as Dim, Dim::from(front_end.mfcc.coefficients)];
        self.front_end = Some(front_end);
        Ok(vec![Value::Real(self.arena.make(Expr::Input(node), shape)?)])
    }

    // Loops.

    fn frame_number(&mut self, node: usize) -> Result<usize, String> {
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

    fn merge(&mut self, node: usize) -> Outputs {
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
    fn turns(&mut self, frame: &[(usize, usize)]) -> Result<Dim, String> {
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

    fn exit(&mut self, node: usize) -> Outputs {
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
    fn lifted(&mut self, merge: usize, value: Id, turns: Dim) -> Result<Id, String> {
        let frame = self.frame_number(self.graph.nodes[merge].inputs[0].node)?;
        sequence::of_loop(&mut self.arena, frame, value, turns)
    }

    // Ops.

    fn apply(&mut self, node: usize, op: &str, inputs: Vec<Value>) -> Outputs {
        let real = |id: Id| Ok(vec![Value::Real(id)]);
        match (op, &*inputs) {
            (
                "Identity" | "StopGradient" | "PreventGradient" | "Cast" | "CheckNumerics" | "PlaceholderWithDefault",
                [x],
            ) => {
                if op == "PlaceholderWithDefault" {
                    return Err(String::new());
                }
                if op == "Cast"
                    && matches!(x, Value::Real(_))
                    && self.graph.attr(node, "DstT") != Some(&Attr::Type(FLOAT))
                {
                    return Err("it makes something else of floats".into());
                }
                if op == "Cast"
                    && !matches!(x, Value::Real(_))
                    && self.graph.attr(node, "DstT") == Some(&Attr::Type(FLOAT))
                {
                    return Err("it makes floats of integers".into());
                }
                Ok(vec![x.clone()])
            }
            ("Enter", [x]) => {
                self.frame_number(node)?;
                Ok(vec![x.clone()])
            }
            ("NextIteration" | "LoopCond", [x]) => Ok(vec![x.clone()]),
            ("Switch", [x, Value::Below(_)]) => Ok(vec![x.clone(), x.clone()]),
            ("Switch", _) => Err("it obeys a condition that is not a loop's".into()),
            ("Less", [Value::Counter { merge, plus: 0 }, Value::Ints { is_scalar: true, data }]) => {
                Ok(vec![Value::Below(vec![(*merge, data[0])])])
            }
            ("LogicalAnd", [Value::Below(a), Value::Below(b)]) if a.len() + b.len() <= 8 => {
                Ok(vec![Value::Below([&a[..], b].concat())])
            }
            ("Add" | "AddV2", [Value::Counter { merge, plus }, Value::Ints { is_scalar: true, data }])
            | ("Add" | "AddV2", [Value::Ints { is_scalar: true, data }, Value::Counter { merge, plus }]) => {
                match plus.checked_add(data[0]) {
                    Some(plus) if !is_symbol(data[0]) => Ok(vec![Value::Counter { merge: *merge, plus }]),
                    _ => Err("it adds too much to the loop's counter".into()),
                }
            }
            (_, [Value::Array(_), ..]) => self.array(op, &inputs),
            _ if inputs.iter().all(|input| matches!(input, Value::Real(_))) => {
                let ids: Vec<Id> = inputs
                    .iter()
                    .filter_map(|input| if let Value::Real(id) = input { Some(*id) } else { None })
                    .collect();
                self.apply_real(node, op, &ids)
            }
            _ if !matches!(op, "ConcatV2" | "Fill")
                && matches!(inputs.first(), Some(Value::Ints { .. } | Value::Range(_)))
                && inputs.iter().all(|input| matches!(input, Value::Ints { .. } | Value::Range(_))) =>
            {
                self.apply_ints(node, op, &inputs)
            }
            ("Fill", [Value::Ints { is_scalar: false, data }, Value::Real(value)]) => {
                let value = self.arena.scalar(*value).ok_or("its value must be one number")?;
                if data.len() > 4 || data.iter().any(|&dim| !is_symbol(dim) && dim < 1) {
                    return Err("its shape must be one of a state".into());
                }
                real(self.arena.make(Expr::Fill(value.to_bits()), data.clone())?)
            }
            ("Fill", [Value::Ints { data, .. }, Value::Ints { is_scalar: true, data: value }]) => {
                match (&**data, &**value) {
                    (&[len], &[value]) if (0..=MAX_INTS as i64).contains(&len) => {
                        self.ints(false, vec![value; len as usize])
                    }
                    _ => Err("it fills more than a vector".into()),
                }
            }
            ("Reshape", [Value::Real(x), Value::Ints { is_scalar: false, data }]) => {
                real(self.arena.reshape(*x, data)?)
            }
            ("ExpandDims", [Value::Real(x), Value::Ints { data, .. }]) => {
                let mut shape = self.arena.shape(*x).to_vec();
                let axis = axis(data, shape.len() + 1)?;
                shape.insert(axis, 1);
                real(self.arena.reshape(*x, &shape)?)
            }
            ("Transpose", [Value::Real(x), order]) => {
                let order = self.listed(order)?;
                self.transpose(*x, &order)
            }
            ("ConcatV2", [parts @ .., Value::Ints { is_scalar: true, data }]) => self.concat(parts, data[0]),
            ("Split", [Value::Ints { is_scalar: true, data }, Value::Real(x)]) => {
                let parts = usize::try_from(self.int(node, "num_split", 0)?).unwrap_or(0);
                self.split(*x, data[0], parts)
            }
            ("SplitV", [Value::Real(x), Value::Ints { data: sizes, .. }, Value::Ints { is_scalar: true, data }]) => {
                if axis(data, self.arena.shape(*x).len())? + 1 != self.arena.shape(*x).len() || sizes.len() > MAX_PARTS
                {
                    return Err("it must split features".into());
                }
                let (mut at, mut outputs) = (0, Vec::new());
                for &size in sizes {
                    let size = usize::try_from(size).map_err(|_| "its sizes must be known")?;
                    outputs.push(Value::Real(self.arena.slice(*x, at, size)?));
                    at += size;
                }
                Ok(outputs)
            }
            ("StridedSlice", [Value::Real(x), begin, end, strides]) => {
                let (begin, end) = (self.listed(begin)?, self.listed(end)?);
                let strides = self.listed(strides)?;
                self.strided_slice(node, *x, [&begin, &end, &strides])
            }
            ("Slice", [Value::Real(x), Value::Ints { data: begin, .. }, Value::Ints { data: size, .. }]) => {
                let shape = self.arena.shape(*x).to_vec();
                let [rest @ .., width] = &*shape else { return Err("it takes a part of a scalar".into()) };
                let whole = begin
                    .iter()
                    .zip(size)
                    .zip(rest)
                    .all(|((&begin, &size), &dim)| begin == 0 && (size == -1 || size == dim));
                match (begin.last(), size.last()) {
                    (Some(&start), Some(&size))
                        if whole && begin.len() == shape.len() && start >= 0 && start < *width =>
                    {
                        let len = if size == -1 { width - start } else { size };
                        real(self.arena.slice(*x, start as usize, usize::try_from(len).unwrap_or(0))?)
                    }
                    _ => Err("it must take some of the features".into()),
                }
            }
            ("ReverseV2", [Value::Real(x), Value::Ints { data, .. }]) => match (&**data, self.arena.expr(*x)) {
                ([1], _) => real(self.arena.reverse(*x)?),
                ([0], _) if self.arena.shape(*x).len() > 2 => {
                    let sequence = self.arena.swap(*x)?;
                    let reversed = self.arena.reverse(sequence)?;
                    real(self.arena.swap(reversed)?)
                }
                _ => Err("it must reverse the time".into()),
            },
            ("Sum" | "Mean" | "Max", [Value::Real(x), Value::Ints { data, .. }]) => self.reduce(node, op, *x, data),
            ("Tile", [Value::Real(x), Value::Ints { is_scalar: false, data }]) => match *self.arena.expr(*x) {
                Expr::Fill(bits) if data.len() == self.arena.shape(*x).len() => {
                    let mut shape = self.arena.shape(*x).to_vec();
                    for (dim, &times) in shape.iter_mut().zip(data) {
                        *dim = self.arena.product(&[*dim, times])?;
                    }
                    real(self.arena.make(Expr::Fill(bits), shape)?)
                }
                _ => Err("it repeats what is not a constant".into()),
            },
            ("BlockLSTM" | "BlockLSTMV2", [Value::Ints { .. }, rest @ ..]) => self.block_lstm(node, rest),
            _ => self.refuse_inputs(op, &inputs),
        }
    }

    fn refuse_inputs(&self, op: &str, inputs: &[Value]) -> Outputs {
        const READ: [&str; 14] = [
            "Add",
            "AddV2",
            "BiasAdd",
            "MatMul",
            "Mul",
            "Sub",
            "Less",
            "Fill",
            "Reshape",
            "Transpose",
            "ConcatV2",
            "Split",
            "StridedSlice",
            "Range",
        ];
        match READ.contains(&op) {
            true if inputs.is_empty() => Err("it has no inputs".into()),
            true => Err("its inputs are not what this importer knows it to have".into()),
            false => Err(String::new()),
        }
    }

    fn listed(&mut self, value: &Value) -> Result<Vec<Dim>, String> {
        match value {
            Value::Ints { is_scalar: false, data } => Ok(data.clone()),
            _ => Err("its integers must be a vector that is known".into()),
        }
    }

    fn array(&mut self, op: &str, inputs: &[Value]) -> Outputs {
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
            (
                "TensorArrayReadV3",
                [Value::Array(array), Value::Counter { merge, plus: 0 }, Value::Content(Content::Sequence(of, x))],
            ) => {
                same(array, of)?;
                let frame = self.frame_number(self.graph.nodes[*merge].inputs[0].node)?;
                let sequence = self.arena.swap(*x)?;
                Ok(vec![Value::Real(self.arena.step(sequence, At::Turn(frame))?)])
            }
            (
                "TensorArrayReadV3",
                [Value::Array(array), Value::Ints { is_scalar: true, data }, Value::Content(Content::Sequence(of, x))],
            ) => {
                same(array, of)?;
                let sequence = self.arena.swap(*x)?;
                let steps = self.arena.shape(sequence)[1];
                let at = self.arena.at(data[0], steps)?;
                Ok(vec![Value::Real(self.arena.step(sequence, at)?)])
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

    /// Indices must be 0, 1, ... of all steps.
    fn in_order(&self, indices: &Value, steps: Dim) -> Result<(), String> {
        match indices {
            Value::Range(to) if *to == steps => Ok(()),
            Value::Ints { is_scalar: false, data } if !is_symbol(steps) && data.iter().copied().eq(0..steps) => Ok(()),
            _ => Err("it must take all steps in their order".into()),
        }
    }

    fn transpose(&mut self, x: Id, order: &[Dim]) -> Outputs {
        let rank = self.arena.shape(x).len();
        if order.len() != rank {
            return Err(format!("it moves {} dimensions of {rank}", order.len()));
        }
        let kept = order.iter().enumerate().skip(2).all(|(axis, &from)| from == axis as Dim);
        match (order, self.arena.expr(x)) {
            _ if order.iter().enumerate().all(|(axis, &from)| from == axis as Dim) => Ok(vec![Value::Real(x)]),
            ([1, 0], Expr::Const(tensor)) => {
                let Tensor { shape, data } = self.arena.tensors[*tensor].clone();
                let (rows, cols) = (shape[0], shape[1]);
                let moved = (0..cols).flat_map(|col| data.iter().skip(col).step_by(cols).copied()).take(rows * cols);
                let moved = Tensor { shape: vec![cols, rows], data: moved.collect() };
                Ok(vec![Value::Real(self.arena.constant(moved)?)])
            }
            ([1, 0, ..], _) if kept && rank > 2 => Ok(vec![Value::Real(self.arena.swap(x)?)]),
            _ => Err("it must swap batch and time, [1, 0, 2]".into()),
        }
    }

    fn concat(&mut self, parts: &[Value], along: Dim) -> Outputs {
        if parts.iter().all(|part| matches!(part, Value::Real(_))) {
            let ids: Vec<Id> =
                parts.iter().filter_map(|part| if let Value::Real(id) = part { Some(*id) } else { None }).collect();
            let rank = ids.first().map_or(0, |&id| self.arena.shape(id).len());
            let on = axis(&[along], rank)?;
            if on + 1 != rank {
                return Err(format!("its axis is {along}, but must be the features"));
            }
            if ids.iter().all(|&id| matches!(self.arena.expr(id), Expr::Const(_))) {
                return self.joined_constants(&ids);
            }
            return Ok(vec![Value::Real(self.arena.concat(&ids)?)]);
        }
        if along != 0 && along != -1 {
            return Err("its axis must be 0".into());
        }
        let mut data = Vec::new();
        for part in parts {
            match part {
                Value::Ints { is_scalar: false, data: more } if data.len() + more.len() <= MAX_INTS => {
                    data.extend(more)
                }
                _ => return Err("it must join vectors".into()),
            }
        }
        self.ints(false, data)
    }

    /// Columns of constants side by side.
    fn joined_constants(&mut self, ids: &[Id]) -> Outputs {
        let mut tensors = Vec::new();
        for &id in ids {
            let tensor = self.arena.tensor(id)?;
            tensors.push(self.arena.tensors[tensor].clone());
        }
        let lead = |tensor: &Tensor| tensor.shape[..tensor.shape.len() - 1].to_vec();
        let first = lead(&tensors[0]);
        if tensors.iter().any(|tensor| lead(tensor) != first || tensor.data.is_empty()) {
            return Err("its constants differ in shape".into());
        }
        let rows: usize = first.iter().product();
        let mut data = Vec::new();
        for row in 0..rows {
            for tensor in &tensors {
                let width = tensor.data.len() / rows;
                data.extend_from_slice(&tensor.data[row * width..(row + 1) * width]);
            }
        }
        let mut shape = first;
        shape.push(data.len() / rows.max(1));
        Ok(vec![Value::Real(self.arena.constant(Tensor { shape, data })?)])
    }

    fn split(&mut self, x: Id, along: Dim, parts: usize) -> Outputs {
        let shape = self.arena.shape(x).to_vec();
        let on = axis(&[along], shape.len())?;
        if parts == 0 || parts > MAX_PARTS {
            return Err(format!("it splits into {parts}"));
        }
        let mut outputs = Vec::new();
        if on + 1 == shape.len() {
            let width = self.arena.width(x);
            if width % parts != 0 {
                return Err(format!("it splits {width} features into {parts}"));
            }
            for part in 0..parts {
                outputs.push(Value::Real(self.arena.slice(x, part * (width / parts), width / parts)?));
            }
            return Ok(outputs);
        }
        // Steps: of rows that were [time, batch] once, of [time, batch, ...], or of [batch, time, ...].
        let sequence = match *self.arena.expr(x) {
            Expr::Rows(inner) if on == 0 && matches!(self.arena.expr(inner), Expr::Swap(_)) => {
                self.arena.swap(inner)?
            }
            _ if on == 0 && shape.len() == 3 => self.arena.swap(x)?,
            _ if on == 1 && shape.len() == 3 => x,
            _ => return Err(format!("its axis is {along}, but must be the features or the time")),
        };
        let steps = self.arena.shape(sequence)[1];
        if steps != parts as Dim {
            return Err(format!("it splits the time into {parts} parts of several steps"));
        }
        for step in 0..parts {
            let at = self.arena.at(step as Dim, steps)?;
            let one = self.arena.step(sequence, at)?;
            let mut shape = self.arena.shape(one).to_vec();
            if !matches!(self.arena.expr(x), Expr::Rows(_)) {
                shape.insert(on, 1);
            }
            outputs.push(Value::Real(self.arena.reshape(one, &shape)?));
        }
        Ok(outputs)
    }

    fn unpack(&mut self, node: usize, x: Id) -> Outputs {
        let on = self.int(node, "axis", 0)?;
        let parts = self.int(node, "num", 0)?;
        let sequence = match axis(&[on], self.arena.shape(x).len())? {
            0 if self.arena.shape(x).len() > 2 => self.arena.swap(x)?,
            1 if self.arena.shape(x).len() > 2 => x,
            _ => return Err("it must take steps apart".into()),
        };
        let steps = self.arena.shape(sequence)[1];
        if parts != steps || !(1..=MAX_PARTS as i64).contains(&parts) {
            return Err("it must take all steps apart".into());
        }
        let mut outputs = Vec::new();
        for step in 0..parts {
            let at = self.arena.at(step, steps)?;
            outputs.push(Value::Real(self.arena.step(sequence, at)?));
        }
        Ok(outputs)
    }

    fn pack(&mut self, node: usize, parts: &[Id]) -> Outputs {
        let &[first, ..] = parts else { return Err("it joins nothing".into()) };
        let mut shape = self.arena.shape(first).to_vec();
        if parts.iter().any(|&part| self.arena.shape(part) != shape) {
            return Err("its parts differ in shape".into());
        }
        if shape.len() < 2 {
            return Err("it joins what are no steps".into());
        }
        let on = axis(&[self.int(node, "axis", 0)?], shape.len() + 1)?;
        shape.insert(1, parts.len() as Dim);
        let stack = self.arena.make(Expr::Stack(parts.to_vec()), shape)?;
        match on {
            1 => Ok(vec![Value::Real(stack)]),
            0 => Ok(vec![Value::Real(self.arena.swap(stack)?)]),
            _ => Err(format!("its axis is {on}, but must be the time")),
        }
    }

    fn strided_slice(&mut self, node: usize, x: Id, bounds: [&[Dim]; 3]) -> Outputs {
        let shape = self.arena.shape(x).to_vec();
        let [begin, end, strides] = bounds;
        let mask = |this: &Self, name| this.int(node, name, 0);
        let (begins, ends, shrinks) =
            (mask(self, "begin_mask")?, mask(self, "end_mask")?, mask(self, "shrink_axis_mask")?);
        if mask(self, "ellipsis_mask")? != 0 || mask(self, "new_axis_mask")? != 0 {
            return Err("its ellipsis_mask and new_axis_mask must be 0".into());
        }
        if begin.len() > shape.len() || begin.len() != end.len() || begin.len() != strides.len() {
            return Err(format!("it takes a part of {} dimensions of {}", begin.len(), shape.len()));
        }
        let mut x = x;
        let mut removed = Vec::new();
        for (axis, (&from, &to)) in begin.iter().zip(end).enumerate() {
            let (bit, dim) = (1_i64 << axis, shape[axis]);
            if strides[axis] != 1 {
                return Err("its strides must be 1".into());
            }
            if shrinks & bit != 0 {
                removed.push((axis, from));
                continue;
            }
            let wrap = |value: Dim| if value < 0 && !is_symbol(value) && !is_symbol(dim) { value + dim } else { value };
            let from = if begins & bit != 0 { 0 } else { wrap(from) };
            let to = if ends & bit != 0 { dim } else { wrap(to) };
            let to = if is_symbol(dim) || is_symbol(to) { to } else { to.min(dim) };
            if from == 0 && to == dim {
                continue;
            }
            if is_symbol(dim) || is_symbol(from) || is_symbol(to) || from < 0 || to <= from {
                return Err("it takes a part that is not known".into());
            }
            let (from, len) = (from as usize, (to - from) as usize);
            if axis + 1 == shape.len() {
                x = self.arena.slice(x, from, len)?;
            } else {
                x = self.constant_rows(x, axis, from, len)?;
            }
        }
        match *removed {
            [] => Ok(vec![Value::Real(x)]),
            [(axis, index)] if shape.len() > 2 && axis < 2 => {
                let sequence = if axis == 0 { self.arena.swap(x)? } else { x };
                let steps = self.arena.shape(sequence)[1];
                let index = if index < 0 && !is_symbol(index) && !is_symbol(steps) { index + steps } else { index };
                let at = self.arena.at(index, steps)?;
                Ok(vec![Value::Real(self.arena.step(sequence, at)?)])
            }
            _ => Err("it must take a step of a sequence, or features".into()),
        }
    }

    /// Rows of a constant.
    fn constant_rows(&mut self, x: Id, axis: usize, from: usize, len: usize) -> Result<Id, String> {
        if axis != 0 || !self.arena.is_constant(x) {
            return Err("it must take a step of a sequence, or features".into());
        }
        let tensor = self.arena.tensor(x)?;
        let Tensor { shape, data } = &self.arena.tensors[tensor];
        if from + len > shape[0] {
            return Err("it takes rows that its constant does not have".into());
        }
        let width = data.len() / shape[0];
        let mut shape = shape.clone();
        shape[0] = len;
        let data = data[from * width..(from + len) * width].to_vec();
        self.arena.constant(Tensor { shape, data })
    }

    fn reduce(&mut self, node: usize, op: &str, x: Id, axes: &[Dim]) -> Outputs {
        let shape = self.arena.shape(x).to_vec();
        let keep = self.flag(node, "keep_dims", false)?;
        let axes: Result<Vec<usize>, String> = axes.iter().map(|&on| axis(&[on], shape.len())).collect();
        let axes = axes?;
        if let (Expr::Fill(0), "Sum") = (self.arena.expr(x), op) {
            let left = shape.iter().enumerate().filter(|(axis, _)| keep || !axes.contains(axis));
            let left = left.map(|(axis, &dim)| if axes.contains(&axis) { 1 } else { dim }).collect();
            return Ok(vec![Value::Real(self.arena.make(Expr::Fill(0), left)?)]);
        }
        // Over all positions of an image: a kernel as large as it.
        let over = match op {
            "Mean" => Over::Average,
            "Max" => Over::Max,
            _ => return Err(String::new()),
        };
        match (&*shape, &*axes) {
            (&[batch, height, width, channels], [1, 2]) if !is_symbol(height) && !is_symbol(width) => {
                let taps = [height as usize, width as usize];
                let kernel = Kernel { taps, strides: [1, 1], dilations: [1, 1], same: false };
                let pooled = self.arena.make(Expr::Kernel(x, kernel, over), vec![batch, 1, 1, channels])?;
                let shape: &[Dim] = if keep { &[batch, 1, 1, channels] } else { &[batch, channels] };
                Ok(vec![Value::Real(self.arena.reshape(pooled, shape)?)])
            }
            _ => Err("it must go over height and width of an image".into()),
        }
    }

    fn apply_ints(&mut self, node: usize, op: &str, inputs: &[Value]) -> Outputs {
        let mut lists = Vec::new();
        for input in inputs {
            match input {
                Value::Ints { is_scalar, data } => lists.push((*is_scalar, data.as_slice())),
                _ => return Err("it uses a range of unknown length".into()),
            }
        }
        let known = |values: &[Dim]| values.iter().all(|&value| !is_symbol(value));
        match (op, &*lists) {
            ("StridedSlice", [(false, data), (_, begin), (_, end), (_, strides)]) => {
                for mask in ["ellipsis_mask", "new_axis_mask"] {
                    if self.int(node, mask, 0)? != 0 {
                        return Err(format!("its {mask} must be 0"));
                    }
                }
                let (&[begin], &[end], &[1]) = (*begin, *end, *strides) else {
                    return Err("it must take a part of a vector".into());
                };
                let len = data.len() as Dim;
                let wrap = |value: Dim| if value < 0 { value.saturating_add(len) } else { value };
                let shrinks = self.int(node, "shrink_axis_mask", 0)? == 1;
                let from = if self.int(node, "begin_mask", 0)? == 1 { 0 } else { wrap(begin) };
                if shrinks {
                    let element = usize::try_from(from).ok().and_then(|index| data.get(index)).copied();
                    return match element {
                        Some(element) => self.ints(true, vec![element]),
                        None => Err(format!("it takes element {from} of {len}")),
                    };
                }
                let to = if self.int(node, "end_mask", 0)? == 1 { len } else { wrap(end).min(len) };
                match (usize::try_from(from), usize::try_from(to)) {
                    (Ok(from), Ok(to)) if from <= to => self.ints(false, data[from..to].to_vec()),
                    _ => Err("it takes a part that its vector does not have".into()),
                }
            }
            ("Range", [(true, [start]), (true, [limit]), (true, [1])]) => {
                let (start, limit) = (*start, *limit);
                if start == 0 && is_symbol(limit) {
                    return Ok(vec![Value::Range(limit)]);
                }
                if is_symbol(start) || is_symbol(limit) || limit.saturating_sub(start) > MAX_INTS as i64 {
                    return Err(format!("it must count up by 1 over at most {MAX_INTS}"));
                }
                self.ints(false, (start..limit).collect())
            }
            ("Pack", scalars) if scalars.iter().all(|(is_scalar, _)| *is_scalar) => {
                self.ints(false, scalars.iter().map(|(_, data)| data[0]).collect())
            }
            ("ExpandDims", [(true, data), _]) => self.ints(false, data.to_vec()),
            ("Squeeze", [(_, data)]) if data.len() == 1 => self.ints(true, data.to_vec()),
            ("Reshape", [(_, data), (_, [-1] | [1])]) => self.ints(false, data.to_vec()),
            ("Prod", [(_, data), _]) => {
                let product = self.arena.product(data)?;
                self.ints(true, vec![product])
            }
            ("GatherV2", [(false, data), (is_scalar, indices), _]) => {
                let picked: Option<Vec<Dim>> =
                    indices.iter().map(|&k| data.get(usize::try_from(k).ok()?).copied()).collect();
                let picked = picked.ok_or("it takes elements that its vector does not have")?;
                self.ints(*is_scalar, picked)
            }
            ("Sub", [(true, [a]), (true, [b])]) if !is_symbol(*b) => {
                let less = self.arena.less(*a, *b)?;
                self.ints(true, vec![less])
            }
            ("Mul", [(true, [a]), (true, [b])]) => {
                let product = self.arena.product(&[*a, *b])?;
                self.ints(true, vec![product])
            }
            ("Maximum" | "Minimum", [(true, [a]), (true, [b])]) => match (op, *a, *b) {
                (_, a, b) if a == b => self.ints(true, vec![a]),
                ("Maximum", a, b) if known(&[a, b]) => self.ints(true, vec![a.max(b)]),
                ("Minimum", a, b) if known(&[a, b]) => self.ints(true, vec![a.min(b)]),
                // A number of steps is at least 1.
                ("Maximum", 0 | 1, steps) | ("Maximum", steps, 0 | 1) => self.ints(true, vec![steps]),
                _ => Err("its value is not known when the network is imported".into()),
            },
            ("Add" | "AddV2", [(a_scalar, a), (_, b)]) if a.len() == b.len() && known(a) && known(b) => {
                let sum: Option<Vec<Dim>> = a.iter().zip(*b).map(|(&a, &b)| a.checked_add(b)).collect();
                self.ints(*a_scalar, sum.ok_or("its sum is too large")?)
            }
            _ => Err(match op {
                "StridedSlice" => "it must take one element of a vector".into(),
                "Range" => "it must count up by 1".into(),
                "Add" | "AddV2" | "Sub" | "Mul" | "Less" | "Fill" | "Squeeze" | "Reshape" | "GatherV2" | "Maximum"
                | "Minimum" => "its integer value is not known when the network is imported".into(),
                _ => String::new(),
            }),
        }
    }

    fn apply_real(&mut self, node: usize, op: &str, ids: &[Id]) -> Outputs {
        let arena = &mut self.arena;
        let id = match (op, ids) {
            ("MatMul" | "BatchMatMul" | "BatchMatMulV2", &[a, b]) => {
                self.must_not(node, &["transpose_a", "adj_x", "adj_y"])?;
                let weights = match self.flag(node, "transpose_b", false)? {
                    false => b,
                    true => match *self.transpose(b, &[1, 0])? {
                        [Value::Real(id)] => id,
                        _ => return Err("its weights must be a matrix".into()),
                    },
                };
                self.arena.matmul(a, weights)?
            }
            ("BiasAdd", &[x, bias]) => {
                self.channels_last(node)?;
                if !self.arena.is_constant(bias) {
                    return Err("its bias must be constant".into());
                }
                self.arena.add(x, bias)?
            }
            ("Add" | "AddV2", &[a, b]) => arena.add(a, b)?,
            ("AddN", [first, rest @ ..]) => {
                let mut sum = *first;
                for &part in rest {
                    sum = arena.add(sum, part)?;
                }
                sum
            }
            ("Sub", &[a, b]) => {
                let negative = match arena.expr(b).clone() {
                    Expr::Linear(linear) => arena.scaled_linear(linear, -1.0, 0.0)?,
                    _ => arena.affine(b, -1.0, 0.0)?,
                };
                match arena.scalar(a) {
                    Some(value) if !matches!(arena.expr(b), Expr::Linear(_)) => arena.affine(b, -1.0, value)?,
                    _ => arena.add(a, negative)?,
                }
            }
            ("Neg", &[x]) => arena.affine(x, -1.0, 0.0)?,
            ("Mul", &[a, b]) => arena.mul(a, b)?,
            ("RealDiv", &[a, b]) => {
                let inverse = arena.map(b, f32::recip)?;
                arena.mul(a, inverse)?
            }
            ("Rsqrt", &[x]) => arena.map(x, |value| value.sqrt().recip())?,
            ("Sqrt", &[x]) => arena.map(x, f32::sqrt)?,
            ("Sigmoid", &[x]) => arena.unary(Activation::Sigmoid, x)?,
            ("Tanh", &[x]) => arena.unary(Activation::Tanh, x)?,
            ("Relu", &[x]) => arena.unary(Activation::Relu, x)?,
            ("Relu6", &[x]) => arena.unary(Activation::Relu6, x)?,
            ("Elu", &[x]) => arena.unary(Activation::Elu { alpha: 1.0 }, x)?,
            ("Selu", &[x]) => arena.unary(Activation::Selu, x)?,
            ("Softplus", &[x]) => arena.unary(Activation::Softplus, x)?,
            ("Softsign", &[x]) => arena.unary(Activation::Softsign, x)?,
            ("Exp", &[x]) => arena.unary(Activation::Exp, x)?,
            ("LeakyRelu", &[x]) => {
                let alpha = self.float(node, "alpha", 0.2)?;
                self.arena.unary(Activation::LeakyRelu { alpha }, x)?
            }
            ("Softmax", &[x]) => arena.softmax(x)?,
            ("Minimum" | "Maximum", &[a, b]) => {
                let (x, bound) = if arena.is_constant(a) { (b, a) } else { (a, b) };
                match (arena.scalar(bound), op) {
                    (Some(bound), "Minimum") => arena.clip(x, f32::NEG_INFINITY, bound)?,
                    (Some(bound), _) => arena.clip(x, bound, f32::INFINITY)?,
                    (None, "Maximum") => arena.maximum(a, b)?,
                    (None, _) => return Err("it must have a constant".into()),
                }
            }
            ("ClipByValue", &[x, least, greatest]) => match (arena.scalar(least), arena.scalar(greatest)) {
                (Some(least), Some(greatest)) => arena.clip(x, least, greatest)?,
                _ => return Err("its bounds must be constant".into()),
            },
            ("ZerosLike" | "OnesLike", &[x]) => {
                let (shape, value) = (arena.shape(x).to_vec(), if op == "OnesLike" { 1.0_f32 } else { 0.0 });
                arena.make(Expr::Fill(value.to_bits()), shape)?
            }
            ("Shape", &[x]) => {
                let shape = arena.shape(x).to_vec();
                return self.ints(false, shape);
            }
            ("Rank", &[x]) => {
                let rank = arena.shape(x).len() as Dim;
                return self.ints(true, vec![rank]);
            }
            ("Squeeze", &[x]) => {
                let shape = arena.shape(x).to_vec();
                let Some(Attr::List(axes)) = self.graph.attr(node, "squeeze_dims") else {
                    return Err("it must say which dimensions it takes away".into());
                };
                let axes: Result<Vec<usize>, String> = axes.i.iter().map(|&on| axis(&[on], shape.len())).collect();
                let axes = axes?;
                if axes.is_empty() || axes.iter().any(|&axis| shape[axis] != 1) {
                    return Err("it must take dimensions of 1 away".into());
                }
                let left = shape.iter().enumerate().filter(|(axis, _)| !axes.contains(axis)).map(|(_, &dim)| dim);
                let left: Vec<Dim> = left.collect();
                self.arena.reshape(x, &left)?
            }
            ("Pack", parts) => return self.pack(node, parts),
            ("Unpack", &[x]) => return self.unpack(node, x),
            ("Conv2D", &[x, weights]) => return self.conv(node, x, weights),
            ("MaxPool", &[x]) => return self.pool(node, x, Over::Max),
            ("AvgPool", &[x]) => return self.pool(node, x, Over::Average),
            ("FusedBatchNorm" | "FusedBatchNormV2" | "FusedBatchNormV3", &[x, gain, shift, mean, variance]) => {
                self.channels_last(node)?;
                if self.flag(node, "is_training", true)? {
                    return Err("is_training must be false".into());
                }
                // The op's default (tensorflow/core/ops/nn_ops.cc).
                let epsilon = self.float(node, "epsilon", 1e-4)?;
                let arena = &mut self.arena;
                let inverse = arena.map(variance, |value| (value + epsilon).sqrt().recip())?;
                let gain = arena.mul(gain, inverse)?;
                let negative = arena.map(mean, |value| -value)?;
                let moved = arena.mul(negative, gain)?;
                let shift = arena.add(shift, moved)?;
                let scaled = arena.mul(x, gain)?;
                arena.add(scaled, shift)?
            }
            ("LSTMBlockCell", &[x, c, h, w, wci, wcf, wco, b]) => {
                return self.lstm_block(node, [x, c, h, w, wci, wcf, wco, b]);
            }
            ("GRUBlockCell", &[x, h, w_ru, w_c, b_ru, b_c]) => return self.gru_block([x, h, w_ru, w_c, b_ru, b_c]),
            _ => return Err(String::new()),
        };
        Ok(vec![Value::Real(id)])
    }

    fn kernel(&self, node: usize) -> Result<([usize; 2], [usize; 2], bool), String> {
        self.channels_last(node)?;
        let strides = self.sizes(node, "strides")?.ok_or("it has no strides")?;
        let dilations = self.sizes(node, "dilations")?.unwrap_or([1, 1]);
        match self.text(node, "padding", "") {
            "VALID" => Ok((strides, dilations, false)),
            "SAME" => Ok((strides, dilations, true)),
            other => Err(format!("its padding is {other:.20?}, but must be VALID or SAME")),
        }
    }

    fn over(&mut self, x: Id, kernel: Kernel, over: Over, channels: Dim) -> Outputs {
        let &[batch, height, width, _] = self.arena.shape(x) else {
            return Err("it must go over [batch, height, width, channels]".into());
        };
        let positions = |size: Dim, axis: usize| {
            if is_symbol(size) {
                return Err("the size of its image must be known".to_owned());
            }
            let reach = (kernel.taps[axis] - 1) * kernel.dilations[axis] + 1;
            let size = size as usize;
            let positions = match kernel.same {
                true => size.div_ceil(kernel.strides[axis]),
                false if size >= reach => (size - reach) / kernel.strides[axis] + 1,
                false => return Err("its kernel is larger than its image".into()),
            };
            Ok(positions as Dim)
        };
        let shape = vec![batch, positions(height, 0)?, positions(width, 1)?, channels];
        Ok(vec![Value::Real(self.arena.make(Expr::Kernel(x, kernel, over), shape)?)])
    }

    fn conv(&mut self, node: usize, x: Id, weights: Id) -> Outputs {
        let (strides, dilations, same) = self.kernel(node)?;
        let weights = self.arena.tensor(weights)?;
        let [height, width, channels, filters] = *self.arena.tensors[weights].shape else {
            return Err("its weights must be [height, width, channels, filters]".into());
        };
        if [height, width, channels, filters].contains(&0) || channels != self.arena.width(x) {
            return Err(format!("its weights see {channels} channels of {}", self.arena.width(x)));
        }
        let kernel = Kernel { taps: [height, width], strides, dilations, same };
        self.over(x, kernel, Over::Conv { weights }, filters as Dim)
    }

    fn pool(&mut self, node: usize, x: Id, over: Over) -> Outputs {
        let (strides, dilations, same) = self.kernel(node)?;
        let taps = self.sizes(node, "ksize")?.ok_or("it has no ksize")?;
        let channels = self.arena.width(x) as Dim;
        self.over(x, Kernel { taps, strides, dilations, same }, over, channels)
    }

    // Ops that are whole cells, as what they compute.

    /// i, cs, f, o, ci, co, h of `LSTMBlockCell`.
    fn lstm_block(&mut self, node: usize, inputs: [Id; 8]) -> Outputs {
        let forget_bias = self.float(node, "forget_bias", 1.0)?;
        // The op's default (tensorflow/core/ops/rnn_ops.cc): not above 0 is no clip.
        let cell_clip = self.float(node, "cell_clip", 3.0)?;
        let peepholes = self.flag(node, "use_peephole", false)?;
        self.lstm_ops(inputs, forget_bias, cell_clip, peepholes, ["i", "j", "f", "o"])
    }

    fn lstm_ops(
        &mut self,
        [x, c, h, w, wci, wcf, wco, b]: [Id; 8],
        forget_bias: f32,
        cell_clip: f32,
        peepholes: bool,
        order: [&str; 4],
    ) -> Outputs {
        let arena = &mut self.arena;
        let joined = arena.concat(&[x, h])?;
        let product = arena.matmul(joined, w)?;
        let whole = arena.add(product, b)?;
        let units = arena.width(whole) / 4;
        let part = |arena: &mut Arena, name: &str| {
            let at = order.iter().position(|gate| *gate == name).unwrap_or(0);
            arena.slice(whole, at * units, units)
        };
        let (mut i, j, mut f, mut o) = (part(arena, "i")?, part(arena, "j")?, part(arena, "f")?, part(arena, "o")?);
        let bias = arena.make(Expr::Fill(forget_bias.to_bits()), vec![])?;
        f = arena.add(f, bias)?;
        if peepholes {
            let (to_i, to_f) = (arena.mul(wci, c)?, arena.mul(wcf, c)?);
            (i, f) = (arena.add(i, to_i)?, arena.add(f, to_f)?);
        }
        let (i, f) = (arena.unary(Activation::Sigmoid, i)?, arena.unary(Activation::Sigmoid, f)?);
        let j = arena.unary(Activation::Tanh, j)?;
        let (kept, added) = (arena.mul(f, c)?, arena.mul(i, j)?);
        let mut next = arena.add(added, kept)?;
        if cell_clip > 0.0 {
            next = arena.clip(next, -cell_clip, cell_clip)?;
        }
        if peepholes {
            let to_o = arena.mul(wco, next)?;
            o = arena.add(o, to_o)?;
        }
        let o = arena.unary(Activation::Sigmoid, o)?;
        let shown = arena.unary(Activation::Tanh, next)?;
        let hidden = arena.mul(shown, o)?;
        Ok([i, next, f, o, j, shown, hidden].into_iter().map(Value::Real).collect())
    }

    /// r, u, c, h of `GRUBlockCell`.
    fn gru_block(&mut self, [x, h, w_ru, w_c, b_ru, b_c]: [Id; 6]) -> Outputs {
        let arena = &mut self.arena;
        let joined = arena.concat(&[x, h])?;
        let product = arena.matmul(joined, w_ru)?;
        let sum = arena.add(product, b_ru)?;
        let both = arena.unary(Activation::Sigmoid, sum)?;
        let units = arena.width(both) / 2;
        let (r, u) = (arena.slice(both, 0, units)?, arena.slice(both, units, units)?);
        let reset = arena.mul(r, h)?;
        let joined = arena.concat(&[x, reset])?;
        let product = arena.matmul(joined, w_c)?;
        let sum = arena.add(product, b_c)?;
        let candidate = arena.unary(Activation::Tanh, sum)?;
        let rest = arena.affine(u, -1.0, 1.0)?;
        let (kept, added) = (arena.mul(u, h)?, arena.mul(rest, candidate)?);
        let hidden = arena.add(kept, added)?;
        Ok([r, u, candidate, hidden].into_iter().map(Value::Real).collect())
    }

    /// i, cs, f, o, ci, co, h of `BlockLSTM`, which runs a cell over a sequence [time, batch, features].
    fn block_lstm(&mut self, node: usize, rest: &[Value]) -> Outputs {
        let ids: Option<Vec<Id>> =
            rest.iter().map(|value| if let Value::Real(id) = value { Some(*id) } else { None }).collect();
        let Some(&[x, c, h, w, wci, wcf, wco, b]) = ids.as_deref() else {
            return Err("it must have 9 inputs".into());
        };
        let Some(Value::Ints { is_scalar: true, data }) =
            self.graph.nodes[node].inputs.first().and_then(|&input| self.value(input).ok())
        else {
            return Err("its number of steps must be known".into());
        };
        let sequence = self.arena.swap(x)?;
        let steps = self.arena.shape(sequence)[1];
        if data != [steps] {
            return Err("it must run over all steps of its input".into());
        }
        let frame = self.numbers.len();
        self.numbers.push(&[]);
        let state = |initial: Id, arena: &mut Arena| {
            let shape = arena.shape(initial).to_vec();
            arena.variables.push(Variable { frame, initial, next: None });
            arena.make(Expr::Variable(arena.variables.len() - 1), shape)
        };
        let (c, h) = (state(c, &mut self.arena)?, state(h, &mut self.arena)?);
        let variables = self.arena.variables.len();
        let x = self.arena.step(sequence, At::Turn(frame))?;
        let is_second = self.op(node) == "BlockLSTMV2";
        let forget_bias = if is_second { 0.0 } else { self.float(node, "forget_bias", 1.0)? };
        let order = if is_second { ["i", "f", "j", "o"] } else { ["i", "j", "f", "o"] };
        let cell_clip = self.float(node, "cell_clip", if is_second { 0.0 } else { 3.0 })?;
        let peepholes = self.flag(node, "use_peephole", false)?;
        let outputs = self.lstm_ops([x, c, h, w, wci, wcf, wco, b], forget_bias, cell_clip, peepholes, order)?;
        let (Some(Value::Real(next)), Some(Value::Real(hidden))) = (outputs.get(1), outputs.get(6)) else {
            return Err("it must have 7 outputs".into());
        };
        self.arena.variables[variables - 2].next = Some(*next);
        self.arena.variables[variables - 1].next = Some(*hidden);
        let lifted = sequence::of_loop(&mut self.arena, frame, *hidden, steps)?;
        let lifted = self.arena.swap(lifted)?;
        let mut outputs = vec![Value::Nothing; 6];
        outputs.push(Value::Real(lifted));
        Ok(outputs)
    }
}

/// The one axis that is given, of so many.
fn axis(given: &[Dim], rank: usize) -> Result<usize, String> {
    let &[axis] = given else { return Err("it must have one axis".into()) };
    let wrapped = if axis < 0 && !is_symbol(axis) { axis + rank as Dim } else { axis };
    match usize::try_from(wrapped) {
        Ok(wrapped) if wrapped < rank => Ok(wrapped),
        _ => Err(format!("its axis is {axis} of {rank} dimensions")),
    }
}
