//! The memory of packed nodes. An image may have a thousand nodes over one tensor.

use tidegate::Model;
use tidegate::internals::node::Node;

/// No cell has more tensors.
const TENSORS: usize = 32;

/// An upper bound of the memory of a model's packed weights in bytes. Nodes that are alike share theirs.
pub fn most_bytes(model: &Model<'_>) -> usize {
    let nodes: Vec<Node<'_>> = model.nodes().collect();
    let is_first = |k: &usize| nodes[..*k].iter().all(|other| !other.is_alike(&nodes[*k]));
    (0..nodes.len()).filter(is_first).map(|k| bytes(&nodes[k])).fold(0, usize::saturating_add)
}

/// The bound of a node. Rows are padded to vectors of at most 16 lanes, gate by gate, and a kernel may store weights of
/// two bytes in four.
fn bytes(node: &Node<'_>) -> usize {
    const LANES: usize = 16;
    let rows = node.hidden_size.min(node.output_size).clamp(1, LANES);
    let padded = 2 * LANES.div_ceil(rows);
    let tensors = (0..TENSORS).map(|index| node.tensor(index).len());
    tensors.fold(0, usize::saturating_add).saturating_mul(2 * padded)
}
