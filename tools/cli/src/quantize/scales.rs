//! What a unit of every value is worth.

use std::collections::BTreeMap;

use tidegate::Numeric;
use tidegate::activation::Activation;
use tidegate::cell::CellKind;
use tidegate::curve::Curve;
use tidegate::front_end::{FrontEndError, Mfcc};
use tidegate::quant::MAX;

use super::{QuantizeError, Ranges};
use crate::canonical::{self, Canonical, Node};
use crate::pack::front_end_section;

/// 2^-15: of what is between -1 and 1.
pub const Q15: f64 = 1.0 / 32768.0;

/// What is left above the greatest value seen.
const HEADROOM: f64 = 1.05;

/// What a unit of every input and node is worth.
#[derive(Clone, Debug)]
pub struct Scales<'a>(BTreeMap<&'a str, f64>);

impl<'a> Scales<'a> {
    /// Of all values of a model.
    ///
    /// # Errors
    /// If a node reads values whose scales differ.
    pub fn assign(model: &'a Canonical, ranges: &Ranges) -> Result<Self, QuantizeError> {
        let architecture = &model.architecture;
        let mut scales = Self(BTreeMap::new());
        for input in &architecture.inputs {
            scales.0.insert(&input.name, from_range(ranges.of(&input.name)));
        }
        // The front end says what its features count; they are the first input.
        if let (Some(front_end), Some(input)) = (&architecture.front_end, architecture.inputs.first()) {
            scales.0.insert(&input.name, f64::from(feature_scale(front_end)?));
        }
        for node in &architecture.nodes {
            let read = scales.input(node)?;
            let scale = match output(node) {
                Output::Bounded => Q15,
                Output::Measured => from_range(ranges.of(&node.name)).max(least_scale(node, model, ranges, read)),
                Output::AsInput => read,
            };
            scales.0.insert(&node.name, scale);
        }
        Ok(scales)
    }

    /// What a unit of this value is worth.
    pub fn of(&self, name: &str) -> f64 {
        self.0.get(name).copied().unwrap_or(1.0)
    }

    /// What a unit of what a node reads is worth.
    ///
    /// # Errors
    /// If it reads values whose scales differ.
    pub fn input(&self, node: &Node) -> Result<f64, QuantizeError> {
        let mut read = node.inputs.iter();
        let first = read.next().map_or("", String::as_str);
        match read.find(|name| self.of(name) != self.of(first)) {
            None => Ok(self.of(first)),
            Some(other) => {
                Err(QuantizeError::Scales { node: node.name.clone(), a: first.to_owned(), b: other.clone() })
            }
        }
    }
}

/// What a unit of a feature of the front end in integers is worth.
fn feature_scale(front_end: &canonical::Mfcc) -> Result<f32, FrontEndError> {
    let section = front_end_section(front_end, Numeric::I8x16)?;
    Ok(Mfcc::parse(&section)?.scale().unwrap_or(1.0))
}

/// What an output that sums are brought to counts at least: its unit is more than twice theirs.
fn least_scale(node: &Node, model: &Canonical, ranges: &Ranges, read: f64) -> f64 {
    let most = |name: &str| {
        let tensor = model.tensors.get(&format!("{}.{name}", node.name));
        let all = tensor.into_iter().flat_map(|tensor| &tensor.data);
        f64::from(all.fold(0.0_f32, |most, weight| most.max(weight.abs())))
    };
    // What an LSTM projects is of the unit of its cell state at most.
    let cell = f64::from(-fraction_bits(ranges.of(&format!("{}.cell_state", node.name)))).exp2();
    let memory = if Curve::of(activation(node, 2)).is_some_and(Curve::is_bounded) { Q15 } else { cell };
    let unit = if node.cell == CellKind::Lstm.spec().name {
        most("projection_weights") * memory
    } else {
        most("weights").max(most("input_weights")) * read
    };
    // Sums may be made coarser so that they do not wrap.
    2.5 / 127.0 * unit
}

/// Where the scale of a node's output comes from.
enum Output {
    /// 2^-15
    Bounded,
    /// From what was seen.
    Measured,
    /// It is that of the input.
    AsInput,
}

fn output(node: &Node) -> Output {
    let bounded = |index| {
        if Curve::of(activation(node, index)).is_some_and(Curve::is_bounded) {
            Output::Bounded
        } else {
            Output::Measured
        }
    };
    match CellKind::from_name(&node.cell) {
        Some(CellKind::Lstm) if node.options.iter().any(|option| option == "projection") => Output::Measured,
        // Its scale is a power of two that the node's own numbers say.
        Some(CellKind::Lstm) => bounded(2),
        Some(CellKind::Gru) => bounded(1),
        Some(CellKind::Elman | CellKind::Dense) => bounded(0),
        Some(CellKind::Softmax) => Output::Bounded,
        Some(CellKind::Identity | CellKind::Last | CellKind::Window | CellKind::Repeat) => Output::AsInput,
        _ => Output::Measured,
    }
}

/// Activation `index` of a node.
pub fn activation(node: &Node, index: usize) -> Activation {
    let spec = CellKind::from_name(&node.cell).and_then(|kind| kind.spec().activations.get(index));
    let Some(spec) = spec else { return Activation::Identity };
    node.activations.get(spec.name).and_then(|text| text.parse().ok()).unwrap_or(spec.default)
}

/// So that what was seen fits, and a little more.
fn from_range(range: f32) -> f64 {
    let range = f64::from(range);
    if range > 0.0 { range * HEADROOM / f64::from(MAX) } else { Q15 }
}

/// The most fraction bits, up to 15, with which a value of this range fits in 16 bits.
pub fn fraction_bits(range: f32) -> i32 {
    let bits = (f64::from(MAX) / (f64::from(range) * HEADROOM)).log2().floor();
    if bits >= 15.0 { 15 } else { (bits as i32).max(0) }
}
