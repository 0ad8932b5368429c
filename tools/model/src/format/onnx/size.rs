//! A note on a network with more weights than its graph has numbers. This happens if an operator without a layer of its own
//! becomes a product with constants.

use crate::canonical::Canonical;

/// The ratio and the bytes beyond which a note says so.
const MOST_TIMES: f64 = 1.3;
const LEAST_MORE: usize = 16 << 10;

/// A note on a network whose weights take more memory than the `floats` numbers that the graph reads.
pub(super) fn note(model: &Canonical, floats: usize) -> Option<String> {
    let bytes = |name: &str, count: usize| if name.ends_with(".index") { 2 * count } else { 4 * count };
    let all: usize = model.tensors.iter().map(|(name, tensor)| bytes(name, tensor.data.len())).sum();
    let own = 4 * floats;
    if all.saturating_sub(own) < LEAST_MORE || all as f64 <= MOST_TIMES * own as f64 {
        return None;
    }
    let of = |node: &str| -> usize {
        let own = model.tensors.iter().filter(|(name, _)| name.rsplit_once('.').is_some_and(|(of, _)| of == node));
        own.map(|(name, tensor)| bytes(name, tensor.data.len())).sum()
    };
    let nodes = model.architecture.nodes.iter().map(|node| (of(&node.name), node));
    let (most, node) = nodes.max_by_key(|(bytes, _)| *bytes)?;
    let times = all as f64 / own.max(1) as f64;
    let times = if own == 0 { String::new() } else { format!(", {times:.1} times those that the graph reads") };
    Some(format!("its weights take {all} bytes in f32{times}: {most} of them are in {} ({})", node.name, node.cell))
}
