//! The canonical model: the output of every importer and the input of the packer. It is stored as one safetensors file.
//! Tensors are row-major `f32`, named `<node>.<tensor>` as in the [`CellSpec`] of the node's cell; the architecture is
//! JSON under the metadata key `tidegate`.

mod file;
mod front_end;
mod rows;
mod simplify;
mod validate;

use std::collections::BTreeMap;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use tidegate::Numeric;
use tidegate::internals::cell::{CellKind, CellSpec, Dim, ExtentSpec, Sizes};

pub use file::{MAX_FILE_BYTES, read_bounded};
pub use front_end::Mfcc;
pub(crate) use rows::{canonical_rows, cols, dim, image_rows};
pub use validate::{MAX_NODES, MAX_SIZE};

/// A tensor in row-major order.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// Dimensions; empty for a scalar.
    pub shape: Vec<usize>,
    /// Values; their number is the product of `shape`.
    pub data: Vec<f32>,
}

/// A network in Tidegate's terms, independent of the framework that trained it.
#[derive(Clone, Debug, PartialEq)]
pub struct Canonical {
    /// Everything but the weights.
    pub architecture: Architecture,
    /// Tensors by `<node>.<tensor>`.
    pub tensors: BTreeMap<String, Tensor>,
}

/// Content of the JSON.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Architecture {
    /// Version of this JSON: 1.
    pub version: u32,
    /// Origin of the network, for the reader: file name, framework, license.
    pub source: String,
    /// Inputs of each step.
    pub inputs: Vec<Port>,
    /// Nodes in execution order.
    pub nodes: Vec<Node>,
    /// Outputs of each step; each is the value of a node or of an input.
    pub outputs: Vec<Port>,
    /// Names of the classes; empty if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
    /// Front end that turns audio into the first input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub front_end: Option<Mfcc>,
    /// Division of a stream into runs of the network.
    #[serde(default)]
    pub schedule: Schedule,
    /// Detector that turns posteriors into events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detector: Option<Detector>,
    /// Integer form of inputs and nodes, by name, for a model that is an integer model already. A node without an entry
    /// only moves its input.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub integers: BTreeMap<String, Integers>,
}

impl Architecture {
    /// Default numeric for packing: `i8` for a model that is an integer model already, otherwise `usual`.
    pub fn numeric_or(&self, usual: Numeric) -> Numeric {
        if self.integers.is_empty() { usual } else { Numeric::I8 }
    }

    /// Duration for which a word can cause events: the length of a window of the front end, or one second without
    /// windows.
    pub fn window_ms(&self) -> u32 {
        match (&self.front_end, self.schedule) {
            (Some(front_end), Schedule::Windows { frames, .. }) => front_end.milliseconds(frames),
            _ => 1000,
        }
    }
}

/// A named input or output.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Port {
    /// Name in the imported file.
    pub name: String,
    /// Number of features.
    pub size: usize,
    /// For an output, the node or input whose value it is. Empty for an input.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub from: String,
    /// For an input of a model that streams in its own framework, the number of steps in one call there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<usize>,
    /// For an input that is a whole window of frames, the number of features of a frame.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frame: Option<usize>,
}

/// Integer form of a value, and of the node that computes it, in a model that is an integer model already: all that an
/// image of the numeric `i8` needs in addition to the tensors.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Integers {
    /// Scale of the value.
    pub scale: f32,
    /// The integer that stands for 0.0 in the original model; values in an image are relative to it.
    pub zero_point: i32,
    /// Numbers by their names in the cell's `i8` spec.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub numbers: BTreeMap<String, i32>,
    /// Scales of a tensor's weights: one for all rows, or one for each group of equally many rows.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub scales: BTreeMap<String, Vec<f32>>,
    /// Vectors by their names in the spec: for each row, the initial value of its sum, or initial value, factor and
    /// shift, in the order of the canonical tensors; or the entries of a table.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub rows: BTreeMap<String, Vec<i32>>,
}

/// One cell or layer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Node {
    /// Unique name; prefix of the names of its tensors.
    pub name: String,
    /// Name in the spec of a [`CellKind`].
    pub cell: String,
    /// Inputs of the model or earlier nodes; several are concatenated.
    pub inputs: Vec<String>,
    /// Number of input features.
    pub input_size: usize,
    /// Number of units.
    pub hidden_size: usize,
    /// Number of output features.
    pub output_size: usize,
    /// Enabled options of the spec.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
    /// Parameters by their names in the spec; 0 if absent.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub params: BTreeMap<String, f32>,
    /// Activations (`tanh`, `hard_sigmoid(0.2,0.5)`) by their names in the spec; the spec's default if absent.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub activations: BTreeMap<String, String>,
    /// Whole numbers by their names in the spec; the spec's default if absent.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub extents: BTreeMap<String, usize>,
    /// The time steps that the node runs over in one step of the model; a node without it makes one step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unroll: Option<Unroll>,
}

impl Node {
    /// Number of rows in its input and output: 1 unless it is unrolled.
    pub fn steps(&self) -> usize {
        self.unroll.map_or(1, |unroll| unroll.steps)
    }

