//! A network to train: a chain of layers in PyTorch's terms, as `--arch` describes it ([`Description`]). Its parameters
//! are one slice. The forward pass returns scores for classes; the backward pass computes gradients.
//!
//! | class | arguments: required; optional |
//! |---|---|
//! | `LSTM`, `GRU`, `RNN` | `hidden_size`; `num_layers`, `bias`, `bidirectional`, `dropout` between layers, `proj_size`, `nonlinearity`; `take` of the last of these layers selects the output step |
//! | `Linear` | `out_features`; `bias` |
//! | `ReLU`, `Tanh`, `Sigmoid` | |
//! | `Dropout` | `p` |
//! | `Softmax` | only as the last layer; training uses the scores before it |

mod compute;
mod export;
mod integers;
mod words;

use std::ops::Range;

use chacha20::ChaCha8Rng;
use chacha20::rand_core::Rng;
use tidegate_model::error::ImportError;
use tidegate_model::format::Description;
use tidegate_model::format::description::{Size, Take};
use tidegate_model::score::best;

use crate::cpu::count::{Units, count, stop};
use crate::cpu::{Batch, Stack, States, add, longest, product};
use crate::rnn::{Direction, Rnn, RnnError};
use crate::weights::WeightsError;
pub use compute::{Cpu, Draws, Given, Stacks};
pub use export::Scaling;
pub use integers::{Integers, RoundError, Rounded};
use words::{Wrong, kind};

/// Why an architecture cannot be trained.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the error texts explain the variants and their fields")]
pub enum NetworkError {
    #[error("layer {layer:?}: {reason}")]
    Layer { layer: String, reason: String },
    #[error("layer {layer:?}: {source}")]
    Rnn { layer: String, source: RnnError },
    #[error("the architecture {0}")]
    Whole(String),
    /// The initial weights do not fit.
    #[error(transparent)]
    Weights(#[from] WeightsError),
    /// The trained network is not a valid model.
    #[error(transparent)]
    Model(#[from] ImportError),
}

struct Layer {
    prefix: String,
    kind: Kind,
    params: Range<usize>,
}

enum Kind {
    Stack { stack: Stack, take: Take, dropout: f32 },
    Linear { input: usize, output: usize, bias: bool },
    Activation(Function),
    Dropout(f32),
}

/// An activation, and its slope as a function of its result.
struct Function {
    apply: fn(f32) -> f32,
    slope: fn(f32) -> f32,
}

/// A network to train.
pub struct Network {
    description: Description,
    layers: Vec<Layer>,
    size: usize,
    features: usize,
    classes: usize,
}

/// States of a network's stacks after a batch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Carried(Vec<States>);

/// A batch to learn from.
pub struct Lesson<'a> {
    /// The sequences.
    pub batch: Batch,
    /// Class of each sequence.
    pub classes: &'a [usize],
    /// Number of sequences that the loss is averaged over, including those of the other parts of the batch.
    pub sequences: usize,
    /// Initial states; zero if `None`. No gradient is propagated to them.
    pub from: Option<&'a Carried>,
    /// Scales for rounding values to integers.
    pub units: Option<&'a LayerUnits>,
}

/// Scales of the values of each layer: one per pseudo-layer of a stack, one for a `Linear` or an activation. If there
/// is none, the values of the layer are not rounded.
pub type LayerUnits = [Vec<Units>];

/// Result of a training pass.
#[derive(Clone, Debug, PartialEq)]
pub struct Learned {
    /// This part's contribution to the mean cross-entropy, in nats.
    pub loss: f64,
    /// Number of correct decisions.
    pub right: usize,
    /// Final states.
    pub carried: Carried,
}

/// Values between two layers, for every step or for one.
struct Value {
    batch: Batch,
    /// Whether there is one row per sequence, whatever `lengths` says.
    vector: bool,
}

/// Scores, the values that each layer keeps, and the final states.
type Passed<T> = (Vec<f32>, Vec<Kept<T>>, Carried);

/// Values that a layer keeps for the backward pass.
enum Kept<T> {
    /// A stack also keeps the length of each sequence.
    Stack(T, Vec<usize>, Take),
    Input(Vec<f32>, Vec<bool>),
    Output(Vec<f32>, Vec<bool>),
    Mask(Vec<f32>),
}

impl Network {
    /// Builds the network of an architecture.
    ///
    /// # Errors
    /// If the architecture is not a chain of the layers above that ends in one row of scores per sequence.
    pub fn new(description: &Description) -> Result<Self, NetworkError> {
        let whole = |reason: &str| Err(NetworkError::Whole(reason.to_owned()));
        if !matches!(description.framework.as_str(), "" | "torch") {
            return whole("must be in PyTorch's terms: \"framework\": \"torch\"");
        }
        let [input] = description.inputs.as_slice() else { return whole("must have exactly one input") };
        let Size::One(features) = input.size else {
            return whole("must have an input whose size is a single number");
        };
        if input.vector {
            return whole("must have an input over time, not a vector");
        }
        let mut network = Self { description: description.clone(), layers: vec![], size: 0, features, classes: 0 };
        let (mut size, mut vector) = (features, false);
        let mut before = input.name.as_str();
        for (number, layer) in description.layers.iter().enumerate() {
            let fail = |reason: String| NetworkError::Layer { layer: layer.name.clone(), reason };
            if !(layer.inputs.is_empty() || layer.inputs.as_slice() == [before]) {
                return Err(fail("only a chain can be trained: it must read the previous layer".into()));
            }
            before = &layer.name;
            if !layer.tensors.is_empty() || layer.stateful || !layer.framework.is_empty() {
                let reason = "\"tensors\", \"stateful\" and \"framework\" cannot be set for a layer that is trained";
                return Err(fail(reason.into()));
            }
            if layer.class == "Softmax" {
                if number + 1 != description.layers.len() {
                    return Err(fail("Softmax must be the last layer".into()));
                }
                continue;
            }
            let (kind, params, output) = kind(layer, size, vector).map_err(|error| match error {
                Wrong::Words(reason) => fail(reason),
                Wrong::Rnn(source) => NetworkError::Rnn { layer: layer.name.clone(), source },
            })?;
            if let Kind::Stack { take: Take::Last | Take::Final, .. } = kind {
                vector = true;
            }
            let prefix = layer.prefix.clone().unwrap_or_else(|| layer.name.clone());
            network.layers.push(Layer { prefix, kind, params: network.size..network.size + params });
            network.size += params;
            size = output;
        }
        if !vector {
            return whole("must end in one row per sequence: set \"take\": \"last\" for its last recurrent layer");
        }
        network.classes = size;
        Ok(network)
    }

