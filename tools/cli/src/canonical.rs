//! The canonical model: where every importer ends and the packer starts. One safetensors file; tensors are
//! named `<node>.<tensor>` as in the [`CellSpec`](tidegate::cell::CellSpec) of the node's cell, row-major f32,
//! and the architecture is JSON under the metadata key `tidegate`.

mod file;
mod validate;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use file::{MAX_FILE_BYTES, read_bounded};
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
    /// Where the network comes from, for people: file name, framework, licence.
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
    /// Activation names by the names in the spec; the spec's default where absent.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub activations: BTreeMap<String, String>,
    /// Whole numbers beyond the three sizes, by the names in the spec; the spec's default where absent.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub extents: BTreeMap<String, usize>,
    /// Whether it runs once for each row of a window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unroll: Option<Unroll>,
}

/// How a node runs over the rows of a window. Its inputs and its output hold `steps` rows each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Unroll {
    /// Rows of a window.
    pub steps: usize,
    /// Whether the last valid row is read first.
    #[serde(default)]
    pub read_backwards: bool,
    /// Whether the result of the row that was read first goes to the last valid row.
    #[serde(default)]
    pub write_backwards: bool,
    /// Whether the state is carried from window to window; else every window starts from zero.
    #[serde(default)]
    pub stateful: bool,
}

/// Mel-frequency cepstral coefficients, as TensorFlow's `AudioSpectrogram` and `Mfcc` compute them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mfcc {
    /// Hz
    pub sample_rate: u32,
    /// Samples in a frame.
    pub window_len: u32,
    /// Samples from one frame to the next.
    pub stride_len: u32,
    /// Points of the FFT; a power of two.
    pub fft_len: u32,
    /// Mel bands.
    pub mel_bands: u32,
    /// Hz
    pub lower_hz: f32,
    /// Hz
    pub upper_hz: f32,
    /// Coefficients of the DCT that are kept.
    pub coefficients: u32,
    /// Least value under the logarithm.
    pub log_floor: f32,
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
    /// The mean of three posteriors, at least 0.8, one second apart; labels that begin with `_` are never events.
    pub fn default_for(labels: &[String]) -> Self {
        const NEVER: f32 = 2.0;
        let label = |label: &String| LabelDetector {
            threshold: if label.starts_with('_') { NEVER } else { 0.8 },
            refractory_ms: 1000,
        };
        Self { mean_of: 3, labels: labels.iter().map(label).collect() }
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
