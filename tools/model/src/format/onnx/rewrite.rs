//! Operators that exporters write out: a layer or RMS normalization, an exact GELU, a softplus with a threshold, and cells of an
//! LSTM or a GRU as elementwise operators, in the graph and in the branches of its conditions. They become ONNX's own
//! operators before the graph is read, so that states, time and integers are those of a layer. Inputs of floats that the
//! graph itself uses as indices become integers.
//!
//! A pattern is replaced only if every part of it is found. Otherwise its operators are read as they are.

mod gelu;
mod gru;
mod index;
mod lstm;
mod norm;
mod recurrent;
mod softplus;

use std::collections::{HashMap, HashSet};

use super::graph::Attributes;
use super::proto::{AttributeProto, GraphProto, NodeProto, ValueInfo, kind};
use super::value::{MAX_RANK, Value, constant, elem};
use crate::canonical::MAX_NODES;
use crate::{budget::Budget, error::Result};

/// Replaces the patterns in a graph. New weights are added to the initializers.
pub(super) fn rewrite(
    graph: &mut GraphProto,
    initializers: &mut HashMap<String, Value>,
    budget: &mut Budget,
) -> Result<()> {
    let inputs = graph.input.iter().map(|input| input.name.clone());
    let inputs: HashSet<String> = inputs.filter(|name| !initializers.contains_key(name)).collect();
    let mut graphs = vec![graph];
    // Names are unique within a graph, but not in its branches.
    let mut number = 0;
    while let Some(graph) = graphs.pop() {
        of_graph(graph, number, &inputs, initializers, budget)?;
        number += 1;
        let attributes = graph.node.iter_mut().flat_map(|node| &mut node.attribute);
        graphs.extend(attributes.filter_map(|attribute| attribute.g.as_deref_mut()));
    }
    Ok(())
}

fn of_graph(
    graph: &mut GraphProto,
    number: usize,
    inputs: &HashSet<String>,
    initializers: &mut HashMap<String, Value>,
    budget: &mut Budget,
) -> Result<()> {
    let seen = Seen::of(graph, inputs, initializers);
    let mut made = norm::found(&seen);
    made.extend(gelu::found(&seen));
    made.extend(softplus::found(&seen));
    // A branch cannot change the type of an input.
    let (rows, indices) = if number == 0 { index::found(&seen) } else { (Vec::new(), Vec::new()) };
    made.extend(rows);
    let indices: HashSet<String> = indices.into_iter().map(str::to_owned).collect();
    let mut weights = Vec::new();
    // At most as many cells as a network may have nodes.
    let cells = graph.node.iter().filter_map(|node| match node.op_type.as_str() {
        "Mul" => lstm::of(&seen, node),
        "Add" => gru::of(&seen, node),
        _ => None,
    });
    for cell in cells.take(MAX_NODES) {
        budget.take(cell.copied(), size_of::<f32>())?;
        let (replaced, more) = cell.replaced(&seen, number);
        made.extend(replaced);
        weights.extend(more);
    }
    initializers.extend(weights);
    // Replaces from the end, so that the earlier places stay valid. A node that is part of two patterns is replaced once.
    made.sort_by_key(|replaced| std::cmp::Reverse(replaced.at));
    made.dedup_by_key(|replaced| replaced.at);
    for Replaced { at, nodes } in made {
        graph.node.splice(at..=at, nodes);
    }
    for input in graph.input.iter_mut().filter(|input| indices.contains(&input.name)) {
        if let Some(tensor) = input.of.as_mut().and_then(|of| of.tensor.as_mut()) {
            tensor.elem_type = elem::INT64;
        }
    }
    Ok(())
}

/// A node that other nodes replace, by its place.
struct Replaced {
    at: usize,
    nodes: Vec<NodeProto>,
}

/// A graph, by the names of its values.
struct Seen<'a> {
    graph: &'a GraphProto,
    /// Inputs of the whole model that are not constant.
    inputs: &'a HashSet<String>,
    initializers: &'a HashMap<String, Value>,
    producers: HashMap<&'a str, usize>,
    /// Numbers of dimensions.
    ranks: HashMap<&'a str, usize>,
}