    /// Number of parameters.
    pub const fn params_size(&self) -> usize {
        self.size
    }

    /// Input features per step.
    pub const fn features(&self) -> usize {
        self.features
    }

    /// Number of classes.
    pub const fn classes(&self) -> usize {
        self.classes
    }

    /// Draws initial parameters as PyTorch does: uniform within ±1/√hidden, or ±1/√inputs for a `Linear`.
    pub fn initial(&self, random: &mut ChaCha8Rng) -> Vec<f32> {
        let mut params = Vec::with_capacity(self.size);
        for layer in &self.layers {
            let fan = match &layer.kind {
                Kind::Stack { stack, .. } => stack.rnn().settings().hidden_size,
                Kind::Linear { input, .. } => *input,
                Kind::Activation(_) | Kind::Dropout(_) => continue,
            };
            let bound = 1.0 / (fan as f32).sqrt();
            params.extend(layer.params.clone().map(|_| (2.0 * uniform(random) - 1.0) * bound));
        }
        params
    }

    /// Whether the network can continue from the final states of other sequences, that is, has no backward direction.
    pub fn goes_on(&self) -> bool {
        self.layers.iter().all(|layer| match &layer.kind {
            Kind::Stack { stack, .. } => stack.rnn().settings().direction == Direction::Unidirectional,
            Kind::Linear { .. } | Kind::Activation(_) | Kind::Dropout(_) => true,
        })
    }

    /// Returns the scores for classes, `[sequences, classes]`, and the final states. The network starts from zero
    /// states or from `from`. With `units`, values are rounded to integers.
    ///
    /// # Errors
    /// The errors of [`Stacks::forward`].
    pub fn scores<S: Stacks>(
        &self,
        stacks: &mut S,
        params: &[f32],
        batch: Batch,
        from: Option<&Carried>,
        units: Option<&LayerUnits>,
    ) -> Result<(Vec<f32>, Carried), S::Error> {
        let (scores, _, carried) = self.forward(stacks, params, batch, (from, units), None)?;
        Ok((scores, carried))
    }

