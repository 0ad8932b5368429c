//! The graph of a functional model, from its `inbound_nodes`: `[["lstm", 0, 0, {}], ...]` in Keras 2, tensors among the
//! arguments of a call in Keras 3. Sorts the calls so that each reads only outputs of earlier ones.

use std::collections::{BTreeSet, HashMap};

use serde_json::Value as Json;

use super::part::{wrong, wrong_if};
use super::slices;
use crate::format::refuse::unsupported_if;
use crate::{data::one_line, error::ImportError, error::Result};

/// An output of a layer: the layer's name, the number of the call, and the number of the output.
pub(super) type Read<'a> = (&'a str, usize, usize);

pub(super) struct Node<'a> {
    pub name: &'a str,
    pub class: &'a str,
    /// The inbound nodes, one for each call.
    pub calls: &'a [Json],
    /// Whether the node is a nested model. Its calls may be counted from 1, because Keras counts the one that created
    /// it.
    pub is_model: bool,
}

pub(super) struct Call<'a> {
    /// Index of the layer in the graph's list.
    pub node: usize,
    /// Number of the call of this layer.
    pub call: usize,
    pub reads: Vec<Read<'a>>,
    /// Whether a mask is passed along; Keras propagates it by itself.
    pub masked: bool,
    /// The parts that the call selects, if the layer is `x[...]`.
    pub index: Option<&'a Json>,
}

