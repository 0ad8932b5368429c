//! Frozen graphs and checkpoints of TensorFlow.

use super::{Hostile, field, hostile, number};
use crate::checkpoint::{header, table};

pub fn all() -> Vec<Hostile> {
    vec![
        hostile("empty_slices.index", empty_slices()),
        hostile("many_extents.index", many_extents()),
        hostile("many_variables.index", many_variables()),
        hostile("attributes.pb", attributes()),
        hostile("empty_constants.pb", empty_constants()),
        hostile("integer_lists.pb", integer_lists()),
        hostile("long_chain.pb", long_chain()),
        hostile("shared_weights.pb", shared_weights()),
    ]
}

fn variable(k: usize, entry: Vec<u8>) -> (Vec<u8>, Vec<u8>) {
    (format!("{k:06}").into_bytes(), entry)
}

/// 60,000 empty variables of 256 empty slices each, compressed by snappy.
fn empty_slices() -> Vec<u8> {
    let entry = [number(1, 1), field(2, &field(2, b"")), field(7, &field(1, b"")).repeat(256)].concat();
    let variables = (0..60_000).map(|k| variable(k, entry.clone()));
    table(&[header(1)].into_iter().chain(variables).collect::<Vec<_>>(), 500, true)
}

/// 65,000 empty variables.
fn many_variables() -> Vec<u8> {
    let entry = [number(1, 1), field(2, &field(2, b""))].concat();
    let variables = (0..65_000).map(|k| variable(k, entry.clone()));
    table(&[header(1)].into_iter().chain(variables).collect::<Vec<_>>(), 500, true)
}

/// Slices with two million ranges, compressed by snappy.
fn many_extents() -> Vec<u8> {
    let entry = [number(1, 1), field(7, &field(1, b"").repeat(1_900_000))].concat();
    let variables = (0..8).map(|k| variable(k, entry.clone()));
    table(&[header(1)].into_iter().chain(variables).collect::<Vec<_>>(), 1, true)
}

fn node(name: &str, op: &str, inputs: &[&str], rest: &[u8]) -> Vec<u8> {
    let inputs: Vec<u8> = inputs.iter().flat_map(|name| field(3, name.as_bytes())).collect();
    field(1, &[field(1, name.as_bytes()), field(2, op.as_bytes()), inputs, rest.to_vec()].concat())
}

fn attribute(name: &str, value: &[u8]) -> Vec<u8> {
    field(5, &[field(1, name.as_bytes()), field(2, value)].concat())
}

/// A node with a million attributes.
fn attributes() -> Vec<u8> {
    let all: Vec<u8> = (0..1_000_000).flat_map(|k| attribute(&format!("{k:x}"), b"")).collect();
    node("x", "NoOp", &[], &all)
}

/// Constants of 2^24 zeros that are not in the file.
fn empty_constants() -> Vec<u8> {
    let shape = field(2, &[field(2, &number(1, 1 << 12)), field(2, &number(1, 1 << 12))].concat());
    let value = field(8, &[number(1, 1), shape].concat());
    let constants = (0..16).map(|k| node(&format!("c{k}"), "Const", &[], &attribute("value", &value)));
    let mut graph: Vec<u8> = constants.flatten().collect();
    graph.extend((0..16).flat_map(|k| node(&format!("y{k}"), "Sigmoid", &[&format!("c{k}")], b"")));
    graph
}

/// Lists of eight million numbers of one byte each.
fn integer_lists() -> Vec<u8> {
    let list = field(1, &field(3, &[1; 8 << 20]));
    node("x", "NoOp", &[], &attribute("a", &list))
}

/// 60,000 nodes in a chain.
fn long_chain() -> Vec<u8> {
    let shape = field(7, &[field(2, &number(1, 1)), field(2, &number(1, 4))].concat());
    let mut graph =
        node("v0", "Placeholder", &[], &[attribute("shape", &shape), attribute("dtype", &number(6, 1))].concat());
    for k in 0..60_000 {
        let op = ["Sigmoid", "Tanh"][k % 2];
        graph.extend(node(&format!("v{}", k + 1), op, &[&format!("v{k}")], b""));
    }
    graph
}

/// A matrix of a million weights, by which 90 layers multiply.
fn shared_weights() -> Vec<u8> {
    let dims = |dims: &[u64]| field(2, &dims.iter().flat_map(|&dim| field(2, &number(1, dim))).collect::<Vec<u8>>());
    let shape = field(7, &dims(&[1, 1, 1024])[2..]);
    let content = field(4, &0.5_f32.to_le_bytes().repeat(1 << 20));
    let weights = field(8, &[number(1, 1), dims(&[1024, 1024]), content].concat());
    let of_input = [attribute("shape", &shape), attribute("dtype", &number(6, 1))].concat();
    let mut graph = node("v0", "Placeholder", &[], &of_input);
    graph.extend(node("w", "Const", &[], &attribute("value", &weights)));
    for k in 0..90 {
        graph.extend(node(&format!("v{}", k + 1), "MatMul", &[&format!("v{k}"), "w"], b""));
    }
    graph
}
