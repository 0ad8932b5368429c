//! How far candidates reach that are not between -1 and 1. No value of a model shows them: a gate may hide most of one, and
//! what is left of it may be much less. So a copy of the node runs beside the model, from the same state, with gates that
//! let the candidate through whole and nothing else.

use std::collections::BTreeMap;

use tidegate::activation::Activation;
use tidegate::cell::CellKind;
use tidegate::gate::Gate;
use tidegate::step::StepError;
use tidegate::{ImageError, Model, Numeric, State};

use super::Ranges;
use super::lstm::has;
use super::scales::{TABLE_REACH_BITS, activation, reach};
use crate::canonical::{Architecture, Canonical, Node, Port, Schedule, Tensor, Unroll};
use crate::load::ImageBuffer;
use crate::pack::{PackError, pack};

/// A bias with which any gate is shut, or of a minGRU open.
const FAR: f32 = 1e9;
/// Where an activation is asked whether it still grows, as a power of two.
const FAR_BITS: i32 = 20;

/// What the candidate of a node is called among its ranges.
pub fn name(node: &Node) -> String {
    format!("{}.candidate", node.name)
}

/// Which activation makes the candidate, of a cell that has one that it does not show; that of a minGRU is none of its
/// activations.
pub fn index(kind: CellKind) -> Option<usize> {
    match kind {
        CellKind::FastRnn => Some(0),
        CellKind::Lstm | CellKind::Gru | CellKind::FastGrnn => Some(1),
        _ => None,
    }
}

/// Whether an activation goes on beyond what a table usually reaches.
pub fn grows(of: Activation) -> bool {
    let magnitude = |bits: i32| {
        let end = 2.0_f32.powi(bits);
        of.apply(end).abs().max(of.apply(-end).abs())
    };
    magnitude(FAR_BITS) > 2.0 * magnitude(TABLE_REACH_BITS)
}

/// How far a candidate that is tabulated is to reach: as far as was seen, and as a table usually does.
pub fn range(node: &Node, index: usize, ranges: &Ranges) -> f32 {
    let of = activation(node, index);
    if grows(of) { ranges.of(&name(node)).max(reach(of)) } else { reach(of) }
}

/// A node of a model by itself, which gives its candidate.
pub struct Probe<'m> {
    /// Which node of the model it is.
    at: usize,
    node: &'m Node,
    image: ImageBuffer,
}

impl<'m> Probe<'m> {
    /// Of every node of a model whose candidate grows.
    ///
    /// # Errors
    /// If a node cannot be packed.
    pub fn all(model: &'m Canonical) -> Result<Vec<Self>, PackError> {
        let nodes = model.architecture.nodes.iter().enumerate();
        let of = |(at, node): (usize, &'m Node)| {
            let kind = CellKind::from_name(&node.cell)?;
            let growing = match index(kind) {
                Some(index) => grows(activation(node, index)),
                None => kind == CellKind::MinGru,
            };
            let alone = growing.then(|| pack(&alone(node, kind, model), Numeric::F32))?;
            Some(alone.map(|image| Self { at, node, image: ImageBuffer::new(&image) }))
        };
        nodes.filter_map(of).collect()
    }

    /// What its candidate is called.
    pub fn name(&self) -> String {
        name(self.node)
    }
}

/// All probes of a model over one sequence.
pub struct Probing<'p> {
    each: Vec<One<'p>>,
    /// What they read, as it is now.
    values: BTreeMap<&'p str, Vec<f32>>,
}

/// A probe over one sequence.
struct One<'p> {
    at: usize,
    node: &'p Node,
    name: String,
    model: Model<'p>,
    memory: Vec<u32>,
    scratch: Vec<u32>,
    /// What the node carries into its next step.
    hidden: Vec<f32>,
    y: Vec<f32>,
}

impl<'p> Probing<'p> {
    /// From states of zeros.
    ///
    /// # Errors
    /// If an image does not run.
    pub fn start(probes: &'p [Probe<'p>]) -> Result<Self, ImageError> {
        let one = |probe: &'p Probe<'p>| {
            let Probe { at, node, image } = probe;
            let model = image.model()?;
            let (memory, scratch) = (vec![0; model.state_words()], vec![0; model.scratch_words()]);
            let (hidden, y) = (vec![0.0; node.output_size], vec![0.0; model.output_size()]);
            Ok::<_, ImageError>(One { at: *at, node, name: probe.name(), model, memory, scratch, hidden, y })
        };
        let read = probes.iter().flat_map(|probe| &probe.node.inputs).map(|name| (name.as_str(), Vec::new()));
        Ok(Self { each: probes.iter().map(one).collect::<Result<_, _>>()?, values: read.collect() })
    }

    /// Where the model begins anew.
    pub fn reset(&mut self) {
        for one in &mut self.each {
            one.hidden.fill(0.0);
        }
    }

    /// A value is this now.
    pub fn value(&mut self, name: &str, now: &[f32]) {
        if let Some(value) = self.values.get_mut(name) {
            value.clear();
            value.extend_from_slice(now);
        }
    }

    /// Node `at` has given this: `see(name, candidates)` for each of its steps, if it has a probe.
    ///
    /// # Errors
    /// If the probe does not run.
    pub fn given(&mut self, at: usize, given: &[f32], see: impl FnMut(&str, &[f32])) -> Result<(), StepError> {
        match self.each.iter_mut().find(|one| one.at == at) {
            Some(one) => one.step(&self.values, given, see),
            None => Ok(()),
        }
    }
}

