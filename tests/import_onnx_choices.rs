//! ONNX graphs that choose by a computed value, dimensions that a graph leaves open or uses in two ways, and their errors.

use tidegate_model::format::Options;
use tidegate_model::format::onnx::proto::{AttributeProto, DimProto, GraphProto, NodeProto, ValueInfo};
use tidegate_model::format::onnx::{Given, open};
use tidegate_tests::import::{self, ALONE};
use tidegate_tests::onnx::{self, Tensors, floats, node, outputs, port, tensor};

fn branch(name: &str, node: NodeProto) -> AttributeProto {
    let output = vec![port(&node.output[0], &[])];
    let graph = GraphProto { node: vec![node], output, ..GraphProto::default() };
    AttributeProto { name: name.into(), g: Some(Box::new(graph)), kind: 5, ..AttributeProto::default() }
}

/// `y` is `then` of `x` if the first element of `x`, compared with 0.7 by `op`, is true, otherwise -x.
fn chosen(op: &str, swapped: bool, then: NodeProto) -> GraphProto {
    let operands = if swapped { ["limit", "first"] } else { ["first", "limit"] };
    let mut choice = node("If", &["is_true"], &["y"]);
    choice.attribute = vec![branch("then_branch", then), branch("else_branch", node("Neg", &["x"], &["other"]))];
    GraphProto {
        node: vec![
            onnx::with(node("Gather", &["x", "zero"], &["first"]), "axis", 1),
            node(op, &operands, &["is_true"]),
            choice,
        ],
        initializer: vec![floats("limit", &[], vec![0.7]), onnx::ints("zero", &[0])],
        input: vec![port("x", &[1, 3])],
        output: vec![port("y", &[1, 3])],
        ..GraphProto::default()
    }
}

fn tanh() -> NodeProto {
    node("Tanh", &["x"], &["part"])
}

#[test]
fn a_comparison_of_a_computed_value_selects_a_branch_exactly() {
    for (op, swapped, is_true) in [
        ("GreaterOrEqual", false, (|x| x >= 0.7) as fn(f32) -> bool),
        ("Greater", false, |x| x > 0.7),
        ("Less", false, |x| x < 0.7),
        ("LessOrEqual", false, |x| x <= 0.7),
        ("Less", true, |x| 0.7 < x),
    ] {
        for first in [0.7_f32.next_down(), 0.7, 0.7_f32.next_up(), -1e30, 1e30, 0.0] {
            let x = [first, 0.5, -2.0];
            let graph = onnx::bytes(chosen(op, swapped, node("Sqrt", &["x"], &["part"])));
            let graph = if first < 0.0 { onnx::bytes(chosen(op, swapped, tanh())) } else { graph };
            let (_, got) = outputs(&graph, &ALONE, &Tensors::from([tensor("x", &[1, 3], x.to_vec())]));
            let got = &got.unwrap()["y"].data;
            for (x, got) in x.iter().zip(got) {
                let part = if first < 0.0 { x.tanh() } else { x.max(0.0).sqrt() };
                let expected = if is_true(first) { part } else { -x };
                assert!((got - expected).abs() <= 1e-6 * expected.abs(), "{op} {first:e}: {got:e}, not {expected:e}");
            }
        }
    }
}

fn refused(graph: &[u8], options: &Options, reasons: &[&str]) {
    let error = open(graph, "x.onnx", options).expect_err("it must be refused");
    let line = import::line(&error, 512);
    for reason in reasons {
        assert!(line.contains(reason), "{line}");
    }
}

