//! Ranges of candidates that may leave -1 to 1. A candidate is not visible in any value of the model: a gate may suppress
//! most of it, and the rest may be much smaller. A copy of the node therefore runs beside the model, from the same state,
//! with gates that pass the whole candidate and nothing else.

use std::collections::{BTreeMap, HashMap};

use tidegate::internals::cell::{Alone, Candidate, CellKind, CellSpec};
use tidegate::{ImageError, Model, Numeric, State, StepError};

use super::candidate::{grows, name};
use super::terms::{activation, quantization};
use crate::buffer::ImageBuffer;
use crate::canonical::{Architecture, Canonical, Node, Port, Tensor, Unroll};
use crate::pack::{PackError, pack};

/// A single node of a model that outputs its candidate.
pub struct Probe<'m> {
    /// Index of the node in the model.
    at: usize,
    node: &'m Node,
    image: ImageBuffer,
}

impl<'m> Probe<'m> {
    /// Creates a probe for every node of a model whose candidate grows.
    pub fn all(model: &'m Canonical) -> Result<Vec<Self>, PackError> {
        let nodes = model.architecture.nodes.iter().enumerate();
        let of = |(at, node): (usize, &'m Node)| {
            let (spec, candidate) = (CellKind::from_name(&node.cell)?.spec(), quantization(node)?.candidate.as_ref()?);
            let growing = candidate.activation.is_none_or(|index| grows(activation(node, index)));
            let alone = growing.then(|| pack(&alone(node, spec, candidate, model), Numeric::F32))?;
            Some(alone.map(|image| Self { at, node, image: ImageBuffer::new(&image) }))
        };
        nodes.filter_map(of).collect()
    }

    /// Name of the node's candidate.
    pub fn name(&self) -> String {
        name(self.node)
    }
}

/// All probes of a model over one sequence.
pub struct Probing<'p> {
    each: Vec<One<'p>>,
    /// Current values of the probes' inputs.
    values: HashMap<&'p str, Vec<f32>>,
}

/// A probe over one sequence.
struct One<'p> {
    at: usize,
    node: &'p Node,
    name: String,
    model: Model<'p>,
    memory: Vec<u32>,
    scratch: Vec<u32>,
    /// The hidden state that the node carries to its next step.
    hidden: Vec<f32>,
    y: Vec<f32>,
}

impl<'p> Probing<'p> {
    /// Starts all probes from zero states.
    pub fn start(probes: &'p [Probe<'p>]) -> Result<Self, ImageError> {
        let one = |probe: &'p Probe<'p>| {
            let Probe { at, node, image } = probe;
            let model = image.model()?;
            let (memory, scratch) = (vec![0; model.state_words()], vec![0; model.scratch_words()]);
            let (hidden, y) = (vec![0.0; node.output_size * node.steps()], vec![0.0; model.output_size()]);
            Ok::<_, ImageError>(One { at: *at, node, name: probe.name(), model, memory, scratch, hidden, y })
        };
        let read = probes.iter().flat_map(|probe| &probe.node.inputs).map(|name| (name.as_str(), Vec::new()));
        Ok(Self { each: probes.iter().map(one).collect::<Result<_, _>>()?, values: read.collect() })
    }

    /// Resets the hidden states, as at the start of a sequence.
    pub fn reset(&mut self) {
        for one in &mut self.each {
            one.hidden.fill(0.0);
        }
    }

    /// Updates the current value `name`.
    pub fn value(&mut self, name: &str, now: &[f32]) {
        if let Some(value) = self.values.get_mut(name) {
            value.clear();
            value.extend_from_slice(now);
        }
    }

    /// Handles the output `given` of node `at`: calls `see(name, candidates)` for each of its steps if the node has a
    /// probe.
    pub fn given(&mut self, at: usize, given: &[f32], see: impl FnMut(&str, &[f32])) -> Result<(), StepError> {
        self.each.iter_mut().find(|one| one.at == at).map_or(Ok(()), |one| one.step(&self.values, given, see))
    }
}

