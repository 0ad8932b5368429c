//! ONNX models that make large values from a few bytes, or use one weight again and again.

use super::{Hostile, field, hostile, number};

pub fn all() -> Vec<Hostile> {
    vec![
        hostile("expand.onnx", moved("Expand", &[&[1], &[1 << 24]], 8)),
        hostile("tile.onnx", moved("Tile", &[&[1], &[1 << 24]], 8)),
        hostile("constant_of_shape.onnx", constants(64)),
        hostile("transpose.onnx", transposed()),
        hostile("large_input.onnx", large_input()),
        hostile("wide_product.onnx", wide_product()),
        hostile("shared_weights.onnx", shared_weights()),
        hostile("scaled_again.onnx", scaled_again()),
        hostile("joined_again.onnx", joined_again()),
        hostile("repeated_axis.onnx", repeated_axis()),
        hostile("many_axes.onnx", many_axes()),
        hostile("split.onnx", split()),
        hostile("empty_slice.onnx", empty_slice()),
        hostile("empty_tile.onnx", moved("Tile", &[&[], &[1 << 40]], 1)),
        hostile("empty_messages.onnx", model(&[&field(1, &field(5, b"").repeat(400_000)), &output("y")])),
        hostile("bound_inputs.onnx", bound_inputs()),
        hostile("many_roles.onnx", many_roles()),
        hostile("long_delay.onnx", long_delay(1 << 19)),
        hostile("circle_of_states.onnx", circle_of_states(200)),
        hostile("strides.onnx", strides()),
        hostile("interleaved.onnx", interleaved()),
    ]
}

/// A state whose elements move by one place in each step, so that the last value is kept for `len` steps.
fn long_delay(len: u64) -> Vec<u8> {
    let graph = [
        node("Tanh", &["x"], "y", &[]),
        node("Concat", &["cache", "y"], "seen", &field(5, &[field(1, b"axis"), number(3, 0), number(20, 2)].concat())),
        node("Slice", &["seen", "one", "end"], "cache_out", &[]),
        node("Add", &["y", "cache"], "z", &[]),
        ints("one", &[1]),
        ints("end", &[1 << 40]),
        input("x", &[1]),
        input("cache", &[len]),
        output("z"),
        output("cache_out"),
    ];
    model(&graph.each_ref().map(Vec::as_slice))
}

/// States that are each other's next values.
fn circle_of_states(count: u64) -> Vec<u8> {
    let mut graph = Vec::new();
    for k in 0..count {
        graph.push(node("Tanh", &[&format!("s{k}")], &format!("s{}_out", (k + 1) % count), &[]));
        graph.push(input(&format!("s{k}"), &[2]));
        graph.push(output(&format!("s{k}_out")));
    }
    model(&graph.iter().map(Vec::as_slice).collect::<Vec<_>>())
}

/// A transposed convolution with a stride and a kernel of a million.
fn strides() -> Vec<u8> {
    let list =
        |name: &str, value: u64| field(5, &[field(1, name.as_bytes()), number(8, value), number(20, 7)].concat());
    let graph = [
        node("ConvTranspose", &["x", "w"], "y", &list("strides", 1 << 20)),
        floats("w", &[1, 1, 4096]),
        input("x", &[1, 1, 512]),
        output("y"),
    ];
    model(&graph.each_ref().map(Vec::as_slice))
}

/// Elements of two values side by side, again and again.
fn interleaved() -> Vec<u8> {
    let mut graph =
        vec![ints("shape", &[2, 1 << 17]), ints("flat", &[1, 1 << 18]), input("x", &[1, 1 << 18]), output("y39")];
    let mut last = "x".to_owned();
    for k in 0..40 {
        graph.push(node("Tanh", &[&last], &format!("t{k}"), &[]));
        graph.push(node("Reshape", &[&format!("t{k}"), "shape"], &format!("r{k}"), &[]));
        graph.push(node("Transpose", &[&format!("r{k}")], &format!("s{k}"), &[]));
        graph.push(node("Reshape", &[&format!("s{k}"), "flat"], &format!("f{k}"), &[]));
        graph.push(node("Mul", &[&format!("f{k}"), &format!("t{k}")], &format!("y{k}"), &[]));
        last = format!("y{k}");
    }
    model(&graph.iter().map(Vec::as_slice).collect::<Vec<_>>())
}

