//! Errors of models and their files, as the command line prints them: `file: reason; what to do`. Every reason is one
//! line, whatever names the file contains.

use std::fmt;
use std::io;

use thiserror::Error;

use crate::budget::TooCostly;
use crate::data::one_line;

/// A tensor's dimensions as errors print them: `472 x 10`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape(pub Vec<usize>);

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("a scalar");
        }
        // A hostile file may claim any number of dimensions; the first eight are enough.
        for (k, dim) in self.0.iter().take(8).enumerate() {
            write!(f, "{}{dim}", if k == 0 { "" } else { " x " })?;
        }
        f.write_str(if self.0.len() > 8 { " x ..." } else { "" })
    }
}

/// Why a canonical model is not valid.
#[derive(Debug, Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the error texts explain the variants and their fields")]
pub enum ModelError {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("it is larger than {limit} bytes")]
    TooLarge { limit: u64 },
    #[error("it is not a readable safetensors file: {0}")]
    Container(String),
    #[error("its metadata has no key 'tidegate'")]
    NotCanonical,
    #[error("its architecture is not readable: {0}")]
    Architecture(String),
    #[error("its architecture has version {found}, this build reads version 1")]
    Version { found: u32 },
    #[error("tensor {tensor:?} is {found}, but canonical tensors are F32")]
    DType { tensor: String, found: String },
    #[error("{0}")]
    Model(String),
    #[error("node {node:?}: {reason}")]
    Node { node: String, reason: String },
    #[error("{tensor} is {found}, but a cell of {hidden} units over {input} features needs {needed}")]
    Shape { tensor: String, found: Shape, hidden: usize, input: usize, needed: Shape },
    #[error("tensor {tensor:?} is missing")]
    MissingTensor { tensor: String },
    #[error("tensor {tensor:?} belongs to no node")]
    LeftoverTensor { tensor: String },
    #[error("{tensor} holds {value} at {index}, but weights must be finite")]
    NotFinite { tensor: String, value: f32, index: usize },
    #[error(transparent)]
    TooCostly(#[from] TooCostly),
}

/// The result of an import, or of a part of one.
pub(crate) type Result<T, E = ImportError> = std::result::Result<T, E>;

/// Why a file, or a set of foreign tensors, cannot be imported as a canonical model.
#[derive(Debug, Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the error texts explain the variants and their fields")]
pub enum ImportError {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("it is larger than {limit} bytes")]
    TooLarge { limit: u64 },
    /// More than a reader of this format ever reads, so that hostile files cost little.
    #[error("it has more than {most} {what}")]
    Limit { most: usize, what: &'static str },
    #[error("it looks like {found}, which is not supported")]
    NotReadYet { found: &'static str },
    #[error("it is neither a flash image nor a model in a known format")]
    Unrecognized,
    #[error("it is cut off: node {node} begins at byte {offset} and needs {needed} bytes, {left} are left")]
    Truncated { node: usize, offset: usize, needed: u64, left: usize },
    #[error("it is not a readable {format}: {reason}")]
    Malformed { format: &'static str, reason: String },
    #[error("node '{node}' has op {op}, which this importer does not support")]
    UnreadOp { node: String, op: String },
    #[error("node '{node}' (op {op}): {reason}")]
    Node { node: String, op: String, reason: String },
    #[error("{tensor} is {found}, but {needed}")]
    Shape { tensor: String, found: Shape, needed: String },
    #[error("tensor {tensor:?} is missing")]
    MissingTensor { tensor: String },
    #[error("tensor {tensor:?} is missing; {}", nearest(near))]
    NoSuchTensor { tensor: String, near: Vec<String> },
    #[error("{what} needs the whole sequence, whose length is not known")]
    NeedsWindow { what: String },
    #[error("its architecture is not in the file, and {reason}; with --arch, this could be it: {draft}")]
    NeedsArchitecture { reason: String, draft: String },
    #[error("layer {layer:?} ({}): {source}", one_line(class))]
    Layer { layer: String, class: String, source: Box<Self> },
    #[error("the architecture's {0}")]
    Description(String),
    #[error("{found}")]
    Refused { found: String, advice: &'static str },
    /// A feature that is not supported, in the framework's words.
    #[error("{0} is not supported")]
    Unsupported(String),
    #[error(transparent)]
    TooCostly(#[from] TooCostly),
    #[error(transparent)]
    Model(#[from] ModelError),
}

/// Advice for a file that is larger than any that is read.
const TOO_LARGE: &str = "this limit is fixed, and --memory does not lift it: models for microcontrollers are smaller";

fn nearest(near: &[String]) -> String {
    match near {
        [] => "no tensor has a similar name".to_owned(),
        names => format!("the nearest are {}", names.join(", ")),
    }
}

impl ImportError {
    /// Advice for the user at the end of the message; empty if only the reason helps.
    pub fn advice(&self) -> &'static str {
        match self {
            Self::Io(_) => "check the path and its permissions",
            Self::TooLarge { .. } => TOO_LARGE,
            Self::Limit { .. } => {
                "this limit is fixed, and --memory does not lift it: networks for microcontrollers have far fewer"
            }
            Self::NotReadYet { .. } | Self::Unrecognized => {
                "give a Keras .h5 or .keras, a PyTorch state dict, a TensorFlow checkpoint or .pb graph, an ONNX .onnx, \
                 a TFLite .tflite, an RTNeural or GuitarML .json, a .nam, an RNNoise .rnn, or a canonical .safetensors"
            }
            Self::Truncated { .. } | Self::Malformed { .. } => "copy or export the file again",
            // An option of the user, not a part of the model.
            Self::Unsupported(what) if what.starts_with("--") => "leave it out",
            Self::UnreadOp { .. } | Self::Node { .. } | Self::Unsupported(_) => {
                "export the network without it, or open an issue with the model"
            }
            Self::Shape { .. } | Self::MissingTensor { .. } => "export the model again",
            Self::NoSuchTensor { .. } => "correct the layer's prefix or its arguments in the file given with --arch",
            Self::NeedsWindow { .. } => "give it with --window N",
            Self::NeedsArchitecture { .. } | Self::Description(_) => "docs/architecture.md has examples",
            Self::Layer { source, .. } => match **source {
                Self::Unsupported(_) | Self::Shape { .. } => {
                    "correct it in the file given with --arch, or open an issue with the model"
                }
                _ => source.advice(),
            },
            Self::Refused { advice, .. } => advice,
            Self::TooCostly(_) => TooCostly::ADVICE,
            Self::Model(error) => error.advice(),
        }
    }
}

impl ModelError {
    /// Like [`ImportError::advice`].
    pub fn advice(&self) -> &'static str {
        match self {
            Self::Io(_) => "check the path and its permissions",
            Self::TooLarge { .. } => TOO_LARGE,
            Self::TooCostly(_) => TooCostly::ADVICE,
            Self::Container(_) | Self::Version { .. } => "import the original model again",
            _ => "correct the model, or import the original again",
        }
    }
}
