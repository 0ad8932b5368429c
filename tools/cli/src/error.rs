//! What can be wrong with a model or a file, in the words that the command line prints: `file: reason; what to do`.
//! Every reason is one line, whatever names the file holds.

use std::fmt;
use std::io;

use thiserror::Error;

/// A tensor's dimensions as errors print them: `472 x 10`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape(pub Vec<usize>);

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("a scalar");
        }
        // A hostile file may claim any number of dimensions; eight say enough.
        for (k, dim) in self.0.iter().take(8).enumerate() {
            write!(f, "{}{dim}", if k == 0 { "" } else { " x " })?;
        }
        f.write_str(if self.0.len() > 8 { " x ..." } else { "" })
    }
}

/// Why a canonical model is not one.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ModelError {
    /// The file could not be read or written.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// More bytes than a model may have.
    #[error("it is larger than {limit} bytes")]
    TooLarge {
        /// The bound.
        limit: u64,
    },
    /// Not safetensors, or damaged.
    #[error("it is not a readable safetensors file: {0}")]
    Container(String),
    /// A safetensors file of something else.
    #[error("its metadata has no key 'tidegate'")]
    NotCanonical,
    /// The architecture is not the JSON that it should be.
    #[error("its architecture is not readable: {0}")]
    Architecture(String),
    /// Written by a version that this build does not read.
    #[error("its architecture has version {found}, this build reads version 1")]
    Version {
        /// As in the file.
        found: u32,
    },
    /// Only f32 is canonical.
    #[error("tensor {tensor:?} is {found}, but canonical tensors are F32")]
    DType {
        /// Its name.
        tensor: String,
        /// As the file says.
        found: String,
    },
    /// Something about the model as a whole, a port, the front end, the schedule or the detector.
    #[error("{0}")]
    Model(String),
    /// Something about one node.
    #[error("node {node:?}: {reason}")]
    Node {
        /// Its name.
        node: String,
        /// With numbers.
        reason: String,
    },
    /// A tensor of the wrong shape.
    #[error("{tensor} is {found}, but a cell of {hidden} units over {input} features needs {needed}")]
    Shape {
        /// `<node>.<tensor>`
        tensor: String,
        /// As in the file.
        found: Shape,
        /// Units of the node.
        hidden: usize,
        /// Features that come into the node.
        input: usize,
        /// As the cell's spec says.
        needed: Shape,
    },
    /// A tensor that the node's cell needs.
    #[error("tensor {tensor:?} is missing")]
    MissingTensor {
        /// `<node>.<tensor>`
        tensor: String,
    },
    /// A tensor that no node has.
    #[error("tensor {tensor:?} belongs to no node")]
    LeftoverTensor {
        /// Its name.
        tensor: String,
    },
    /// A value that no computation can use.
    #[error("{tensor} holds {value} at {index}, but weights must be finite")]
    NotFinite {
        /// `<node>.<tensor>`
        tensor: String,
        /// Infinity or not a number.
        value: f32,
        /// In row-major order.
        index: usize,
    },
}