fn model(graph: &[&[u8]]) -> Vec<u8> {
    let opset = field(8, &[field(1, b""), number(2, 17)].concat());
    [number(1, 8), field(7, &graph.concat()), opset].concat()
}

fn node(op: &str, inputs: &[&str], output: &str, attributes: &[u8]) -> Vec<u8> {
    let inputs: Vec<u8> = inputs.iter().flat_map(|name| field(1, name.as_bytes())).collect();
    field(1, &[inputs, field(2, output.as_bytes()), field(4, op.as_bytes()), attributes.to_vec()].concat())
}

/// An initializer of integers (7) or floats (1).
fn tensor(name: &str, kind: u64, dims: &[u64], raw: &[u8]) -> Vec<u8> {
    let dims: Vec<u8> = dims.iter().flat_map(|&dim| number(1, dim)).collect();
    field(5, &[dims, number(2, kind), field(8, name.as_bytes()), field(9, raw)].concat())
}

fn ints(name: &str, values: &[u64]) -> Vec<u8> {
    let raw: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    tensor(name, 7, &[values.len() as u64], &raw)
}

fn floats(name: &str, dims: &[u64]) -> Vec<u8> {
    tensor(name, 1, dims, &0.5_f32.to_le_bytes().repeat(dims.iter().product::<u64>() as usize))
}

fn port(tag: u64, name: &str, dims: &[u64]) -> Vec<u8> {
    let dims: Vec<u8> = dims.iter().flat_map(|&dim| field(1, &number(1, dim))).collect();
    let of = field(1, &[number(1, 1), field(2, &dims)].concat());
    field(tag, &[field(1, name.as_bytes()), field(2, &of)].concat())
}

fn input(name: &str, dims: &[u64]) -> Vec<u8> {
    port(11, name, dims)
}

fn output(name: &str) -> Vec<u8> {
    port(12, name, &[1])
}

/// `count` nodes, each of which makes 2^24 elements from one element.
fn moved(op: &str, inputs: &[&[u64]], count: usize) -> Vec<u8> {
    let mut graph = vec![ints("x", inputs[0]), ints("to", inputs[1])];
    for k in 0..count {
        graph.push(node(op, &["x", "to"], &format!("y{k}"), &[]));
        graph.push(output(&format!("y{k}")));
    }
    model(&graph.iter().map(Vec::as_slice).collect::<Vec<_>>())
}

fn constants(count: usize) -> Vec<u8> {
    let mut graph = vec![ints("to", &[1 << 24])];
    for k in 0..count {
        graph.push(node("ConstantOfShape", &["to"], &format!("y{k}"), &[]));
        graph.push(output(&format!("y{k}")));
    }
    model(&graph.iter().map(Vec::as_slice).collect::<Vec<_>>())
}

fn transposed() -> Vec<u8> {
    let mut graph = vec![ints("to", &[4096, 4096]), node("ConstantOfShape", &["to"], "x", &[])];
    for k in 0..8 {
        graph.push(node("Transpose", &["x"], &format!("y{k}"), &[]));
        graph.push(output(&format!("y{k}")));
    }
    model(&graph.iter().map(Vec::as_slice).collect::<Vec<_>>())
}

fn large_input() -> Vec<u8> {
    let parts = [input("x", &[1, 4096, 4096]), node("Relu", &["x"], "y", &[]), node("Tanh", &["y"], "z", &[])];
    model(&[&parts.concat(), &output("z")])
}

/// A product of 2^16 rows of one feature with a row of 2^16 weights: 2^32 elements.
fn wide_product() -> Vec<u8> {
    let parts = [input("x", &[1, 65_000, 1]), floats("w", &[1, 65_000]), node("MatMul", &["x", "w"], "y", &[])];
    model(&[&parts.concat(), &output("y")])
}

/// A matrix of a million weights, by which 500 layers multiply.
fn shared_weights() -> Vec<u8> {
    let mut graph = vec![input("v0", &[1, 1024]), floats("w", &[1024, 1024])];
    graph.extend((0..500).map(|k| node("MatMul", &[&format!("v{k}"), "w"], &format!("v{}", k + 1), &[])));
    graph.push(output("v500"));
    model(&graph.iter().map(Vec::as_slice).collect::<Vec<_>>())
}

