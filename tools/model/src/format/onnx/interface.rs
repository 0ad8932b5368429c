//! Maps the tensors of a graph to the inputs and outputs of its network: by the graph's names, with all sequences of a
//! batch and all steps at once.

use std::collections::{BTreeSet, HashMap};

use tidegate::{Model, State};

use super::graph::{GraphInput, Output, Session, Stop};
use super::made::StateOf;
use super::value::{Element, Value, strides};
use super::{Lens, Role, proto::GraphProto};
use crate::format::description::Tensors;
use crate::format::refuse::{err_if, fail_if};
use crate::{backend::Engine, canonical::Tensor, runner::check_room};

/// Why tensors cannot be run through a graph.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InterfaceError(String);

/// The tensors of a graph and their places in the network.
#[derive(Clone, Debug, PartialEq)]
pub struct Interface {
    inputs: Vec<InputTensor>,
    outputs: Vec<OutputTensor>,
    states: Vec<StateTensor>,
    lens: Option<Lens>,
    /// Names of the graph's weights and outputs, which may be given beside the inputs.
    others: BTreeSet<String>,
    windowed: bool,
}

/// The layout of a tensor for one sequence.
#[derive(Clone, Debug, PartialEq)]
struct Layout {
    name: String,
    shape: Vec<usize>,
    time: Option<usize>,
    batch: Option<usize>,
}

/// A state that tensors hold.
#[derive(Clone, Debug, PartialEq)]
struct StateTensor {
    node: String,
    name: &'static str,
    /// Number of elements of the state, or of each row if every row has a state of its own.
    units: usize,
}

impl StateTensor {
    /// The position of an element among the values of a state of the model.
    fn place(&self, model: &Model<'_>, at: usize) -> usize {
        let (row, at) = (at / self.units.max(1), at % self.units.max(1));
        let range = model.state_range_of_row(&self.node, self.name, row);
        range.expect("the network has the states of the graph").start + at
    }
}

#[derive(Clone, Debug, PartialEq)]
struct InputTensor {
    layout: Layout,
    /// Number of the network's input.
    port: Option<usize>,
    /// Number of the network's output that is the next value of this input.
    fed: Option<usize>,
    /// Whether the network keeps the value itself, starting at zero.
    inside: bool,
    /// Whether the network keeps the value itself, starting at a known value.
    started: bool,
    /// Initial states: the number of each state and the positions of its elements.
    initial: Vec<(usize, Vec<usize>)>,
}

#[derive(Clone, Debug, PartialEq)]
struct OutputTensor {
    layout: Layout,
    from: From,
}

/// Source of a graph's output.
#[derive(Clone, Debug, PartialEq)]
enum From {
    /// An output of the network, by its number.
    Port(usize),
    /// Elements of final states: the number of a state and a position in it.
    States(Vec<(usize, usize)>),
    /// A state that the network keeps.
    Inside,
}

/// Sources of a graph's outputs, in order.
pub(super) struct Ends(Vec<From>);

impl Session<'_> {
    /// Adds the outputs of the network.
    pub fn finish(&mut self, outputs: &[Output]) -> Result<Ends, Stop> {
        let mut ends = Vec::new();
        let mut ports = 0;
        for output in outputs {
            if self.setup.delays.values().any(|of| of.output == output.name) {
                ends.push(From::Inside);
                continue;
            }
            let elements = output.value.elements();
            let of_state = |element: &Element| match *element {
                Element::State(state, at) => Some((state as usize, at as usize)),
                _ => None,
            };
            match elements.iter().map(of_state).collect::<Option<Vec<_>>>() {
                Some(states) if !states.is_empty() => ends.push(From::States(states)),
                _ => {
                    self.end(&output.name, &output.value)?;
                    ends.push(From::Port(ports));
                    ports += 1;
                }
            }
        }
        if ports == 0 {
            // All outputs are final states. The network outputs the hidden ones at every step.
            for (output, end) in outputs.iter().zip(&mut ends) {
                let From::States(states) = end else { continue };
                if states.iter().all(|(state, _)| self.states[*state].state == "hidden") {
                    self.end(&output.name, &output.value)?;
                    ports += 1;
                }
            }
        }
        fail_if(ports == 0, "its only output is Y_c, which is a state and not an output here")?;
        Ok(Ends(ends))
    }

    fn end(&mut self, name: &str, value: &Value) -> Result<(), Stop> {
        let blame = |stop: Stop| match stop {
            Stop::Reason(reason) => Stop::from(format!("output {name:?}: {reason}")),
            other => other,
        };
        let time = self.axis_with(value, Role::Time);
        let order: Vec<usize> = (0..value.shape.len()).filter(|k| Some(*k) != time).collect();
        let operand = self.operand(value, &order, 0, time, true).map_err(blame)?;
        let source = self.network.concat(&operand.sources);
        self.network.output(name, &source);
        Ok(())
    }
}

