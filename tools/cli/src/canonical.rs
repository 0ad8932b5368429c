//! The canonical model: where every importer ends and the packer starts. One safetensors file; tensors are
//! named `<node>.<tensor>` as in the [`CellSpec`] of the node's cell, row-major f32,
//! and the architecture is JSON under the metadata key `tidegate`.

mod file;
mod front_end;
mod validate;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tidegate::Numeric;
use tidegate::cell::{CellSpec, Dim, ExtentSpec, Sizes};

pub use file::{MAX_FILE_BYTES, read_bounded};
pub use front_end::Mfcc;
pub use validate::{MAX_NODES, MAX_SIZE};

/// A tensor in row-major order.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// Its dimensions; empty for a scalar.
    pub shape: Vec<usize>,
    /// As many values as the product of `shape`.
    pub data: Vec<f32>,
}

/// A network as Tidegate sees it, wherever it was trained.
#[derive(Clone, Debug, PartialEq)]
pub struct Canonical {
    /// Everything but the weights.
    pub architecture: Architecture,
    /// By `<node>.<tensor>`.
    pub tensors: BTreeMap<String, Tensor>,
}

/// What the JSON holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Architecture {
    /// Version of this JSON: 1.
    pub version: u32,
    /// Where the network comes from, for people: file name, framework, license.
    pub source: String,
    /// What comes in at each step.
    pub inputs: Vec<Port>,
    /// In execution order.
    pub nodes: Vec<Node>,
    /// What goes out, each the value of a node or of an input.
    pub outputs: Vec<Port>,
    /// Names of the classes; empty where there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
    /// How audio becomes the input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub front_end: Option<Mfcc>,
    /// How a stream is cut into runs of the network.
    #[serde(default)]
    pub schedule: Schedule,
    /// How posteriors become events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detector: Option<Detector>,
    /// Of a model that is in integers already: what inputs and nodes count, by their names. A node that is not there moves
    /// what it reads.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub integers: BTreeMap<String, Integers>,
}

impl Architecture {
    /// The numeric to pack it in where none is asked for: its own if it is in integers already, else `usual`.
    pub fn numeric_or(&self, usual: Numeric) -> Numeric {
        if self.integers.is_empty() { usual } else { Numeric::I8 }
    }

    /// How long a word can be heard, and make events: as long as a window of the front end, or a second.
    pub fn window_ms(&self) -> u32 {
        match (&self.front_end, self.schedule) {
            (Some(front_end), Schedule::Windows { frames, .. }) => front_end.milliseconds(frames),
            _ => 1000,
        }
    }
}

/// A named input or output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Port {
    /// The foreign file's name for it.
    pub name: String,
    /// Features.
    pub size: usize,
    /// For an output: the node (or input) whose value it is. Empty for an input.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub from: String,
}

/// What a value counts in a model that is in integers already, and how the node that gives it computes with them: what an
/// image of the numeric `i8` needs beside the tensors.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Integers {
    /// What a unit is worth.
    pub scale: f32,
    /// The integer that stands for 0.0 where the model comes from; an image counts from it.
    pub zero_point: i32,
    /// Numbers by the names in the cell's spec for `i8`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub numbers: BTreeMap<String, i32>,
    /// What a unit of the weights of a tensor is worth: of all, or of so many rows each.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub scales: BTreeMap<String, Vec<f32>>,
    /// Of the vectors of the spec by their names: what the sum of each row starts from, or that, factor and shift; rows as
    /// canonical tensors have them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub rows: BTreeMap<String, Vec<i32>>,
}