#[test]
fn other_computed_choices_are_refused_with_the_reason() {
    let mut graph = chosen("Greater", false, tanh());
    graph.node[1] = node("Relu", &["first"], &["is_true"]);
    refused(&onnx::bytes(graph), &ALONE, &["If", "nor a comparison", "export the model with one of its branches"]);
    let lstm = node("LSTM", &["x", "W", "R"], &["part"]);
    refused(&onnx::bytes(chosen("Greater", false, lstm)), &ALONE, &["its branch has a state (op LSTM)"]);
    let wide = onnx::with(node("Concat", &["x", "x"], &["part"]), "axis", 1);
    refused(&onnx::bytes(chosen("Greater", false, wide)), &ALONE, &["its branches compute [1, 6] and [1, 3]"]);
    let mut graph = chosen("Greater", false, tanh());
    graph.initializer[0] = floats("limit", &[], vec![0.0]);
    refused(&onnx::bytes(graph), &ALONE, &["it compares with 0e0, which is too small"]);
}

/// A convolution over an open dimension.
fn open_length() -> GraphProto {
    let mut x: ValueInfo = port("x", &[1, 2, 1]);
    if let Some(shape) = x.of.as_mut().and_then(|of| of.tensor.as_mut()?.shape.as_mut()) {
        shape.dim[2] = DimProto::default();
    }
    GraphProto {
        node: vec![node("Conv", &["x", "weights"], &["y"])],
        initializer: vec![floats("weights", &[1, 2, 120], onnx::values(240, 0.7))],
        input: vec![x],
        output: vec![port("y", &[1, 1, 1])],
        ..GraphProto::default()
    }
}

#[test]
fn the_window_is_the_length_of_the_only_open_dimension() {
    let graph = onnx::bytes(open_length());
    let options = Options { window: Some(122), ..Options::default() };
    let x = onnx::values(244, 0.3);
    let (_, got) = outputs(&graph, &options, &Tensors::from([tensor("x", &[1, 2, 122], x.clone())]));
    let got = got.unwrap();
    let weights = onnx::values(240, 0.7);
    let sum = |at: usize| -> f32 { (0..240).map(|k| weights[k] * x[k / 120 * 122 + k % 120 + at]).sum() };
    assert_eq!(got["y"].shape, [1, 1, 3]);
    for (at, got) in got["y"].data.iter().enumerate() {
        // A sum of 240 products of at most 1.
        assert!((got - sum(at)).abs() <= 240.0 * 240.0 * f32::EPSILON, "{at}");
    }
}

#[test]
fn the_shape_that_an_error_proposes_can_be_read() {
    let graph = onnx::bytes(open_length());
    refused(&graph, &ALONE, &["--shape x=1,2,576"]);
    let shapes = [("x".to_owned(), vec![1, 2, 576])].into();
    let given = Given { shapes, ..Given::NONE };
    open(&graph, "x.onnx", &Options { onnx: given, ..Options::default() }).unwrap();
}

#[test]
fn a_dimension_with_a_state_for_each_entry_is_no_sequence() {
    // The first LSTM reads the frames as a batch, the second one as steps.
    let weights = |name: &str, dims: &[usize]| floats(name, dims, onnx::values(dims.iter().product(), 0.4));
    let transposed = |of: &str, to: &str| {
        let mut node = node("Transpose", &[of], &[to]);
        let ints = vec![1, 0, 2];
        node.attribute.push(AttributeProto { name: "perm".into(), ints, kind: 7, ..AttributeProto::default() });
        node
    };
    let mut squeezed = node("Squeeze", &["all", "one"], &["bands"]);
    squeezed.name = "squeeze".into();
    let graph = GraphProto {
        node: vec![
            transposed("x", "by_band"),
            node("LSTM", &["by_band", "W", "R"], &["all"]),
            squeezed,
            transposed("bands", "by_frame"),
            node("LSTM", &["by_frame", "V", "R"], &["y"]),
        ],
        initializer: vec![
            weights("W", &[1, 8, 3]),
            weights("V", &[1, 8, 2]),
            weights("R", &[1, 8, 2]),
            onnx::ints("one", &[1]),
        ],
        input: vec![port("x", &[6, 4, 3])],
        output: vec![port("y", &[6, 1, 4, 2])],
        ..GraphProto::default()
    };
    refused(&onnx::bytes(graph), &ALONE, &["LSTM", "both time and batch"]);
}
