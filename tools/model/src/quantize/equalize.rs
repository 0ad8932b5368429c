//! Equalization (Nagel et al. 2019, "Data-Free Quantization Through Weight Equalization and Bias Correction"): the channels
//! of a layer's output get factors, and the weights that read them the reciprocals. The model computes the same, but its rows
//! of weights and its values fit their grids better where the channels differ much. Here the factors are those of
//! several with the least expected error of the sums, given the values that calibration observed.
//!
//! All factors are powers of two, so that the model has the same bits in `f32` as before.

use std::collections::HashMap;

use tidegate::internals::{activation::Activation, quant::MAX};

use super::matrix::{input_matrix, matrix};
use super::operand;
use super::rows::{MOST_WEIGHT, Operand, Part};
use super::terms::{activation, has};
use super::{Elements, Ranges};
use crate::canonical::{Canonical, Node};

/// Pairs of exponents: a channel's factor is the size of its weights to the power of the first one, divided by the size of its
/// values to the power of the second. The pair with the least expected error is taken.
const EXPONENTS: [(f64, f64); 8] =
    [(0.0, 0.5), (0.0, 1.0), (0.5, 0.0), (0.5, 0.5), (0.5, 1.0), (1.0, 0.0), (1.0, 0.5), (1.0, 1.0)];
/// The greatest power of two of a factor.
const MOST_BITS: f64 = 12.0;
/// Greatest expected squared error with factors, relative to that without: a gain of 1 dB.
const MOST_ERROR: f64 = 0.8;
/// By how much factors must reduce the squared error of an image's values to be taken for those of the image.
const LEAST_CLEARER: f64 = 4.0;
/// The mean square of all channels, times this, is added to that of each channel: a channel with hardly any values in the
/// calibration may have values elsewhere.
const LEAST_SHARE: f64 = 1e-3;

/// The model with factors for all channels where these reduce the expected errors; `None` if there are none.
pub fn equalized(model: &Canonical, ranges: &Ranges) -> Option<Canonical> {
    let mut equalized = model.clone();
    let mut is_changed = false;
    for node in &model.architecture.nodes {
        let Some(channels) = Channels::new(node, &equalized, ranges) else { continue };
        if let Some(factors) = channels.factors(&equalized) {
            scale(node, &channels.readers, &factors, &mut equalized);
            is_changed = true;
        }
    }
    is_changed.then_some(equalized)
}

/// The model with the factors that the channels of an image have; `None` if all of them are 1. `expected` holds the values of
/// the model's nodes, and `got` those of the image.
pub fn equalized_as(
    model: &Canonical,
    expected: &HashMap<&str, Vec<f32>>,
    got: &HashMap<&str, Vec<f32>>,
) -> Option<Canonical> {
    let mut equalized = model.clone();
    let mut is_changed = false;
    for node in &model.architecture.nodes {
        let Some((count, readers)) = scalable(node, &equalized) else { continue };
        let name = node.name.as_str();
        let (Some(expected), Some(got)) = (expected.get(name), got.get(name)) else { continue };
        let mut products = vec![Products::default(); count];
        for (at, (&got, &expected)) in got.iter().zip(expected).enumerate() {
            products[at % count].add(got.into(), expected.into());
        }
        let factors: Vec<f64> = products.iter().map(Products::factor).collect();
        let scaled: f64 = products.iter().zip(&factors).map(|(products, &factor)| products.noise(factor)).sum();
        let plain: f64 = products.iter().map(|products| products.noise(1.0)).sum();
        // Rounding and saturation alone do not look like factors.
        if scaled < plain / LEAST_CLEARER {
            scale(node, &readers, &factors, &mut equalized);
            is_changed = true;
        }
    }
    is_changed.then_some(equalized)
}

/// Sums of the products of an image's and a model's values of one channel.
#[derive(Clone, Copy, Default)]
struct Products {
    got: f64,
    both: f64,
    expected: f64,
}

impl Products {
    fn add(&mut self, got: f64, expected: f64) {
        self.got += got * got;
        self.both += got * expected;
        self.expected += expected * expected;
    }

    /// The power of two that makes the mean squares most alike.
    fn factor(&self) -> f64 {
        let ratio = self.got / self.expected;
        let bits = (ratio.log2() / 2.0).round();
        if bits.abs() <= MOST_BITS { bits.exp2() } else { 1.0 }
    }

    /// The sum of the squared errors if the channel has this factor.
    fn noise(&self, factor: f64) -> f64 {
        (self.got / (factor * factor) - 2.0 * self.both / factor + self.expected).max(0.0)
    }
}

