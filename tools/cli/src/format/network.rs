//! A network on its way into a canonical model: layers that read inputs or earlier layers, each under a name of its
//! own, and where a golden case holds their states.

use std::collections::BTreeMap;

use tidegate::cell::CellKind;

use super::golden::Control;
use super::layer::{At, Layer};
use crate::canonical::{Architecture, Canonical, Node, Port, Schedule, Tensor, Unroll};
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
    /// Rows of the window that the model looks at, and of each of its outputs: it gives them once the window is full,
    /// or at the end of the sequence. None: each step gives an output.
    pub window: Option<usize>,
}

/// What the framework has for an output where a step does not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Idle {
    /// Zeros.
    #[default]
    Zero,
    /// The output of the step before; zeros where there is none.
    Repeat,
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
    /// What a step gives that does not count.
    pub idle: Idle,
    window: Option<usize>,
    /// Whether states begin at zero in each window, where else they are carried from window to window.
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
        let mut window = Layer::new(CellKind::Window, x.size, x.size * rows).option("partial");
        window = window.extent("length", rows).extent("hop", rows);
        self.window = Some(rows);
        Source { size: x.size, rows: Some(rows), ..self.add(window, &[x]) }
    }

    /// A layer that reads these, one after the other, and each of their rows if they have several. It is named after
    /// its cell: `gru`, `gru_2`, `dense`.
    pub fn add(&mut self, layer: Layer, inputs: &[&Source]) -> Source {
        self.directed(layer, inputs, Direction::Forward)
    }

    /// A layer that reads all rows of a window at once, and gives one vector, or so many rows of so many features.
    pub fn whole(&mut self, layer: Layer, x: &Source, rows: Option<(usize, usize)>) -> Source {
        let source = self.named(layer, &[x]);
        match rows {
            Some((rows, size)) => Source { size, rows: Some(rows), ..source },
            None => source,
        }
    }

    /// The same in this direction. Over rows the state is carried from window to window, so that a case can give the
    /// first.
    pub fn directed(&mut self, mut layer: Layer, inputs: &[&Source], direction: Direction) -> Source {
        let rows = inputs.iter().find_map(|source| source.rows);
        layer.unroll = rows.map(|steps| Unroll {
            steps,
            read_backwards: direction != Direction::Forward,
            write_backwards: direction == Direction::Backward,
            stateful: !self.forgets,
        });
        Source { rows, ..self.named(layer, inputs) }
    }

    fn named(&mut self, layer: Layer, inputs: &[&Source]) -> Source {
        let kind = layer.kind.spec().name;
        // An input port may bear a cell's name; nodes and inputs share one name space.
        let taken = |name: &str| {
            self.inputs.iter().any(|port| port.name == name) || self.nodes.iter().any(|node| node.name == name)
        };
        let mut name = kind.to_owned();
        let mut number = 2;
        while taken(&name) {
            name = format!("{kind}_{number}");
            number += 1;
        }
        let inputs = inputs.iter().map(|source| source.name.clone()).collect();
        self.nodes.push(layer.node(&name, inputs));
        let part = |(state, at)| StatePart { node: name.clone(), state, at };
        self.states.extend(layer.states.into_iter().map(part));
        self.traces.extend(layer.traces.into_iter().map(part));
        self.tensors.extend(layer.tensors.into_iter().map(|(tensor, value)| (format!("{name}.{tensor}"), value)));
        Source { name, size: layer.output_size, rows: None }
    }

    /// These, one after the other, as one.
    ///
    /// # Errors
    /// If this build has no cell that does so.
    pub fn concat(&mut self, parts: &[&Source]) -> Result<Source, ImportError> {
        Ok(self.add(Layer::identity(parts.iter().map(|part| part.size).sum())?, parts))
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

    /// A new output port.
    pub fn output(&mut self, name: &str, from: &Source) {
        self.outputs.push(Port {
            name: name.to_owned(),
            size: from.size * from.rows.unwrap_or(1),
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
        let (idle, window) = (network.idle, network.window);
        Ok(Self { model: network.model(source)?, states, traces, controls, idle, window })
    }
}
