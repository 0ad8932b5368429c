//! Rows of tensors in the order of an image.

use std::collections::BTreeMap;

use tidegate::internals::cell::{CellSpec, Dim, TensorSpec};

use super::{Node, Tensor};

/// The rows of a tensor in the order of an image: unit-major, the gates of a unit side by side. Canonical tensors of
/// the same rows are summed.
pub(crate) fn image_rows(
    node: &Node,
    spec: &CellSpec,
    tensor: &TensorSpec,
    tensors: &BTreeMap<String, Tensor>,
) -> Vec<f32> {
    let cols = cols(node, spec, tensor);
    let places = canonical_rows(node, spec, tensor);
    let mut rows = vec![0.0; places.len() * cols];
    for name in tensor.from {
        let Some(Tensor { data, .. }) = tensors.get(&format!("{}.{name}", node.name)) else { continue };
        for (row, place) in rows.chunks_exact_mut(cols).zip(&places) {
            for (value, add) in row.iter_mut().zip(&data[place * cols..][..cols]) {
                *value += add;
            }
        }
    }
    rows
}

/// For each row of an image tensor, the index of its row in the canonical tensors.
pub(crate) fn canonical_rows(node: &Node, spec: &CellSpec, tensor: &TensorSpec) -> Vec<usize> {
    let units = dim(node, spec, &tensor.rows);
    let blocks: Vec<usize> = match tensor.gates {
        [] => vec![0],
        gates => gates
            .iter()
            .map(|gate| spec.gates.iter().position(|of| of == gate).expect("a tensor takes gates of its cell"))
            .collect(),
    };
    (0..units).flat_map(|unit| blocks.iter().map(move |block| block * units + unit)).collect()
}

/// A dimension of a validated node, whose tensors are all present.
pub(crate) fn dim(node: &Node, spec: &CellSpec, dim: &Dim) -> usize {
    node.dim(spec, dim).expect("a validated node's dimensions can be counted")
}

/// Number of columns of a tensor; 1 for a vector.
pub(crate) fn cols(node: &Node, spec: &CellSpec, tensor: &TensorSpec) -> usize {
    tensor.cols.as_ref().map_or(1, |cols| dim(node, spec, cols))
}
