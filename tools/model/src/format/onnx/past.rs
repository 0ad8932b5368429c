//! The sources of the elements of states: earlier values of layers.

use std::collections::HashMap;
use std::rc::Rc;

/// Memory of an element of a state in bytes, between two readings and while they are compared.
pub(super) const KEPT: usize = 2 * size_of::<Past>();

/// The layer that computes a value, the same in every reading of a graph: the number of the node that it belongs to, and
/// its own number within that node.
pub(super) type Key = (u32, u32);

/// The source of an element of a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Past {
    /// An element of a layer's output, some steps ago.
    Of { key: Key, at: u32, steps: u32 },
    /// The state of a recurrent operator.
    Carried,
    /// Always zero.
    Zero,
}

/// The greatest delay of each layer.
pub(super) fn depths(delays: &AllDelays) -> HashMap<Key, usize> {
    let mut depths = HashMap::new();
    for past in delays.values().flat_map(|of| of.elements.iter()) {
        if let Past::Of { key, steps, .. } = *past {
            let depth = depths.entry(key).or_default();
            *depth = (steps as usize).max(*depth);
        }
    }
    depths
}

/// A state of the graph that is built as delays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Delays {
    pub output: String,
    pub elements: Rc<Vec<Past>>,
}

/// The states that are built as delays, by the names of their inputs.
pub(super) type AllDelays = HashMap<String, Delays>;