    /// Extents in the order of the spec, little-endian, as in [`Sizes`].
    pub fn extent_bytes(&self, spec: &CellSpec) -> Vec<[u8; 4]> {
        let value = |of: &ExtentSpec| match self.extents.get(of.name) {
            Some(&extent) => u32::try_from(extent).unwrap_or(u32::MAX),
            None => of.default,
        };
        spec.extents.iter().map(|of| value(of).to_le_bytes()).collect()
    }

    /// An extent; 0 if the cell has no such extent.
    pub fn extent(&self, name: &str) -> usize {
        let spec = CellKind::from_name(&self.cell).map(CellKind::spec);
        let known = spec.and_then(|spec| spec.extents.iter().find(|of| of.name == name));
        known.map_or(0, |of| self.extents.get(name).copied().unwrap_or(of.default as usize))
    }

    /// Bit `k`: option `k` of the spec.
    pub fn option_bits(&self, spec: &CellSpec) -> u32 {
        let set = |name: &&str| self.options.iter().any(|option| option == name);
        spec.options.iter().enumerate().map(|(bit, name)| u32::from(set(name)) << bit).sum()
    }

    /// Value of one of the node's dimensions; `None` on overflow.
    pub fn dim(&self, spec: &CellSpec, dim: &Dim) -> Option<usize> {
        let extents = self.extent_bytes(spec);
        let (input, hidden, output) = (self.input_size, self.hidden_size, self.output_size);
        Sizes { input, hidden, output, options: self.option_bits(spec), extents: &extents }.dim(dim)
    }
}

/// Unrolling: the node runs over the rows of a window, one time step for each row, in one step of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Unroll {
    /// Number of rows.
    pub steps: usize,
    /// Whether the last row is read first.
    #[serde(default)]
    pub read_backwards: bool,
    /// Whether the first result is written to the last row.
    #[serde(default)]
    pub write_backwards: bool,
    /// Whether the state is carried from one window to the next; otherwise each window starts at zero.
    #[serde(default)]
    pub stateful: bool,
    /// Whether each row has a state of its own, which is carried from step to step. Requires `stateful` and neither
    /// direction backwards.
    #[serde(default, skip_serializing_if = "is_unset")]
    pub apart: bool,
}

impl Unroll {
    /// `steps` rows in order, with one state that is not carried on.
    pub fn over(steps: usize) -> Self {
        Self { steps, read_backwards: false, write_backwards: false, stateful: false, apart: false }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde needs")]
fn is_unset(flag: &bool) -> bool {
    !flag
}

/// Division of a stream into runs of the network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Schedule {
    /// One endless run that keeps its state.
    #[default]
    Endless,
    /// `frames` steps from a zero state; a new window starts every `every` frames.
    Windows {
        /// Number of steps in a window.
        frames: u32,
        /// Number of frames from the start of one window to the next.
        every: u32,
    },
}

impl FromStr for Schedule {
    type Err = String;

    /// `endless` or `25/6`.
    fn from_str(text: &str) -> Result<Self, String> {
        if text == "endless" {
            return Ok(Self::Endless);
        }
        let numbers =
            text.split_once('/').and_then(|(frames, every)| Some((frames.parse().ok()?, every.parse().ok()?)));
        match numbers {
            Some((frames @ 1.., every @ 1..)) if frames.max(every) <= MAX_SIZE as u32 => {
                Ok(Self::Windows { frames, every })
            }
            _ => Err(format!("write `endless`, or two numbers from 1 to {MAX_SIZE} as in 25/6")),
        }
    }
}

/// Converts to the schedule of `core`.
impl From<Schedule> for tidegate::Schedule {
    fn from(schedule: Schedule) -> Self {
        match schedule {
            Schedule::Endless => Self::Endless,
            Schedule::Windows { frames, every } => Self::Windows { frames, every },
        }
    }
}

/// Detector: turns posteriors into events.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Detector {
    /// Number of posteriors that are averaged.
    pub mean_of: u32,
    /// Settings of every label, in order.
    pub labels: Vec<LabelDetector>,
}

impl Detector {
    /// The default detector averages three posteriors, has a threshold of 0.8, and reports events at least
    /// `refractory_ms` milliseconds apart. Labels that begin with `_` never cause events. With a single label, only two
    /// posteriors are averaged: such a network fires for a tenth of a second, while a classifier's posteriors are slow.
    pub fn default_for(labels: &[String], refractory_ms: u32) -> Self {
        const NEVER: f32 = 2.0;
        let threshold = |label: &String| if label.starts_with('_') { NEVER } else { 0.8 };
        let label = |label| LabelDetector { threshold: threshold(label), refractory_ms };
        Self { mean_of: if labels.len() == 1 { 2 } else { 3 }, labels: labels.iter().map(label).collect() }
    }
}

/// Detector settings of one label.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LabelDetector {
    /// Least mean posterior that causes an event; a value above 1 disables the label.
    pub threshold: f32,
    /// Milliseconds after an event of this label without any event of any label.
    pub refractory_ms: u32,
}
