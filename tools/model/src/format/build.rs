//! Builds a network from a description, layer by layer, with the conversions of each layer's family.

use std::collections::HashMap;

use tidegate::internals::cell::CellKind;

use super::description::{
    Assumption, Description, Imported, Input, LayerDescription, Owner, Tensors, nearest, within, wrong,
};
use super::refuse::{check_window, needs_window_if, unsupported_if};
use super::{
    case::Case, case::Definition, families, keras, network::Network, signal::Signal, signal::embedded,
    signal::in_order, tf1, torch,
};
use crate::budget::Budget;
use crate::canonical::{Canonical, MAX_SIZE, Node, Schedule, Tensor};
use crate::error::{ImportError, Result};

struct Builder<'a> {
    description: &'a Description,
    inputs: &'a [Input],
    framework: &'a str,
    tensors: &'a Tensors,
    owners: &'a [Option<Owner<'a>>],
    /// Whether the model reads whole sequences in a window.
    whole: bool,
}

impl Builder<'_> {
    fn build(&self, source: &str) -> Result<Canonical> {
        let mut network = Network::new();
        network.limit(Budget::of_network(self.tensors.values().map(|tensor| tensor.data.len()).sum()));
        let mut values: HashMap<&str, Signal> = HashMap::new();
        unsupported_if(self.whole && self.inputs.len() > 1, "a network that looks at windows of several inputs")?;
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
            let value = |name: &&str| values.get(name).cloned().ok_or_else(|| wrong(self.no_such(layer, name)));
            let inputs = read.iter().map(value).collect::<Result<Vec<Signal>>>()?;
            let value = self.layer(&mut network, layer, &inputs, pace).map_err(|error| ImportError::Layer {
                layer: layer.name.clone(),
                class: layer.class.escape_debug().to_string(),
                source: Box::new(error),
            })?;
            network.is_within()?;
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
            let value = values.get(name).ok_or_else(|| wrong(format!("output {name:?} is not a layer")))?;
            all_steps &= value.sequence && value.source.rows().is_none();
            all_last &= !value.sequence || value.source.rows().is_some();
            needs_window_if(value.pace < pace, format_args!("output {name:?} beside a slower one"))?;
            in_order(value)?;
            network.output(name, &value.source);
        }
        let steps = self.inputs.iter().find_map(|input| input.steps);
        let forgets = network.forgets;
        let mut model = network.model(source.to_owned())?;
        if let (Some(steps), false) = (steps, self.whole) {
            if self.description.layers.iter().any(|layer| layer.stateful) {
                needs_window_if(forgets || !all_steps, "a state that is carried on")?;
                // Consecutive sequences form a single sequence.
                return Ok(model);
            }
            needs_window_if(!all_last, "an output at every step of a sequence")?;
            let frames = steps as u32;
            model.architecture.schedule = Schedule::Windows { frames, every: frames };
            model.validate()?;
        }
        Ok(model)
    }

    fn input(&self, network: &mut Network, input: &Input) -> Signal {
        network.fresh = true;
        let shape = input.size.dims().to_vec();
        let mut source = network.input(&input.name, shape.iter().product());
        if let (Some(steps), true, false) = (input.steps, self.whole, input.vector) {
            source = network.window(&source, steps);
        }
        Signal { source, shape, steps: input.steps, sequence: !input.vector, pace: 0, order: None, mask: None }
    }

    fn no_such(&self, layer: &LayerDescription, name: &str) -> String {
        let known = self.description.layers.iter().map(|layer| &layer.name);
        let near = nearest(name, known.chain(self.inputs.iter().map(|input| &input.name)));
        let (layer, near) = (&layer.name, near.join(", "));
        format!("layer {layer:?} reads {name:?}, which is neither an input nor an earlier layer; similar names: {near}")
    }

    fn layer(&self, network: &mut Network, layer: &LayerDescription, inputs: &[Signal], pace: usize) -> Result<Signal> {
        let prefix = layer.prefix();
        let params = self.tensors.iter().zip(self.owners).filter(|(_, owner)| **owner == Some(Owner::Prefix(prefix)));
        let mut params: HashMap<String, &Tensor> =
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
        needs_window_if(inputs.iter().any(|input| input.pace < pace), "a layer with inputs of different rates")?;
        let rows = first.source.rows();
        let differ = rows.is_some() && inputs.iter().any(|input| input.source.rows() != rows);
        let repeats = framework.starts_with("keras") && keras::layers::meets_other_rows(&layer.class);
        unsupported_if(differ && !repeats, "reading sequences of different lengths")?;
        // In a stream, no layer may depend on the number of steps.
        let mut case = Case::new(Definition {
            family: framework.to_owned(),
            cls: layer.class.clone(),
            args: layer.args.clone(),
            params,
            input_shape: Some(first.shape.clone()),
            sizes: rows.map(|steps| ("T".to_owned(), steps.into())).into_iter().collect(),
            ..Definition::default()
        });
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
            _ => families::convert(framework, &mut case).and_then(|part| embedded(part, network, inputs, layer.take)),
        };
        let value = value.and_then(|value| case.finish().map(|()| value));
        let value = value.and_then(|value| {
            let (size, rows) = (value.source.size(), value.source.rows().unwrap_or(1));
            unsupported_if(size > MAX_SIZE || rows > MAX_SIZE, format_args!("an output of {rows} x {size} numbers"))?;
            Ok(value)
        });
        value.map_err(|error| match error {
            ImportError::MissingTensor { tensor } => {
                let separator = if prefix.contains('/') || !matches!(framework, "torch") { "/" } else { "." };
                let tensor = if prefix.is_empty() { tensor } else { format!("{prefix}{separator}{tensor}") };
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

impl Description {
    /// Builds the canonical model of this architecture with these tensors. `framework` is that of the file and the
    /// default of the description, `window` the user's sequence length, `source` the origin of the model. Tensors that
    /// the network does not need must be listed as unused.
    ///
    /// # Errors
    /// If a layer, an argument or a tensor is unknown, missing or unused; the error names it.
    pub fn model(&self, framework: &str, tensors: &Tensors, window: Option<usize>, source: &str) -> Result<Imported> {
        let framework = if self.framework.is_empty() { framework } else { &self.framework };
        let owners = tensors.keys().map(|tensor| self.owner(tensor)).collect::<Vec<_>>();
        let notes = self.check(tensors, &owners)?;
        let mut inputs = self.inputs.clone();
        for input in inputs.iter_mut().filter(|_| window.is_some()) {
            check_window(&input.name, input.steps, window)?;
            input.steps = window;
        }
        let steps = inputs.iter().find_map(|input| input.steps);
        let build = |whole| {
            Builder { description: self, inputs: &inputs, framework, tensors, owners: &owners, whole }.build(source)
        };
        let model = match build(false) {
            // Retried only if the sequence length is known; otherwise the error names the layer that needs it.
            Err(error) if steps.is_some() && error.needs_window() => build(true)?,
            built => built?,
        };
        let assumptions = self.assumption(&model, steps).into_iter().collect();
        Ok(Imported { model, notes, assumptions })
    }
}

impl Description {
    /// Without a sequence length, states run on from step to step and never start again.
    fn assumption(&self, model: &Canonical, steps: Option<usize>) -> Option<Assumption> {
        // A window of steps forgets by itself.
        let has_states = |kind: CellKind| kind != CellKind::Window && !kind.spec().states.is_empty();
        let remembers = |node: &Node| CellKind::from_name(&node.cell).is_some_and(has_states);
        let states = model.architecture.nodes.iter().any(|node| node.unroll.is_none() && remembers(node));
        let stateful = self.layers.iter().any(|layer| layer.stateful);
        (states && steps.is_none() && !stateful).then(|| Assumption {
            what: "it runs as one endless state, since the number of steps is not given".into(),
            option: "--schedule FRAMES/EVERY",
        })
    }
}

impl ImportError {
    fn needs_window(&self) -> bool {
        match self {
            Self::NeedsWindow { .. } => true,
            Self::Layer { source, .. } => source.needs_window(),
            _ => false,
        }
    }
}
