//! A network to be trained: layers one after the other, in PyTorch's words, as `--arch` has them
//! ([`Description`]); their parameters in one slice; forward to scores for classes and backward to gradients.
//!
//! | class | arguments that are needed, and others |
//! |---|---|
//! | `LSTM`, `GRU`, `RNN` | `hidden_size`; `num_layers`, `bias`, `bidirectional`, `dropout` between layers, `proj_size`, `nonlinearity`; `take` of the last of them says which output counts |
//! | `Linear` | `out_features`; `bias` |
//! | `ReLU`, `Tanh`, `Sigmoid` | |
//! | `Dropout` | `p` |
//! | `Softmax` | the last layer, if any: what is trained are the scores before it |

mod compute;
mod export;
mod integers;
mod words;

use std::ops::Range;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::Rng;
use tidegate::activation::{relu, sigmoid, tanh};
use tidegate_tools::error::ImportError;
use tidegate_tools::format::Description;
use tidegate_tools::format::description::{Size, Take};

use crate::cpu::count::{Units, count, stop};
use crate::cpu::{Batch, Stack, States, add, product};
use crate::rnn::{Direction, Rnn, RnnError};
use crate::weights::WeightsError;
pub use compute::{Cpu, Draws, Given, Stacks};
pub use export::Scaling;
pub use integers::{Integers, RoundError, Rounded};
use words::{Wrong, kind};

/// Why an architecture cannot be trained.
#[derive(Debug, thiserror::Error)]
pub enum NetworkError {
    /// A layer is not one that is trained here, or its arguments are not.
    #[error("layer {layer:?}: {reason}")]
    Layer {
        /// Which.
        layer: String,
        /// Why.
        reason: String,
    },
    /// A stack is none.
    #[error("layer {layer:?}: {source}")]
    Rnn {
        /// Which.
        layer: String,
        /// Why.
        source: RnnError,
    },
    /// The architecture as a whole.
    #[error("the architecture {0}")]
    Whole(String),
    /// Weights to begin with are others.
    #[error(transparent)]
    Weights(#[from] WeightsError),
    /// What was trained is no valid model.
    #[error(transparent)]
    Model(#[from] ImportError),
}

/// A layer and where its parameters are.
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

#[derive(Clone, Copy)]
enum Function {
    Relu,
    Tanh,
    Sigmoid,
}

/// A network to be trained.
pub struct Network {
    description: Description,
    layers: Vec<Layer>,
    size: usize,
    features: usize,
    classes: usize,
}

/// Where the stacks of a network are behind a batch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Carried(Vec<States>);

/// What is learned from at once.
pub struct Lesson<'a> {
    /// Sequences.
    pub batch: Batch,
    /// Their classes.
    pub classes: &'a [usize],
    /// What the loss is a mean over: these sequences, and those of other parts of the batch.
    pub sequences: usize,
    /// Where the sequences before these have ended; zero states where there are none. Nothing is learned of them.
    pub from: Option<&'a Carried>,
    /// What units are worth, where values are as integers count them.
    pub units: Option<&'a LayerUnits>,
}

/// What units of the values of each layer are worth: one for each pseudo-layer of a stack, one for a `Linear` or an
/// activation, or none: then its values stay as they are.
pub type LayerUnits = [Vec<Units>];

/// What came out.
#[derive(Clone, Debug, PartialEq)]
pub struct Learned {
    /// The part of the mean cross-entropy, in nats.
    pub loss: f64,
    /// Decisions that are right.
    pub right: usize,
    /// Where the sequences have ended.
    pub carried: Carried,
}

/// Numbers between two layers: of every step, or of one.
struct Value {
    batch: Batch,
    /// Whether there is one row for each sequence, whatever `lengths` says.
    vector: bool,
}

/// Scores, what each layer keeps, and where the stacks are.
type Passed<T> = (Vec<f32>, Vec<Kept<T>>, Carried);

/// What a layer keeps on its way forward.
enum Kept<T> {
    /// Of a stack also the steps of each sequence.
    Stack(T, Vec<usize>, Take),
    Input(Vec<f32>, Vec<bool>),
    Output(Vec<f32>, Vec<bool>),
    Mask(Vec<f32>),
}

impl Network {
    /// A network of an architecture.
    ///
    /// # Errors
    /// If it is not a chain of the layers above that ends in one row of scores for each sequence.
    pub fn new(description: &Description) -> Result<Self, NetworkError> {
        let whole = |reason: &str| Err(NetworkError::Whole(reason.to_owned()));
        if !matches!(description.framework.as_str(), "" | "torch") {
            return whole("must be in PyTorch's words: \"framework\": \"torch\"");
        }
        let [input] = description.inputs.as_slice() else { return whole("must have one input") };
        let features = match &input.size {
            Size::One(size) => *size,
            Size::Shape(_) => return whole("must have an input whose size is one number"),
        };
        if input.vector {
            return whole("must have an input over time");
        }
        let mut network = Self { description: description.clone(), layers: vec![], size: 0, features, classes: 0 };
        let (mut size, mut vector) = (features, false);
        let mut before = input.name.as_str();
        for (number, layer) in description.layers.iter().enumerate() {
            let fail = |reason: String| NetworkError::Layer { layer: layer.name.clone(), reason };
            if !(layer.inputs.is_empty() || layer.inputs.as_slice() == [before]) {
                return Err(fail("only a chain is trained: it must read the layer before it".into()));
            }
            before = &layer.name;
            if !layer.tensors.is_empty() || layer.stateful || !layer.framework.is_empty() {
                return Err(fail("\"tensors\", \"stateful\" and \"framework\" of a layer are not for training".into()));
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
            return whole("must end in one row for each sequence: give its last recurrent layer \"take\": \"last\"");
        }
        network.classes = size;
        Ok(network)
    }

    /// Numbers that are trained.
    pub const fn params_size(&self) -> usize {
        self.size
    }

    /// Of a step of its input.
    pub const fn features(&self) -> usize {
        self.features
    }

    /// Scores for each sequence.
    pub const fn classes(&self) -> usize {
        self.classes
    }

    /// Parameters to begin with, as PyTorch draws them: uniform within ±1/√units, ±1/√inputs of a `Linear`.
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

    /// Whether it can go on where other sequences have ended: it looks one way.
    pub fn goes_on(&self) -> bool {
        self.layers.iter().all(|layer| match &layer.kind {
            Kind::Stack { stack, .. } => stack.rnn().settings().direction == Direction::Unidirectional,
            Kind::Linear { .. } | Kind::Activation(_) | Kind::Dropout(_) => true,
        })
    }

    /// Scores for classes, `[sequences, classes]`, as the network runs from zero states, or where others have ended; and
    /// where these have. With `units` values are as integers count them.
    pub fn scores(
        &self,
        params: &[f32],
        batch: Batch,
        from: Option<&Carried>,
        units: Option<&LayerUnits>,
    ) -> (Vec<f32>, Carried) {
        let Ok(found) = self.scores_on(&mut Cpu, params, batch, from, units);
        found
    }

    /// [`scores`](Self::scores), with stacks computed elsewhere.
    ///
    /// # Errors
    /// As [`Stacks::forward`].
    pub fn scores_on<S: Stacks>(
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

    /// Learns from a lesson: the gradient to the parameters is added to `into`.
    ///
    /// # Panics
    /// If a class is none of the network's, or sizes differ.
    pub fn learn(&self, params: &[f32], lesson: Lesson<'_>, draws: Draws, into: &mut [f32]) -> Learned {
        let Ok(learned) = self.learn_on(&mut Cpu, params, lesson, draws, into);
        learned
    }

    /// [`learn`](Self::learn), with stacks computed elsewhere.
    ///
    /// # Errors
    /// As [`Stacks`]' functions.
    ///
    /// # Panics
    /// As [`learn`](Self::learn).
    pub fn learn_on<S: Stacks>(
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
                    let apply = match function {
                        Function::Relu => relu,
                        Function::Tanh => tanh,
                        Function::Sigmoid => sigmoid,
                    };
                    data.iter_mut().for_each(|value| *value = apply(*value));
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
                    let slope = |y: f32| match function {
                        Function::Relu => f32::from(y > 0.0),
                        Function::Tanh => 1.0 - y * y,
                        Function::Sigmoid => y * (1.0 - y),
                    };
                    gradient.iter_mut().zip(&y).for_each(|(gradient, &y)| *gradient *= slope(y));
                }
                (Kind::Dropout(_), Kept::Mask(mask)) => {
                    gradient.iter_mut().zip(&mask).for_each(|(gradient, mask)| *gradient *= mask);
                }
                _ => unreachable!("a layer keeps what is of its own kind"),
            }
        }
        Ok(())
    }
}

