//! A node in the terms of quantization: its cell's rules, its parameters, and the fraction bits of its values.

use tidegate::internals::{
    activation::Activation,
    cell::{CellKind, OutputScale, Quantization, Reads},
    curve::{BITS, Curve, PREACT_BITS},
    gate::Gate,
    quant::{CARRIED_BITS, MAX},
};

use crate::canonical::{Canonical, Node};

/// The scale 2^-15, for values between -1 and 1.
pub const Q15: f64 = 1.0 / 32768.0;

/// Margin above the greatest observed value.
const HEADROOM: f64 = 1.05;

/// The quantization rules of a node's cell; `None` if the cell has no integer form.
pub fn quantization(node: &Node) -> Option<&'static Quantization> {
    CellKind::from_name(&node.cell)?.integer_spec()?.quantization
}

/// The kind of values that a node reads.
pub fn reads(node: &Node) -> Reads {
    quantization(node).map_or(Reads::Values, |rules| rules.reads)
}

/// The rule for the scale of a node's output.
pub fn output(node: &Node) -> Option<OutputScale> {
    let options = node.option_bits(CellKind::from_name(&node.cell)?.spec());
    let rules = quantization(node)?.output;
    rules.iter().find(|(with, _)| *with == 0 || options & with != 0).map(|(_, scale)| *scale)
}

/// The greatest number of fraction bits with which the sums of a node keep their range. `None` if it is not greater than the
/// usual number, [`PREACT_BITS`].
pub fn fine_bits(node: &Node, model: &Canonical) -> Option<i32> {
    let rules = quantization(node)?;
    let options = CellKind::from_name(&node.cell).map_or(0, |kind| node.option_bits(kind.spec()));
    let most = match rules.multiplied {
        Some((option, gate)) if options & option != 0 => multiplied_bits(node, gate, model)?,
        _ => *BITS.end(),
    };
    (options & !rules.wide_sums? == 0 && most > PREACT_BITS as i32).then_some(most)
}

/// The greatest number of fraction bits with which the sums of a gate's rows over the previous output fit [`CARRIED_BITS`].
/// `None` if that output has no bound.
fn multiplied_bits(node: &Node, gate: Gate, model: &Canonical) -> Option<i32> {
    let is_bounded = Curve::of(activation(node, 1)).is_some_and(Curve::is_bounded);
    let [weights, biases] = ["recurrent_weights", "recurrent_bias"].map(|name| row_magnitudes(node, gate, model, name));
    let reach = weights.iter().zip(&biases).map(|(weights, bias)| weights + bias).fold(0.0, f64::max);
    is_bounded.then(|| (f64::from(CARRIED_BITS) - reach.log2()).floor().clamp(0.0, f64::from(*BITS.end())) as i32)
}

/// For each unit, the sum of the magnitudes of a tensor's row for a gate; zeros if the tensor is absent.
pub fn row_magnitudes(node: &Node, gate: Gate, model: &Canonical, name: &str) -> Vec<f64> {
    let Some(tensor) = model.tensors.get(&format!("{}.{name}", node.name)) else {
        return vec![0.0; node.hidden_size];
    };
    let gates = CellKind::from_name(&node.cell).map_or::<&[Gate], _>(&[], |kind| kind.spec().gates);
    let at = gates.iter().position(|of| *of == gate).unwrap_or(0);
    let cols = tensor.shape.iter().skip(1).product::<usize>().max(1);
    let rows = tensor.data.chunks(cols).skip(at * node.hidden_size).take(node.hidden_size);
    rows.map(|row| row.iter().map(|weight| f64::from(weight.abs())).sum()).collect()
}

/// A parameter of a node; 0 if it is not set.
pub fn param(node: &Node, name: &str) -> f64 {
    node.params.get(name).map_or(0.0, |&param| param.into())
}

/// Activation `index` of a node.
pub fn activation(node: &Node, index: usize) -> Activation {
    let spec = CellKind::from_name(&node.cell).and_then(|kind| kind.spec().activations.get(index));
    let Some(spec) = spec else { return Activation::Identity };
    node.activations.get(spec.name).and_then(|text| text.parse().ok()).unwrap_or(spec.default)
}

/// The usual input range of a table, as a power of two: 16.
pub const TABLE_REACH_BITS: i32 = 4;

/// The greatest magnitude of an activation over the usual range of its table.
pub fn reach(of: Activation) -> f32 {
    magnitude(of, f32::from(1_u16 << TABLE_REACH_BITS))
}

/// The greater magnitude of an activation at `end` and `-end`.
pub fn magnitude(of: Activation, end: f32) -> f32 {
    of.apply(end).abs().max(of.apply(-end).abs())
}

/// The scale that covers the observed range with a small margin.
pub fn from_range(range: f32) -> f64 {
    let range = f64::from(range);
    if range > 0.0 { range * HEADROOM / f64::from(MAX) } else { Q15 }
}

/// The maximum number of fraction bits, up to 15, with which a value of this range fits in 16 bits.
pub fn fraction_bits(range: f32) -> i32 {
    let bits = (f64::from(MAX) / (f64::from(range) * HEADROOM)).log2().floor();
    if bits >= 15.0 { 15 } else { (bits as i32).max(0) }
}

/// Whether a node has this option.
pub fn has(node: &Node, option: &str) -> bool {
    node.options.iter().any(|has| has == option)
}

/// The greatest magnitude in a tensor; 0 if the tensor is absent.
pub fn most(node: &Node, model: &Canonical, name: &str) -> f64 {
    let tensor = model.tensors.get(&format!("{}.{name}", node.name));
    tensor.into_iter().flat_map(|tensor| &tensor.data).fold(0.0, |most, &value| f64::from(value.abs()).max(most))
}
