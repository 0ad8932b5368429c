//! Candidates: the values that a cell blends into its state, and their ranges.

use tidegate::internals::{activation::Activation, curve::Curve};

use super::Ranges;
use super::terms::{activation, fraction_bits, magnitude, reach};
use crate::canonical::Node;

/// Magnitude at which an activation is tested for growth, as a power of two.
const FAR_BITS: i32 = 20;

/// Name of a node's candidate among the ranges.
pub fn name(node: &Node) -> String {
    format!("{}.candidate", node.name)
}

/// Whether an activation keeps growing beyond the usual range of a table.
pub fn grows(of: Activation) -> bool {
    magnitude(of, 2.0_f32.powi(FAR_BITS)) > 2.0 * reach(of)
}

/// The range of a tabulated candidate: the observed range, but at least the usual range of a table.
pub fn range(node: &Node, index: usize, ranges: &Ranges) -> f32 {
    let of = activation(node, index);
    if grows(of) { ranges.of(&name(node)).max(reach(of)) } else { reach(of) }
}

/// Number of fraction bits of a candidate that is weighted before it is added; its whole range fits. The candidate is
/// activation `index`.
pub fn weighed_bits(node: &Node, index: usize, ranges: &Ranges) -> i32 {
    let bounded = Curve::of(activation(node, index)).is_some_and(Curve::is_bounded);
    if bounded { 15 } else { fraction_bits(range(node, index, ranges)) }
}
