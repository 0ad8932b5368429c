//! The matrices of a node, and the values from which on their products have no more influence.

use tidegate::internals::{cell::CellKind, curve::Curve};

use super::terms::activation;
use crate::canonical::{Canonical, Node, Tensor};

/// The argument beyond which a bounded activation no longer changes.
pub const SATURATED: f64 = 8.0;

/// The magnitude from which on a value, multiplied by this weight, has no more influence.
pub fn end(weight: f32, is_bounded: bool) -> f64 {
    if is_bounded { SATURATED / f64::from(weight.abs()) } else { f64::INFINITY }
}

/// The matrix that multiplies a node's input, and its number of columns.
pub fn input_matrix<'m>(node: &Node, model: &'m Canonical) -> Option<(&'m Tensor, usize)> {
    ["input_weights", "weights"].into_iter().find_map(|name| matrix(name, node, model))
}

/// A matrix of a node, and its number of columns.
pub fn matrix<'m>(name: &str, node: &Node, model: &'m Canonical) -> Option<(&'m Tensor, usize)> {
    let tensor = model.tensors.get(&format!("{}.{name}", node.name))?;
    let cols = tensor.data.len().checked_div(*tensor.shape.first()?)?;
    (cols > 0).then_some((tensor, cols))
}

/// Whether the activations of a node's gates and of its candidate, or of its output, are bounded.
pub fn is_bounded(node: &Node) -> bool {
    let count = CellKind::from_name(&node.cell).map_or(0, |kind| kind.spec().activations.len());
    // The third activation of an LSTM is that of the cell state.
    count > 0 && (0..count.min(2)).all(|index| Curve::of(activation(node, index)).is_some_and(Curve::is_bounded))
}