impl Interface {
    pub(super) fn new(
        session: &Session<'_>,
        outputs: &[Output],
        ends: &Ends,
        pairs: &[(usize, usize)],
        graph: &GraphProto,
    ) -> Self {
        let role = |input: usize, role: Role| {
            let rank = session.setup.inputs[input].shape.len();
            (0..rank).find(|&axis| session.setup.roles.get(&(input, axis)) == Some(&role))
        };
        let input = |(k, input): (usize, &GraphInput)| {
            let (name, shape) = (input.name.clone(), input.shape.clone());
            let layout = Layout { name, shape, time: role(k, Role::Time), batch: role(k, Role::Batch) };
            let inside = session.setup.delays.contains_key(&input.name);
            // The network holds all starting values if one of them is not zero.
            let holds = session.setup.starts.values().flatten().any(|&value| value != 0.0);
            let started = holds && session.setup.starts.contains_key(&input.name);
            InputTensor { layout, port: None, fed: None, inside, started, initial: Vec::new() }
        };
        let mut inputs: Vec<InputTensor> = session.setup.inputs.iter().enumerate().map(input).collect();
        // Ports are numbered in the order of their creation.
        let mut ports: Vec<_> = session.ports.iter().map(|(&input, &made)| (made, input)).collect();
        ports.sort_unstable();
        for (port, &(_, input)) in ports.iter().enumerate() {
            inputs[input as usize].port = Some(port);
        }
        for &(input, output) in pairs {
            if let (Some(_), From::Port(port)) = (inputs[input].port, &ends.0[output]) {
                inputs[input].fed = Some(*port);
            }
        }
        for (state, of) in session.states.iter().enumerate() {
            if let Some((input, at)) = &of.initial {
                inputs[*input].initial.push((state, at.clone()));
            }
        }
        let of = |(output, from): (&Output, &From)| OutputTensor {
            layout: Layout {
                name: output.name.clone(),
                shape: output.value.shape.clone(),
                time: session.axis_with(&output.value, Role::Time),
                batch: session.axis_with(&output.value, Role::Batch),
            },
            from: from.clone(),
        };
        let state = |of: &StateOf| StateTensor { node: of.node.clone(), name: of.state, units: of.units };
        let others = graph.initializer.iter().map(|tensor| &tensor.name).chain(graph.output.iter().map(|of| &of.name));
        let others = others.chain(session.setup.bound.keys()).cloned().collect();
        Self {
            inputs,
            outputs: outputs.iter().zip(&ends.0).map(of).collect(),
            states: session.states.iter().map(state).collect(),
            lens: session.lens.clone(),
            others,
            windowed: session.setup.windowed,
        }
    }

    /// The only input that is not a state.
    pub fn sole_input(&self) -> Option<&str> {
        let mut ports = self.inputs.iter().filter(|input| input.port.is_some() && input.fed.is_none());
        match (ports.next(), ports.next()) {
            (Some(only), None) => Some(&only.layout.name),
            _ => None,
        }
    }

    /// Whether all outputs are values at the end of a sequence.
    pub(super) fn is_late(&self) -> bool {
        let timed = self.inputs.iter().any(|input| input.layout.time.is_some());
        timed && self.outputs.iter().all(|output| output.layout.time.is_none())
    }

