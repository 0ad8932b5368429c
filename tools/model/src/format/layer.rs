//! Layers in canonical form, before they have a place in a model: the result of every importer's cell conversion.

use std::collections::HashMap;

use tidegate::internals::activation::{Activation, sigmoid};
use tidegate::internals::cell::CellKind;

use crate::canonical::{Node, Tensor, Unroll};

/// A node without a name. Options, parameters, activations and tensors have the names of the cell's spec. Nothing depends
/// on the order of the maps: a [`Node`] and a model have sorted ones.
#[derive(Clone, Debug)]
pub struct Layer {
    /// Cell kind.
    pub kind: CellKind,
    /// Number of input features.
    pub input_size: usize,
    /// Number of units.
    pub hidden_size: usize,
    /// Number of output features.
    pub output_size: usize,
    /// Enabled options.
    pub options: Vec<&'static str>,
    /// Parameters.
    pub params: HashMap<&'static str, f32>,
    /// Activations that may differ from the spec's defaults.
    pub activations: HashMap<&'static str, Activation>,
    /// Whole numbers.
    pub extents: HashMap<&'static str, usize>,
    /// Unrolling, if it runs once for each row of a window.
    pub unroll: Option<Unroll>,
    /// Weights in canonical shape and gate order.
    pub tensors: HashMap<&'static str, Tensor>,
    /// Locations of its states in a golden case.
    pub states: Vec<(&'static str, At)>,
    /// Outputs of a golden case that are its states after each step.
    pub traces: Vec<(&'static str, At)>,
}

/// Position of a state in the tensors of a golden case: `[batch, ...]` or `[index, batch, ...]`, with the dimensions
/// after the batch flattened.
#[derive(Clone, Debug, PartialEq)]
pub struct At {
    /// Name of the tensor after `initial_` and `final_`.
    pub tensor: String,
    /// Index in the leading dimension, if there is one before the batch.
    pub index: Option<usize>,
    /// First feature in the tensor.
    pub from: usize,
    /// First element in the state.
    pub first: usize,
    /// Number of elements; default: to the end of the state.
    pub len: Option<usize>,
    /// Conversion of a given initial state by the framework.
    pub entry: Entry,
    /// Index and first feature in the tensor `initial_*`, if its shape differs from that of `final_*`.
    pub given: Option<(Option<usize>, usize)>,
}

/// Conversion of a given initial state by the framework, before the first step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// No conversion.
    AsGiven,
    /// v + 0.5 for v ≥ 0, σ(v) below: minLSTM's g.
    Positive,
}

impl Entry {
    /// The initial state for the `given` one.
    pub fn apply(self, given: f32) -> f32 {
        match self {
            Self::AsGiven => given,
            Self::Positive if given < 0.0 => sigmoid(given),
            Self::Positive => given + 0.5,
        }
    }
}

impl At {
    /// A state that is the whole tensor, or starts at its first element.
    pub fn new(tensor: impl Into<String>) -> Self {
        Self { tensor: tensor.into(), index: None, from: 0, first: 0, len: None, entry: Entry::AsGiven, given: None }
    }

    /// The position of the initial state.
    #[must_use]
    pub fn initial(&self) -> Self {
        let (index, from) = self.given.unwrap_or((self.index, self.from));
        Self { index, from, ..self.clone() }
    }

    /// Sets the index in a dimension before the batch.
    #[must_use]
    pub fn index(self, index: usize) -> Self {
        Self { index: Some(index), ..self }
    }

    /// Sets the first feature in the tensor.
    #[must_use]
    pub fn from(self, from: usize) -> Self {
        Self { from, ..self }
    }

    /// Selects elements `first..first + len` of the state.
    #[must_use]
    pub fn part(self, first: usize, len: usize) -> Self {
        Self { first, len: Some(len), ..self }
    }

    /// Sets the conversion of a given initial state.
    #[must_use]
    pub fn entry(self, entry: Entry) -> Self {
        Self { entry, ..self }
    }
}

impl Layer {
    /// Number of weights of all tensors.
    pub(crate) fn weights(&self) -> usize {
        self.tensors.values().map(|tensor| tensor.data.len()).sum()
    }

    /// A layer without options or weights; its output size is the hidden size.
    pub fn new(kind: CellKind, input_size: usize, hidden_size: usize) -> Self {
        Self {
            kind,
            input_size,
            hidden_size,
            output_size: hidden_size,
            options: Vec::new(),
            params: HashMap::new(),
            activations: HashMap::new(),
            extents: HashMap::new(),
            unroll: None,
            tensors: HashMap::new(),
            states: Vec::new(),
            traces: Vec::new(),
        }
    }

