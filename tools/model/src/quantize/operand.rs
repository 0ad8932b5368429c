//! The values that the columns of a node's matrices are multiplied by, as calibration observed them.

use tidegate::internals::cell::Unit;

use super::Ranges;
use super::distribution::Element;
use super::rows::Operand;
use crate::canonical::{Canonical, Node};

/// The argument beyond which a bounded activation no longer changes.
pub const SATURATED: f64 = 8.0;

/// The values of the columns of a matrix.
pub struct Values {
    columns: Vec<Element>,
    scale: f64,
    /// The mean of each column, if the columns read the previous output: at the start of a sequence it is 0.
    means: Option<Vec<f64>>,
    /// Whether the sums are arguments of bounded activations.
    is_bounded: bool,
}

impl Values {
    /// The values of the `cols` columns of a matrix whose operand has this unit, with this scale. `None` if they were
    /// not observed.
    pub fn of(
        (unit, cols, scale): (&Unit, usize, f64),
        is_bounded: bool,
        node: &Node,
        model: &Canonical,
        ranges: &Ranges,
    ) -> Option<Self> {
        let columns = match unit {
            Unit::Input => input(node, cols, model, ranges),
            Unit::Output => ranges.elements(&node.name).and_then(|elements| rows(&elements.distributions, cols)),
            _ => None,
        };
        let means = match unit {
            Unit::Output => ranges.covariance(&node.name).and_then(|covariance| covariance.means(node.input_size)),
            _ => None,
        };
        Some(Self { columns: columns?, scale, means: means.filter(|means| means.len() == cols), is_bounded })
    }

    /// The operand of a row with these weights. If the activation of its sum is bounded, greater products than
    /// [`SATURATED`] have no influence.
    pub fn row(&self, weights: &[f32]) -> Operand {
        let end = |weight: f32| if self.is_bounded { SATURATED / f64::from(weight.abs()) } else { f64::INFINITY };
        let moments = self.columns.iter().zip(weights).map(|(column, &weight)| column.moments(end(weight)));
        let (mean, square): (Vec<f64>, Vec<f64>) = moments.unzip();
        Operand::observed(self.means.as_ref().unwrap_or(&mean), &square, self.scale)
    }
}

/// The input of a node, which has `cols` columns or, in a convolution, `cols` values for all its taps.
fn input(node: &Node, cols: usize, model: &Canonical, ranges: &Ranges) -> Option<Vec<Element>> {
    let mut all = Vec::new();
    for name in &node.inputs {
        let elements = value(name, model, ranges)?;
        all.extend(rows(elements, elements.len() / node.steps())?);
    }
    if all.len() == cols {
        return Some(all);
    }
    let channels = *node.extents.get("in_channels")?;
    if channels == 0 || !cols.is_multiple_of(channels) {
        return None;
    }
    Some(rows(&all, channels)?.into_iter().cycle().take(cols).collect())
}

/// The elements of a value. The packer inserts nodes that convert a value to another scale; they are not observed.
fn value<'r>(name: &str, model: &Canonical, ranges: &'r Ranges) -> Option<&'r [Element]> {
    let elements = ranges.elements(name).or_else(|| {
        let node = model.architecture.nodes.iter().find(|node| node.name == name)?;
        ranges.elements(node.inputs.first()?)
    });
    elements.map(|elements| elements.distributions.as_slice())
}

/// The elements of a row of `cols` elements, over all rows of a value.
fn rows(elements: &[Element], cols: usize) -> Option<Vec<Element>> {
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
