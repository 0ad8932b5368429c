//! The ranges of a model's values, and the distributions of their elements.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::covariance::Covariance;
use super::distribution::Element;
use super::draw::Draw;

/// The range of every value and state, by `<value>` or `<node>.<state>`, and the elements of the values that were
/// observed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ranges {
    ranges: BTreeMap<String, f32>,
    elements: Arc<HashMap<String, Elements>>,
    covariances: Arc<HashMap<String, Covariance>>,
    wide: BTreeSet<String>,
    unit_scales: BTreeSet<String>,
    fine_sums: BTreeSet<String>,
    grids: BTreeMap<String, f32>,
    draws: HashMap<String, Vec<u32>>,
    is_nearest: bool,
    row_scales: Arc<HashMap<String, RowScales>>,
}

/// The scales of the rows of a tensor, as an earlier quantization of other weights chose them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct RowScales {
    /// The index of the finer part.
    pub first: usize,
    /// For each row, the scale of its sum, and the shift of its finer part.
    pub scales: Vec<[f64; 2]>,
}

/// The elements of a value.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Elements {
    /// The distribution of each element.
    pub distributions: Vec<Element>,
    /// The greatest magnitude of each element.
    pub peaks: Vec<f32>,
}

impl Ranges {
    /// Creates ranges from the names of values and states.
    pub fn new(ranges: impl IntoIterator<Item = (String, f32)>) -> Self {
        Self { ranges: ranges.into_iter().collect(), ..Self::default() }
    }

    /// These ranges with the distributions of values. With them, the scales of weights minimize the expected error of sums.
    pub fn with_elements(self, elements: impl IntoIterator<Item = (String, Elements)>) -> Self {
        Self { elements: Arc::new(elements.into_iter().collect()), ..self }
    }

    /// These ranges, with each weight rounded to the nearest value of its grid, whatever calibration observed. Training with
    /// rounded weights assumes this.
    pub fn nearest(&self) -> Self {
        Self { is_nearest: true, ..self.clone() }
    }

    /// These ranges with the covariances of the values that nodes multiply.
    pub(super) fn with_covariances(self, covariances: HashMap<String, Covariance>) -> Self {
        Self { covariances: Arc::new(covariances), ..self }
    }

    /// The covariance of a node's input and previous output, by which weights are rounded; `None` if they are rounded to
    /// nearest, or if it was not observed.
    pub(super) fn covariance(&self, node: &str) -> Option<&Covariance> {
        self.covariances.get(node).filter(|_| !self.is_nearest)
    }

    /// The elements of a value, by which weights are rounded; `None` if they are rounded to nearest, or if the value was not
    /// observed.
    pub(super) fn weighing(&self, name: &str) -> Option<&Elements> {
        self.elements(name).filter(|_| !self.is_nearest)
    }

    /// Sets the range of a value.
    pub fn set(&mut self, name: &str, range: f32) {
        self.ranges.insert(name.to_owned(), range);
    }

    /// Gives weights with twice as many bits to the nodes of these names.
    pub fn add_wide(&mut self, nodes: impl IntoIterator<Item = String>) {
        self.wide.extend(nodes);
    }

    /// Gives each unit of the LSTMs of these names a scale of its cell state.
    pub fn add_unit_scales(&mut self, nodes: impl IntoIterator<Item = String>) {
        self.unit_scales.extend(nodes);
    }

    /// Gives the sums of the nodes of these names as many fraction bits as their activations take.
    pub fn add_fine_sums(&mut self, nodes: impl IntoIterator<Item = String>) {
        self.fine_sums.extend(nodes);
    }

    /// Whether the sums of a node have as many fraction bits as its activations take.
    pub fn has_fine_sums(&self, node: &str) -> bool {
        self.fine_sums.contains(node)
    }

    /// Makes the grid of a node's weights coarser by a factor.
    pub fn set_grid(&mut self, node: &str, factor: f32) {
        self.grids.insert(node.to_owned(), factor);
    }

    /// The factor of the grid of a node's weights.
    fn grid(&self, node: &str) -> f32 {
        self.grids.get(node).copied().unwrap_or(1.0)
    }

    /// Rounds a row of a node's weights by the draw of this number; draw 0 is the usual rounding.
    pub fn set_draw(&mut self, node: &str, row: usize, number: u32) {
        let draws = self.draws.entry(node.to_owned()).or_default();
        draws.resize(draws.len().max(row + 1), 0);
        draws[row] = number;
    }

    /// How a row of a node's weights is rounded.
    pub(super) fn draw(&self, node: &str, row: usize) -> Draw {
        let number = self.draws.get(node).and_then(|draws| draws.get(row)).copied().unwrap_or(0);
        Draw::new(number, row, f64::from(self.grid(node)))
    }

    /// Whether each unit of an LSTM has a scale of its own.
    pub fn has_unit_scales(&self, node: &str) -> bool {
        self.unit_scales.contains(node)
    }

    /// Whether a node has weights with twice as many bits.
    pub fn is_wide(&self, node: &str) -> bool {
        self.wide.contains(node)
    }

    /// The range of a value, or of a node's state such as `lstm.cell_state`; 0 if unknown.
    pub fn of(&self, name: &str) -> f32 {
        self.ranges.get(name).copied().unwrap_or(0.0)
    }

    /// The names of all values and states that have a range.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.ranges.keys().map(String::as_str)
    }

    /// Fixes the scales of the rows of tensors, by `<node>.<tensor>`. Replaces all scales that were fixed before.
    pub(super) fn set_row_scales(&mut self, scales: impl IntoIterator<Item = (String, RowScales)>) {
        self.row_scales = Arc::new(scales.into_iter().collect());
    }

    /// The fixed scales of a tensor's rows.
    pub(super) fn row_scales(&self, tensor: &str) -> Option<&RowScales> {
        self.row_scales.get(tensor)
    }

    /// All fixed scales, in any order.
    pub(super) fn all_row_scales(&self) -> impl Iterator<Item = (&str, &RowScales)> {
        self.row_scales.iter().map(|(tensor, scales)| (tensor.as_str(), scales))
    }

    /// The elements of every value and state that was observed, in any order.
    pub(super) fn all_elements(&self) -> impl Iterator<Item = (&str, &Elements)> {
        self.elements.iter().map(|(name, elements)| (name.as_str(), elements))
    }

    /// Mutable access to the elements of a value or state.
    pub(super) fn elements_mut(&mut self, name: &str) -> &mut Elements {
        Arc::make_mut(&mut self.elements).entry(name.to_owned()).or_default()
    }

    /// The elements of a value or state; `None` if it was not observed.
    pub fn elements(&self, name: &str) -> Option<&Elements> {
        self.elements.get(name)
    }
}
