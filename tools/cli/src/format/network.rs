//! A network on its way into a canonical model: layers that read inputs or earlier layers, each under a name of its
//! own, and where a golden case holds their states.

use std::collections::BTreeMap;

use tidegate::cell::CellKind;

use super::golden::Control;
use super::layer::{At, Layer};
use crate::canonical::{Architecture, Canonical, Integers, Node, Port, Schedule, Tensor, Unroll};
use crate::error::ImportError;

/// A canonical model and how a golden case runs through it.
#[derive(Clone, Debug)]
pub struct Conversion {
    /// Its ports have the names of the case's tensors.
    pub model: Canonical,
    /// Where `initial_*` and `final_*` hold the states of its nodes. A state without a part begins at zero.
    pub states: Vec<StatePart>,
    /// Outputs `output_*` that are states after each step.
    pub traces: Vec<StatePart>,
    /// Inputs that say which steps count.
    pub controls: Vec<(String, Control)>,
    /// What a step gives that does not count.
    pub idle: Idle,
    /// Whether the framework has only what the last step that counts gives, `[batch, ...]`.
    pub last_only: bool,
    /// Whether outputs stand in the order in which they are made while time goes from the last step to the first.
    pub reversed: bool,
    /// Rows of the window that the model looks at, and of each of its outputs: it gives them once the window is full,
    /// or at the end of the sequence. None: each step gives an output.
    pub window: Option<usize>,
}

/// What the framework has for an output where a step does not count.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Idle {
    /// Zeros.
    #[default]
    Zero,
    /// The output of the step before; zeros where there is none.
    Repeat,
    /// This.
    Always(Vec<f32>),
}

/// Where the tensors of a case hold a state of a node.
#[derive(Clone, Debug, PartialEq)]
pub struct StatePart {
    /// Its name in the model.
    pub node: String,
    /// As in its [`CellSpec::states`](tidegate::cell::CellSpec::states).
    pub state: &'static str,
    /// In the case.
    pub at: At,
}

/// An input of the network or the output of a layer, for other layers to read.
#[derive(Clone, Debug)]
pub struct Source {
    name: String,
    size: usize,
    /// Of a window.
    rows: Option<usize>,
}

/// In which order a layer goes through the rows of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// First row first. Outside of a window there is no other.
    Forward,
    /// Last row first; its outputs stand beside their inputs.
    Backward,
    /// Last row first; its outputs stand in the order in which it made them.
    BackwardAsProcessed,
}

impl Source {
    /// Features, of each row if there are several.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Of the node or the input.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it is the same value.
    pub fn is(&self, other: &Self) -> bool {
        self.name == other.name
    }

    /// Rows of a window, if it has several.
    pub fn rows(&self) -> Option<usize> {
        self.rows
    }

    /// The rows one after the other as one.
    #[must_use]
    pub fn flat(self) -> Self {
        Self { size: self.size.saturating_mul(self.rows.unwrap_or(1)), rows: None, ..self }
    }

    /// So many rows of what it has: the other way round.
    #[must_use]
    pub fn in_rows(self, rows: usize) -> Self {
        Self { size: self.size / rows.max(1), rows: Some(rows), ..self }
    }
}

/// Layers, added in execution order.
#[derive(Clone, Debug, Default)]
pub struct Network {
    inputs: Vec<Port>,
    nodes: Vec<Node>,
    outputs: Vec<Port>,
    tensors: BTreeMap<String, Tensor>,
    states: Vec<StatePart>,
    traces: Vec<StatePart>,
    /// What values count that are in integers.
    integers: BTreeMap<String, Integers>,
    /// What a step gives that does not count.
    pub idle: Idle,
    /// Whether the framework has only what the last step that counts gives.
    pub last_only: bool,
    /// Whether outputs stand in the order in which they are made while time goes from the last step to the first.
    pub reversed: bool,
    window: Option<usize>,
    /// Whether layers over the rows of a window begin each at zero; else the state is carried from window to window.
    pub fresh: bool,
    /// Whether anything has a state that begins at zero with each sequence.
    pub forgets: bool,
}

impl Network {
    /// A network without layers.
    pub fn new() -> Self {
        Self::default()
    }

