//! What a unit of every value is worth.

use std::collections::BTreeMap;

use tidegate::activation::Activation;
use tidegate::cell::CellKind;
use tidegate::curve::Curve;
use tidegate::quant::MAX;

use super::lstm::LstmBits;
use super::{QuantizeError, Ranges};
use crate::canonical::{Canonical, Node};

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
        for node in &architecture.nodes {
            let read = scales.input(node)?;
            let scale = match output(node) {
                Output::Bounded => Q15,
                Output::Measured => from_range(ranges.of(&node.name)).max(least_scale(node, model, ranges, read)),
                Output::AsInput => read,
                Output::Memory => f64::from(-LstmBits::of(node, model, ranges).memory).exp2(),
                Output::PowerOfTwo => {
                    let unit = from_range(ranges.of(&node.name)).max(least_scale(node, model, ranges, read));
                    unit.log2().ceil().exp2().clamp(Q15, 1.0)
                }
                Output::Mixed(share, candidate) => {
                    let most = f64::from(-weighed_bits(activation(node, candidate))).exp2() / Q15;
                    from_range(ranges.of(&node.name)).max(share * most / f64::from(MAX))
                }
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

/// What an output that sums are brought to counts at least: its unit is more than twice theirs.
fn least_scale(node: &Node, model: &Canonical, ranges: &Ranges, read: f64) -> f64 {
    let most = |name: &str| {
        let tensor = model.tensors.get(&format!("{}.{name}", node.name));
        let all = tensor.into_iter().flat_map(|tensor| &tensor.data);
        f64::from(all.fold(0.0_f32, |most, weight| most.max(weight.abs())))
    };
    let unit = if node.cell == CellKind::Lstm.spec().name {
        most("projection_weights") * f64::from(-LstmBits::of(node, model, ranges).memory).exp2()
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
    /// The m of an LSTM.
    Memory,
    /// From what was seen; its fraction bits are a number of the node.
    PowerOfTwo,
    /// From what was seen, but so that the greatest share of a candidate, the activation of this index, fits.
    Mixed(f64, usize),
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
        Some(CellKind::Lstm) => Output::Memory,
        Some(CellKind::Gru) => bounded(1),
        Some(CellKind::Elman | CellKind::Dense) => bounded(0),
        Some(CellKind::Softmax) => Output::Bounded,
        Some(CellKind::MinGru) => Output::PowerOfTwo,
        Some(CellKind::FastRnn) => Output::Mixed(param(node, "alpha"), 0),
        Some(CellKind::FastGrnn) => Output::Mixed(param(node, "zeta") + param(node, "nu"), 1),
        Some(CellKind::Identity | CellKind::Last | CellKind::Window | CellKind::Repeat) => Output::AsInput,
        _ => Output::Measured,
    }
}

/// A number of a node; 0 where it has none.
pub fn param(node: &Node, name: &str) -> f64 {
    node.params.get(name).map_or(0.0, |&param| param.into())
}

/// The fraction bits of a candidate that is weighed before it is added: what a table reaches fits.
pub fn weighed_bits(of: Activation) -> i32 {
    if Curve::of(of).is_some_and(Curve::is_bounded) { 15 } else { fraction_bits(reach(of)) }
}

/// Activation `index` of a node.
pub fn activation(node: &Node, index: usize) -> Activation {
    let spec = CellKind::from_name(&node.cell).and_then(|kind| kind.spec().activations.get(index));
    let Some(spec) = spec else { return Activation::Identity };
    node.activations.get(spec.name).and_then(|text| text.parse().ok()).unwrap_or(spec.default)
}

/// What a table reaches to, as a power of two: 16.
pub const TABLE_REACH_BITS: i32 = 4;

/// The greatest magnitude of an activation over the reach of its table.
pub fn reach(of: Activation) -> f32 {
    let end = f32::from(1_u16 << TABLE_REACH_BITS);
    of.apply(end).abs().max(of.apply(-end).abs())
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
