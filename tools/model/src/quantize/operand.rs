//! The values that the columns of a node's matrices are multiplied by, as calibration observed them.

use tidegate::internals::cell::Unit;

use super::Ranges;
use super::distribution::{Element, Summed};
use super::matrix::end;
use super::rows::Operand;
use crate::canonical::{Canonical, Node};

/// The values of the columns of a matrix.
pub struct Values {
    columns: Vec<Summed>,
    /// The mean of each column, if the columns read the previous output: at the start of a sequence it is 0.
    means: Option<Vec<f64>>,
}

impl Values {
    /// The values of the `cols` columns of a matrix whose operand has this unit. `None` if they were not observed.
    pub fn of(unit: &Unit, cols: usize, node: &Node, model: &Canonical, ranges: &Ranges) -> Option<Self> {
        let summed = |columns: Vec<Element>| columns.iter().map(Element::summed).collect();
        match unit {
            Unit::Input => Some(Self { columns: summed(input(node, cols, model, ranges)?), means: None }),
            Unit::Output => {
                let columns = rows(&ranges.weighing(&node.name)?.distributions, cols)?;
                let means = ranges.covariance(&node.name).and_then(|covariance| covariance.means(node.input_size));
                Some(Self { columns: summed(columns), means: means.filter(|means| means.len() == cols) })
            }
            _ => None,
        }
    }

    /// The operand of a row with these weights, in units of `scale`. If the activation of the sum is bounded, greater
    /// products than [`SATURATED`](super::matrix::SATURATED) have no influence.
    pub fn operand(&self, weights: &[f32], scale: f64, is_bounded: bool) -> Operand {
        let moments = self.columns.iter().zip(weights).map(|(column, &weight)| column.moments(end(weight, is_bounded)));
        let (mean, square): (Vec<f64>, Vec<f64>) = moments.unzip();
        Operand::observed(self.means.as_ref().unwrap_or(&mean), &square, scale)
    }
}

/// The input of a node, which has `cols` columns or, in a convolution, `cols` values for all its taps.
fn input(node: &Node, cols: usize, model: &Canonical, ranges: &Ranges) -> Option<Vec<Element>> {
    let mut all = Vec::new();
    for name in &node.inputs {
        let elements = value(name, model, ranges)?;
        all.extend(rows(elements, elements.len() / node.steps())?);
    }
    columns(&all, cols, node)
}

/// The elements of the `cols` columns of a matrix that reads a row of these elements: one for each column or, in a
/// convolution, one for each channel of each tap.
pub fn columns(row: &[Element], cols: usize, node: &Node) -> Option<Vec<Element>> {
    if row.len() == cols {
        return Some(row.to_vec());
    }
    let channels = *node.extents.get("in_channels")?;
    if channels == 0 || !cols.is_multiple_of(channels) {
        return None;
    }
    Some(rows(row, channels)?.into_iter().cycle().take(cols).collect())
}

/// The elements of a value. The packer inserts nodes that convert a value to another scale; they are not observed.
fn value<'r>(name: &str, model: &Canonical, ranges: &'r Ranges) -> Option<&'r [Element]> {
    let elements = ranges.weighing(name).or_else(|| {
        let node = model.architecture.nodes.iter().find(|node| node.name == name)?;
        ranges.weighing(node.inputs.first()?)
    });
    elements.map(|elements| elements.distributions.as_slice())
}

/// The elements of a row of `cols` elements, over all rows of a value.
pub fn rows(elements: &[Element], cols: usize) -> Option<Vec<Element>> {
    if cols == 0 || elements.is_empty() || !elements.len().is_multiple_of(cols) {
        return None;
    }
    let (first, rest) = elements.split_at(cols);
    let mut all = first.to_vec();
    for row in rest.chunks(cols) {
        all.iter_mut().zip(row).for_each(|(of, element)| of.add(element));
    }
    Some(all)
}
