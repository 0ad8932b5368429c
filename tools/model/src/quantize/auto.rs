//! Chooses the range of an unbounded value by the cost of rounding it in the layers that read it.
//!
//! Values outside the calibration need a margin. Rounding a value to 16 bits adds an error to each sum that reads it, in
//! proportion to the range. The margin is as wide as possible while this error is small beside the one that rounding the
//! weights to 8 bits adds to the same sums.

use tidegate::internals::{
    activation::Activation,
    cell::{CellKind, OutputScale},
    curve::Curve,
    quant::MAX,
};

use super::distribution::{Element, Summed};
use super::matrix::{self, end, is_bounded};
use super::operand;
use super::ranges::Elements;
use super::rows::{MOST_WEIGHT, Operand, Part};
use super::terms::{activation, output};
use crate::canonical::{Canonical, Node};

/// Maximum squared error that rounding a value may add to sums, as a share of the error from rounding their weights.
const SHARE: f64 = 0.05;
/// The greatest margin for values outside the calibration.
const MOST_MARGIN: f32 = 4.0;
/// Maximum squared error of rounding an output, as a share of the output's mean square: 60 dB below it. Rounding weights
/// to 8 bits adds an error about 45 dB below an output.
const SHARE_OF_OUTPUT: f64 = 1e-6;

/// The range of a value or state whose greatest observed magnitude is `most`.
pub fn range(name: &str, most: f32, elements: &Elements, model: &Canonical) -> f32 {
    let nodes = &model.architecture.nodes;
    // The scale of a bounded output does not depend on its range. The rounding errors of a state add up over time.
    if nodes.iter().any(|node| node.name == name && (is_fixed(node) || has_state(node))) || is_steep(name, model) {
        return most;
    }
    let readers: Option<Vec<Reader<'_>>> = nodes
        .iter()
        .filter(|node| node.inputs.iter().any(|input| input == name))
        .map(|node| Reader::new(node, elements, model))
        .collect();
    let Some(readers) = readers.filter(|_| most > 0.0 && most.is_finite()) else { return most };
    let is_output = model.architecture.outputs.iter().any(|output| output.from == name);
    let weights: f64 = readers.iter().map(Reader::weights_error).sum();
    let squares: f64 = readers.iter().map(Reader::squared_weights).sum();
    let by_readers = (!readers.is_empty()).then_some(SHARE * weights / squares);
    let by_output = is_output.then(|| SHARE_OF_OUTPUT * mean_square(&elements.distributions));
    let Some(limit) = by_readers.into_iter().chain(by_output).reduce(f64::min) else { return most };
    let mut range = (most * MOST_MARGIN).min(f32::MAX);
    while range > most && squared_rounding(range) > limit {
        range /= 2.0;
    }
    range
}

/// The expected squared error of rounding a value of this range to 16 bits.
fn squared_rounding(range: f32) -> f64 {
    let step = f64::from(range) / f64::from(MAX);
    step * step / 12.0
}

/// The mean square of all elements.
fn mean_square(elements: &[Element]) -> f64 {
    elements.iter().map(|element| element.summed().moments(f64::INFINITY).1).sum::<f64>() / elements.len().max(1) as f64
}

/// A matrix that reads a value, and the elements that its columns read.
struct Reader<'a> {
    rows: Vec<&'a [f32]>,
    columns: Vec<Summed>,
    /// Whether the activation of each sum is bounded.
    is_bounded: bool,
}

impl<'a> Reader<'a> {
    /// The matrix with which a node reads a value of these elements. `None` if the node has no matrix, or if it also reads
    /// other values: all of them share the coarsest scale, so a margin for one of them would make the others coarser.
    fn new(node: &Node, elements: &Elements, model: &'a Canonical) -> Option<Self> {
        let (tensor, cols) = matrix::input_matrix(node, model)?;
        let [_] = node.inputs.as_slice() else { return None };
        let elements = &elements.distributions;
        let row = operand::rows(elements, elements.len() / node.steps())?;
        let columns = operand::columns(&row, cols, node)?.iter().map(Element::summed).collect();
        Some(Self { rows: tensor.data.chunks(cols).collect(), columns, is_bounded: is_bounded(node) })
    }

    /// The expected squared error of all sums if each row of weights is rounded to 8 bits.
    fn weights_error(&self) -> f64 {
        let row = |row: &&[f32]| {
            // Weights that were quantized before are kept exactly.
            if (Part { weights: row, scale: 1.0, operand: &Operand::NONE }).exact_unit().is_some() {
                return 0.0;
            }
            let step = f64::from(row.iter().fold(0.0_f32, |most, weight| most.max(weight.abs()))) / MOST_WEIGHT;
            let squares =
                self.columns.iter().zip(*row).map(|(column, &weight)| column.moments(end(weight, self.is_bounded)).1);
            step * step / 12.0 * squares.sum::<f64>()
        };
        self.rows.iter().map(row).sum()
    }

    /// The sum of the squared weights: the factor by which the squared errors of the values grow in the sums.
    fn squared_weights(&self) -> f64 {
        self.rows.iter().flat_map(|row| *row).map(|&weight| f64::from(weight).powi(2)).sum()
    }
}

/// Whether a value is the argument or the result of an activation that is steep near zero. Its small values count too, and a
/// margin would take bits from them.
pub fn is_steep(name: &str, model: &Canonical) -> bool {
    let mut nodes = model.architecture.nodes.iter().filter(|node| {
        let count = CellKind::from_name(&node.cell).map_or(0, |kind| kind.spec().activations.len());
        (0..count).any(|index| matches!(activation(node, index), Activation::Sqrt | Activation::Log { .. }))
    });
    nodes.any(|node| node.name == name || node.inputs.iter().any(|input| input == name))
}

/// Whether the scale of a node's output is that of a bounded activation.
pub fn is_fixed(node: &Node) -> bool {
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
