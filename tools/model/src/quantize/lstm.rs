//! The fraction bits of an LSTM's integer form, and the bounds that they follow from in addition to the measured
//! ranges.

use tidegate::internals::{activation::Activation, curve::Curve, quant::MAX};

use super::rows::MOST_WEIGHT;
use super::terms::{activation, fraction_bits, has, magnitude, most, param, reach};
use super::{Ranges, candidate};
use crate::canonical::{Canonical, Node};

/// Margin above the observed cell states of an LSTM whose units have scales of their own, which leave room for it.
pub const UNIT_MARGIN: f32 = 4.0;

/// Numbers of fraction bits.
#[derive(Clone, Copy, Debug)]
pub struct LstmBits {
    /// Fraction bits of the cell state c.
    pub cell: i32,
    /// Fraction bits of the candidate.
    pub candidate: i32,
    /// Fraction bits of m, the output before the projection.
    pub memory: i32,
}

impl LstmBits {
    /// The fraction bits that the ranges of a node permit.
    pub fn of(node: &Node, model: &Canonical, ranges: &Ranges) -> Self {
        let (candidate, output) = (activation(node, 1), activation(node, 2));
        let mut range = ranges.of(&format!("{}.cell_state", node.name));
        if has(node, "cell_norm") {
            // The cell state must fit before it is normalized.
            range = range.max(candidate_reach(node, model, ranges).unwrap_or(0.0));
        }
        if candidate::grows(candidate) {
            // A candidate is no coarser than c.
            range = range.max(ranges.of(&candidate::name(node)));
        }
        let cell = fraction_bits(range);
        let bits = match Curve::of(candidate) {
            Some(curve) if curve.is_bounded() => 15,
            Some(_) => cell,
            None => fraction_bits(candidate::range(node, 1, ranges)).max(cell),
        };
        let memory = match Curve::of(output) {
            Some(curve) if curve.is_bounded() => 15,
            Some(_) if has(node, "output_norm") => fraction_bits(shown_reach(node, model, ranges)),
            Some(_) => cell,
            None if candidate::grows(output) => {
                let most = magnitude(output, shown_reach(node, model, ranges));
                usual_memory(node, output, cell).min(fraction_bits(most))
            }
            None => usual_memory(node, output, cell),
        };
        Self { cell, candidate: bits, memory }
    }
}

/// Fraction bits of m if the output activation is tabulated and grows little beyond its table.
fn usual_memory(node: &Node, output: Activation, cell: i32) -> i32 {
    let bits = fraction_bits(reach(output));
    if has(node, "output_norm") { bits } else { bits.max(cell) }
}

/// The input range of the output activation: that of c, or of the normalized c.
pub fn shown_reach(node: &Node, model: &Canonical, ranges: &Ranges) -> f32 {
    if has(node, "output_norm") {
        norm_reach(node, model, node.hidden_size, &["output_gain"], &["output_bias"])
    } else {
        ranges.of(&format!("{}.cell_state", node.name))
    }
}

/// The greatest magnitude of a candidate that may leave -1 to 1; `None` if it has no bound.
pub fn candidate_reach(node: &Node, model: &Canonical, ranges: &Ranges) -> Option<f32> {
    let of = activation(node, 1);
    let biases = ["input_bias", "recurrent_bias"];
    match Curve::of(of) {
        Some(curve) if curve.is_bounded() => Some(0.0),
        None => Some(candidate::range(node, 1, ranges)),
        _ if has(node, "gate_norm") => Some(norm_reach(node, model, node.hidden_size, &["gate_gain"], &biases)),
        _ if has(node, "joint_norm") => {
            Some(norm_reach(node, model, 4 * node.hidden_size, &["input_gain", "recurrent_gain"], &biases))
        }
        _ => None,
    }
}

/// The greatest possible magnitude of `len` normalized values: none of n values exceeds √(n - 1).
fn norm_reach(node: &Node, model: &Canonical, len: usize, gains: &[&str], biases: &[&str]) -> f32 {
    let most = |names: &[&str]| names.iter().map(|name| most(node, model, name)).sum::<f64>();
    (most(gains) * (len as f64 - 1.0).sqrt() + most(biases)) as f32
}

/// The maximum number of fraction bits of sums over these matrices and input scales: the scale of a sum is more than
/// twice the step of any of its products.
pub fn sum_bits(node: &Node, model: &Canonical, matrices: &[(&str, f64)]) -> i32 {
    let units = matrices.iter().map(|(name, scale)| most(node, model, name) / MOST_WEIGHT * scale);
    let bits = -(2.5 * units.fold(0.0, f64::max)).log2();
    bits.floor().clamp(-31.0, 31.0) as i32
}

/// ε as a 15-bit integer, and its right shift in bits, for values of this scale.
pub fn epsilon(node: &Node, scale: f64) -> (i32, i32) {
    let epsilon = param(node, "epsilon") / (scale * scale);
    let bits = (f64::from(MAX) / epsilon).log2().floor().clamp(-63.0, 63.0);
    ((epsilon * bits.exp2()).round().min(MAX.into()) as i32, bits as i32)
}