    /// Runs sequences through the network: maps the graph's input tensors, by name, to its output tensors. States
    /// without a tensor start at zero. For a graph without time, tensors have an additional first dimension, the steps
    /// of a stream, and so do the outputs.
    ///
    /// # Errors
    /// If a tensor is missing, does not belong to the graph, or has a different shape than in the graph.
    pub fn run(&self, engine: &Engine<'_>, tensors: &Tensors) -> Result<Tensors, InterfaceError> {
        let fail = |reason: String| Err(InterfaceError(reason));
        let known =
            |name: &String| self.inputs.iter().any(|input| input.layout.name == *name) || self.others.contains(name);
        if let Some(name) = tensors.keys().find(|name| !known(name)) {
            let names: Vec<&str> = self.inputs.iter().map(|input| input.layout.name.as_str()).collect();
            let names = names.join(", ");
            return fail(format!("tensor {name:?} is not an input of the graph, whose inputs are {names}"));
        }
        let extent = self.extent(tensors)?;
        let engine = engine.endless();
        let model = engine.model();
        let sizes: Vec<usize> = model.inputs().map(|port| port.size).collect();
        let output_sizes: Vec<usize> = model.outputs().map(|port| port.size).collect();
        let kept = output_sizes.iter().copied().fold(0, usize::saturating_add);
        check_room(extent.steps.saturating_mul(extent.batch), kept)
            .map_err(|error| InterfaceError(error.to_string()))?;
        let empty = |of: &OutputTensor| Ok((of.layout.name.clone(), zeros(self.result_shape(of, &extent)?)));
        let outputs = || self.outputs.iter().filter(|output| output.from != From::Inside);
        let mut results = outputs().map(empty).collect::<Result<Tensors, InterfaceError>>()?;
        let mut scratch = engine.scratch();
        for entry in 0..extent.batch {
            let mut memory = vec![0; model.state_words()];
            let mut state = State::new(model, &mut memory).expect("the memory has the model's own length");
            for input in &self.inputs {
                let Some(tensor) = tensors.get(&input.layout.name) else { continue };
                for (number, at) in &input.initial {
                    let of = &self.states[*number];
                    for (index, &at) in at.iter().enumerate() {
                        let value = tensor.data[input.layout.place(&tensor.shape, entry, None, at)];
                        state.values_mut()[of.place(model, index)] = value;
                    }
                }
            }
            let steps = self.steps(entry, &extent, tensors)?;
            let rows = self.rows(entry, steps, &extent, tensors, &sizes);
            let mut fed = self.fed(entry, tensors, &sizes);
            let mut given: Vec<Vec<f32>> = vec![Vec::new(); output_sizes.len()];
            let mut last: Vec<Vec<f32>> = output_sizes.iter().map(|&size| vec![0.0; size]).collect();
            for step in 0..=steps {
                let mut out: Vec<&mut [f32]> = last.iter_mut().map(Vec::as_mut_slice).collect();
                let stepped = if step < steps {
                    let row = |(rows, &size): (&Vec<f32>, &usize)| rows[step * size..(step + 1) * size].to_vec();
                    let mut row: Vec<Vec<f32>> = rows.iter().zip(&sizes).map(row).collect();
                    for (port, value) in &fed {
                        row[*port].clone_from(value);
                    }
                    let row: Vec<&[f32]> = row.iter().map(Vec::as_slice).collect();
                    engine.step_observed(&mut state, &mut scratch, &row, &mut out, |_, _| ())
                } else {
                    engine.finish(&mut state, &mut scratch, &mut out)
                };
                if stepped.map_err(|error| InterfaceError(error.to_string()))?.has_output() {
                    given.iter_mut().zip(&last).for_each(|(given, row)| given.extend_from_slice(row));
                    for input in &self.inputs {
                        if let (Some(port), Some(output)) = (input.port, input.fed) {
                            fed.entry(port).and_modify(|value| value.clone_from(&last[output]));
                        }
                    }
                }
            }
            for output in outputs() {
                let tensor = results.get_mut(&output.layout.name).expect("every output has a result");
                match &output.from {
                    From::States(_) if steps == 0 => {}
                    From::Inside => {}
                    From::States(states) => {
                        for (at, &(number, of)) in states.iter().enumerate() {
                            let place = output.layout.place(&tensor.shape, entry, None, at);
                            tensor.data[place] = state.values()[self.states[number].place(model, of)];
                        }
                    }
                    From::Port(port) => {
                        let is_stream = extent.streamed && !extent.fed.contains(port);
                        output.layout.fill(tensor, entry, &given[*port], steps, output_sizes[*port], is_stream);
                    }
                }
            }
        }
        Ok(results)
    }

    /// Whether an input's value comes from an output of the previous step; a given tensor is its first value.
    fn is_fed(&self, input: &InputTensor, tensors: &Tensors) -> bool {
        let steps = self.inputs.iter().any(|input| input.layout.time.is_some());
        let own = |tensor: &Tensor| tensor.shape.len() == input.layout.shape.len();
        input.fed.is_some() && input.port.is_some() && !steps && tensors.get(&input.layout.name).is_none_or(own)
    }

    /// The first values of the network's inputs that outputs feed.
    fn fed(&self, entry: usize, tensors: &Tensors, sizes: &[usize]) -> HashMap<usize, Vec<f32>> {
        let first = |input: &InputTensor| {
            let port = input.port.filter(|_| self.is_fed(input, tensors))?;
            let value = match tensors.get(&input.layout.name) {
                None => vec![0.0; sizes[port]],
                Some(tensor) => {
                    let place = |k| input.layout.place(&tensor.shape, entry, None, k);
                    (0..sizes[port]).map(|k| tensor.data[place(k)]).collect()
                }
            };
            Some((port, value))
        };
        self.inputs.iter().filter_map(first).collect()
    }