/// Why a file, or a set of foreign tensors, does not become a canonical model.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ImportError {
    /// The file could not be read.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// More bytes than a model for a microcontroller may have.
    #[error("it is larger than {limit} bytes")]
    TooLarge {
        /// The bound.
        limit: u64,
    },
    /// A format that is known but has no importer.
    #[error("it looks like {found}, which is not read")]
    NotReadYet {
        /// With its article.
        found: &'static str,
    },
    /// None of the formats that are known.
    #[error("it is neither a flash image nor a model in a format that is known")]
    Unrecognized,
    /// The file ends before what it began.
    #[error("it is cut off: node {node} begins at byte {offset} and needs {needed} bytes, {left} are left")]
    Truncated {
        /// Nodes before it.
        node: usize,
        /// Where its content begins.
        offset: usize,
        /// Its length.
        needed: u64,
        /// To the end of the file.
        left: usize,
    },
    /// The bytes are not what the format says.
    #[error("it is not a readable {format}: {reason}")]
    Malformed {
        /// Of the file.
        format: &'static str,
        /// With numbers.
        reason: String,
    },
    /// An op of a graph that has no meaning here.
    #[error("node '{node}' has op {op}, which this importer does not read")]
    UnreadOp {
        /// Its name.
        node: String,
        /// Its op.
        op: String,
    },
    /// A node that is not what the pattern around it needs.
    #[error("node '{node}' (op {op}): {reason}")]
    Node {
        /// Its name.
        node: String,
        /// Its op.
        op: String,
        /// What was looked for.
        reason: String,
    },
    /// A foreign tensor of the wrong shape.
    #[error("{tensor} is {found}, but {needed}")]
    Shape {
        /// The framework's name for it.
        tensor: String,
        /// As in the file.
        found: Shape,
        /// What must hold.
        needed: String,
    },
    /// A tensor that the framework's layer has.
    #[error("tensor {tensor:?} is missing")]
    MissingTensor {
        /// The framework's name for it.
        tensor: String,
    },
    /// A tensor that a file ought to have, and those of its tensors that are named alike.
    #[error("tensor {tensor:?} is missing; {}", nearest(near))]
    NoSuchTensor {
        /// The name that was looked for.
        tensor: String,
        /// The nearest first.
        near: Vec<String>,
    },
    /// What looks at a whole sequence whose length nothing says.
    #[error("{what} looks at a whole sequence, and nothing says of how many steps")]
    NeedsWindow {
        /// Layer or class.
        what: String,
    },
    /// A file without its architecture.
    #[error("its architecture is not in the file, and {reason}; with --arch, this could be it: {draft}")]
    NeedsArchitecture {
        /// Why the names of the tensors do not tell.
        reason: String,
        /// A description to start from, as JSON.
        draft: String,
    },
    /// A layer of a description that cannot be had.
    #[error("layer {layer:?} ({class}): {source}")]
    Layer {
        /// Its name.
        layer: String,
        /// Its class.
        class: String,
        /// What is wrong.
        source: Box<Self>,
    },
    /// A description (`--arch`) that says nothing that can be built.
    #[error("the architecture's {0}")]
    Description(String),
    /// Something that is safer without.
    #[error("{found}")]
    Refused {
        /// What it is, with numbers.
        found: String,
        /// What to do.
        advice: &'static str,
    },
    /// A class, an argument, an input or a tensor that is not read: the field's word first.
    #[error("{0} is not supported")]
    Unsupported(String),
    /// What came out is not a valid model.
    #[error(transparent)]
    Model(#[from] ModelError),
}

fn nearest(near: &[String]) -> String {
    match near {
        [] => "there is none that is named alike".to_owned(),
        names => format!("the nearest are {}", names.join(", ")),
    }
}

impl ImportError {
    /// What a person can do about it, for the end of the line; empty where only the reason helps.
    pub fn advice(&self) -> &'static str {
        match self {
            Self::Io(_) => "check the path and its permissions",
            Self::TooLarge { .. } => "models for microcontrollers are smaller; is this the right file?",
            Self::NotReadYet { .. } | Self::Unrecognized => {
                "give a Keras .h5 or .keras, a PyTorch state dict, a TensorFlow checkpoint or .pb graph, or a canonical .safetensors"
            }
            Self::Truncated { .. } | Self::Malformed { .. } => "copy or export the file again",
            Self::UnreadOp { .. } | Self::Node { .. } | Self::Unsupported(_) => {
                "export the network without it, or open an issue with the model"
            }
            Self::Shape { .. } | Self::MissingTensor { .. } => "export the model again",
            Self::NoSuchTensor { .. } => "correct the layer's prefix or its arguments in the file given with --arch",
            Self::NeedsWindow { .. } => "say it with --window N",
            Self::NeedsArchitecture { .. } => "docs/architecture.md has examples",
            Self::Layer { source, .. } => match **source {
                Self::Unsupported(_) | Self::Shape { .. } => {
                    "correct it where the file given with --arch says it, else open an issue with the model"
                }
                _ => source.advice(),
            },
            Self::Description(_) => "docs/architecture.md has examples",
            Self::Refused { advice, .. } => advice,
            Self::Model(error) => error.advice(),
        }
    }
}

impl ModelError {
    /// As [`ImportError::advice`].
    pub fn advice(&self) -> &'static str {
        match self {
            Self::Io(_) => "check the path and its permissions",
            Self::TooLarge { .. } => "models for microcontrollers are smaller; is this the right file?",
            Self::Container(_) | Self::Version { .. } => "import the original model again",
            _ => "correct the model, or import the original again",
        }
    }
}
