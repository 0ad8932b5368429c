//! Windows that are computed in place: a window and its only reader, a layer over all its rows, become one node without
//! a copy of the window.

use std::collections::BTreeMap;

use tidegate::internals::cell::CellKind;

use crate::canonical::{Architecture, Canonical, Node};
use crate::quantize::byte;

/// Replaces each window, together with the dense layer or convolution over its rows, by a single node. The outputs keep
/// their bits and come at the same steps. Applies to floats, and to `i8`, where such a node stores the rows of its window
/// in bytes.
pub fn in_place(model: &Canonical) -> Canonical {
    let mut model = model.clone();
    let zero_points = match byte::counts(&model) {
        Ok((_, zero_points)) => zero_points,
        Err(_) if model.architecture.integers.is_empty() => BTreeMap::new(),
        // The packer refuses the model.
        Err(_) => return model,
    };
    let architecture = &mut model.architecture;
    for at in 0.. {
        let Some(window) = architecture.nodes.get(at) else { break };
        let Some((reader, node, roundings)) = joined(architecture, at, window) else { continue };
        // TFLite's least integer, -128, relative to the zero point.
        let first = window.inputs.first().and_then(|input| zero_points.get(input)).map(|zero_point| -128 - zero_point);
        if first.is_some_and(|first| !window.inputs.iter().all(|input| is_byte(architecture, input, first))) {
            continue;
        }
        if let Some(integers) = architecture.integers.get_mut(&node.name) {
            integers.numbers.extend(first.map(|first| ("first".to_owned(), first)));
            integers.numbers.extend(roundings.map(|roundings| ("roundings".to_owned(), roundings)));
        }
        architecture.nodes.remove(reader);
        architecture.nodes[at] = node;
    }
    model
}

/// The index of the only reader of the window at `at`, the node that replaces both, and how often a sum of that node is
/// rounded, if its cell has a choice.
fn joined(architecture: &Architecture, at: usize, window: &Node) -> Option<(usize, Node, Option<i32>)> {
    if window.cell != CellKind::Window.spec().name || !window.options.is_empty() {
        return None;
    }
    let reads = |node: &Node| node.inputs.contains(&window.name);
    let reader = at + architecture.nodes.get(at..)?.iter().position(reads)?;
    let (layer, others) = architecture.nodes.get(reader..)?.split_first()?;
    let is_read = others.iter().any(reads) || architecture.outputs.iter().any(|output| output.from == window.name);
    if is_read || layer.inputs.len() != 1 || layer.unroll.is_some() {
        return None;
    }
    let extent = |name: &str| layer.extent(name);
    // A kernel that covers the whole image.
    let covers = |[input, kernel, before, after]: [&str; 4]| {
        extent(input) == extent(kernel) && extent(before) == 0 && extent(after) == 0
    };
    let covers = || {
        covers(["in_height", "kernel_height", "pad_top", "pad_bottom"])
            && covers(["in_width", "kernel_width", "pad_left", "pad_right"])
    };
    let mut extents = window.extents.clone();
    let (kind, roundings) = match layer.cell.as_str() {
        "dense" if extent("groups") == 1 => (CellKind::WindowDense, Some(1)),
        "conv" if extent("groups") == 1 && covers() => (CellKind::WindowDense, Some(2)),
        "depthwise_conv" if extent("in_channels") == window.input_size && covers() => {
            extents.insert("multiplier".to_owned(), extent("multiplier"));
            (CellKind::WindowDepthwise, None)
        }
        _ => return None,
    };
    let node = Node {
        name: layer.name.clone(),
        cell: kind.spec().name.to_owned(),
        inputs: window.inputs.clone(),
        input_size: window.input_size,
        hidden_size: layer.output_size,
        output_size: layer.output_size,
        activations: layer.activations.clone(),
        extents,
        ..Node::default()
    };
    Some((reader, node, roundings))
}

/// Whether a value is limited to the 256 integers from `first` on: an input is, and so is the output of a node whose
/// limits lie in this range. A node without integers only moves its input.
fn is_byte(architecture: &Architecture, name: &str, first: i32) -> bool {
    let mut name = name;
    while let Some(node) = architecture.nodes.iter().find(|node| node.name == name) {
        match (architecture.integers.get(name), node.inputs.as_slice()) {
            (Some(integers), _) => {
                let limit = |name: &str| integers.numbers.get(name);
                let within = |limit: &i32| (first..first + 256).contains(limit);
                return limit("least").is_some_and(within) && limit("most").is_some_and(within);
            }
            (None, [input]) => name = input,
            (None, _) => return false,
        }
    }
    true
}
