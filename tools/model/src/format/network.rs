//! A network before it becomes a canonical model: named layers that read inputs or earlier layers, and the positions of
//! their states in a golden case.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use tidegate::internals::cell::CellKind;

use super::layer::{At, Layer};
use super::refuse::unsupported_if;
use crate::budget::{Budget, TooCostly, WEIGHT};
use crate::canonical::{Architecture, Canonical, Integers, Node, Port, Schedule, Tensor, Unroll};
use crate::error::{ImportError, Result};

/// A canonical model, and its relation to a golden case.
#[derive(Clone, Debug)]
pub struct Conversion {
    /// The model; its ports have the names of the case's tensors.
    pub model: Canonical,
    /// Positions of the nodes' states in `initial_*` and `final_*`. A state without one starts at zero.
    pub states: Vec<StatePart>,
    /// Outputs `output_*` that are states after each step.
    pub traces: Vec<StatePart>,
    /// Inputs that control which steps are used.
    pub controls: Vec<(String, Control)>,
    /// Output of a masked step.
    pub idle: Idle,
    /// Whether the framework returns only the output of the last step that is not masked, `[batch, ...]`.
    pub last_only: bool,
    /// Whether outputs are in processing order while time runs from the last step to the first.
    pub reversed: bool,
    /// Number of rows in the model's window and in each of its outputs. The outputs are available when the window is
    /// full, or at the end of the sequence. `None`: each step has an output.
    pub window: Option<usize>,
}

/// Meaning of an input that controls the steps and that no node reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// Number of valid steps of each sequence, or of all: `[batch]` or `[1]`. Later steps leave the states unchanged.
    Length,
    /// `[batch, time]`: 0 at masked steps, which leave the states unchanged.
    Mask,
    /// `[batch, time]`: 0 at steps that are not masked.
    Padding,
    /// `[batch, time]`: 1 where every state is reset to zero before the step.
    Reset,
}

/// The framework's output for a masked step.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Idle {
    /// Zeros.
    #[default]
    Zero,
    /// The output of the previous step; zeros for the first.
    Repeat,
    /// A constant.
    Always(Vec<f32>),
}

/// Position of a node's state in the tensors of a case.
#[derive(Clone, Debug, PartialEq)]
pub struct StatePart {
    /// Name of the node in the model.
    pub node: String,
    /// As in its [`CellSpec::states`](tidegate::internals::cell::CellSpec::states).
    pub state: &'static str,
    /// Position in the case.
    pub at: At,
}

/// An input of the network or the output of a layer, for other layers to read.
#[derive(Clone, Debug)]
pub struct Source {
    name: String,
    size: usize,
    /// Number of rows of a window.
    rows: Option<usize>,
}

/// Order in which a layer processes the rows of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// First row first; the only order outside of a window.
    Forward,
    /// Last row first; its outputs are in the order of the inputs.
    Backward,
    /// Last row first; its outputs are in processing order.
    BackwardAsProcessed,
}

impl Source {
    /// Number of features, of each row if there are several.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Name of the node or the input.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether both are the same value.
    pub fn is(&self, other: &Self) -> bool {
        self.name == other.name
    }

    /// Number of rows of a window, if there are several.
    pub fn rows(&self) -> Option<usize> {
        self.rows
    }

    /// The rows flattened into one.
    #[must_use]
    pub fn flat(self) -> Self {
        Self { size: self.size.saturating_mul(self.rows.unwrap_or(1)), rows: None, ..self }
    }

    /// The value split into `rows` rows: the inverse of flattening.
    #[must_use]
    pub fn in_rows(self, rows: usize) -> Self {
        Self { size: self.size / rows.max(1), rows: Some(rows), ..self }
    }
}

/// Builder of a network; layers are added in execution order.
#[derive(Clone, Debug, Default)]
pub struct Network {
    inputs: Vec<Port>,
    nodes: Vec<Node>,
    outputs: Vec<Port>,
    /// Names of inputs and nodes, and the number of nodes of each cell.
    names: HashSet<String>,
    kinds: HashMap<String, usize>,
    /// Memory for the weights of its layers, if they come from a file.
    budget: Option<Budget>,
    /// Set once the weights have exceeded the budget.
    costly: Option<TooCostly>,
    tensors: BTreeMap<String, Tensor>,
    states: Vec<StatePart>,
    traces: Vec<StatePart>,
    /// Integer forms of values.
    integers: BTreeMap<String, Integers>,
    /// Output of a masked step.
    pub idle: Idle,
    /// Whether the framework returns only the output of the last step that is not masked.
    pub last_only: bool,
    /// Whether outputs are in processing order while time runs from the last step to the first.
    pub reversed: bool,
    window: Option<usize>,
    /// Whether layers over the rows of a window start at zero in each window; otherwise the state is carried on.
    pub fresh: bool,
    /// Whether any layer has a state that starts at zero with each sequence.
    pub forgets: bool,
}