    /// Layers one after the other, from input port `input` to output port `output`.
    ///
    /// # Errors
    /// If there is no layer.
    pub fn chain(input: &str, layers: Vec<Layer>, output: &str) -> Result<Self, ImportError> {
        let Some(first) = layers.first() else {
            return Err(ImportError::Unsupported("a network without layers".into()));
        };
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

    /// A new input port.
    pub fn input(&mut self, name: &str, size: usize) -> Source {
        self.inputs.push(Port { name: name.to_owned(), size, from: String::new() });
        Source { name: name.to_owned(), size, rows: None }
    }

    /// The last `rows` steps of `x` as rows that layers can go through in both directions.
    pub fn window(&mut self, x: &Source, rows: usize) -> Source {
        let mut window = Layer::new(CellKind::Window, x.size, x.size.saturating_mul(rows)).option("partial");
        window = window.extent("length", rows).extent("hop", rows);
        self.window = Some(rows);
        Source { size: x.size, rows: Some(rows), ..self.add(window, &[x]) }
    }

    /// A layer that reads these, one after the other, and each of their rows if they have several. It is named after
    /// its cell: `gru`, `gru_2`, `dense`.
    pub fn add(&mut self, layer: Layer, inputs: &[&Source]) -> Source {
        self.directed(layer, inputs, Direction::Forward)
    }

    /// The same in this direction. Over rows the state is carried from window to window, so that a case can give the
    /// first, unless the network is `fresh`.
    pub fn directed(&mut self, mut layer: Layer, inputs: &[&Source], direction: Direction) -> Source {
        let rows = inputs.iter().find_map(|source| source.rows);
        layer.unroll = rows.map(|steps| Unroll {
            steps,
            read_backwards: direction != Direction::Forward,
            write_backwards: direction == Direction::Backward,
            stateful: !self.fresh,
        });
        Source { rows, ..self.push(layer, inputs) }
    }

    /// From now on a window that is not full at the end of a sequence gives nothing: its rows are looked at together.
    pub fn only_full_windows(&mut self) {
        for node in self.nodes.iter_mut().filter(|node| node.cell == CellKind::Window.spec().name) {
            node.options.clear();
        }
    }

    /// A layer that reads all rows of `input` at once; its own output are `rows` rows, if any.
    pub fn whole(&mut self, layer: Layer, input: &Source, rows: Option<usize>) -> Source {
        self.only_full_windows();
        let size = layer.output_size / rows.unwrap_or(1).max(1);
        Source { rows, size, ..self.push(layer, &[input]) }
    }

    /// The last `length` steps of `x`, every `hop` steps, as rows; without an output before there are so many, of which
    /// the first `zeros` are there from the start.
    pub fn frames(&mut self, x: &Source, length: usize, hop: usize, zeros: usize) -> Source {
        let size = x.size.saturating_mul(length);
        let window = Layer::new(CellKind::Window, x.size, size).extent("length", length).extent("hop", hop);
        let window = if zeros > 0 { window.extent("prefill", zeros) } else { window };
        Source { size: x.size, rows: Some(length), ..self.push(window, &[x]) }
    }

    /// `x` as so many rows that are all the same.
    pub fn repeated(&mut self, x: &Source, rows: usize) -> Source {
        let layer = Layer::new(CellKind::Repeat, x.size, x.size.saturating_mul(rows)).extent("times", rows);
        Source { size: x.size, rows: Some(rows), ..self.push(layer, &[x]) }
    }

    /// The last row of several that counts, or with `first` the first; what has no rows is as it was.
    pub fn last(&mut self, x: &Source, first: bool) -> Source {
        let Some(rows) = x.rows else { return x.clone() };
        let layer = Layer::new(CellKind::Last, x.size.saturating_mul(rows), x.size).extent("steps", rows);
        self.push(if first { layer.option("first") } else { layer }, &[x])
    }

    /// The layers of another network, whose input ports are `inputs` in their order. Over rows its layers run once for
    /// each row, and the window that they look at is that of the rows. Gives its output ports.
    ///
    /// # Errors
    /// If it has other input ports, or layers that look at a window where there is none.
    pub fn embed(&mut self, part: Self, inputs: &[&Source]) -> Result<Vec<Source>, ImportError> {
        if part.inputs.len() != inputs.len() {
            let names: Vec<&str> = part.inputs.iter().map(|port| port.name.as_str()).collect();
            let of = format!("{} inputs where the layer has {} ({})", inputs.len(), names.len(), names.join(", "));
            return Err(ImportError::Unsupported(of));
        }
        let mut known: BTreeMap<String, Source> = BTreeMap::new();
        for (port, &source) in part.inputs.iter().zip(inputs) {
            if port.size != source.size {
                let of = format!("an input of {} features where the layer takes {}", source.size, port.size);
                return Err(ImportError::Unsupported(of));
            }
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
            if let Some(unroll) = &mut node.unroll {
                unroll.stateful = !self.fresh;
            } else if let (Some(steps), false) = (rows, windowed) {
                let stateful = !self.fresh;
                node.unroll = Some(Unroll { steps, read_backwards: false, write_backwards: false, stateful });
            }
            let remembers = CellKind::from_name(&node.cell).is_some_and(|kind| !kind.spec().states.is_empty());
            self.forgets |= self.fresh && remembers;
            node.name = self.free_name(&node.cell);
            node.inputs = sources.iter().map(|source| source.name.clone()).collect();
            let prefix = format!("{given}.");
            for (name, tensor) in tensors.extract_if(.., |name, _| name.starts_with(&prefix)) {
                self.tensors.insert(format!("{}.{}", node.name, &name[prefix.len()..]), tensor);
            }
            let rows = node.unroll.map(|unroll| unroll.steps);
            known.insert(given, Source { name: node.name.clone(), size: node.output_size, rows });
            self.nodes.push(node);
        }
        Ok(part.outputs.iter().filter_map(|port| known.get(&port.from).cloned()).collect())
    }

    /// A name that neither an input port nor a node has: the cell's, with a number where it is not the first.
    fn free_name(&self, kind: &str) -> String {
        // An input port may bear a cell's name; nodes and inputs share one name space.
        let taken = |name: &str| {
            self.inputs.iter().any(|port| port.name == name) || self.nodes.iter().any(|node| node.name == name)
        };
        let mut name = kind.to_owned();
        let mut number = 1 + self.nodes.iter().filter(|node| node.cell == kind).count().max(1);
        while taken(&name) {
            name = format!("{kind}_{number}");
            number += 1;
        }
        name
    }

    /// A new node, which gives one row.
    fn push(&mut self, layer: Layer, inputs: &[&Source]) -> Source {
        let name = self.free_name(layer.kind.spec().name);
        self.forgets |= self.fresh && !layer.kind.spec().states.is_empty();
        let inputs = inputs.iter().map(|source| source.name.clone()).collect();
        self.nodes.push(layer.node(&name, inputs));
        let part = |(state, at)| StatePart { node: name.clone(), state, at };
        self.states.extend(layer.states.into_iter().map(part));
        self.traces.extend(layer.traces.into_iter().map(part));
        self.tensors.extend(layer.tensors.into_iter().map(|(tensor, value)| (format!("{name}.{tensor}"), value)));
        Source { name, size: layer.output_size, rows: None }
    }

    /// These, one after the other, as one; nothing is added for one alone.
    pub fn concat(&mut self, parts: &[Source]) -> Source {
        match parts {
            [one] => one.clone(),
            parts => {
                let size = parts.iter().map(Source::size).sum();
                self.add(Layer::identity(size), &parts.iter().collect::<Vec<_>>())
            }
        }
    }

    /// What `add` adds, whose states have other names in the case of the whole network.
    ///
    /// # Errors
    /// Those of `add`.
    pub fn renamed<T>(
        &mut self,
        rename: impl Fn(&str) -> String,
        add: impl FnOnce(&mut Self) -> Result<T, ImportError>,
    ) -> Result<T, ImportError> {
        let (states, traces) = (self.states.len(), self.traces.len());
        let added = add(self)?;
        for part in self.states[states..].iter_mut().chain(&mut self.traces[traces..]) {
            part.at.tensor = rename(&part.at.tensor);
        }
        Ok(added)
    }

    /// What `add` adds, whose states stand from the feature `from` on in the tensor that holds them, and where they end.
    ///
    /// # Errors
    /// Those of `add`.
    pub fn states_from<T>(
        &mut self,
        from: usize,
        add: impl FnOnce(&mut Self) -> Result<T, ImportError>,
    ) -> Result<(T, usize), ImportError> {
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

    /// Says what a value counts in integers, and how its node computes with them.
    pub fn counts(&mut self, source: &Source, integers: Integers) {
        self.integers.insert(source.name.clone(), integers);
    }

    /// A new output port.
    pub fn output(&mut self, name: &str, from: &Source) {
        self.outputs.push(Port {
            name: name.to_owned(),
            size: from.size.saturating_mul(from.rows.unwrap_or(1)),
            from: from.name.clone(),
        });
    }

    /// Whether it has an input port of this name.
    pub fn has_input(&self, name: &str) -> bool {
        self.inputs.iter().any(|port| port.name == name)
    }

    /// The canonical model.
    ///
    /// # Errors
    /// If the layers do not make a valid model.
    pub fn model(self, source: String) -> Result<Canonical, ImportError> {
        let architecture = Architecture {
            version: 1,
            source,
            inputs: self.inputs,
            nodes: self.nodes,
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

impl Conversion {
    /// Of a network whose ports and states have the names that a case has.
    ///
    /// # Errors
    /// If the layers do not make a valid model.
    pub fn new(source: String, mut network: Network, controls: Vec<(String, Control)>) -> Result<Self, ImportError> {
        let (states, traces) = (std::mem::take(&mut network.states), std::mem::take(&mut network.traces));
        let (idle, window) = (std::mem::take(&mut network.idle), network.window);
        let (last_only, reversed) = (network.last_only, network.reversed);
        Ok(Self { model: network.model(source)?, states, traces, controls, idle, last_only, reversed, window })
    }
}
