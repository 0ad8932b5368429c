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

mod build;
mod names;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};

use super::keras;
use super::network::Source;
use crate::canonical::{Canonical, MAX_NODES, MAX_SIZE, Tensor};
use crate::data::{DataError, one_line};
use crate::error::ImportError;
use build::Builder;
pub(crate) use build::{foreign, last};
pub(crate) use names::nearest;
use names::{fits, within};

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

fn wrong(reason: String) -> ImportError {
    ImportError::Description(one_line(&reason))
}