    /// Runs a training pass and adds the gradient of the parameters to `into`.
    ///
    /// # Errors
    /// The errors of [`Stacks`].
    ///
    /// # Panics
    /// If a class is out of range or sizes differ.
    pub fn learn<S: Stacks>(
        &self,
        stacks: &mut S,
        params: &[f32],
        lesson: Lesson<'_>,
        mut draws: Draws,
        into: &mut [f32],
    ) -> Result<Learned, S::Error> {
        let given = (lesson.from, lesson.units);
        let (mut scores, kept, carried) = self.forward(stacks, params, lesson.batch, given, Some(&mut draws))?;
        let (loss, right) = cross_entropy(&mut scores, self.classes, lesson.classes, lesson.sequences);
        self.backward(stacks, params, kept, scores, into)?;
        Ok(Learned { loss, right, carried })
    }

    fn forward<S: Stacks>(
        &self,
        stacks: &mut S,
        params: &[f32],
        batch: Batch,
        (from, units): (Option<&Carried>, Option<&LayerUnits>),
        mut draws: Option<&mut Draws>,
    ) -> Result<Passed<S::Tape>, S::Error> {
        let mut value = Value { batch, vector: false };
        let mut all = Vec::new();
        let mut carried = Carried::default();
        for (number, layer) in self.layers.iter().enumerate() {
            let params = &params[layer.params.clone()];
            let units = units.map_or(&[][..], |units| &units[number]);
            let cut = |values: &mut [f32]| units.first().map_or_else(Vec::new, |units| count(values, units.hidden));
            let data = &mut value.batch.data;
            all.push(match &layer.kind {
                Kind::Stack { stack, take, dropout } => {
                    let mut draw;
                    let (batch, learning) = (&value.batch, draws.is_some());
                    let dropout = match &mut draws {
                        Some(draws) if *dropout > 0.0 => {
                            draw = |len| draws.mask(*dropout, &batch.lengths, len);
                            Some(&mut draw as &mut dyn FnMut(usize) -> Vec<f32>)
                        }
                        _ => None,
                    };
                    let from = from.map(|from| &from.0[carried.0.len()]);
                    let units = Some(units).filter(|units| !units.is_empty());
                    let given = Given { number, stack, params, batch, from, dropout, learning, units };
                    let (output, tape, states) = stacks.forward(given)?;
                    carried.0.push(states);
                    value.vector = *take != Take::Sequence;
                    value.batch = output;
                    if value.vector {
                        value.batch.data = taken(stack.rnn(), &value.batch, *take);
                    }
                    Kept::Stack(tape, value.batch.lengths.clone(), *take)
                }
                Kind::Linear { input, output, bias } => {
                    let rows = data.len() / input;
                    let mut out = vec![0.0; rows * output];
                    let (weights, rest) = params.split_at(input * output);
                    product(&mut out, [rows, *input, *output], (data, false), (weights, true), 0.0);
                    if *bias {
                        out.chunks_exact_mut(*output).for_each(|row| add(row, rest));
                    }
                    value.batch.features = *output;
                    let cut = cut(&mut out);
                    Kept::Input(std::mem::replace(data, out), cut)
                }
                Kind::Activation(function) => {
                    data.iter_mut().for_each(|value| *value = (function.apply)(*value));
                    let output = data.clone();
                    Kept::Output(output, cut(data))
                }
                Kind::Dropout(p) => {
                    let lengths = if value.vector { &vec![1; value.batch.lengths.len()] } else { &value.batch.lengths };
                    let mask = draws.as_mut().map_or_else(Vec::new, |draws| draws.mask(*p, lengths, data.len()));
                    data.iter_mut().zip(&mask).for_each(|(value, mask)| *value *= mask);
                    Kept::Mask(mask)
                }
            });
        }
        Ok((value.batch.data, all, carried))
    }