impl Network {
    /// A network without layers.
    pub fn new() -> Self {
        Self::default()
    }

    /// Limits the weights of its layers, which may share the tensors of a file. [`model`](Self::model) returns the error.
    pub(crate) fn limit(&mut self, budget: Budget) {
        self.budget = Some(budget);
    }

    /// Whether the weights are within the budget so far.
    pub(crate) fn is_within(&self) -> Result<()> {
        self.costly.map_or(Ok(()), |error| Err(error.into()))
    }

    /// Adds a tensor, unless the budget is exceeded.
    fn insert(&mut self, name: String, tensor: Tensor) {
        let Some(budget) = &mut self.budget else {
            self.tensors.insert(name, tensor);
            return;
        };
        match budget.take(tensor.data.len(), WEIGHT) {
            Ok(()) => drop(self.tensors.insert(name, tensor)),
            Err(error) => self.costly = Some(error),
        }
    }

    /// Connects layers in sequence, from input port `input` to output port `output`.
    ///
    /// # Errors
    /// If there is no layer.
    pub fn chain(input: &str, layers: Vec<Layer>, output: &str) -> Result<Self> {
        let first = layers.first().ok_or_else(|| ImportError::Unsupported("a network without layers".into()))?;
        let mut network = Self::new();
        let mut last = network.input(input, first.input_size);
        for layer in layers {
            last = network.add(layer, &[&last]);
        }
        network.output(output, &last);
        Ok(network)
    }

    /// One layer, from `input` to `output`.
    pub fn of(layer: Layer) -> Self {
        let mut network = Self::new();
        let input = network.input("input", layer.input_size);
        let output = network.add(layer, &[&input]);
        network.output("output", &output);
        network
    }

    /// Adds an input port.
    pub fn input(&mut self, name: &str, size: usize) -> Source {
        self.names.insert(name.to_owned());
        self.inputs.push(Port { name: name.to_owned(), size, ..Port::default() });
        Source { name: name.to_owned(), size, rows: None }
    }

    /// Sets the number of steps that an input has in one call of the framework.
    pub fn called_with(&mut self, input: &str, rows: usize) {
        for port in self.inputs.iter_mut().filter(|port| port.name == input) {
            port.rows = Some(rows);
        }
    }

    /// Notes that an input is a whole window of frames with this many features.
    pub fn called_with_frames(&mut self, input: &str, features: usize) {
        for port in self.inputs.iter_mut().filter(|port| port.name == input) {
            (port.rows, port.frame) = (Some(1), Some(features));
        }
    }

    /// The last `rows` steps of `x`, as rows that layers can process in both directions.
    pub fn window(&mut self, x: &Source, rows: usize) -> Source {
        let mut window = Layer::new(CellKind::Window, x.size, x.size.saturating_mul(rows)).option("partial");
        window = window.extent("length", rows).extent("hop", rows);
        self.window = Some(rows);
        Source { size: x.size, rows: Some(rows), ..self.add(window, &[x]) }
    }

    /// Adds a layer that reads the concatenated inputs, row by row if they have several rows. It is named after its
    /// cell: `gru`, `gru_2`, `dense`.
    pub fn add(&mut self, layer: Layer, inputs: &[&Source]) -> Source {
        self.directed(layer, inputs, Direction::Forward)
    }

    /// Adds a layer in this direction. Over rows, the state is carried from window to window, so that a case can define
    /// the initial one, unless the network is `fresh`.
    pub fn directed(&mut self, mut layer: Layer, inputs: &[&Source], direction: Direction) -> Source {
        let rows = inputs.iter().find_map(|source| source.rows);
        layer.unroll = rows.map(|steps| Unroll {
            steps,
            read_backwards: direction != Direction::Forward,
            write_backwards: direction == Direction::Backward,
            stateful: !self.fresh,
            apart: false,
        });
        Source { rows, ..self.push(layer, inputs) }
    }

    /// Adds a layer that runs over the rows, each with a state of its own that is carried from step to step.
    pub(crate) fn apart(&mut self, mut layer: Layer, inputs: &[&Source]) -> Source {
        let rows = inputs.iter().find_map(|source| source.rows);
        layer.unroll = rows.map(|steps| Unroll { stateful: true, apart: true, ..Unroll::over(steps) });
        Source { rows, ..self.push(layer, inputs) }
    }