    fn extent(&self, tensors: &Tensors) -> Result<Extent, InterfaceError> {
        let (mut batch, mut steps, mut streamed): (Option<usize>, Option<usize>, Option<bool>) = (None, None, None);
        let timed = self.inputs.iter().any(|input| input.layout.time.is_some());
        for (k, input) in self.inputs.iter().enumerate() {
            let layout = &input.layout;
            let Some(tensor) = tensors.get(&layout.name) else {
                let needed = input.port.is_some() && !self.is_fed(input, tensors);
                if needed || self.lens == Some(Lens::Input(k)) {
                    let (name, hint) = (&layout.name, self.hint(input));
                    return Err(InterfaceError(format!(
                        "has no tensor {name:?}, which is an input of the graph{hint}"
                    )));
                }
                continue;
            };
            let misfit = || {
                let dim = |(axis, dim): (usize, &usize)| match axis {
                    axis if Some(axis) == layout.batch => "batch".to_owned(),
                    axis if Some(axis) == layout.time && !self.windowed => "steps".to_owned(),
                    _ => dim.to_string(),
                };
                let (name, shape): (_, Vec<String>) =
                    (&layout.name, layout.shape.iter().enumerate().map(dim).collect());
                InterfaceError(format!("tensor {name:?} is {:?}; the graph needs [{}]", tensor.shape, shape.join(", ")))
            };
            let agree = |known: &mut Option<usize>, dim: usize| match known.replace(dim) {
                Some(before) if before != dim => Err(misfit()),
                _ => Ok(()),
            };
            let mut shape = tensor.shape.as_slice();
            if input.port.is_some() && !timed && !self.is_fed(input, tensors) {
                let is_stream = shape.len() == layout.shape.len() + 1;
                err_if(streamed.replace(is_stream).is_some_and(|before| before != is_stream), misfit)?;
                if let ([first, rest @ ..], true) = (shape, is_stream) {
                    agree(&mut steps, *first)?;
                    shape = rest;
                }
            }
            err_if(shape.len() != layout.shape.len(), misfit)?;
            for (axis, (&dim, &own)) in shape.iter().zip(&layout.shape).enumerate() {
                if Some(axis) == layout.batch {
                    agree(&mut batch, dim)?;
                } else if Some(axis) == layout.time && !self.windowed {
                    agree(&mut steps, dim)?;
                } else if dim != own {
                    return Err(misfit());
                } else if Some(axis) == layout.time {
                    agree(&mut steps, dim)?;
                }
            }
            if input.inside && tensor.data.iter().any(|&value| value != 0.0) {
                let name = &layout.name;
                return Err(InterfaceError(format!(
                    "tensor {name:?} is not zero, but the network keeps this state itself, from zero on: leave it out"
                )));
            }
            if input.started {
                let name = &layout.name;
                return Err(InterfaceError(format!("the network starts from the default of {name:?}: leave it out")));
            }
            if let Some(at) = tensor.data.iter().position(|value| !value.is_finite()) {
                let (name, value) = (&layout.name, tensor.data[at]);
                return Err(InterfaceError(format!("tensor {name:?} has {value} at {at}, but inputs must be finite")));
            }
        }
        let batch = batch.unwrap_or(1);
        let streamed = streamed.unwrap_or(false);
        let several = || InterfaceError(format!("a stream of {batch} sequences at once: run them one by one"));
        err_if(streamed && batch > 1, several)?;
        let fed =
            self.inputs.iter().filter(|input| self.is_fed(input, tensors)).filter_map(|input| input.fed).collect();
        Ok(Extent { batch, steps: steps.unwrap_or(1), streamed, fed })
    }

    /// The output that may be the next value of an input, as a proposal.
    fn hint(&self, input: &InputTensor) -> String {
        let alike = |output: &&OutputTensor| {
            output.layout.shape == input.layout.shape && output.layout.time == input.layout.time
        };
        match self.outputs.iter().find(alike) {
            Some(output) if input.fed.is_none() => {
                let (input, output) = (&input.layout.name, &output.layout.name);
                format!("; if {output:?} is its next value, run with --state {input}={output}")
            }
            _ => String::new(),
        }
    }