/// The channels of a node's output.
struct Channels {
    /// The mean square and the greatest magnitude of each channel.
    values: Vec<(f64, f64)>,
    readers: Vec<Reader>,
}

/// A matrix that reads the channels.
struct Reader {
    /// Name of its tensor.
    tensor: String,
    cols: usize,
    /// The number of successive rows that read one channel; `None` if each column reads one.
    filters: Option<usize>,
}

impl Channels {
    /// The channels of a [`scalable`] node as calibration observed them.
    fn new(node: &Node, model: &Canonical, ranges: &Ranges) -> Option<Self> {
        let (count, readers) = scalable(node, model)?;
        let Elements { distributions, peaks } = ranges.weighing(&node.name)?;
        let squares = operand::rows(distributions, count)?.into_iter().map(|all| all.summed().moments(f64::INFINITY).1);
        let squares: Vec<f64> = squares.collect();
        let least = LEAST_SHARE * squares.iter().sum::<f64>() / count as f64;
        let peak = |channel| peaks.iter().skip(channel).step_by(count).fold(0.0_f32, |most, &peak| most.max(peak));
        let value = |(channel, square): (usize, &f64)| (square + least, f64::from(peak(channel)));
        let values: Vec<_> = squares.iter().enumerate().map(value).collect();
        (least > 0.0).then_some(Self { values, readers })
    }

    /// The factors with the least expected error; `None` if they gain too little.
    fn factors(&self, model: &Canonical) -> Option<Vec<f64>> {
        let columns = self.columns(model);
        let ones = vec![1.0; self.values.len()];
        let square = |channel: usize| self.values[channel].0;
        let loudest = (0..self.values.len()).max_by(|&one, &other| square(one).total_cmp(&square(other)))?;
        let of = |&(of_weights, of_values): &(f64, f64)| {
            let channel = |(column, (square, _)): (&f64, &(f64, f64))| {
                of_weights * column.log2() - of_values * square.sqrt().log2()
            };
            let bits: Vec<f64> = columns.iter().zip(&self.values).map(channel).collect();
            // The loudest channel is halved, so that a comparison with the model shows the factors.
            let halved = bits[loudest] + 1.0;
            bits.iter().map(|bits| (bits - halved).round().clamp(-MOST_BITS, MOST_BITS).exp2()).collect::<Vec<f64>>()
        };
        let tried = EXPONENTS.iter().map(of).map(|factors| (self.error(&factors, model), factors));
        let (error, factors) = tried.min_by(|(one, _), (other, _)| one.total_cmp(other))?;
        (error <= MOST_ERROR * self.error(&ones, model)).then_some(factors)
    }

    /// The root of the mean square of the weights that read each channel, relative to the greatest weight of their row.
    fn columns(&self, model: &Canonical) -> Vec<f64> {
        let mut squares = vec![0.0; self.values.len()];
        for (reader, row, weights) in self.rows(model) {
            let most = weights.iter().fold(f64::MIN_POSITIVE, |most, weight| most.max(f64::from(weight.abs())));
            for (at, &weight) in weights.iter().enumerate() {
                squares[reader.channel(row, at, self.values.len())] += (f64::from(weight) / most).powi(2);
            }
        }
        let mean = squares.iter().sum::<f64>() / squares.len() as f64;
        squares.iter().map(|square| (square + LEAST_SHARE * mean).max(f64::MIN_POSITIVE).sqrt()).collect()
    }

    /// The expected squared error of the readers' sums, relative to the mean squares of the sums: from rounding the weights to
    /// 8 bits and the values to 16. Weights of other widths are assumed to gain as much.
    fn error(&self, factors: &[f64], model: &Canonical) -> f64 {
        let is_equalized = factors.iter().any(|&factor| factor != 1.0);
        let most = self.values.iter().zip(factors).fold(0.0_f64, |most, ((_, peak), factor)| most.max(peak * factor));
        let step_of_values = most / f64::from(MAX);
        let row = |(reader, row, weights): (&Reader, usize, &[f32])| {
            let (mut most, mut values, mut squares, mut signal) = (0.0_f64, 0.0, 0.0, 0.0);
            for (at, &weight) in weights.iter().enumerate() {
                let channel = reader.channel(row, at, factors.len());
                let (square, factor) = (self.values[channel].0, factors[channel]);
                let scaled = f64::from(weight) / factor;
                most = most.max(scaled.abs());
                values += square * factor * factor;
                squares += scaled * scaled;
                signal += f64::from(weight).powi(2) * square;
            }
            // Weights that were quantized before are kept exactly.
            let is_exact = || Part { weights, scale: 1.0, operand: &Operand::NONE }.exact_unit().is_some();
            let step = if !is_equalized && is_exact() { 0.0 } else { most / MOST_WEIGHT };
            let noise = (step * step * values + step_of_values * step_of_values * squares) / 12.0;
            if signal > 0.0 { noise / signal } else { 0.0 }
        };
        self.rows(model).map(row).sum()
    }

