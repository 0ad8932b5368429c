//! `x` where it is greater than a threshold, otherwise the softplus of `x`: PyTorch's `Softplus`, as its default exporter
//! writes it.

use super::{Replaced, Seen, node};
use crate::format::onnx::proto::NodeProto;

/// From here on, ln(1 + e^x) rounds to x in f32.
const LEAST: f32 = 20.0;

pub(super) fn found(seen: &Seen<'_>) -> Vec<Replaced> {
    let nodes = seen.graph.node.iter().enumerate().filter(|(_, node)| node.op_type == "Where");
    nodes.filter_map(|(at, choice)| Some(Replaced { at, nodes: vec![softplus(seen, choice)?] })).collect()
}

fn softplus(seen: &Seen<'_>, choice: &NodeProto) -> Option<NodeProto> {
    let ([condition, x, other], [output]) = (&choice.input[..], &choice.output[..]) else { return None };
    let [left, right] = &seen.made_by(condition, "Greater")?.input[..] else { return None };
    let [of] = &seen.made_by(other, "Softplus")?.input[..] else { return None };
    let fits = left == x && of == x && seen.number(right)? >= LEAST;
    fits.then(|| NodeProto { name: choice.name.clone(), ..node("Softplus", &[x], &[output], vec![]) })
}