/// One layer of a million weights, and 500 factors that are folded into it.
fn scaled_again() -> Vec<u8> {
    let mut graph = vec![input("x", &[1, 1024]), floats("w", &[1024, 1024]), floats("f", &[1])];
    graph.push(node("MatMul", &["x", "w"], "v0", &[]));
    graph.extend((0..500).map(|k| node("Mul", &[&format!("v{k}"), "f"], &format!("v{}", k + 1), &[])));
    graph.push(output("v500"));
    model(&graph.iter().map(Vec::as_slice).collect::<Vec<_>>())
}

/// A matrix that a node joins with itself ten thousand times.
fn joined_again() -> Vec<u8> {
    let axis = field(5, &[field(1, b"axis"), number(3, 0), number(20, 2)].concat());
    let parts = [floats("w", &[1, 1 << 16]), node("Concat", &vec!["w"; 10_000], "y", &axis), output("y")];
    model(&[&parts.concat()])
}

/// A million numbers that one node turns around 20,000 times.
fn repeated_axis() -> Vec<u8> {
    let back = u64::MAX;
    let lists = [("starts", back), ("ends", 1 << 63), ("axes", 0), ("steps", back)];
    let lists: Vec<u8> = lists.into_iter().flat_map(|(name, value)| ints(name, &[value; 20_000])).collect();
    let nodes = [
        node("ConstantOfShape", &["shape"], "x", &[]),
        node("Slice", &["x", "starts", "ends", "axes", "steps"], "y", &[]),
        output("y"),
    ];
    model(&[&ints("shape", &[1_000_000]), &lists, &nodes.concat()])
}

/// 200,000 new dimensions.
fn many_axes() -> Vec<u8> {
    let axes: Vec<u64> = (0..200_000).collect();
    model(&[&ints("axes", &axes), &node("Unsqueeze", &["axes", "axes"], "y", &[]), &output("y")])
}

/// A split into 2^40 parts.
fn split() -> Vec<u8> {
    let parts = field(5, &[field(1, b"num_outputs"), number(3, 1 << 40), number(20, 2)].concat());
    model(&[&input("x", &[1, 4]), &node("Split", &["x"], "y", &parts), &output("y")])
}

/// A slice of 2^40 places of a dimension beside an empty one.
fn empty_slice() -> Vec<u8> {
    let shape = [ints("shape", &[0, 1 << 40]), ints("starts", &[1]), ints("ends", &[1 << 40]), ints("axes", &[1])];
    let nodes = [
        node("ConstantOfShape", &["shape"], "x", &[]),
        node("Slice", &["x", "starts", "ends", "axes"], "y", &[]),
        output("y"),
    ];
    model(&[&shape.concat(), &nodes.concat()])
}

/// Tens of thousands of inputs that are bound to initializers.
fn bound_inputs() -> Vec<u8> {
    let mut graph = vec![input("x", &[1, 4])];
    for k in 0..50_000 {
        graph.push(field(11, &field(1, format!("w{k}").as_bytes())));
        graph.push(field(5, &[number(2, 1), field(8, format!("w{k}").as_bytes()), number(1, 0)].concat()));
    }
    graph.push(node("Relu", &["x"], "y", &[]));
    graph.push(output("y"));
    model(&graph.iter().map(Vec::as_slice).collect::<Vec<_>>())
}

/// A long graph whose reading starts again for each of 200 inputs.
fn many_roles() -> Vec<u8> {
    let mut graph = Vec::new();
    let reads = field(5, &[field(1, b"hidden_size"), number(3, 1), number(20, 2)].concat());
    let all: Vec<String> = (0..200).map(|k| format!("x{k}")).collect();
    graph.extend(all.iter().map(|name| input(name, &[1, 1, 1])));
    graph.push(floats("w", &[1, 1, 1]));
    graph.push(floats("v0", &[1]));
    graph.extend((0..60_000).map(|k| node("Neg", &[&format!("v{k}")], &format!("v{}", k + 1), &[])));
    for name in &all {
        graph.push(node("RNN", &[name, "w", "w"], &format!("y{name}"), &reads));
        graph.push(output(&format!("y{name}")));
    }
    graph.push(output("v60000"));
    model(&graph.iter().map(Vec::as_slice).collect::<Vec<_>>())
}
