//! Recurrent weights of low rank, an option of several cells: the operand of the recurrent weights is B h, of `rank`
//! numbers, instead of h.

use tidegate::Numeric;
use tidegate::internals::node::Node;

use super::tensor;
use crate::panels::{Panels, Rows};
use crate::simd::Simd;
use crate::sums::{Way, one};

/// B, if the node has the option.
pub fn basis(node: &Node<'_>, numeric: Numeric, lanes: usize, option: u32, output: usize) -> Option<Panels> {
    let rank = rank(node, option)?;
    Some(Panels::in_order(lanes, Rows::of(node, numeric, tensor(node, "recurrent_basis"), output), rank))
}

/// Columns of the recurrent weights, if the node has the option.
pub fn rank(node: &Node<'_>, option: u32) -> Option<usize> {
    // The rank is the first extent of every cell that has the option.
    node.has(option).then(|| node.extent(0))
}

/// Elements of B h, rounded up to whole vectors.
pub fn seen_len<S: Simd>(_: S, basis: Option<&Panels>) -> usize {
    basis.map_or(0, |basis| basis.vectors() * S::LANES)
}

/// B h, which is written to `to`; `None` without a basis.
pub fn seen<'a, S: Simd>(s: S, basis: Option<&Panels>, h: &[f32], to: &'a mut [f32], way: Way) -> Option<&'a [f32]> {
    let to = &mut to[..seen_len(s, basis)];
    to.fill(0.0);
    one(s, (basis?, h), None, to, way);
    Some(to)
}
