//! Advice for a placeholder without a shape: the number of its features, from the first product with weights.

use super::graph::Graph;
use crate::format::graphdef::attr_value::Value as Attr;

/// Maximum number of ops between the placeholder and its product.
const MAX_OPS: usize = 64;

/// The error for placeholder `node`.
pub(super) fn shape(graph: &Graph<'_>, node: usize) -> String {
    let name = &graph.nodes[node].def.name;
    let (features, fill_in) = match features(graph, node) {
        Some(features) => (features.to_string(), "STEPS, the number of steps,"),
        None => ("FEATURES".to_owned(), "the numbers of steps and of features of a step"),
    };
    format!(
        "its shape is not known: give it with --shape {name}=1,STEPS,{features}, with {fill_in} as in training; or, if a \
         number is fed, freeze the graph with a constant in its place"
    )
}

/// The rows of the weights that the placeholder first meets, if only ops that keep the features are in between.
fn features(graph: &Graph<'_>, placeholder: usize) -> Option<usize> {
    let (mut at, mut rows) = (placeholder, None);
    for _ in 0..MAX_OPS {
        let reader = |node: &usize| graph.nodes[*node].inputs.first().is_some_and(|input| input.node == at);
        let readers: Vec<usize> = (0..graph.nodes.len()).filter(reader).collect();
        // The second input of the first product is a matrix of weights.
        rows = readers.iter().find_map(|&node| {
            let weights = graph.nodes[node].inputs.get(1).filter(|_| graph.nodes[node].def.op == "MatMul")?;
            matrix(graph, weights.node).map(|[rows, _]| rows)
        });
        if rows.is_some() {
            break;
        }
        at = readers.into_iter().find(|&node| {
            let op = graph.nodes[node].def.op.as_str();
            matches!(op, "Identity" | "Transpose" | "Reshape" | "Unpack" | "StridedSlice")
        })?;
    }
    rows
}

/// The shape of a constant matrix.
fn matrix(graph: &Graph<'_>, mut node: usize) -> Option<[usize; 2]> {
    for _ in 0..MAX_OPS {
        if graph.nodes[node].def.op != "Identity" {
            break;
        }
        node = graph.nodes[node].inputs.first().map(|input| input.node)?;
    }
    let Some(Attr::Tensor(proto)) = graph.attr(node, "value") else { return None };
    match *proto.dims().ok()? {
        [rows, columns] => Some([rows, columns]),
        _ => None,
    }
}