    fn backward<S: Stacks>(
        &self,
        stacks: &mut S,
        params: &[f32],
        kept: Vec<Kept<S::Tape>>,
        scores: Vec<f32>,
        into: &mut [f32],
    ) -> Result<(), S::Error> {
        let mut gradient = scores;
        for ((number, layer), kept) in self.layers.iter().enumerate().zip(kept).rev() {
            let (params, into) = (&params[layer.params.clone()], &mut into[layer.params.clone()]);
            match (&layer.kind, kept) {
                (Kind::Stack { stack, .. }, Kept::Stack(tape, lengths, take)) => {
                    if take != Take::Sequence {
                        gradient = spread(stack.rnn(), &lengths, &gradient, take);
                    }
                    gradient = stacks.backward((number, stack), params, tape, &gradient, into)?;
                }
                (Kind::Linear { input, output, bias }, Kept::Input(x, cut)) => {
                    stop(&mut gradient, &cut);
                    let rows = x.len() / input;
                    let (weights, _) = params.split_at(input * output);
                    let (to_weights, to_bias) = into.split_at_mut(input * output);
                    product(to_weights, [*output, rows, *input], (&gradient, true), (&x, false), 1.0);
                    if *bias {
                        gradient.chunks_exact(*output).for_each(|row| add(to_bias, row));
                    }
                    let mut to_x = vec![0.0; x.len()];
                    product(&mut to_x, [rows, *output, *input], (&gradient, false), (weights, false), 0.0);
                    gradient = to_x;
                }
                (Kind::Activation(function), Kept::Output(y, cut)) => {
                    stop(&mut gradient, &cut);
                    gradient.iter_mut().zip(&y).for_each(|(gradient, &y)| *gradient *= (function.slope)(y));
                }
                (Kind::Dropout(_), Kept::Mask(mask)) => {
                    gradient.iter_mut().zip(&mask).for_each(|(gradient, mask)| *gradient *= mask);
                }
                _ => unreachable!("a layer keeps the values of its own kind"),
            }
        }
        Ok(())
    }
}

/// Row of the step that `take` selects, for each sequence and direction.
fn counts(rnn: &Rnn, lengths: &[usize], take: Take) -> impl Fn(usize, usize) -> usize {
    let both = rnn.settings().direction == Direction::Bidirectional;
    // The last output of the backward direction belongs to the first step.
    move |sequence, direction| match take {
        Take::Final if both && direction == 1 => sequence,
        _ => (lengths[sequence].max(1) - 1) * lengths.len() + sequence,
    }
}

/// Selects `[sequences, features]` from `[steps, sequences, features]`.
fn taken(rnn: &Rnn, batch: &Batch, take: Take) -> Vec<f32> {
    let size = rnn.output_size();
    let at = counts(rnn, &batch.lengths, take);
    let directions = rnn.settings().direction.count();
    let part = &|sequence, direction| {
        let from = at(sequence, direction) * batch.features + direction * size;
        &batch.data[from..from + size]
    };
    let row = |sequence| (0..directions).flat_map(move |direction| part(sequence, direction));
    (0..batch.lengths.len()).flat_map(row).copied().collect()
}

/// The reverse of [`taken`], with zeros elsewhere.
fn spread(rnn: &Rnn, lengths: &[usize], gradient: &[f32], take: Take) -> Vec<f32> {
    let (size, directions) = (rnn.output_size(), rnn.settings().direction.count());
    let steps = longest(lengths);
    let features = size * directions;
    let mut all = vec![0.0; steps * lengths.len() * features];
    let at = counts(rnn, lengths, take);
    for (sequence, row) in gradient.chunks_exact(features).enumerate() {
        for (direction, part) in row.chunks_exact(size).enumerate() {
            let from = at(sequence, direction) * features + direction * size;
            all[from..from + size].copy_from_slice(part);
        }
    }
    all
}

/// Replaces scores by their gradient. Returns the loss and the number of correct decisions.
fn cross_entropy(scores: &mut [f32], classes: usize, wanted: &[usize], sequences: usize) -> (f64, usize) {
    let (mut loss, mut right) = (0.0, 0);
    for (row, &class) in scores.chunks_exact_mut(classes).zip(wanted) {
        right += usize::from(best(row) == class);
        let most = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let sum: f64 = row.iter().map(|&score| f64::from(score - most).exp()).sum();
        loss += (sum.ln() - f64::from(row[class] - most)) / sequences as f64;
        for (k, score) in row.iter_mut().enumerate() {
            let posterior = f64::from(*score - most).exp() / sum;
            *score = ((posterior - f64::from(u8::from(k == class))) / sequences as f64) as f32;
        }
    }
    (loss, right)
}

/// A uniform random number from 0 to less than 1.
pub fn uniform(random: &mut ChaCha8Rng) -> f32 {
    (random.next_u32() >> 8) as f32 / (1 << 24) as f32
}
