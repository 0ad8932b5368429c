//! How often a model has an output.

use std::ops::Range;

use tidegate::internals::node::Node;
use tidegate::{Model, Schedule};

/// An extent of a layer by its name.
pub(crate) fn extent(node: &Node<'_>, name: &str) -> Option<usize> {
    let index = node.spec().extents.iter().position(|spec| spec.name == name)?;
    Some(node.extent(index))
}

/// Number of steps from one output to the next, once the first is there. A schedule of windows states it. Otherwise it is
/// the product of the hops of the layers that collect rows, on the slowest path to an output.
pub fn steps_per_output(model: &Model<'_>) -> usize {
    if let Schedule::Windows { every, .. } = model.schedule() {
        return every as usize;
    }
    // Number of steps between the rows in each slot of the arena.
    let mut slots: Vec<(Range<usize>, usize)> = Vec::new();
    for node in model.nodes() {
        let of = |start: usize| slots.iter().rev().find(|(slot, _)| slot.contains(&start)).map_or(1, |of| of.1);
        let read = (0..).map_while(|index| node.slot(index)).map(|(start, _)| of(start)).max().unwrap_or(1);
        slots.push((node.output(), read.saturating_mul(extent(&node, "hop").unwrap_or(1).max(1))));
    }
    slots.iter().map(|(_, steps)| *steps).max().unwrap_or(1)
}
