//! Architecture descriptions for weights-only files: layers with the classes and arguments of their framework, their
//! inputs, and the names of their tensors. Every importer builds its canonical model from a description, with the layer
//! conversions of its family. As a file (`--arch`) it is JSON:
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
//! A layer over time makes one step for each step of the stream. If the sequence length is known from `steps` (or
//! `--window N`) and only the last output is used, the schedule is windows of this length. If a layer needs the whole
//! sequence (it runs backwards, pads, flattens), or every output is used, the model reads windows of this many rows.

mod names;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};

use super::refuse::err_if;
use crate::canonical::{Canonical, MAX_NODES, MAX_SIZE, Tensor};
use crate::{data::one_line, error::ImportError, error::Result};
use names::fits;
pub(crate) use names::nearest;
pub(super) use names::within;

/// Placeholder in a draft for anything that the weights do not determine.
pub(super) const OPEN: &str = "?";

/// Tensors by name.
pub type Tensors = BTreeMap<String, Tensor>;

/// Architecture of a network, from its file or from the user.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Description {
    /// Framework of the classes, as in golden cases: `torch`, `tf1`, `keras3`. If empty, it follows from the file
    /// format.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub framework: String,
    /// Inputs of the network.
    pub inputs: Vec<Input>,
    /// Layers; each reads only inputs and earlier layers.
    pub layers: Vec<LayerDescription>,
    /// Layers whose outputs are outputs of the model, under their names; the last layer if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outputs: Vec<String>,
    /// Tensors that the network does not need: names or prefixes; `*` matches any text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unused: Vec<String>,
    /// Version of the framework that wrote the file, if the file states it and it matters.
    #[serde(skip)]
    pub version: String,
}

/// An input at one step.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Name of its port.
    pub name: String,
    /// Number of features, or their dimensions in the framework's order.
    pub size: Size,
    /// Sequence length, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<usize>,
    /// Whether there is no time axis: every step is independent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub vector: bool,
}

/// One number or several.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Size {
    /// Number of features.
    One(usize),
    /// Dimensions, without batch and time.
    Shape(Vec<usize>),
}

impl Default for Size {
    fn default() -> Self {
        Self::One(1)
    }
}

impl Size {
    pub(super) fn dims(&self) -> &[usize] {
        match self {
            Self::One(size) => std::slice::from_ref(size),
            Self::Shape(shape) => shape,
        }
    }
}

/// A layer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LayerDescription {
    /// Name by which other layers refer to it.
    pub name: String,
    /// Class in its framework, without the module.
    pub class: String,
    /// Constructor arguments by name.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub args: Map<String, Json>,
    /// Inputs and earlier layers that it reads; if empty, the previous layer, or all inputs for the first layer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<String>,
    /// Prefix of its tensor names, before a `.` or a `/`; default: the layer's name. May be empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// Tensors with names of their own: the class's name of each, and its name in the file.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tensors: BTreeMap<String, String>,
    /// Outputs that are used.
    #[serde(default, skip_serializing_if = "Take::is_sequence")]
    pub take: Take,
    /// Whether its state is carried from one window to the next.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stateful: bool,
    /// Framework of the class, if it is not that of the network: `sru`, `ncps`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub framework: String,
    /// Location of its variables, if the architecture in the file states it.
    #[serde(skip)]
    pub saved: Option<String>,
}

/// Outputs of a layer over time that are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Take {
    /// All outputs.
    #[default]
    Sequence,
    /// The output of the last step: `outputs[:, -1]`.
    Last,
    /// The last output of each direction: the last hidden state, `return_sequences=False`.
    Final,
    /// Not decided yet: only in drafts, and refused.
    #[serde(rename = "?")]
    Open,
}

impl Take {
    // serde requires this signature.
    #[allow(clippy::trivially_copy_pass_by_ref)]
    fn is_sequence(&self) -> bool {
        *self == Self::Sequence
    }
}

/// An imported model, with notes for the user on the import.
#[derive(Clone, Debug)]
pub struct Imported {
    /// The model.
    pub model: Canonical,
    /// Notes, one a line: unused tensors, lost precision.
    pub notes: Vec<String>,
    /// Choices that the file leaves open and that the importer has made.
    pub assumptions: Vec<Assumption>,
}

/// A choice that a file leaves open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assumption {
    /// What is assumed, in one line.
    pub what: String,
    /// The option that makes another choice, with its value: `--schedule FRAMES/EVERY`.
    pub option: &'static str,
}

