//! A description's layers, one after the other, become a network.

use std::collections::BTreeMap;

use super::super::golden::{self, Case};
use super::super::network::{Network, Source};
use super::super::{keras, tf1, torch};
use super::names::{nearest, within};
use super::{Description, Input, LayerDescription, Owner, Size, Take, Value, wrong};
use crate::canonical::{Canonical, MAX_SIZE, Schedule, Tensor};
use crate::error::ImportError;

/// A description that is being made a network.
pub(super) struct Builder<'a> {
    pub description: &'a Description,
    pub inputs: &'a [Input],
    pub framework: &'a str,
    pub tensors: &'a BTreeMap<String, Tensor>,
    /// Of each tensor.
    pub owners: &'a [Option<Owner<'a>>],
    /// Whether the model looks at whole sequences in a window.
    pub whole: bool,
}

impl Builder<'_> {
    pub fn build(&self, source: &str) -> Result<Canonical, ImportError> {
        let mut network = Network::new();
        let mut values: BTreeMap<&str, Value> = BTreeMap::new();
        if self.whole && self.inputs.len() > 1 {
            return Err(ImportError::Unsupported("a network that looks at windows of several inputs".into()));
        }
        for input in self.inputs {
            values.insert(&input.name, self.input(&mut network, input));
        }
        let mut before: Vec<&str> = self.inputs.iter().map(|input| input.name.as_str()).collect();
        let mut pace = 0;
        for layer in &self.description.layers {
            let read: Vec<&str> = match layer.inputs.as_slice() {
                [] => before,
                names => names.iter().map(String::as_str).collect(),
            };
            let inputs: Vec<Value> = read
                .iter()
                .map(|name| values.get(name).cloned().ok_or_else(|| wrong(self.no_such(layer, name))))
                .collect::<Result<_, _>>()?;
            let value = self.layer(&mut network, layer, &inputs, pace).map_err(|error| ImportError::Layer {
                layer: layer.name.clone(),
                class: layer.class.escape_debug().to_string(),
                source: Box::new(error),
            })?;
            pace = pace.max(value.pace);
            values.insert(&layer.name, value);
            before = vec![&layer.name];
        }
        let outputs: Vec<&str> = match self.description.outputs.as_slice() {
            [] => before,
            names => names.iter().map(String::as_str).collect(),
        };
        let (mut all_last, mut all_steps) = (true, true);
        for name in outputs {
            let value = values.get(name).ok_or_else(|| wrong(format!("output {name:?} is no layer")))?;
            all_steps &= value.sequence && value.source.rows().is_none();
            all_last &= !value.sequence || value.source.rows().is_some();
            if value.pace < pace {
                return Err(ImportError::NeedsWindow { what: format!("output {name:?} beside a slower one") });
            }
            network.output(name, &value.source);
        }
        let steps = self.inputs.iter().find_map(|input| input.steps);
        let forgets = network.forgets;
        let mut model = network.model(source.to_owned())?;
        if let (Some(steps), false) = (steps, self.whole) {
            if self.description.layers.iter().any(|layer| layer.stateful) {
                if forgets || !all_steps {
                    return Err(ImportError::NeedsWindow { what: "a state that is carried on".into() });
                }
                // Sequences that follow each other are one.
                return Ok(model);
            }
            if !all_last {
                return Err(ImportError::NeedsWindow { what: "an output at every step of a sequence".into() });
            }
            let frames = steps as u32;
            model.architecture.schedule = Schedule::Windows { frames, every: frames };
            model.validate()?;
        }
        Ok(model)
    }

    fn input(&self, network: &mut Network, input: &Input) -> Value {
        network.fresh = true;
        let shape = match &input.size {
            Size::One(size) => vec![*size],
            Size::Shape(shape) => shape.clone(),
        };
        let mut source = network.input(&input.name, shape.iter().product());
        if let (Some(steps), true, false) = (input.steps, self.whole, input.vector) {
            source = network.window(&source, steps);
        }
        Value { source, shape, steps: input.steps, sequence: !input.vector, pace: 0, order: None, mask: None }
    }

    fn no_such(&self, layer: &LayerDescription, name: &str) -> String {
        let known = self.description.layers.iter().map(|layer| &layer.name);
        let near = nearest(name, known.chain(self.inputs.iter().map(|input| &input.name)));
        format!("layer {:?} reads {name:?}, which is not before it; named alike: {}", layer.name, near.join(", "))
    }

    fn layer(
        &self,
        network: &mut Network,
        layer: &LayerDescription,
        inputs: &[Value],
        pace: usize,
    ) -> Result<Value, ImportError> {
        let prefix = layer.prefix();
        let params = self.tensors.iter().zip(self.owners).filter(|(_, owner)| **owner == Some(Owner::Prefix(prefix)));
        let mut params: BTreeMap<String, &Tensor> =
            params.filter_map(|((name, tensor), _)| Some((within(prefix, name)?.to_owned(), tensor))).collect();
        for (name, named) in &layer.tensors {
            let missing =
                || ImportError::NoSuchTensor { tensor: named.clone(), near: nearest(named, self.tensors.keys()) };
            if params.insert(name.clone(), self.tensors.get(named).ok_or_else(missing)?).is_some() {
                return Err(wrong(format!("tensor {name:?} of layer {:?} is within its prefix too", layer.name)));
            }
        }
        let framework = if layer.framework.is_empty() { self.framework } else { &layer.framework };
        let Some(first) = inputs.first() else { return Err(wrong("layer without an input".into())) };
        if inputs.iter().any(|input| input.pace < pace) {
            return Err(ImportError::NeedsWindow { what: "what it reads does not come at one pace, so it".into() });
        }
        if first.source.rows().is_some() && inputs.iter().any(|input| input.source.rows() != first.source.rows()) {
            return Err(ImportError::Unsupported("reading sequences of different lengths".into()));
        }
        // In a stream nobody may look at the number of steps.
        let steps = first.source.rows();
        let mut case = Case::layer(framework, &layer.class, layer.args.clone(), params, steps, first.shape.clone());
        network.fresh = !layer.stateful;
        let value = match framework {
            "torch" => torch::add(&mut case, network, inputs, layer.take),
            "tf1" => tf1::layers::add(&mut case, network, inputs, layer.take),
            "keras2" | "keras3" => {
                let said = !(layer.framework.is_empty() && self.description.framework.is_empty());
                let origin = keras::Origin { framework, said, version: &self.description.version };
                keras::check(&layer.class, &layer.args, origin)
                    .and_then(|()| keras::layers::add(&mut case, network, inputs, layer.take))
            }
            _ => foreign(framework, &mut case, network, inputs, layer.take),
        };
        let value = value.and_then(|value| case.finish().map(|()| value));
        let value = value.and_then(|value| {
            let (size, rows) = (value.source.size(), value.source.rows().unwrap_or(1));
            if size > MAX_SIZE || rows > MAX_SIZE {
                return Err(ImportError::Unsupported(format!("what it gives, {rows} x {size} numbers,")));
            }
            Ok(value)
        });
        value.map_err(|error| match error {
            ImportError::MissingTensor { tensor } => {
                let separator = if prefix.contains('/') || !matches!(framework, "torch") { "/" } else { "." };
                let tensor = match prefix {
                    "" => tensor,
                    prefix => format!("{prefix}{separator}{tensor}"),
                };
                if self.description.is_unused(&tensor) && self.tensors.contains_key(&tensor) {
                    return wrong(format!("list \"unused\" has tensor {tensor:?}, which the layer needs"));
                }
                let near = nearest(&tensor, self.tensors.keys());
                ImportError::NoSuchTensor { tensor, near }
            }
            other => other,
        })
    }
}

/// A layer of a family that has networks of its own for its classes.
pub(crate) fn foreign(
    family: &str,
    case: &mut Case<'_>,
    network: &mut Network,
    inputs: &[Value],
    take: Take,
) -> Result<Value, ImportError> {
    if inputs.iter().any(|input| input.order.is_some()) {
        return Err(ImportError::Unsupported("features that were flattened with channels_first".into()));
    }
    let part = golden::convert(family, case)?;
    let sources: Vec<&Source> = inputs.iter().map(|input| &input.source).collect();
    let outputs = network.embed(part, &sources)?;
    let [output] = outputs.as_slice() else {
        return Err(ImportError::Unsupported(format!("a layer with {} outputs", outputs.len())));
    };
    let value = inputs.first().map(|first| first.with(output.clone()));
    let value = value.ok_or_else(|| wrong("layer without an input".into()))?;
    match take {
        Take::Sequence => Ok(value),
        Take::Last | Take::Final => Ok(last(network, value)),
    }
}

/// The last step of a sequence: in a stream the output of every step, of which the schedule says which counts.
pub(crate) fn last(network: &mut Network, value: Value) -> Value {
    let source = network.last(&value.source, false);
    Value { source, sequence: false, mask: None, ..value }
}
