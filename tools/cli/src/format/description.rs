//! An architecture in words, for files that hold only weights: layers with their framework's classes and arguments, what
//! they read, and where their tensors are. Every importer of files makes its canonical model from one, through the
//! conversions that its family has for layers. As a file (`--arch`) it is JSON:
//!
//! ```json
//! {
//!   "framework": "torch",
//!   "inputs": [{"name": "features", "size": 13, "steps": 29}],
//!   "layers": [
//!     {"name": "lstm", "class": "LSTM", "args": {"bidirectional": true}, "take": "final"},
//!     {"name": "fc", "class": "Linear", "prefix": "head.0"},
//!     {"name": "softmax", "class": "Softmax"}
//!   ],
//!   "outputs": ["softmax"],
//!   "unused": ["optimizer"]
//! }
//! ```
//!
//! # Time
//! A layer over time steps with the stream. Where `steps` (or `--window N`) says how many a sequence has and only the
//! last output counts, the schedule is windows of so many; where a layer looks at the sequence as a whole (it runs
//! backwards, pads, flattens), or every output counts, the model looks at windows of so many rows.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};

use super::golden::{self, Case};
use super::network::{Network, Source};
use super::{keras, tf1, torch};
use crate::canonical::{Canonical, MAX_NODES, MAX_SIZE, Schedule, Tensor};
use crate::data::{DataError, one_line};
use crate::error::ImportError;

/// Most bytes of a file with a description.
const MAX_BYTES: u64 = 1 << 20;

/// What a file says about its network, or a person.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Description {
    /// Whose classes they are, as in golden cases: `torch`, `tf1`, `keras3`. The file's format says so where it is empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub framework: String,
    /// What comes in.
    pub inputs: Vec<Input>,
    /// In an order in which each reads only what is before it.
    pub layers: Vec<LayerDescription>,
    /// Layers whose outputs go out, under their names; the last one where there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outputs: Vec<String>,
    /// Tensors that the network does not need: names, or what they begin with; a `*` stands for anything.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unused: Vec<String>,
    /// Of the framework that has written the file, where it says so and it matters.
    #[serde(skip)]
    pub version: String,
}

/// An input at one step.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Its port's name.
    pub name: String,
    /// Features, or their dimensions in the framework's order.
    pub size: Size,
    /// Of a sequence, if they are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<usize>,
    /// Whether there is no time: every step is a thing of its own.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub vector: bool,
}

/// One number or several.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Size {
    /// Features.
    One(usize),
    /// Dimensions, without batch and time.
    Shape(Vec<usize>),
}

impl Default for Size {
    fn default() -> Self {
        Self::One(1)
    }
}

/// A layer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LayerDescription {
    /// For other layers to read.
    pub name: String,
    /// In its framework, without the module.
    pub class: String,
    /// Of its constructor, by name.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub args: Map<String, Json>,
    /// Inputs and layers before it; where there are none the layer just before it, or all inputs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<String>,
    /// What the names of its tensors begin with, before a `.` or a `/`; its name where it is not said. May be empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// Tensors that have names of their own: what the class calls them, and their names in the file.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tensors: BTreeMap<String, String>,
    /// Which of its outputs count.
    #[serde(default, skip_serializing_if = "Take::is_sequence")]
    pub take: Take,
    /// Whether its state is carried from one window to the next.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stateful: bool,
    /// Whose class it is, where it is not the network's framework: `sru`, `ncps`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub framework: String,
    /// Where a file has its variables, if the file's own architecture says so.
    #[serde(skip)]
    pub saved: Option<String>,
}

/// Which outputs of a layer over time count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Take {
    /// All.
    #[default]
    Sequence,
    /// That of the last step: `outputs[:, -1]`.
    Last,
    /// What each direction gives last: the last hidden state, `return_sequences=False`.
    Final,
}

impl Take {
    // serde's signature.
    #[allow(clippy::trivially_copy_pass_by_ref)]
    fn is_sequence(&self) -> bool {
        *self == Self::Sequence
    }
}

/// A model and what a person should know about how it came to be.
#[derive(Clone, Debug)]
pub struct Imported {
    /// The model.
    pub model: Canonical,
    /// Lines: tensors that are not used, digits that are lost.
    pub notes: Vec<String>,
}

/// An input or what a layer gives, for other layers to read.
#[derive(Clone, Debug)]
pub(crate) struct Value {
    /// In the network.
    pub source: Source,
    /// Dimensions at one step in the runtime's order: channels last.
    pub shape: Vec<usize>,
    /// Steps of the sequence, if they are known.
    pub steps: Option<usize>,
    /// Whether it is still a sequence.
    pub sequence: bool,
    /// How many buffers of frames are before it: it steps when the last of them gives.
    pub pace: usize,
    /// Where the framework's features are among these, if they are in another order.
    pub order: Option<Vec<usize>>,
    /// What is 0 where a step does not count, if any may not.
    pub mask: Option<Source>,
}