    /// Length of a sequence according to `sequence_lens`.
    fn steps(&self, entry: usize, extent: &Extent, tensors: &Tensors) -> Result<usize, InterfaceError> {
        let len = match &self.lens {
            None => return Ok(extent.steps),
            Some(Lens::Known(lens)) => lens.get(if lens.len() == 1 { 0 } else { entry }).copied(),
            Some(Lens::Input(input)) => {
                let name = &self.inputs[*input].layout.name;
                let len = tensors.get(name).and_then(|tensor| tensor.data.get(entry)).copied();
                len.filter(|len| *len >= 0.0 && len.fract() == 0.0).map(|len| len as usize)
            }
        };
        let fits = len.filter(|&len| len <= extent.steps);
        fits.ok_or_else(|| InterfaceError(format!("sequence_lens of sequence {entry} is not 0 to {}", extent.steps)))
    }

    /// The rows of each input of the network, `[steps, size]`.
    fn rows(&self, entry: usize, steps: usize, extent: &Extent, tensors: &Tensors, sizes: &[usize]) -> Vec<Vec<f32>> {
        let mut rows = vec![Vec::new(); sizes.len()];
        for input in &self.inputs {
            if let (Some(port), true) = (input.port, self.is_fed(input, tensors)) {
                rows[port] = vec![0.0; steps * sizes[port]];
                continue;
            }
            let (Some(port), Some(tensor)) = (input.port, tensors.get(&input.layout.name)) else { continue };
            let layout = &input.layout;
            let size = sizes[port];
            let shape = if extent.streamed { &tensor.shape[1..] } else { &tensor.shape[..] };
            let per_step = shape.iter().product::<usize>();
            for step in 0..steps {
                let from = if extent.streamed { step * per_step } else { 0 };
                let row = (0..size).map(|k| tensor.data[from + layout.place(shape, entry, Some(step), k)]);
                rows[port].extend(row);
            }
        }
        rows
    }

    fn result_shape(&self, output: &OutputTensor, extent: &Extent) -> Result<Vec<usize>, InterfaceError> {
        let layout = &output.layout;
        if extent.batch > 1 && layout.batch.is_none() {
            let name = &layout.name;
            return Err(InterfaceError(format!("output {name:?} has no dimension for {} sequences", extent.batch)));
        }
        let mut shape = layout.shape.clone();
        if let Some(axis) = layout.batch {
            shape[axis] = extent.batch;
        }
        if let Some(axis) = layout.time {
            shape[axis] = extent.steps;
        }
        if extent.streamed && matches!(output.from, From::Port(port) if !extent.fed.contains(&port)) {
            shape.insert(0, extent.steps);
        }
        Ok(shape)
    }
}

fn zeros(shape: Vec<usize>) -> Tensor {
    Tensor { data: vec![0.0; shape.iter().product()], shape }
}

struct Extent {
    batch: usize,
    steps: usize,
    /// Whether the steps are a dimension that the graph does not have.
    streamed: bool,
    /// The network's outputs that feed inputs.
    fed: BTreeSet<usize>,
}

impl Layout {
    /// Position of element `k` of sequence `entry` in a tensor of shape `shape`: of one step, if that is given.
    fn place(&self, shape: &[usize], entry: usize, step: Option<usize>, k: usize) -> usize {
        let mut rest = k;
        let mut place = 0;
        for ((axis, &own), stride) in self.shape.iter().enumerate().zip(strides(shape)).rev() {
            if let (true, Some(step)) = (Some(axis) == self.time, step) {
                place += step * stride;
                continue;
            }
            place += rest % own * stride;
            rest /= own;
            if Some(axis) == self.batch {
                place += entry * stride;
            }
        }
        place
    }

    /// Writes the network's output for a sequence into a tensor. Steps after the end of the sequence stay zero.
    fn fill(&self, tensor: &mut Tensor, entry: usize, given: &[f32], steps: usize, size: usize, is_stream: bool) {
        let features: usize =
            self.shape.iter().enumerate().map(|(axis, &dim)| if Some(axis) == self.time { 1 } else { dim }).product();
        let shape = tensor.shape.clone();
        if is_stream {
            let all = tensor.data.len().min(given.len());
            tensor.data[..all].copy_from_slice(&given[..all]);
        } else if self.time.is_some() {
            for (step, row) in given.chunks(features).take(steps).enumerate() {
                for (k, &value) in row.iter().enumerate() {
                    tensor.data[self.place(&shape, entry, Some(step), k)] = value;
                }
            }
        } else if let Some(row) = given.rchunks(size.max(1)).next() {
            for (k, &value) in row.iter().enumerate() {
                tensor.data[self.place(&shape, entry, Some(0), k)] = value;
            }
        }
    }
}
