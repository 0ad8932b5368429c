//! The ranges of a model's values.

use std::collections::BTreeMap;

/// The range of every value and state, by `<value>` or `<node>.<state>`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ranges(BTreeMap<String, f32>);

impl Ranges {
    /// Creates ranges from the names of values and states.
    pub fn new(ranges: impl IntoIterator<Item = (String, f32)>) -> Self {
        Self(ranges.into_iter().collect())
    }

    /// The range of a value, or of a node's state such as `lstm.cell_state`; 0 if unknown.
    pub fn of(&self, name: &str) -> f32 {
        self.0.get(name).copied().unwrap_or(0.0)
    }
}
