//! A model whose nodes are quantized: what an image holds.

use std::collections::BTreeMap;

use tidegate::{Layout, Numeric};

use super::ranges::RowScales;
use super::{QuantizeError, QuantizedNode, Ranges, Scales, byte};
use crate::canonical::Canonical;

/// A model in integers.
#[derive(Debug)]
pub struct Quantized {
    /// The model, with the nodes that convert values to other scales.
    pub model: Canonical,
    /// The scale of every value.
    pub scales: Scales,
    /// The zero point of every value, if the model states them.
    pub zero_points: Option<BTreeMap<String, i32>>,
    /// The nodes of the model.
    pub nodes: Vec<QuantizedNode>,
}

impl Quantized {
    /// Quantizes a valid model to a numeric that needs ranges.
    ///
    /// # Errors
    /// If a node has no integer form.
    pub fn new(model: &Canonical, numeric: Numeric, ranges: &Ranges, layout: Layout) -> Result<Self, QuantizeError> {
        let (model, scales) = Scales::assign(model.clone(), ranges)?;
        let node = |node| QuantizedNode::new(node, &model, &scales, ranges, numeric, layout);
        let nodes = model.architecture.nodes.iter().map(node).collect::<Result<_, _>>()?;
        Ok(Self { model, scales, zero_points: None, nodes })
    }

    /// A model that is in integers already.
    ///
    /// # Errors
    /// If it lacks an integer, or a node has no `i8` form.
    pub fn of_bytes(model: Canonical, layout: Layout) -> Result<Self, QuantizeError> {
        let (scales, zero_points) = byte::counts(&model)?;
        let node = |node| byte::quantized(node, &model, layout);
        let nodes = model.architecture.nodes.iter().map(node).collect::<Result<_, _>>()?;
        Ok(Self { model, scales, zero_points: Some(zero_points), nodes })
    }

    /// The scales of the rows of each tensor of all nodes, and their expected squared errors.
    pub(super) fn row_scales(&self) -> impl Iterator<Item = (&str, &RowScales, &[f64])> {
        let all = self.nodes.iter().flat_map(|node| &node.row_scales);
        all.map(|(tensor, scales, losses)| (tensor.as_str(), scales, losses.as_slice()))
    }
}