/// The calls that the outputs depend on, sorted. `inputs` are available from the start.
pub(super) fn calls<'a>(
    nodes: &[Node<'a>],
    inputs: &[Read<'a>],
    outputs: &[Read<'a>],
) -> Result<(Vec<Call<'a>>, Vec<Read<'a>>)> {
    let by_name: HashMap<&str, usize> = nodes.iter().enumerate().map(|(k, node)| (node.name, k)).collect();
    let first = first_calls(nodes, outputs);
    let counted = |read: Read<'a>| match by_name.get(read.0).and_then(|&k| first.get(k)) {
        Some(&first) => (read.0, read.1.saturating_sub(first), read.2),
        None => read,
    };
    let outputs: Vec<Read<'a>> = outputs.iter().map(|&read| counted(read)).collect();
    let cycle = |name: &str| format!("layer {name:?} depends on its own output: the graph has a cycle");
    // Depth-first walk from the outputs: a call is added to the order once everything that it reads has been added.
    let given: BTreeSet<(&str, usize)> = inputs.iter().map(|read| (read.0, read.1)).collect();
    let mut state: HashMap<(usize, usize), bool> = HashMap::new();
    let mut order = Vec::new();
    let mut open: HashMap<(usize, usize), Call<'a>> = HashMap::new();
    let mut stack: Vec<(Read<'a>, &str)> = outputs.iter().rev().map(|&read| (read, "")).collect();
    while let Some(&(read, reader)) = stack.last() {
        if given.contains(&(read.0, read.1)) {
            stack.pop();
            continue;
        }
        let found = by_name.get(read.0).and_then(|&k| Some((k, nodes.get(k)?.calls.get(read.1)?)));
        let Some((k, json)) = found else {
            return wrong(format!("layer {reader:?} reads call {} of {:?}, which does not exist", read.1, read.0));
        };
        let key = (k, read.1);
        match (state.get(&key), open.remove(&key)) {
            (Some(true), _) => {
                stack.pop();
            }
            (Some(false), Some(call)) => {
                stack.pop();
                state.insert(key, true);
                order.push(call);
            }
            // The call is still open further down the stack, so it depends on itself.
            (Some(false), None) => return wrong(cycle(read.0)),
            (None, _) => {
                let (reads, masked, index) = reads(json, read.0, &by_name, nodes)?;
                let reads: Vec<Read<'a>> = reads.into_iter().map(counted).collect();
                state.insert(key, false);
                for &next in reads.iter().rev() {
                    let again = by_name.get(next.0).is_some_and(|&k| state.get(&(k, next.1)) == Some(&false));
                    wrong_if(again, cycle(next.0))?;
                    stack.push((next, read.0));
                }
                open.insert(key, Call { node: k, call: read.1, reads, masked, index });
            }
        }
    }
    Ok((order, outputs))
}

/// The number of the first call of each node: 0 or 1.
fn first_calls(nodes: &[Node<'_>], outputs: &[Read<'_>]) -> Vec<usize> {
    let mut zero: BTreeSet<String> = BTreeSet::new();
    zero.extend(outputs.iter().filter(|read| read.1 == 0).map(|read| read.0.to_owned()));
    nodes.iter().flat_map(|node| node.calls).for_each(|json| collect_reads(json, &mut zero));
    nodes.iter().map(|node| usize::from(node.is_model && !zero.contains(node.name))).collect()
}

/// Collects the names of layers whose call 0 is read anywhere.
fn collect_reads(json: &Json, zero: &mut BTreeSet<String>) {
    match json {
        Json::Array(list) => {
            if let [Json::String(name), call, output, ..] = list.as_slice()
                && call.as_u64() == Some(0)
                && output.is_u64()
            {
                zero.insert(name.clone());
            }
            list.iter().for_each(|item| collect_reads(item, zero));
        }
        Json::Object(object) => object.values().for_each(|item| collect_reads(item, zero)),
        _ => {}
    }
}

/// Whether `text` occurs anywhere in `json`.
pub(super) fn mentions(json: &Json, text: &Json) -> bool {
    match json {
        Json::Array(list) => list.iter().any(|item| mentions(item, text)),
        Json::Object(object) => object.values().any(|item| mentions(item, text)),
        one => one == text,
    }
}

/// The values that one call of a layer reads, whether a mask is passed along, and the parts that it selects of its input.
fn reads<'a>(
    json: &'a Json,
    layer: &str,
    by_name: &HashMap<&str, usize>,
    nodes: &[Node<'_>],
) -> Result<(Vec<Read<'a>>, bool, Option<&'a Json>)> {
    let own = by_name.get(layer).and_then(|&k| nodes.get(k)).map(|node| node.class);
    let mut index = None;
    let mut found = Vec::new();
    let keywords: Vec<&Json> = match json {
        Json::Array(list) if list.first().is_some_and(Json::is_string) => {
            found.push(read(list, layer)?);
            list.get(3).into_iter().collect()
        }
        Json::Array(list) => {
            for item in list {
                let Some(item) = item.as_array() else {
                    return wrong(format!("layer {layer:?} reads something that is not the output of a layer"));
                };
                found.push(read(item, layer)?);
            }
            list.iter().filter_map(|item| item.get(3)).collect()
        }
        Json::Object(call) => {
            let mut arguments = call.get("args").and_then(Json::as_array).map(Vec::as_slice).unwrap_or_default();
            if let (Some(slices::CLASS), [first, selected]) = (own, arguments) {
                (arguments, index) = (std::slice::from_ref(first), Some(selected));
            }
            for argument in arguments {
                tensors(argument, layer, &mut found)?;
            }
            call.get("kwargs").into_iter().collect()
        }
        _ => return wrong(format!("layer {layer:?} is called in an unknown way")),
    };
    wrong_if(found.is_empty(), format_args!("layer {layer:?} is called without inputs"))?;
    let mut masked = false;
    for (keyword, value) in keywords.iter().filter_map(|json| json.as_object()).flatten() {
        // Dropout and normalizations act on inference too if a layer is called with `training=True`.
        let inference = keyword == "training" && *value == Json::Bool(false);
        if value.is_null() || inference {
            continue;
        }
        if keyword == "slice_spec" && own == Some("SlicingOpLambda") {
            index = Some(value);
            continue;
        }
        // Keras 3 lists the masks that it computes for the input of a Masking or an Embedding.
        let mut made = Vec::new();
        let by_keras = keyword == "mask" && tensors(value, layer, &mut made).is_ok() && {
            let class = |read: &Read<'_>| by_name.get(read.0).and_then(|&k| nodes.get(k)).map(|node| node.class);
            made.iter().all(|read| matches!(class(read), Some("NotEqual" | "Any")))
        };
        unsupported_if(!by_keras, one_line(&format!("layer {layer:?} called with {}", called(keyword, value))))?;
        masked = true;
    }
    Ok((found, masked, index))
}

/// An argument of a call as an error shows it: a tensor only by its name, since it is a long description.
fn called(keyword: &str, value: &Json) -> String {
    match value {
        Json::Bool(_) | Json::Number(_) | Json::String(_) => format!("{keyword} = {value}"),
        _ => keyword.to_owned(),
    }
}

fn read<'a>(list: &'a [Json], layer: &str) -> Result<Read<'a>> {
    let number = |json: &Json| json.as_u64().and_then(|number| usize::try_from(number).ok());
    match list {
        [Json::String(name), call, output, ..] => match (number(call), number(output)) {
            (Some(call), Some(output)) => Ok((name, call, output)),
            _ => wrong(format!("layer {layer:?} reads {name:?} in an unknown way")),
        },
        _ => wrong(format!("layer {layer:?} reads something that is not the output of a layer")),
    }
}