    /// A fully connected layer with weights [output, input].
    pub fn dense(weights: Tensor, bias: Option<Tensor>, activation: Activation) -> Self {
        let [output, input] = *weights.shape else { unreachable!("dense weights are a matrix") };
        let layer =
            Self::new(CellKind::Dense, input, output).tensor("weights", weights).activation("activation", activation);
        layer.optional("bias", bias)
    }

    /// A batch normalization at inference, `(x - mean) / √(variance + ε) ⊙ gain + bias`, with one channel for each
    /// mean. The channels of each pixel are contiguous.
    pub fn batch_norm(size: usize, [mean, variance]: [&[f32]; 2], affine: [Option<&[f32]>; 2], epsilon: f64) -> Self {
        let channels = mean.len();
        let one = |k: usize, default: f64| affine[0].and_then(|gain| gain.get(k)).map_or(default, |&gain| gain.into());
        let gains: Vec<f64> =
            variance.iter().enumerate().map(|(k, &var)| one(k, 1.0) / (f64::from(var) + epsilon).sqrt()).collect();
        let shift = |k: usize| affine[1].and_then(|bias| bias.get(k)).map_or(0.0, |&bias| f64::from(bias));
        let moved = mean.iter().zip(&gains).enumerate();
        let bias = moved.map(|(k, (&mean, gain))| (shift(k) - f64::from(mean) * gain) as f32).collect();
        let gain = gains.iter().map(|&gain| gain as f32).collect();
        let vector = |data: Vec<f32>| Tensor { shape: vec![channels], data };
        let layer = Self::new(CellKind::Scale, size, size).extent("channels", channels).option("gain");
        layer.tensor("gain", vector(gain)).tensor("bias", vector(bias))
    }

    /// A layer that concatenates its inputs.
    pub fn identity(size: usize) -> Self {
        Self::new(CellKind::Identity, size, size)
    }

    /// A layer that merges `parts` inputs of `size` features each, by the cell's option `how`.
    pub fn merge(how: &'static str, parts: usize, size: usize) -> Self {
        Self::new(CellKind::Merge, parts * size, size).option(how)
    }

    /// Adds a tensor.
    #[must_use]
    pub fn tensor(mut self, name: &'static str, tensor: Tensor) -> Self {
        self.tensors.insert(name, tensor);
        self
    }

    /// Adds a tensor, if there is one.
    #[must_use]
    pub fn optional(mut self, name: &'static str, tensor: Option<Tensor>) -> Self {
        self.tensors.extend(tensor.map(|tensor| (name, tensor)));
        self
    }

    /// Sets an activation.
    #[must_use]
    pub fn activation(mut self, name: &'static str, activation: Activation) -> Self {
        self.activations.insert(name, activation);
        self
    }

    /// Enables an option.
    #[must_use]
    pub fn option(mut self, name: &'static str) -> Self {
        self.options.push(name);
        self
    }

    /// Sets a parameter.
    #[must_use]
    pub fn param(mut self, name: &'static str, value: f32) -> Self {
        self.params.insert(name, value);
        self
    }

    /// Sets an extent.
    #[must_use]
    pub fn extent(mut self, name: &'static str, value: usize) -> Self {
        self.extents.insert(name, value);
        self
    }

    /// Adds a state, or a part of one, that a golden case holds.
    #[must_use]
    pub fn state(mut self, name: &'static str, at: At) -> Self {
        self.states.push((name, at));
        self
    }

    /// Adds a state that is an output of a golden case: `output_<tensor>`.
    #[must_use]
    pub fn trace(mut self, name: &'static str, tensor: &str) -> Self {
        self.traces.push((name, At::new(tensor)));
        self
    }

    pub(super) fn node(&self, name: &str, inputs: Vec<String>) -> Node {
        // A canonical model names only activations that differ from the spec.
        let defaults = self.kind.spec().activations;
        let differs = |name: &str, activation: Activation| {
            !defaults.iter().any(|known| known.name == name && known.default == activation)
        };
        let activations = self.activations.iter().filter(|&(&name, &activation)| differs(name, activation));
        Node {
            name: name.to_owned(),
            cell: self.kind.spec().name.to_owned(),
            inputs,
            input_size: self.input_size,
            hidden_size: self.hidden_size,
            output_size: self.output_size,
            options: self.options.iter().map(|&option| option.to_owned()).collect(),
            params: self.params.iter().map(|(&name, &value)| (name.to_owned(), value)).collect(),
            activations: activations.map(|(&name, activation)| (name.to_owned(), activation.to_string())).collect(),
            extents: self.extents.iter().map(|(&name, &value)| (name.to_owned(), value)).collect(),
            unroll: self.unroll,
        }
    }
}