impl<'a> Seen<'a> {
    fn of(graph: &'a GraphProto, inputs: &'a HashSet<String>, initializers: &'a HashMap<String, Value>) -> Self {
        let outputs = |(at, node): (usize, &'a NodeProto)| node.output.iter().map(move |name| (name.as_str(), at));
        let producers = graph.node.iter().enumerate().flat_map(outputs).collect();
        let shape = |info: &'a ValueInfo| info.of.as_ref()?.tensor.as_ref()?.shape.as_ref();
        let ranks = graph.value_info.iter().chain(&graph.input);
        let ranks = ranks.filter_map(|info| Some((info.name.as_str(), shape(info)?.dim.len()))).collect();
        Self { graph, inputs, initializers, producers, ranks }
    }

    /// The node that computes a value.
    fn producer(&self, name: &str) -> Option<&'a NodeProto> {
        self.graph.node.get(self.place(name)?)
    }

    /// The node that computes a value, if it is this operator.
    fn made_by(&self, name: &str, op: &str) -> Option<&'a NodeProto> {
        self.producer(name).filter(|node| node.op_type == op && node.domain.is_empty())
    }

    fn is_input(&self, name: &str) -> bool {
        self.inputs.contains(name)
    }

    /// An initializer.
    fn weights(&self, name: &str) -> Option<Value> {
        self.initializers.get(name).cloned()
    }

    /// A few values that are known.
    fn constant(&self, name: &str) -> Option<Value> {
        const MOST: i64 = 8;
        let value = match self.made_by(name, "Constant") {
            None => self.weights(name)?,
            Some(node) => {
                let value = node.attribute.iter().find(|attribute| attribute.name == "value")?.t.as_ref()?;
                let few = value.dims.len() <= MAX_RANK
                    && value.dims.iter().try_fold(1_i64, |count, &dim| count.checked_mul(dim))? <= MOST;
                if few { constant(value).ok()? } else { return None }
            }
        };
        (value.len() <= MOST as usize).then_some(value)
    }

    /// A number that is known.
    fn number(&self, name: &str) -> Option<f32> {
        match *self.constant(name)?.known_floats().ok()? {
            [number] => Some(number),
            _ => None,
        }
    }

    /// The place of the node that computes a value.
    fn place(&self, name: &str) -> Option<usize> {
        self.producers.get(name).copied()
    }

    /// The two inputs of a commutative operator, as `first` and `second` accept them.
    fn pair<A, B>(
        &self,
        name: &str,
        op: &str,
        first: impl Fn(&'a str) -> Option<A>,
        second: impl Fn(&'a str) -> Option<B>,
    ) -> Option<(A, B)> {
        let [a, b] = &self.made_by(name, op)?.input[..] else { return None };
        let both = |x: &'a str, y: &'a str| Some((first(x)?, second(y)?));
        both(a, b).or_else(|| both(b, a))
    }

    /// The number of dimensions of a value, if the graph states it.
    fn rank(&self, name: &str) -> Option<i64> {
        i64::try_from(*self.ranks.get(name)?).ok()
    }

    /// The axes of a reduction or a squeeze: an attribute, or the second input.
    fn axes(&self, node: &'a NodeProto) -> Option<Vec<i64>> {
        // A longer list would be copied for each pattern that it is tried for.
        if node.attribute.iter().any(|attribute| attribute.ints.len() > MAX_RANK) {
            return None;
        }
        if let Some(axes) = Attributes::of(node).ints("axes").ok()? {
            return Some(axes);
        }
        Some(self.constant(node.input.get(1)?)?.known_ints().ok()?.to_vec())
    }
}

fn ints(name: &str, ints: &[i64]) -> AttributeProto {
    AttributeProto { name: name.into(), ints: ints.to_vec(), kind: kind::INTS, ..AttributeProto::default() }
}

fn int(name: &str, i: i64) -> AttributeProto {
    AttributeProto { name: name.into(), i, kind: kind::INT, ..AttributeProto::default() }
}

fn node(op: &str, input: &[&str], output: &[&str], attribute: Vec<AttributeProto>) -> NodeProto {
    let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    let name = output.first().copied().unwrap_or_default().to_owned();
    let (input, output) = (owned(input), owned(output));
    NodeProto { input, output, name, op_type: op.into(), attribute, ..NodeProto::default() }
}