/// The tensors in an argument of Keras 3: a tensor, or nested lists of tensors.
fn tensors<'a>(argument: &'a Json, layer: &str, found: &mut Vec<Read<'a>>) -> Result<()> {
    match argument {
        Json::Array(list) => list.iter().try_for_each(|item| tensors(item, layer, found)),
        Json::Object(object) if object.get("class_name") == Some(&"__keras_tensor__".into()) => {
            let history = argument.pointer("/config/keras_history").and_then(Json::as_array);
            match history {
                Some(history) => found.push(read(history, layer)?),
                None => return wrong(format!("layer {layer:?} reads a tensor without a history")),
            }
            Ok(())
        }
        Json::Null => Ok(()),
        other => Err(ImportError::Unsupported(one_line(&format!("layer {layer:?} called with {other}")))),
    }
}

/// `input_layers` or `output_layers`: one read or a list of reads. If they have names, the names are ignored.
pub(super) fn ends<'a>(config: &'a Json, key: &str) -> Result<Vec<Read<'a>>> {
    let list = match config.get(key) {
        Some(Json::Object(named)) => named.values().collect(),
        Some(given @ Json::Array(list)) if list.first().is_some_and(Json::is_string) => vec![given],
        Some(Json::Array(list)) => list.iter().collect(),
        _ => return wrong(format!("a model does not list its {key}")),
    };
    let ends = list.into_iter().map(|item| read(item.as_array().map(Vec::as_slice).unwrap_or_default(), key));
    ends.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn order(nodes: &Json, output: &str) -> Result<Vec<String>, String> {
        let nodes: Vec<Node<'_>> = nodes
            .as_object()
            .unwrap()
            .iter()
            .map(|(name, calls)| Node { name, class: "", calls: calls.as_array().unwrap(), is_model: name == "model" })
            .collect();
        let calls = calls(&nodes, &[("x", 0, 0)], &[(output, 0, 0)]).map_err(|error| error.to_string())?.0;
        Ok(calls.iter().map(|call| format!("{}:{}", nodes[call.node].name, call.call)).collect())
    }

    #[test]
    fn each_call_comes_after_the_calls_that_it_reads() {
        let graph = json!({
            "sum": [[["b", 0, 0, {}], ["a", 1, 0, {}]]],
            "a": [[["x", 0, 0, {}]], [["b", 0, 0, {}]]],
            "b": [[["a", 0, 0, {}]]],
            "unused": [[["nothing", 0, 0, {}]]],
        });
        assert_eq!(order(&graph, "sum").unwrap(), ["a:0", "b:0", "a:1", "sum:0"]);
    }

    #[test]
    fn a_circle_is_refused() {
        let graph = json!({"a": [[["b", 0, 0, {}]]], "b": [[["c", 0, 0, {}]]], "c": [[["a", 0, 0, {}]]]});
        assert!(order(&graph, "a").unwrap_err().contains("cycle"));
        assert!(order(&json!({"a": [[["a", 0, 0, {}]]]}), "a").unwrap_err().contains("cycle"));
    }

    #[test]
    fn a_model_may_be_counted_from_one() {
        let graph = json!({"model": [[["x", 0, 0, {}]]], "out": [[["model", 1, 0, {}]]]});
        assert_eq!(order(&graph, "out").unwrap(), ["model:0", "out:0"]);
    }

    #[test]
    fn a_call_with_arguments_other_than_tensors_is_refused() {
        let graph = json!({"a": [[["x", 0, 0, {"initial_state": [["b", 0, 1]]}]]]});
        assert!(order(&graph, "a").unwrap_err().contains("initial_state"));
        assert!(order(&json!({"a": [[["x", 0, 0, {"training": false, "mask": null}]]]}), "a").is_ok());
        let trains = order(&json!({"a": [[["x", 0, 0, {"training": true}]]]}), "a");
        assert_eq!(trains.unwrap_err(), "layer \"a\" called with training = true is not supported");
    }
}