/// Where the row that counts is, of each sequence and direction.
fn counts(rnn: &Rnn, lengths: &[usize], take: Take) -> impl Fn(usize, usize) -> usize {
    let lengths = lengths.to_vec();
    let rows = lengths.len();
    let both = rnn.settings().direction == Direction::Bidirectional;
    // The backward direction gives the first step last.
    move |sequence, direction| match take {
        Take::Final if both && direction == 1 => sequence,
        _ => (lengths[sequence].max(1) - 1) * rows + sequence,
    }
}

/// `[sequences, features]` of `[steps, sequences, features]`.
fn taken(rnn: &Rnn, batch: &Batch, take: Take) -> Vec<f32> {
    let size = rnn.output_size();
    let at = counts(rnn, &batch.lengths, take);
    let directions = rnn.settings().direction.count();
    let part = |sequence, direction| {
        let from = at(sequence, direction) * batch.features + direction * size;
        &batch.data[from..from + size]
    };
    let row = |sequence| (0..directions).flat_map(move |direction| part(sequence, direction));
    let mut all = Vec::with_capacity(batch.lengths.len() * batch.features);
    (0..batch.lengths.len()).for_each(|sequence| all.extend(row(sequence)));
    all
}

/// The reverse of [`taken`]: zeros where nothing was taken.
fn spread(rnn: &Rnn, lengths: &[usize], gradient: &[f32], take: Take) -> Vec<f32> {
    let (size, directions) = (rnn.output_size(), rnn.settings().direction.count());
    let steps = lengths.iter().copied().max().unwrap_or(0);
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

/// From scores to their gradient, in place; the loss and how many are right.
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

/// The first of the highest scores.
pub fn best(scores: &[f32]) -> usize {
    let mut best = 0;
    for (k, score) in scores.iter().enumerate() {
        if *score > scores[best] {
            best = k;
        }
    }
    best
}

/// From 0 to less than 1.
pub fn uniform(random: &mut ChaCha8Rng) -> f32 {
    (random.next_u32() >> 8) as f32 / (1 << 24) as f32
}