/// One cell or layer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Node {
    /// Unique; prefix of its tensors' names.
    pub name: String,
    /// Name of a [`CellKind`](tidegate::cell::CellKind)'s spec.
    pub cell: String,
    /// Inputs of the model or earlier nodes; more than one are concatenated.
    pub inputs: Vec<String>,
    /// Features in.
    pub input_size: usize,
    /// Units.
    pub hidden_size: usize,
    /// Features out.
    pub output_size: usize,
    /// The options of the spec that are on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
    /// Numbers by the names in the spec; 0 where absent.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub params: BTreeMap<String, f32>,
    /// Activations (`tanh`, `hard_sigmoid(0.2,0.5)`) by the names in the spec; the spec's default where absent.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub activations: BTreeMap<String, String>,
    /// Whole numbers by the names in the spec; the spec's default where absent.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub extents: BTreeMap<String, usize>,
    /// Over how many time steps at once; absent: it steps once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unroll: Option<Unroll>,
}

impl Node {
    /// Rows of what it reads and writes: 1 unless it is unrolled.
    pub fn steps(&self) -> usize {
        self.unroll.map_or(1, |unroll| unroll.steps)
    }

    /// Its extents in the order of the spec, little-endian, as [`Sizes`] has them.
    pub fn extent_bytes(&self, spec: &CellSpec) -> Vec<[u8; 4]> {
        let value = |of: &ExtentSpec| match self.extents.get(of.name) {
            Some(&extent) => u32::try_from(extent).unwrap_or(u32::MAX),
            None => of.default,
        };
        spec.extents.iter().map(|of| value(of).to_le_bytes()).collect()
    }

    /// Bit `k`: option `k` of the spec.
    pub fn option_bits(&self, spec: &CellSpec) -> u32 {
        let set = |name: &&str| self.options.iter().any(|option| option == name);
        spec.options.iter().enumerate().map(|(bit, name)| u32::from(set(name)) << bit).sum()
    }

    /// What one of its dimensions is worth; `None` beyond what can be counted.
    pub fn dim(&self, spec: &CellSpec, dim: &Dim) -> Option<usize> {
        let extents = self.extent_bytes(spec);
        let (input, hidden, output) = (self.input_size, self.hidden_size, self.output_size);
        Sizes { input, hidden, output, options: self.option_bits(spec), extents: &extents }.dim(dim)
    }
}

/// A node that runs over the rows of a window, one time step a row, in one step of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Unroll {
    /// Rows.
    pub steps: usize,
    /// The last row is read first.
    #[serde(default)]
    pub read_backwards: bool,
    /// The first result goes to the last row.
    #[serde(default)]
    pub write_backwards: bool,
    /// The state is carried from one window to the next; else each begins at zero.
    #[serde(default)]
    pub stateful: bool,
}

/// How a stream is cut into runs of the network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Schedule {
    /// One state, carried on for ever.
    #[default]
    Endless,
    /// `frames` steps from a zero state; a new window starts every `every` frames.
    Windows {
        /// Steps in a window.
        frames: u32,
        /// Frames from the start of one window to the next.
        every: u32,
    },
}

/// How posteriors become events.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Detector {
    /// How many posteriors are averaged.
    pub mean_of: u32,
    /// For every label, in their order.
    pub labels: Vec<LabelDetector>,
}

impl Detector {
    /// The mean of three posteriors, at least 0.8, so many milliseconds apart; labels that begin with `_` are never events.
    /// A network with one label is no classifier, whose posteriors are slow, but fires for a tenth of a second: the mean
    /// of two.
    pub fn default_for(labels: &[String], refractory_ms: u32) -> Self {
        const NEVER: f32 = 2.0;
        let threshold = |label: &String| if label.starts_with('_') { NEVER } else { 0.8 };
        let label = |label| LabelDetector { threshold: threshold(label), refractory_ms };
        Self { mean_of: if labels.len() == 1 { 2 } else { 3 }, labels: labels.iter().map(label).collect() }
    }
}

/// The detector's settings for one label.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LabelDetector {
    /// Least mean posterior that makes an event; above 1: never.
    pub threshold: f32,
    /// No event of any label for so long after one of this label, milliseconds.
    pub refractory_ms: u32,
}