impl Value {
    /// The same with other features.
    pub fn with(&self, source: Source) -> Self {
        Self { shape: vec![source.size()], source, order: None, ..self.clone() }
    }
}

impl Description {
    /// Reads a file with a description.
    ///
    /// # Errors
    /// If it cannot be read, is too large, or is none; the error names field and line.
    pub fn read(path: &Path) -> Result<Self, DataError> {
        use std::io::Read;
        let mut text = Vec::new();
        let file = std::fs::File::open(path);
        file.and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut text))
            .map_err(|error| DataError::io(path, "read", error))?;
        if text.len() as u64 > MAX_BYTES {
            return Err(DataError::new(
                path,
                format!("is larger than {MAX_BYTES} bytes: an architecture is JSON text"),
            ));
        }
        let invalid = |error: &dyn Display| {
            DataError::new(path, format!("is no architecture: {error}; docs/architecture.md has examples"))
        };
        let json: Json = serde_json::from_slice(&text).map_err(|error| invalid(&error))?;
        // Keras has words of its own.
        if json.get("class_name").is_some() {
            return keras::description(&json).map_err(|error| invalid(&error));
        }
        serde_json::from_slice(&text).map_err(|error| invalid(&error))
    }

    /// The canonical model of this architecture with these tensors. `framework` is the file's where the description
    /// names none, `window` the steps that a person gives, `source` says where it comes from. Tensors that the network
    /// does not need must be named as unused.
    ///
    /// # Errors
    /// If a layer, an argument or a tensor is not known, missing or left over; the error names it.
    pub fn model(
        &self,
        framework: &str,
        tensors: &BTreeMap<String, Tensor>,
        window: Option<usize>,
        source: &str,
    ) -> Result<Imported, ImportError> {
        let framework = if self.framework.is_empty() { framework } else { &self.framework };
        let owners = tensors.keys().map(|tensor| self.owner(tensor)).collect::<Vec<_>>();
        let notes = self.check(tensors, &owners)?;
        let mut inputs = self.inputs.clone();
        for input in inputs.iter_mut().filter(|_| window.is_some()) {
            input.steps = window;
        }
        let steps = inputs.iter().find_map(|input| input.steps);
        let build = |whole| {
            Builder { description: self, inputs: &inputs, framework, tensors, owners: &owners, whole }.build(source)
        };
        let model = match build(false) {
            // Only if they are known; else the error says which layer needs to know.
            Err(error) if steps.is_some() && error.needs_window() => build(true)?,
            built => built?,
        };
        Ok(Imported { model, notes })
    }

    /// What does not depend on how it is built. Gives notes on what is not used.
    fn check(
        &self,
        tensors: &BTreeMap<String, Tensor>,
        owners: &[Option<Owner<'_>>],
    ) -> Result<Vec<String>, ImportError> {
        if self.inputs.is_empty() || self.layers.is_empty() {
            return Err(wrong("list of inputs or of layers is empty".into()));
        }
        if self.layers.len() > MAX_NODES {
            return Err(wrong(format!("list of layers is longer than {MAX_NODES}")));
        }
        let mut names = BTreeSet::new();
        let all = self.inputs.iter().map(|input| &input.name).chain(self.layers.iter().map(|layer| &layer.name));
        if let Some(twice) = all.clone().find(|name| !names.insert(name.as_str())) {
            return Err(wrong(format!("name {twice:?} is there twice")));
        }
        let dims = |input: &Input| match &input.size {
            Size::One(size) => vec![*size],
            Size::Shape(shape) => shape.clone(),
        };
        for input in &self.inputs {
            let size = dims(input).iter().try_fold(1_usize, |size, &dim| size.checked_mul(dim));
            if !size.is_some_and(|size| (1..=MAX_SIZE).contains(&size)) {
                return Err(wrong(format!("input {:?} has a size that is not from 1 to {MAX_SIZE}", input.name)));
            }
            if input.steps.is_some_and(|steps| !(1..=MAX_SIZE).contains(&steps)) {
                return Err(wrong(format!("input {:?} has steps that are not from 1 to {MAX_SIZE}", input.name)));
            }
        }
        let of_no_layer = tensors.keys().zip(owners).filter(|(_, owner)| owner.is_none()).map(|(tensor, _)| tensor);
        let (unused, unknown): (Vec<&String>, Vec<&String>) = of_no_layer.partition(|tensor| self.is_unused(tensor));
        if let Some(tensor) = unknown.first() {
            let more = if unknown.len() > 1 { format!(" (and {} more)", unknown.len() - 1) } else { String::new() };
            return Err(wrong(format!("layers have no use for tensor {tensor:?}{more}: name it under \"unused\"")));
        }
        Ok(unused.into_iter().map(|tensor| format!("not used: {tensor}")).collect())
    }

    fn is_unused(&self, tensor: &str) -> bool {
        self.unused
            .iter()
            .any(|pattern| tensor == pattern || within(pattern, tensor).is_some() || fits(tensor, pattern))
    }

    /// The layers that name the tensor, or the longest prefix of a layer that it has.
    fn owner(&self, tensor: &str) -> Option<Owner<'_>> {
        if self.layers.iter().any(|layer| layer.tensors.values().any(|named| named == tensor)) {
            return Some(Owner::Named);
        }
        if self.is_unused(tensor) {
            return None;
        }
        let prefixes = self.layers.iter().map(LayerDescription::prefix);
        let longest = prefixes.filter(|prefix| within(prefix, tensor).is_some()).max_by_key(|prefix| prefix.len());
        longest.map(Owner::Prefix)
    }
}