impl One<'_> {
    fn step(
        &mut self,
        values: &BTreeMap<&str, Vec<f32>>,
        given: &[f32],
        mut see: impl FnMut(&str, &[f32]),
    ) -> Result<(), StepError> {
        let Self { node, model, .. } = self;
        let usual = Unroll { steps: 1, read_backwards: false, write_backwards: false, stateful: true };
        let Unroll { steps, read_backwards, write_backwards, stateful } = node.unroll.unwrap_or(usual);
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
                hidden.copy_from_slice(&self.hidden);
            }
            let _ = model.step_f32(&mut state, &mut self.scratch, &x, &mut self.y)?;
            // An LSTM whose cell state was 0 holds the candidate there.
            see(&self.name, state.part(model, &node.name, "cell_state").unwrap_or(&self.y));
            self.hidden.copy_from_slice(&given[row(write_backwards) * node.output_size..][..node.output_size]);
        }
        Ok(())
    }
}

/// A node as a model of its own, whose gates let through the candidate, whole, and nothing else.
fn alone(node: &Node, kind: CellKind, model: &Canonical) -> Canonical {
    let mut alone = Node { inputs: vec!["x".to_owned()], unroll: None, ..node.clone() };
    let prefix = format!("{}.", node.name);
    let own = kind.spec().canonical.iter().map(|of| of.name);
    let own = own.filter_map(|name| Some((name.to_owned(), model.tensors.get(&(prefix.clone() + name))?.clone())));
    let mut tensors: BTreeMap<String, Tensor> = own.collect();
    let activations = &mut alone.activations;
    let mut gates = |text: &str| drop(activations.insert("gate_activation".to_owned(), text.to_owned()));
    match kind {
        CellKind::Lstm => {
            // c' = f 0 + i g; i is 1 - f where they are coupled.
            gates(if has(node, "coupled") { "affine(0,0)" } else { "affine(0,1)" });
            alone.params.remove("cell_clip");
            alone.options.retain(|option| option != "cell_norm");
            tensors.retain(|name, _| !["cell_gain", "cell_bias"].contains(&name.as_str()));
        }
        CellKind::FastRnn => alone.params.extend([("alpha".to_owned(), 1.0), ("beta".to_owned(), 0.0)]),
        CellKind::FastGrnn => {
            gates("affine(0,0)");
            alone.params.extend([("zeta".to_owned(), 0.0), ("nu".to_owned(), 1.0)]);
        }
        // The gate that mixes, alone: a GRU resets as it did.
        _ => {
            let far = if kind == CellKind::MinGru { FAR } else { -FAR };
            let units = node.hidden_size;
            let at = kind.spec().gates.iter().position(|gate| *gate == Gate::Update).unwrap_or(0) * units;
            let rows = kind.spec().gates.len() * units;
            let zeros = Tensor { shape: vec![rows], data: vec![0.0; rows] };
            tensors.entry("input_bias".to_owned()).or_insert(zeros);
            for (name, of) in
                [("input_weights", 0.0), ("recurrent_weights", 0.0), ("recurrent_bias", 0.0), ("input_bias", far)]
            {
                if let Some(tensor) = tensors.get_mut(name) {
                    let cols = tensor.data.len() / rows;
                    tensor.data[at * cols..][..units * cols].fill(of);
                }
            }
        }
    }
    let port = |name: &str, size: usize, from: &str| Port { name: name.to_owned(), size, from: from.to_owned() };
    Canonical {
        architecture: Architecture {
            integers: BTreeMap::new(),
            version: model.architecture.version,
            source: String::new(),
            inputs: vec![port("x", node.input_size, "")],
            outputs: vec![port("y", node.output_size, &node.name)],
            nodes: vec![alone],
            labels: Vec::new(),
            front_end: None,
            schedule: Schedule::Endless,
            detector: None,
        },
        tensors: tensors.into_iter().map(|(name, tensor)| (prefix.clone() + &name, tensor)).collect(),
    }
}