    /// Sets that an incomplete window at the end of a sequence has no output, since its rows are evaluated together.
    pub fn only_full_windows(&mut self) {
        for node in self.nodes.iter_mut().filter(|node| node.cell == CellKind::Window.spec().name) {
            node.options.clear();
        }
    }

    /// Adds a layer that reads all rows of `input` at once; its output has `rows` rows, if any.
    pub fn whole(&mut self, layer: Layer, input: &Source, rows: Option<usize>) -> Source {
        self.only_full_windows();
        let size = layer.output_size / rows.unwrap_or(1).max(1);
        Source { rows, size, ..self.push(layer, &[input]) }
    }

    /// The last `length` steps of `x` as rows, every `hop` steps. There is no output before `length` steps, of which
    /// the first `zeros` are present from the start.
    pub fn frames(&mut self, x: &Source, length: usize, hop: usize, zeros: usize) -> Source {
        let size = x.size.saturating_mul(length);
        let window = Layer::new(CellKind::Window, x.size, size).extent("length", length).extent("hop", hop);
        let window = if zeros > 0 { window.extent("prefill", zeros) } else { window };
        Source { size: x.size, rows: Some(length), ..self.push(window, &[x]) }
    }

    /// Elements `first` to `first + size` of `x`, of each row if it has several.
    pub fn part(&mut self, x: &Source, first: usize, size: usize) -> Source {
        let layer = Layer::new(CellKind::Slice, x.size, size).extent("row", x.size).extent("first", first);
        self.add(layer, &[x])
    }

    /// `x` repeated as `rows` equal rows.
    pub fn repeated(&mut self, x: &Source, rows: usize) -> Source {
        let layer = Layer::new(CellKind::Repeat, x.size, x.size.saturating_mul(rows)).extent("times", rows);
        Source { size: x.size, rows: Some(rows), ..self.push(layer, &[x]) }
    }

    /// The last of several rows that is not masked, or the first row with `first`. A value without rows is unchanged.
    pub fn last(&mut self, x: &Source, first: bool) -> Source {
        let Some(rows) = x.rows else { return x.clone() };
        let layer = Layer::new(CellKind::Last, x.size.saturating_mul(rows), x.size).extent("steps", rows);
        self.push(if first { layer.option("first") } else { layer }, &[x])
    }

    /// Embeds another network, whose input ports are `inputs` in order. Over rows, its layers run once for each row,
    /// and its window is that of the rows. Returns its output ports.
    ///
    /// # Errors
    /// If it has other input ports, or has layers over a window where there is none.
    pub fn embed(&mut self, part: Self, inputs: &[&Source]) -> Result<Vec<Source>> {
        if part.inputs.len() != inputs.len() {
            let names: Vec<&str> = part.inputs.iter().map(|port| port.name.as_str()).collect();
            let of = format!("{} inputs where the layer has {} ({})", inputs.len(), names.len(), names.join(", "));
            return Err(ImportError::Unsupported(of));
        }
        let mut known: HashMap<String, Source> = HashMap::new();
        for (port, &source) in part.inputs.iter().zip(inputs) {
            let (size, found) = (port.size, source.size);
            unsupported_if(size != found, format_args!("an input of {found} features where the layer takes {size}"))?;
            known.insert(port.name.clone(), source.clone());
        }
        let windowed = part.window.is_some();
        let window = CellKind::Window.spec().name;
        let mut tensors = part.tensors;
        for mut node in part.nodes {
            let sources: Vec<Source> = node.inputs.iter().filter_map(|name| known.get(name).cloned()).collect();
            let rows = sources.iter().find_map(|source| source.rows);
            let given = node.name.clone();
            if node.cell == window {
                let length = node.extents.get("length").copied();
                match sources.as_slice() {
                    [x] if x.rows.is_some() && x.rows == length => known.insert(given, x.clone()),
                    _ => return Err(ImportError::NeedsWindow { what: "a layer that runs backwards".into() }),
                };
                continue;
            }
            let stateful = !self.fresh;
            if let Some(unroll) = &mut node.unroll {
                unroll.stateful = stateful;
            } else if let (Some(steps), false) = (rows, windowed) {
                node.unroll = Some(Unroll { stateful, ..Unroll::over(steps) });
            }
            let remembers = CellKind::from_name(&node.cell).is_some_and(|kind| !kind.spec().states.is_empty());
            self.forgets |= self.fresh && remembers;
            node.name = self.free_name(&node.cell);
            node.inputs = sources.iter().map(|source| source.name.clone()).collect();
            let prefix = format!("{given}.");
            for (name, tensor) in tensors.extract_if(.., |name, _| name.starts_with(&prefix)) {
                self.insert(format!("{}.{}", node.name, &name[prefix.len()..]), tensor);
            }
            let rows = node.unroll.map(|unroll| unroll.steps);
            known.insert(given, Source { name: node.name.clone(), size: node.output_size, rows });
            self.nodes.push(node);
        }
        Ok(part.outputs.iter().filter_map(|port| known.get(&port.from).cloned()).collect())
    }

