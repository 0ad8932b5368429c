//! The range of a value that is not bounded, chosen by what rounding and clipping cost where the value is read.
//!
//! Rounding a value to 16 bits adds an error to each sum that reads it, in proportion to the range; clipping adds an
//! error where a value exceeds the range. Both are compared with the error that rounding the weights to 8 bits adds to
//! the same sums. Values outside the calibration need a margin, so the range is as wide as rounding permits.

use tidegate::internals::{
    cell::{CellKind, OutputScale},
    curve::Curve,
    quant::MAX,
};

use super::covariance::{Covariance, MOST_VALUES};
use super::distribution::Element;
use super::operand::SATURATED;
use super::ranges::Elements;
use super::terms::{activation, output};
use crate::canonical::{Canonical, Node};

/// The share of the weights' error that rounding a value may add.
const SHARE: f64 = 0.05;
/// The margin for values outside the calibration, at least and at most, and that of a state that nothing reads but its
/// cell.
const MARGINS: (f32, f32, f32) = (1.0, 8.0, 2.0);
/// Powers of two by which a range may be smaller than the greatest observed magnitude.
const CLIPPED: i32 = 12;

/// The range of a value or state with this greatest observed magnitude.
pub fn range(name: &str, most: f32, elements: &Elements, model: &Canonical) -> f32 {
    let (least_margin, most_margin, of_state) = MARGINS;
    let nodes = &model.architecture.nodes;
    if nodes.iter().any(|node| name.strip_prefix(&node.name) == Some(".cell_state")) {
        return most * of_state;
    }
    // The scale of a bounded output does not depend on its range.
    if nodes.iter().any(|node| node.name == name && is_fixed(node)) {
        return most;
    }
    let readers: Option<Vec<Reader<'_>>> = nodes
        .iter()
        .filter(|node| node.inputs.iter().any(|input| input == name))
        .map(|node| Reader::new(node, name, elements, model))
        .collect();
    let Some(readers) = readers.filter(|readers| !readers.is_empty() && most > 0.0 && most.is_finite()) else {
        return most;
    };
    let own = nodes.iter().find(|node| node.name == name).and_then(|node| Reader::of_state(node, elements, model));
    let readers: Vec<Reader<'_>> = readers.into_iter().chain(own).collect();
    let weights: f64 = readers.iter().map(Reader::weights_error).sum();
    let rounding = |range: f32| -> f64 { readers.iter().map(|reader| reader.rounding_error(range)).sum() };
    let clipping = |range: f32| -> f64 { readers.iter().map(|reader| reader.clipping_error(range)).sum() };
    let mut range = most * most_margin;
    while range > most * least_margin && rounding(range) > SHARE * weights {
        range /= 2.0;
    }
    if rounding(range) <= SHARE * weights {
        return range;
    }
    let smaller = (0..=CLIPPED).map(|power| most * 2.0_f32.powi(-power));
    let errors = smaller.map(|range| (rounding(range) + clipping(range), range));
    errors.min_by(|a, b| a.0.total_cmp(&b.0)).map_or(most, |(_, range)| range)
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
    fn new(node: &'a Node, name: &str, elements: &'a Elements, model: &'a Canonical) -> Option<Self> {
        let spec = CellKind::from_name(&node.cell)?.spec();
        let matrix =
            ["input_weights", "weights"].into_iter().find(|of| spec.canonical.iter().any(|it| it.name == *of))?;
        let tensor = model.tensors.get(&format!("{}.{matrix}", node.name))?;
        let rows = *tensor.shape.first()?;
        let cols = tensor.data.len().checked_div(rows)?;
        // A value that is one of several is a part of the columns, and that of a convolution repeats.
        let size = elements.distributions.len() / node.steps();
        let before = node.inputs.iter().take_while(|input| *input != name);
        let mut first = 0;
        for input in before {
            first += size_of(input, model)? / node.steps();
        }
        if first + size <= cols && node.input_size == cols {
            let rows = tensor.data.chunks(cols).map(|row| &row[first..first + size]).collect();
            return Some(Self {
                rows,
                columns: elements.distributions.iter().take(size).collect(),
                is_bounded: bounded(node),
            });
        }
        let channels = *node.extents.get("in_channels")?;
        (node.inputs.len() == 1 && channels > 0 && cols.is_multiple_of(channels)).then(|| Self {
            rows: tensor.data.chunks(cols).collect(),
            columns: elements.distributions.iter().take(channels).cycle().take(cols).collect(),
            is_bounded: bounded(node),
        })
    }

    /// The recurrent matrix of a node.
    fn of_state(node: &'a Node, elements: &'a Elements, model: &'a Canonical) -> Option<Self> {
        let tensor = model.tensors.get(&format!("{}.recurrent_weights", node.name))?;
        let cols = tensor.data.len().checked_div(*tensor.shape.first()?)?;
        (cols == elements.distributions.len()).then(|| Self {
            rows: tensor.data.chunks(cols).collect(),
            columns: elements.distributions.iter().collect(),
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

    /// That of clipping values at this range.
    fn clipping_error(&self, range: f32) -> f64 {
        let row = |row: &&[f32]| -> f64 {
            let clipped = |(column, &weight): (&&Element, &f32)| {
                f64::from(weight).powi(2) * column.clipped(range.into(), self.end(weight))
            };
            self.columns.iter().zip(*row).map(clipped).sum()
        };
        self.rows.iter().map(row).sum()
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

/// Number of elements of a value.
fn size_of(name: &str, model: &Canonical) -> Option<usize> {
    let architecture = &model.architecture;
    let input = architecture.inputs.iter().find(|input| input.name == name).map(|input| input.size);
    input.or_else(|| {
        architecture.nodes.iter().find(|node| node.name == name).map(|node| node.output_size * node.steps())
    })
}

/// Whether all activations of a node are bounded.
fn bounded(node: &Node) -> bool {
    let count = CellKind::from_name(&node.cell).map_or(0, |kind| kind.spec().activations.len());
    // Those of the gates and of the candidate. The third one of an LSTM applies to the cell state.
    count > 0 && (0..count.min(2)).all(|index| Curve::of(activation(node, index)).is_some_and(Curve::is_bounded))
}
