//! The range of a value that is not bounded, chosen by what rounding costs where the value is read.
//!
//! Values outside the calibration need a margin. Rounding a value to 16 bits adds an error to each sum that reads it, in
//! proportion to the range. The margin is as wide as possible while this error is small beside the one that rounding the
//! weights to 8 bits adds to the same sums.

use tidegate::internals::{
    cell::{CellKind, OutputScale},
    curve::Curve,
    quant::MAX,
};

use super::covariance::{Covariance, MOST_VALUES};
use super::distribution::Element;
use super::operand::SATURATED;
use super::ranges::Elements;
use super::rows::{Operand, Part};
use super::terms::{activation, output};
use crate::canonical::{Canonical, Node};

/// The share of the weights' error that rounding a value may add.
const SHARE: f64 = 0.05;
/// The greatest margin for values outside the calibration.
const MOST_MARGIN: f32 = 4.0;

/// The range of a value or state with this greatest observed magnitude.
pub fn range(name: &str, most: f32, elements: &Elements, model: &Canonical) -> f32 {
    let nodes = &model.architecture.nodes;
    // The scale of a bounded output does not depend on its range. The rounding errors of a state add up over time.
    if nodes.iter().any(|node| node.name == name && (is_fixed(node) || has_state(node))) {
        return most;
    }
    let readers: Option<Vec<Reader<'_>>> = nodes
        .iter()
        .filter(|node| node.inputs.iter().any(|input| input == name))
        .map(|node| Reader::new(node, elements, model))
        .collect();
    let Some(readers) = readers.filter(|readers| !readers.is_empty() && most > 0.0 && most.is_finite()) else {
        return most;
    };
    let weights: f64 = readers.iter().map(Reader::weights_error).sum();
    let rounding = |range: f32| -> f64 { readers.iter().map(|reader| reader.rounding_error(range)).sum() };
    let mut range = most * MOST_MARGIN;
    while range > most && rounding(range) > SHARE * weights {
        range /= 2.0;
    }
    range
}

/// An empty covariance of a node's input and previous output; `None` if the node does not multiply them.
pub fn covariance(node: &Node, model: &Canonical) -> Option<Covariance> {
    let spec = CellKind::from_name(&node.cell)?.spec();
    let matrix = ["input_weights", "weights"].into_iter().find(|of| spec.canonical.iter().any(|it| it.name == *of))?;
    let recurrent = format!("{}.recurrent_weights", node.name);
    let matrices =
        [model.tensors.get(&format!("{}.{matrix}", node.name))?].into_iter().chain(model.tensors.get(&recurrent));
    let mut ends = Vec::new();
    for tensor in matrices {
        let cols = tensor.data.len().checked_div(*tensor.shape.first()?)?;
        // A product of a column's usual weight beyond this only saturates activations.
        ends.extend((0..cols).map(|col| {
            let squares = tensor.data.iter().skip(col).step_by(cols).map(|weight| f64::from(*weight).powi(2));
            let usual = (squares.sum::<f64>() * cols as f64 / tensor.data.len() as f64).sqrt();
            if bounded(node) { SATURATED / usual } else { f64::INFINITY }
        }));
    }
    let is_recurrent = model.tensors.contains_key(&recurrent);
    let size = node.input_size + if is_recurrent { node.output_size } else { 0 };
    (node.unroll.is_none() && ends.len() == size && size <= MOST_VALUES).then(|| Covariance::new(ends))
}

/// A matrix that reads a value, and the elements that its columns read.
struct Reader<'a> {
    rows: Vec<&'a [f32]>,
    columns: Vec<&'a Element>,
    /// Whether the activation of each sum is bounded, so that products beyond [`SATURATED`] have no influence.
    is_bounded: bool,
}

impl<'a> Reader<'a> {
    /// The matrix of a node that reads `name`; `None` if the node reads values otherwise.
    fn new(node: &'a Node, elements: &'a Elements, model: &'a Canonical) -> Option<Self> {
        let spec = CellKind::from_name(&node.cell)?.spec();
        let matrix =
            ["input_weights", "weights"].into_iter().find(|of| spec.canonical.iter().any(|it| it.name == *of))?;
        let tensor = model.tensors.get(&format!("{}.{matrix}", node.name))?;
        let rows = *tensor.shape.first()?;
        let cols = tensor.data.len().checked_div(rows)?;
        // All values that a node reads get the coarsest scale of them, so a margin of one costs the others.
        let size = elements.distributions.len() / node.steps();
        if node.inputs.len() > 1 {
            return None;
        }
        if size == cols {
            return Some(Self {
                rows: tensor.data.chunks(cols).collect(),
                columns: elements.distributions.iter().take(size).collect(),
                is_bounded: bounded(node),
            });
        }
        let channels = *node.extents.get("in_channels")?;
        (channels > 0 && cols.is_multiple_of(channels)).then(|| Self {
            rows: tensor.data.chunks(cols).collect(),
            columns: elements.distributions.iter().take(channels).cycle().take(cols).collect(),
            is_bounded: bounded(node),
        })
    }

    /// The magnitude from which on a value, multiplied by this weight, has no more influence.
    fn end(&self, weight: f32) -> f64 {
        if self.is_bounded { SATURATED / f64::from(weight.abs()) } else { f64::INFINITY }
    }

    /// The expected squared error of all sums that comes from rounding each row of weights to 8 bits.
    fn weights_error(&self) -> f64 {
        let row = |row: &&[f32]| {
            // Weights that were quantized before are kept exactly.
            if (Part { weights: row, scale: 1.0, operand: &Operand::NONE }).exact_unit().is_some() {
                return 0.0;
            }
            let step = f64::from(row.iter().fold(0.0_f32, |most, weight| most.max(weight.abs()))) / 127.0;
            let squares = self.columns.iter().zip(*row).map(|(column, &weight)| column.moments(self.end(weight)).1);
            step * step / 12.0 * squares.sum::<f64>()
        };
        self.rows.iter().map(row).sum()
    }

    /// That of rounding values of this range to 16 bits.
    fn rounding_error(&self, range: f32) -> f64 {
        let step = f64::from(range) / f64::from(MAX);
        let squares: f64 = self.rows.iter().flat_map(|row| *row).map(|&weight| f64::from(weight).powi(2)).sum();
        step * step / 12.0 * squares
    }
}

/// Whether the scale of a node's output is that of a bounded activation.
fn is_fixed(node: &Node) -> bool {
    match output(node) {
        Some(OutputScale::Activation(index)) => Curve::of(activation(node, index)).is_some_and(Curve::is_bounded),
        Some(OutputScale::Q15 | OutputScale::Memory) => true,
        _ => false,
    }
}

/// Whether a cell carries a state from step to step.
fn has_state(node: &Node) -> bool {
    CellKind::from_name(&node.cell).is_some_and(|kind| !kind.spec().states.is_empty())
}

/// Whether all activations of a node are bounded.
fn bounded(node: &Node) -> bool {
    let count = CellKind::from_name(&node.cell).map_or(0, |kind| kind.spec().activations.len());
    // Those of the gates and of the candidate. The third one of an LSTM applies to the cell state.
    count > 0 && (0..count.min(2)).all(|index| Curve::of(activation(node, index)).is_some_and(Curve::is_bounded))
}