    /// An unused name for a node: that of the cell, with a number unless it is the first.
    fn free_name(&mut self, kind: &str) -> String {
        // An input port may have the name of a cell; nodes and inputs share one name space.
        let mut name = kind.to_owned();
        let count = self.kinds.entry(kind.to_owned()).or_default();
        let mut number = 1 + (*count).max(1);
        *count += 1;
        while self.names.contains(&name) {
            name = format!("{kind}_{number}");
            number += 1;
        }
        self.names.insert(name.clone());
        name
    }

    /// Adds a node with an output of one row.
    fn push(&mut self, layer: Layer, inputs: &[&Source]) -> Source {
        let name = self.free_name(layer.kind.spec().name);
        self.forgets |= self.fresh && !layer.kind.spec().states.is_empty();
        let inputs = inputs.iter().map(|source| source.name.clone()).collect();
        self.nodes.push(layer.node(&name, inputs));
        let part = |(state, at)| StatePart { node: name.clone(), state, at };
        self.states.extend(layer.states.into_iter().map(part));
        self.traces.extend(layer.traces.into_iter().map(part));
        for (tensor, value) in layer.tensors {
            self.insert(format!("{name}.{tensor}"), value);
        }
        Source { name, size: layer.output_size, rows: None }
    }

    /// Concatenates values; a single one needs no layer.
    pub fn concat(&mut self, parts: &[Source]) -> Source {
        match parts {
            [one] => one.clone(),
            parts => {
                let size = parts.iter().map(Source::size).sum();
                self.add(Layer::identity(size), &parts.iter().collect::<Vec<_>>())
            }
        }
    }

    /// Calls `add`, and renames the states that it adds to their names in the case of the whole network.
    ///
    /// # Errors
    /// The errors of `add`.
    pub fn renamed<T>(&mut self, name: impl Fn(&str) -> String, add: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let (states, traces) = (self.states.len(), self.traces.len());
        let added = add(self)?;
        for part in self.states[states..].iter_mut().chain(&mut self.traces[traces..]) {
            part.at.tensor = name(&part.at.tensor);
        }
        Ok(added)
    }

    /// Calls `add`, and shifts the states that it adds to start at the feature `from` of their tensor. Also returns
    /// their end.
    ///
    /// # Errors
    /// The errors of `add`.
    pub fn states_from<T>(&mut self, from: usize, add: impl FnOnce(&mut Self) -> Result<T>) -> Result<(T, usize)> {
        let before = self.states.len();
        let added = add(self)?;
        let mut end = from;
        for part in &mut self.states[before..] {
            let whole = || {
                let node = self.nodes.iter().find(|node| node.name == part.node)?;
                let spec = CellKind::from_name(&node.cell)?.spec();
                let state = spec.states.iter().find(|state| state.name == part.state)?;
                node.dim(spec, &state.len)
            };
            part.at.from += from;
            end = end.max(part.at.from + part.at.len.or_else(whole).unwrap_or(0));
        }
        Ok((added, end))
    }

    /// Sets the integer form of a value and of its node.
    pub fn counts(&mut self, source: &Source, integers: Integers) {
        self.integers.insert(source.name.clone(), integers);
    }

    /// Adds an output port.
    pub fn output(&mut self, name: &str, from: &Source) {
        let size = from.size.saturating_mul(from.rows.unwrap_or(1));
        self.outputs.push(Port { name: name.to_owned(), size, from: from.name.clone(), ..Port::default() });
    }

    /// The node that computes a value; `None` for an input.
    pub(crate) fn node(&self, source: &Source) -> Option<&Node> {
        self.nodes.iter().rev().find(|node| node.name == source.name)
    }

    /// Whether it has an input port of this name.
    pub fn has_input(&self, name: &str) -> bool {
        self.inputs.iter().any(|port| port.name == name)
    }

    /// Builds the canonical model.
    ///
    /// # Errors
    /// If the layers do not make a valid model.
    pub fn model(self, source: String) -> Result<Canonical> {
        self.is_within()?;
        let architecture = Architecture {
            version: 1,
            source,
            inputs: self.inputs,
            nodes: in_order(self.nodes)?,
            outputs: self.outputs,
            labels: Vec::new(),
            front_end: None,
            schedule: Schedule::Endless,
            detector: None,
            integers: self.integers,
        };
        let model = Canonical { architecture, tensors: self.tensors };
        model.validate()?;
        Ok(model)
    }
}