impl One<'_> {
    fn step(
        &mut self,
        values: &HashMap<&str, Vec<f32>>,
        given: &[f32],
        mut see: impl FnMut(&str, &[f32]),
    ) -> Result<(), StepError> {
        let Self { node, model, .. } = self;
        let usual = Unroll { stateful: true, ..Unroll::over(1) };
        let Unroll { steps, read_backwards, write_backwards, stateful, apart } = node.unroll.unwrap_or(usual);
        if !stateful {
            self.hidden.fill(0.0);
        }
        for step in 0..steps {
            let row = |backwards: bool| if backwards { steps - 1 - step } else { step };
            let mut x = Vec::with_capacity(node.input_size);
            for value in node.inputs.iter().filter_map(|name| values.get(name.as_str())) {
                let size = value.len() / steps;
                x.extend_from_slice(&value[row(read_backwards) * size..][..size]);
            }
            let mut state = State::new(model, &mut self.memory).expect("the memory has the model's own length");
            if let Some(hidden) = state.part_mut(model, &node.name, "hidden") {
                let from = if apart { step * hidden.len() } else { 0 };
                hidden.copy_from_slice(&self.hidden[from..][..hidden.len()]);
            }
            let _ = model.step_f32(&mut state, &mut self.scratch, &x, &mut self.y)?;
            // An LSTM whose cell state was 0 holds the candidate in its cell state.
            see(&self.name, state.part(model, &node.name, "cell_state").unwrap_or(&self.y));
            let to = if apart { step * node.output_size } else { 0 };
            let own = &mut self.hidden[to..to + node.output_size];
            own.copy_from_slice(&given[row(write_backwards) * node.output_size..][..node.output_size]);
        }
        Ok(())
    }
}

/// A model of this node alone, changed so that its output, or its cell state, is the candidate.
fn alone(node: &Node, spec: &CellSpec, candidate: &Candidate, model: &Canonical) -> Canonical {
    let mut alone = Node { inputs: vec!["x".to_owned()], unroll: None, ..node.clone() };
    let prefix = format!("{}.", node.name);
    let own = spec.canonical.iter().map(|of| of.name);
    let own = own.filter_map(|name| Some((name.to_owned(), model.tensors.get(&(prefix.clone() + name))?.clone())));
    let mut tensors: BTreeMap<String, Tensor> = own.collect();
    for change in candidate.alone {
        match *change {
            Alone::Gates(usual, options, other) => {
                let value = if node.option_bits(spec) & options != 0 { other } else { usual };
                alone.activations.insert("gate_activation".to_owned(), format!("affine(0,{value})"));
            }
            Alone::Bias(gate, bias) => {
                let units = node.hidden_size;
                let at = spec.gates.iter().position(|of| *of == gate).unwrap_or(0) * units;
                let rows = spec.gates.len() * units;
                let zeros = Tensor { shape: vec![rows], data: vec![0.0; rows] };
                tensors.entry("input_bias".to_owned()).or_insert(zeros);
                let others = ["input_weights", "recurrent_weights", "recurrent_bias"].map(|name| (name, 0.0));
                for (name, value) in others.into_iter().chain([("input_bias", bias)]) {
                    if let Some(tensor) = tensors.get_mut(name) {
                        let cols = tensor.data.len() / rows;
                        tensor.data[at * cols..][..units * cols].fill(value);
                    }
                }
            }
            Alone::Param(name, value) => drop(alone.params.insert(name.to_owned(), value)),
            Alone::WithoutParam(name) => drop(alone.params.remove(name)),
            Alone::WithoutOption(name) => alone.options.retain(|option| option != name),
            Alone::WithoutTensor(name) => drop(tensors.remove(name)),
        }
    }
    let port = |name: &str, size: usize, from: &str| Port {
        name: name.to_owned(),
        size,
        from: from.to_owned(),
        ..Port::default()
    };
    Canonical {
        architecture: Architecture {
            version: model.architecture.version,
            inputs: vec![port("x", node.input_size, "")],
            outputs: vec![port("y", node.output_size, &node.name)],
            nodes: vec![alone],
            ..Architecture::default()
        },
        tensors: tensors.into_iter().map(|(name, tensor)| (prefix.clone() + &name, tensor)).collect(),
    }
}