/// Who has a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner<'a> {
    /// The layers that name it.
    Named,
    /// The layers with this prefix.
    Prefix(&'a str),
}

impl LayerDescription {
    /// Whether a tensor is one that it names, or within its prefix.
    pub(crate) fn has(&self, tensor: &str) -> bool {
        self.tensors.values().any(|named| named == tensor) || within(self.prefix(), tensor).is_some()
    }

    pub(crate) fn prefix(&self) -> &str {
        self.prefix.as_deref().unwrap_or(&self.name)
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

/// The name of a tensor within a prefix, if it is there.
fn within<'a>(prefix: &str, tensor: &'a str) -> Option<&'a str> {
    let rest = tensor.strip_prefix(prefix)?;
    if prefix.is_empty() || prefix.ends_with(['.', '/']) {
        return Some(rest);
    }
    rest.strip_prefix(['.', '/'])
}

/// Whether a name fits a pattern with stars: the parts between them are found one after the other.
fn fits(name: &str, pattern: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return name == pattern };
    let Some(mut left) = name.strip_prefix(start) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let end = parts.pop().unwrap_or_default();
    for part in parts {
        match left.find(part) {
            Some(at) => left = &left[at + part.len()..],
            None => return false,
        }
    }
    left.ends_with(end)
}

fn wrong(reason: String) -> ImportError {
    ImportError::Description(one_line(&reason))
}

/// The names that differ least from this one, nearest first.
pub(crate) fn nearest<'a>(name: &str, names: impl Iterator<Item = &'a String>) -> Vec<String> {
    /// Names that say enough for a line, and the length to which they are compared.
    const COUNT: usize = 3;
    const LEN: usize = 128;
    let short = |text: &str| text.chars().take(LEN).collect::<Vec<char>>();
    let wanted = short(name);
    let mut all: Vec<(usize, &String)> = names.take(4096).map(|name| (distance(&wanted, &short(name)), name)).collect();
    all.sort();
    all.into_iter().take(COUNT).map(|(_, name)| name.escape_debug().to_string()).collect()
}

/// Levenshtein's.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.iter().enumerate() {
        let mut diagonal = i;
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(from != to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

struct Builder<'a> {
    description: &'a Description,
    inputs: &'a [Input],
    framework: &'a str,
    tensors: &'a BTreeMap<String, Tensor>,
    /// Of each tensor.
    owners: &'a [Option<Owner<'a>>],
    /// Whether the model looks at whole sequences in a window.
    whole: bool,
}

impl Builder<'_> {
    fn build(&self, source: &str) -> Result<Canonical, ImportError> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_where_a_name_does() {
        assert_eq!(within("lstm", "lstm.weight"), Some("weight"));
        assert_eq!(within("lstm", "lstm2.weight"), None);
        assert_eq!(within("rnn/", "rnn/kernel"), Some("kernel"));
        assert_eq!(within("", "kernel"), Some("kernel"));
    }

    #[test]
    fn a_star_stands_for_anything() {
        assert!(fits("a/Adam_1", "*/Adam*"));
        assert!(fits("a/Adam", "*/Adam"));
        assert!(!fits("a/Adam_1", "*/Adam"));
        assert!(!fits("Adam", "*/Adam"));
    }

    #[test]
    fn the_nearest_names_come_first() {
        let names = ["fc.bias", "lstm.weight_ih_l0", "lstm.weight_hh_l0"].map(str::to_owned);
        assert_eq!(nearest("lstm.weight_ih_l1", names.iter())[0], "lstm.weight_ih_l0");
    }
}