    /// The rows of all readers, each with its number.
    fn rows<'a>(&'a self, model: &'a Canonical) -> impl Iterator<Item = (&'a Reader, usize, &'a [f32])> {
        self.readers.iter().flat_map(|reader| {
            let rows = model.tensors.get(&reader.tensor).map_or(&[][..], |tensor| &tensor.data).chunks(reader.cols);
            rows.enumerate().map(move |(row, weights)| (reader, row, weights))
        })
    }
}

impl Reader {
    /// The matrix of a node that has this number of columns.
    fn new(node: &Node, cols: usize, filters: Option<usize>, model: &Canonical) -> Option<Self> {
        let has_matrix = |name: &&str| matrix(name, node, model).is_some_and(|(_, found)| found == cols);
        let name = ["input_weights", "weights"].into_iter().find(has_matrix)?;
        Some(Self { tensor: format!("{}.{name}", node.name), cols, filters })
    }

    /// The channel that a weight reads.
    fn channel(&self, row: usize, col: usize, channels: usize) -> usize {
        self.filters.map_or(col % channels, |filters| row / filters)
    }
}

/// The number of channels of a node, and the matrices that read them. `None` if the node's weights cannot scale the channels,
/// or if something other than a matrix reads them.
fn scalable(node: &Node, model: &Canonical) -> Option<(usize, Vec<Reader>)> {
    let is_linear =
        || matches!(activation(node, 0), Activation::Identity | Activation::Relu | Activation::LeakyRelu { .. });
    if !["dense", "conv", "depthwise_conv"].contains(&node.cell.as_str()) || !is_linear() {
        return None;
    }
    let count = *matrix("weights", node, model)?.0.shape.first()?;
    let mut readers = Vec::new();
    follow(node, count, model, &mut readers)?;
    (!readers.is_empty()).then_some((count, readers))
}

/// Multiplies the channels of a node by factors, and divides the weights that read them.
fn scale(node: &Node, readers: &[Reader], factors: &[f64], model: &mut Canonical) {
    for name in ["weights", "bias"] {
        if let Some(tensor) = model.tensors.get_mut(&format!("{}.{name}", node.name)) {
            let each = tensor.data.len() / factors.len();
            for (weights, factor) in tensor.data.chunks_mut(each.max(1)).zip(factors) {
                weights.iter_mut().for_each(|weight| *weight *= *factor as f32);
            }
        }
    }
    for reader in readers {
        if let Some(tensor) = model.tensors.get_mut(&reader.tensor) {
            for (at, weight) in tensor.data.iter_mut().enumerate() {
                *weight /= factors[reader.channel(at / reader.cols, at % reader.cols, factors.len())] as f32;
            }
        }
    }
}

/// Adds the matrices that read the output of a node, if it is no output of the model.
fn follow(node: &Node, channels: usize, model: &Canonical, readers: &mut Vec<Reader>) -> Option<()> {
    let is_output = model.architecture.outputs.iter().any(|output| output.from == node.name);
    if is_output { None } else { find_readers(&node.name, channels, model, readers) }
}

/// Adds the matrices that read a value. `None` if something else reads it.
fn find_readers(name: &str, channels: usize, model: &Canonical, readers: &mut Vec<Reader>) -> Option<()> {
    for node in model.architecture.nodes.iter().filter(|node| node.inputs.iter().any(|input| input == name)) {
        let [_] = node.inputs.as_slice() else { return None };
        let is_image = node.extent("in_channels") == channels;
        // No weight multiplies a mask.
        let is_row = node.input_size.is_multiple_of(channels) && !has(node, "masked");
        match node.cell.as_str() {
            // Each output is one channel.
            "pool" if is_image => follow(node, channels, model, readers)?,
            "window" | "last" if is_row => follow(node, channels, model, readers)?,
            "dense" | "lstm" | "gru" | "elman" | "min_gru" | "min_lstm" if is_row => {
                readers.push(Reader::new(node, node.input_size, None, model)?);
            }
            "conv" if is_image && node.extent("groups") == 1 => {
                readers.push(Reader::new(node, input_matrix(node, model)?.1, None, model)?);
            }
            "depthwise_conv" if is_image => {
                let filters = node.extent("multiplier").max(1);
                readers.push(Reader::new(node, input_matrix(node, model)?.1, Some(filters), model)?);
            }
            _ => return None,
        }
    }
    Some(())
}