impl Description {
    /// Checks that do not depend on the way the model is built. Returns notes on unused tensors.
    pub(super) fn check(&self, tensors: &Tensors, owners: &[Option<Owner<'_>>]) -> Result<Vec<String>> {
        let empty = self.inputs.is_empty() || self.layers.is_empty();
        err_if(empty, || wrong("list of inputs or of layers is empty".into()))?;
        err_if(self.layers.len() > MAX_NODES, || wrong(format!("list of layers is longer than {MAX_NODES}")))?;
        let mut names = BTreeSet::new();
        let all = self.inputs.iter().map(|input| &input.name).chain(self.layers.iter().map(|layer| &layer.name));
        if let Some(twice) = all.clone().find(|name| !names.insert(name.as_str())) {
            return Err(wrong(format!("name {twice:?} occurs twice")));
        }
        for input in &self.inputs {
            let size = input.size.dims().iter().try_fold(1_usize, |size, &dim| size.checked_mul(dim));
            let (name, fits) = (&input.name, |size: usize| (1..=MAX_SIZE).contains(&size));
            let refuse = |what: &str| wrong(format!("input {name:?} has {what} not from 1 to {MAX_SIZE}"));
            err_if(!size.is_some_and(fits), || refuse("a size that is"))?;
            err_if(!input.steps.is_none_or(fits), || refuse("steps that are"))?;
        }
        if let Some((layer, what)) = self.layers.iter().find_map(|layer| Some((layer, layer.open()?))) {
            let name = &layer.name;
            return Err(wrong(format!(
                "layer {name:?} has {OPEN:?} for {what}: fill it in, or remove what is not there"
            )));
        }
        let of_no_layer = tensors.keys().zip(owners).filter(|(_, owner)| owner.is_none()).map(|(tensor, _)| tensor);
        let (unused, unknown): (Vec<&String>, Vec<&String>) = of_no_layer.partition(|tensor| self.is_unused(tensor));
        if let Some(tensor) = unknown.first() {
            let more = if unknown.len() > 1 { format!(" (and {} more)", unknown.len() - 1) } else { String::new() };
            return Err(wrong(format!("layers do not use tensor {tensor:?}{more}: list it under \"unused\"")));
        }
        Ok(unused.into_iter().map(|tensor| format!("not used: {tensor}")).collect())
    }

    /// This description on one line, as a draft for the user.
    pub(super) fn draft(&self) -> String {
        const MAX_BYTES: usize = 1 << 13;
        let draft = serde_json::to_string(self).unwrap_or_default();
        let fits = draft.len() <= MAX_BYTES && !draft.contains(char::is_control);
        if fits { draft } else { "(too long to be shown)".into() }
    }

    pub(super) fn is_unused(&self, tensor: &str) -> bool {
        self.unused
            .iter()
            .any(|pattern| tensor == pattern || within(pattern, tensor).is_some() || fits(tensor, pattern))
    }

    /// The layers that name the tensor, or those with the longest matching prefix.
    pub(super) fn owner(&self, tensor: &str) -> Option<Owner<'_>> {
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

/// Owner of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner<'a> {
    /// Layers that name it.
    Named,
    /// Layers with this prefix.
    Prefix(&'a str),
}

impl LayerDescription {
    /// Whether the layer names a tensor, or the tensor is within its prefix.
    pub(crate) fn has(&self, tensor: &str) -> bool {
        self.tensors.values().any(|named| named == tensor) || within(self.prefix(), tensor).is_some()
    }

    /// The first thing that a draft has left open.
    fn open(&self) -> Option<String> {
        let is_open = |value: &Json| {
            let inner = value.get("config").and_then(Json::as_object);
            *value == OPEN || inner.is_some_and(|args| args.values().any(|value| *value == OPEN))
        };
        match () {
            () if self.class == OPEN => Some("its class".into()),
            () if self.inputs.iter().any(|input| input == OPEN) => Some("its inputs".into()),
            () if self.take == Take::Open => Some("take (sequence, last or final)".into()),
            () => self.args.iter().find(|(_, value)| is_open(value)).map(|(name, _)| format!("argument {name}")),
        }
    }

    pub(crate) fn prefix(&self) -> &str {
        self.prefix.as_deref().unwrap_or(&self.name)
    }
}

pub(super) fn wrong(reason: String) -> ImportError {
    ImportError::Description(one_line(&reason))
}