/// The nodes in an order in which every node with a state runs as often as it reads values.
///
/// A step ends at the first window that is not full. A node behind it misses this step, although nothing that it reads may
/// come from the window. So nodes with a state that depend on no window, and what they read, come first.
///
/// # Errors
/// If a node with a state would still miss steps, because of a window that it does not depend on.
fn in_order(nodes: Vec<Node>) -> Result<Vec<Node>> {
    let is_of = |node: &Node, of: fn(CellKind) -> bool| CellKind::from_name(&node.cell).is_some_and(of);
    let has_state = |node: &Node| is_of(node, |kind| !kind.spec().states.is_empty());
    // Whether a window has no output in some steps: it hops, or its prefill and the first row do not fill it.
    let waits = |node: &Node| {
        is_of(node, CellKind::is_buffered)
            && (node.extent("hop") > 1 || node.extent("length") > node.extent("prefill") + 1)
    };
    let Some(first) = nodes.iter().position(waits) else { return Ok(nodes) };
    // The windows that each node depends on, itself included.
    let mut windows: HashMap<&str, BTreeSet<&str>> = HashMap::new();
    for node in &nodes {
        let read = node.inputs.iter().filter_map(|input| windows.get(input.as_str()));
        let mut own: BTreeSet<&str> = read.flatten().copied().collect();
        if waits(node) {
            own.insert(&node.name);
        }
        windows.insert(&node.name, own);
    }
    let is_free = |node: &Node| windows[node.name.as_str()].is_empty();
    let mut moved: HashSet<&str> = HashSet::new();
    if nodes[first..].iter().any(|node| has_state(node) && is_free(node)) {
        for node in nodes.iter().rev() {
            if moved.contains(node.name.as_str()) || (has_state(node) && is_free(node)) {
                moved.insert(&node.name);
                moved.extend(node.inputs.iter().map(String::as_str));
            }
        }
    }
    let order = nodes.iter().filter(|node| moved.contains(node.name.as_str()));
    let order = order.chain(nodes.iter().filter(|node| !moved.contains(node.name.as_str())));
    let mut before: BTreeSet<&str> = BTreeSet::new();
    for node in order.clone() {
        let own = &windows[node.name.as_str()];
        let missed = before.difference(own).next().filter(|_| has_state(node));
        if let Some(window) = missed {
            let name = &node.name;
            return Err(ImportError::Refused {
                found: format!("node {name:?} would miss the steps in which window {window:?} beside it is not full"),
                advice: "export each branch as a network of its own, or open an issue with the model",
            });
        }
        before.extend(own);
    }
    Ok(order.cloned().collect())
}

impl Conversion {
    /// Builds the model of a network whose ports and states have the names of a case.
    ///
    /// # Errors
    /// If the layers do not make a valid model.
    pub fn new(source: String, mut network: Network, controls: Vec<(String, Control)>) -> Result<Self> {
        let (states, traces) = (std::mem::take(&mut network.states), std::mem::take(&mut network.traces));
        let (idle, window) = (std::mem::take(&mut network.idle), network.window);
        let (last_only, reversed) = (network.last_only, network.reversed);
        Ok(Self { model: network.model(source)?, states, traces, controls, idle, last_only, reversed, window })
    }
}

#[cfg(test)]
mod tests {
    use super::Network;

    /// A network of windows of these lengths and prefills, in this order, over one input.
    fn windows(of: &[(usize, usize)]) -> Network {
        let mut network = Network::new();
        let x = network.input("x", 2);
        for (at, &(length, prefill)) in of.iter().enumerate() {
            let window = network.frames(&x, length, 1, prefill);
            network.output(&format!("y{at}"), &window.flat());
        }
        network
    }

    #[test]
    fn a_state_that_no_window_feeds_comes_before_a_window_that_waits() {
        // The second window is full at each step.
        let model = windows(&[(4, 0), (3, 2)]).model(String::new()).unwrap();
        let lengths: Vec<usize> = model.architecture.nodes.iter().map(|node| node.extent("length")).collect();
        assert_eq!(lengths, [3, 4]);
    }

    #[test]
    fn a_window_beside_another_that_waits_is_refused() {
        let refused = windows(&[(4, 0), (5, 0)]).model(String::new()).map(drop).unwrap_err().to_string();
        assert!(refused.contains("would miss the steps in which window \"window\" beside it is not full"), "{refused}");
    }
}
