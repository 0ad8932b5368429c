//! Layers that an exporter wrote as elementwise operators: they are recognized in any order of their operands, and
//! otherwise read as they are.

use std::collections::BTreeMap;

use prost::Message;
use tidegate::Numeric;
use tidegate_model::backend::Engine;
use tidegate_model::canonical::Tensor;
use tidegate_model::format::onnx::open;
use tidegate_model::format::onnx::proto::{
    AttributeProto, DimProto, GraphProto, ModelProto, NodeProto, OperatorSetId, ShapeProto, TensorProto, TensorType,
    TypeProto, ValueInfo,
};
use tidegate_tests::images::AlignedBytes;
use tidegate_tests::import::ALONE;
use tidegate_tests::tolerance::worst;

type Tensors = BTreeMap<String, Tensor>;

const UNITS: usize = 4;
const INPUTS: usize = 3;

fn info(name: &str, dims: &[usize]) -> ValueInfo {
    let dim = dims.iter().map(|&size| DimProto { value: Some(size as i64), ..DimProto::default() }).collect();
    let tensor = TensorType { elem_type: 1, shape: Some(ShapeProto { dim }) };
    ValueInfo { name: name.into(), of: Some(TypeProto { tensor: Some(tensor) }) }
}

fn node(op: &str, input: &[&str], output: &[&str]) -> NodeProto {
    let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    NodeProto { input: owned(input), output: owned(output), op_type: op.into(), ..NodeProto::default() }
}

fn along(axis: i64, node: NodeProto) -> NodeProto {
    let axis = AttributeProto { name: "axis".into(), i: axis, kind: 2, ..AttributeProto::default() };
    NodeProto { attribute: vec![axis], ..node }
}

fn values(count: usize, seed: f32) -> Vec<f32> {
    (0..count).map(|k| (seed * (k + 1) as f32).sin()).collect()
}

fn tensor(name: &str, dims: &[usize], float_data: Vec<f32>) -> TensorProto {
    let dims = dims.iter().map(|&dim| dim as i64).collect();
    TensorProto { name: name.into(), dims, data_type: 1, float_data, ..TensorProto::default() }
}

fn bytes(graph: GraphProto) -> Vec<u8> {
    let opset_import = vec![OperatorSetId { domain: String::new(), version: 13 }];
    let model = ModelProto { graph: Some(graph), opset_import, ..ModelProto::default() };
    [[1 << 3, 8].as_slice(), &model.encode_to_vec()].concat()
}

/// The nodes of a graph, and its outputs for a stream of 5 steps.
fn run(graph: GraphProto, x: &[f32], shape: Vec<usize>) -> (Vec<String>, Tensors) {
    let (imported, interface) = open(&bytes(graph), "x.onnx", &ALONE).unwrap_or_else(|error| panic!("{error}"));
    let image = AlignedBytes::pack(&imported.model, Numeric::F32);
    let inputs = [("x".to_owned(), Tensor { shape, data: x.to_vec() })].into();
    let outputs = interface.run(&Engine::from(&image.model()), &inputs).unwrap_or_else(|error| panic!("{error}"));
    (imported.model.architecture.nodes.into_iter().map(|node| node.cell).collect(), outputs)
}

/// A cell whose gates i, f, g, o are the parts `order` of the sums. `swapped` exchanges the operands of every operator.
fn cell(order: [usize; 4], swapped: bool, candidate: &str) -> GraphProto {
    let pair = |op: &str, a: &str, b: &str, to: &str| {
        if swapped { node(op, &[b, a], &[to]) } else { node(op, &[a, b], &[to]) }
    };
    let parts = ["p0", "p1", "p2", "p3"];
    let [i, f, g, o] = order.map(|part| parts[part]);
    GraphProto {
        node: vec![
            node("MatMul", &["x", "W"], &["of_x"]),
            node("MatMul", &["h", "R"], &["of_h"]),
            pair("Add", "of_x", "of_h", "both"),
            pair("Add", "both", "B", "sums"),
            along(1, node("Split", &["sums"], &parts)),
            node("Sigmoid", &[i], &["i"]),
            node("Sigmoid", &[f], &["f"]),
            node(candidate, &[g], &["g"]),
            node("Sigmoid", &[o], &["o"]),
            pair("Mul", "f", "c", "kept"),
            pair("Mul", "i", "g", "new"),
            pair("Add", "kept", "new", "c_out"),
            node("Tanh", &["c_out"], &["shown"]),
            pair("Mul", "o", "shown", "h_out"),
            node("Relu", &["h_out"], &["y"]),
        ],
        initializer: vec![
            tensor("W", &[INPUTS, 4 * UNITS], values(4 * UNITS * INPUTS, 1.3)),
            tensor("R", &[UNITS, 4 * UNITS], values(4 * UNITS * UNITS, 0.7)),
            tensor("B", &[4 * UNITS], values(4 * UNITS, 2.1)),
        ],
        input: vec![info("x", &[1, INPUTS]), info("h", &[1, UNITS]), info("c", &[1, UNITS])],
        output: vec![info("y", &[1, UNITS]), info("h_out", &[1, UNITS]), info("c_out", &[1, UNITS])],
        ..GraphProto::default()
    }
}

/// The outputs y of the cell in f64, its state fed back.
fn expected([i, f, g, o]: [usize; 4], x: &[f32]) -> Vec<f64> {
    let [w, r, b] = [(4 * UNITS * INPUTS, 1.3), (4 * UNITS * UNITS, 0.7), (4 * UNITS, 2.1)]
        .map(|(count, seed)| values(count, seed).into_iter().map(f64::from).collect::<Vec<_>>());
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    let (mut h, mut c) = ([0.0; UNITS], [0.0; UNITS]);
    let mut all = Vec::new();
    for x in x.chunks(INPUTS) {
        let sum = |column: usize| {
            let of_x = x.iter().enumerate().map(|(k, &x)| f64::from(x) * w[k * 4 * UNITS + column]).sum::<f64>();
            of_x + h.iter().enumerate().map(|(k, h)| h * r[k * 4 * UNITS + column]).sum::<f64>() + b[column]
        };
        let sums: Vec<f64> = (0..4 * UNITS).map(sum).collect();
        for k in 0..UNITS {
            let part = |part: usize| sums[part * UNITS + k];
            c[k] = sigmoid(part(f)) * c[k] + sigmoid(part(i)) * part(g).tanh();
            h[k] = sigmoid(part(o)) * c[k].tanh();
        }
        all.extend(h.map(|h| h.max(0.0)));
    }
    all
}

#[test]
fn the_operators_of_an_lstm_become_an_lstm_that_carries_its_state() {
    let x = values(5 * INPUTS, 0.9);
    for order in [[0, 1, 2, 3], [0, 3, 1, 2], [2, 0, 3, 1], [3, 2, 1, 0]] {
        for swapped in [false, true] {
            let (nodes, outputs) = run(cell(order, swapped, "Tanh"), &x, vec![5, 1, INPUTS]);
            assert_eq!(nodes, ["lstm", "activation"], "{order:?}");
            let got = &outputs["y"].data;
            let most = worst(got.iter().zip(expected(order, &x)).map(|(&got, y)| (f64::from(got) - y).abs()));
            assert_eq!(got.len(), 5 * UNITS);
            assert!(most <= 1e-6, "{order:?}: {most:e}");
        }
    }
}

/// The operators as PyTorch exports an `LSTMCell`.
#[test]
fn the_products_of_an_lstm_may_be_gemms() {
    let x = values(5 * INPUTS, 0.9);
    let columns = 4 * UNITS;
    let of_x = values(columns * INPUTS, 1.3);
    let transposed = (0..columns).flat_map(|column| (0..INPUTS).map(move |row| (row, column)));
    let transposed = transposed.map(|(row, column)| of_x[row * columns + column]).collect();
    let gemm = |transposes: i64| {
        let mut graph = cell([0, 1, 2, 3], false, "Tanh");
        let of_b = AttributeProto { name: "transB".into(), i: transposes, kind: 2, ..AttributeProto::default() };
        graph.node[0] = NodeProto { attribute: vec![of_b], ..node("Gemm", &["x", "Wt", "B"], &["of_x"]) };
        graph.node[1] = node("Gemm", &["h", "R"], &["of_h"]);
        graph.node[2].output[0] = "sums".into();
        graph.node.remove(3);
        graph
    };
    let mut graph = gemm(1);
    graph.initializer.push(tensor("Wt", &[columns, INPUTS], transposed));
    let (nodes, outputs) = run(graph, &x, vec![5, 1, INPUTS]);
    assert_eq!(nodes, ["lstm", "activation"]);
    let expected = expected([0, 1, 2, 3], &x);
    assert_eq!(outputs["y"].data.len(), expected.len());
    assert!(worst(outputs["y"].data.iter().zip(expected).map(|(&got, y)| (f64::from(got) - y).abs())) <= 1e-6);
    // A Gemm that also scales is not part of a cell.
    let mut graph = gemm(0);
    graph.initializer.push(tensor("Wt", &[INPUTS, columns], of_x));
    let alpha = AttributeProto { name: "alpha".into(), f: 0.5, kind: 1, ..AttributeProto::default() };
    graph.node[0].attribute.push(alpha);
    let (nodes, _) = run(graph, &x, vec![5, 1, INPUTS]);
    assert!(!nodes.iter().any(|node| node == "lstm"), "{nodes:?}");
}

/// The branches of a condition may use the same names.
#[test]
fn the_cells_of_both_branches_of_a_condition_are_recognized() {
    let x = values(5 * INPUTS, 0.9);
    let orders = [[0, 1, 2, 3], [3, 2, 1, 0]];
    for (condition, order) in [(1, orders[0]), (0, orders[1])] {
        let branch = |name: &str, order: [usize; 4]| {
            let GraphProto { node, output, .. } = cell(order, false, "Tanh");
            let g = Some(Box::new(GraphProto { node, output, ..GraphProto::default() }));
            AttributeProto { name: name.into(), g, kind: 5, ..AttributeProto::default() }
        };
        let choice = NodeProto {
            attribute: vec![branch("then_branch", orders[0]), branch("else_branch", orders[1])],
            ..node("If", &["condition"], &["y", "h_out", "c_out"])
        };
        let mut graph = GraphProto { node: vec![choice], ..cell(order, false, "Tanh") };
        let data_type = 7;
        graph.initializer.push(TensorProto {
            name: "condition".into(),
            data_type,
            int64_data: vec![condition],
            ..TensorProto::default()
        });
        let (nodes, outputs) = run(graph, &x, vec![5, 1, INPUTS]);
        assert_eq!(nodes, ["lstm", "activation"], "{condition}");
        let got = &outputs["y"].data;
        let most = worst(got.iter().zip(expected(order, &x)).map(|(&got, y)| (f64::from(got) - y).abs()));
        assert!(got.len() == 5 * UNITS && most <= 1e-6, "{condition}: {most:e}");
    }
}

/// A GRU cell whose gates r, z, n are the parts `order` of both sums. `swapped` exchanges the operands of every operator.
/// `weighs` writes h' as (1 - z) n + z h, as some authors do, otherwise as n + z (h - n), as PyTorch does.
fn gru(order: [usize; 3], swapped: bool, weighs: bool) -> GraphProto {
    let pair = |op: &str, a: &str, b: &str, to: &str| {
        if swapped { node(op, &[b, a], &[to]) } else { node(op, &[a, b], &[to]) }
    };
    let ([xs, hs], columns) = ([["x0", "x1", "x2"], ["h0", "h1", "h2"]], 3 * UNITS);
    let [[xr, xz, xn], [hr, hz, hn]] = [xs, hs].map(|parts| order.map(|part| parts[part]));
    let mut nodes = vec![
        node("Gemm", &["x", "W", "B"], &["of_x"]),
        node("MatMul", &["h", "R"], &["h_R"]),
        pair("Add", "h_R", "C", "of_h"),
        along(1, node("Split", &["of_x"], &xs)),
        along(-1, node("Split", &["of_h"], &hs)),
        pair("Add", xr, hr, "of_r"),
        node("Sigmoid", &["of_r"], &["r"]),
        pair("Add", xz, hz, "of_z"),
        node("Sigmoid", &["of_z"], &["z"]),
        pair("Mul", "r", hn, "kept"),
        pair("Add", xn, "kept", "of_n"),
        node("Tanh", &["of_n"], &["n"]),
    ];
    nodes.extend(match weighs {
        false => {
            vec![node("Sub", &["h", "n"], &["d"]), pair("Mul", "z", "d", "moved"), pair("Add", "n", "moved", "h_out")]
        }
        true => vec![
            node("Sub", &["one", "z"], &["rest"]),
            pair("Mul", "rest", "n", "new"),
            pair("Mul", "z", "h", "old"),
            pair("Add", "new", "old", "h_out"),
        ],
    });
    nodes.push(node("Relu", &["h_out"], &["y"]));
    GraphProto {
        node: nodes,
        initializer: vec![
            tensor("W", &[INPUTS, columns], values(columns * INPUTS, 1.3)),
            tensor("R", &[UNITS, columns], values(columns * UNITS, 0.7)),
            tensor("B", &[columns], values(columns, 2.1)),
            tensor("C", &[columns], values(columns, 1.7)),
            tensor("one", &[], vec![1.0]),
        ],
        input: vec![info("x", &[1, INPUTS]), info("h", &[1, UNITS])],
        output: vec![info("y", &[1, UNITS]), info("h_out", &[1, UNITS])],
        ..GraphProto::default()
    }
}

/// The outputs y of the GRU in f64, its state fed back.
fn expected_of_gru([r, z, n]: [usize; 3], x: &[f32]) -> Vec<f64> {
    let columns = 3 * UNITS;
    let wide = |count, seed| values(count, seed).into_iter().map(f64::from).collect::<Vec<_>>();
    let (w, u, b, c) =
        (wide(columns * INPUTS, 1.3), wide(columns * UNITS, 0.7), wide(columns, 2.1), wide(columns, 1.7));
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    let (mut h, mut all) = ([0.0; UNITS], Vec::new());
    for x in x.chunks(INPUTS) {
        let of_x = |column: usize| {
            b[column] + x.iter().enumerate().map(|(k, &x)| f64::from(x) * w[k * columns + column]).sum::<f64>()
        };
        let before = h;
        let of_h = |column: usize| {
            c[column] + before.iter().enumerate().map(|(k, h)| h * u[k * columns + column]).sum::<f64>()
        };
        for (k, h) in h.iter_mut().enumerate() {
            let [r, z, n] = [r, z, n].map(|part| part * UNITS + k);
            let (reset, update) = (sigmoid(of_x(r) + of_h(r)), sigmoid(of_x(z) + of_h(z)));
            let new = (of_x(n) + reset * of_h(n)).tanh();
            *h = (1.0 - update) * new + update * *h;
        }
        all.extend(h.map(|h| h.max(0.0)));
    }
    all
}

#[test]
fn the_operators_of_a_gru_become_a_gru_that_carries_its_state() {
    let x = values(5 * INPUTS, 0.9);
    for order in [[0, 1, 2], [1, 0, 2], [2, 0, 1]] {
        for (swapped, weighs) in [(false, false), (true, false), (false, true), (true, true)] {
            let (nodes, outputs) = run(gru(order, swapped, weighs), &x, vec![5, 1, INPUTS]);
            assert_eq!(nodes, ["gru", "activation"], "{order:?}");
            let got = &outputs["y"].data;
            let most = worst(got.iter().zip(expected_of_gru(order, &x)).map(|(&got, y)| (f64::from(got) - y).abs()));
            assert_eq!(got.len(), 5 * UNITS);
            assert!(most <= 1e-6, "{order:?}: {most:e}");
        }
    }
}

#[test]
fn operators_that_are_no_gru_are_read_as_they_are() {
    let changed = |change: fn(&mut GraphProto)| {
        let mut graph = gru([0, 1, 2], false, false);
        change(&mut graph);
        graph
    };
    let graphs = [
        // Another candidate, other parts of the sums, another gate, another n, another h.
        changed(|graph| graph.node[11].op_type = "Relu".into()),
        changed(|graph| graph.node[5].input[1] = "h1".into()),
        changed(|graph| graph.node[9].input[1] = "h1".into()),
        changed(|graph| graph.node[13].input[0] = "r".into()),
        changed(|graph| graph.node[12].input[1] = "x2".into()),
        changed(|graph| graph.node[12].input[0] = "h2".into()),
    ];
    for (number, graph) in graphs.into_iter().enumerate() {
        let (imported, _) = open(&bytes(graph), "x.onnx", &ALONE).unwrap();
        assert!(imported.model.architecture.nodes.iter().all(|node| node.cell != "gru"), "{number}");
    }
}

/// `x · 1/2 · (1 + erf(x / √2))`, whose nodes `change` may change.
fn gelu(divides: bool, half_first: bool, change: impl FnOnce(&mut GraphProto)) -> GraphProto {
    let scaled = if divides { ("Div", "root") } else { ("Mul", "inverse") };
    let (halved, whole) = match half_first {
        true => (node("Mul", &["half", "x"], &["part"]), node("Mul", &["part", "sum"], &["y"])),
        false => (node("Mul", &["sum", "x"], &["part"]), node("Mul", &["part", "half"], &["y"])),
    };
    let nodes = [
        node(scaled.0, &["x", scaled.1], &["scaled"]),
        node("Erf", &["scaled"], &["erf"]),
        node("Add", &["one", "erf"], &["sum"]),
        halved,
        whole,
    ];
    let number = |name: &str, value: f32| tensor(name, &[], vec![value]);
    let mut graph = GraphProto {
        node: nodes.into(),
        initializer: vec![
            number("half", 0.5),
            number("one", 1.0),
            number("root", std::f32::consts::SQRT_2),
            number("inverse", std::f32::consts::FRAC_1_SQRT_2),
        ],
        input: vec![info("x", &[1, 6])],
        output: vec![info("y", &[1, 6])],
        ..GraphProto::default()
    };
    change(&mut graph);
    graph
}

#[test]
fn the_operators_of_an_exact_gelu_become_one_activation() {
    let x = values(6, 2.9);
    let mut all = Vec::new();
    for divides in [true, false] {
        for half_first in [true, false] {
            let (nodes, outputs) = run(gelu(divides, half_first, |_| ()), &x, vec![1, 6]);
            assert_eq!(nodes, ["activation"]);
            all.push(outputs["y"].data.clone());
        }
    }
    let expected: Vec<f32> = x.iter().map(|&x| tidegate::internals::activation::Activation::Gelu.apply(x)).collect();
    assert!(all.iter().all(|got| *got == expected), "{all:?} {expected:?}");
    // Another factor, another term, another argument.
    let number = |name: &'static str, value: f32| {
        move |graph: &mut GraphProto| {
            let of = graph.initializer.iter_mut().find(|of| of.name == name).unwrap();
            of.float_data = vec![value];
        }
    };
    for (name, value) in [("half", 0.6), ("one", 0.9), ("root", 1.5)] {
        let error = open(&bytes(gelu(true, true, number(name, value))), "x.onnx", &ALONE).expect_err("it is no GELU");
        assert!(error.to_string().contains("Erf"), "{error}");
    }
}

/// `x` where `left` is greater than `threshold`, otherwise the softplus of `x`.
fn softplus(left: &str, threshold: f32) -> GraphProto {
    GraphProto {
        node: vec![
            node("Softplus", &["x"], &["s"]),
            node("Neg", &["x"], &["less"]),
            node("Greater", &[left, "threshold"], &["far"]),
            node("Where", &["far", "x", "s"], &["y"]),
        ],
        initializer: vec![tensor("threshold", &[], vec![threshold])],
        input: vec![info("x", &[1, 6])],
        output: vec![info("y", &[1, 6])],
        ..GraphProto::default()
    }
}

#[test]
fn a_softplus_with_a_threshold_beyond_its_bend_is_a_softplus() {
    let x = values(6, 24.0);
    let (nodes, outputs) = run(softplus("x", 20.0), &x, vec![1, 6]);
    assert_eq!(nodes, ["activation"]);
    let expected: Vec<f32> =
        x.iter().map(|&x| tidegate::internals::activation::Activation::Softplus.apply(x)).collect();
    assert_eq!(outputs["y"].data, expected);
    // A threshold that changes values, and a condition on another value: -x. Both values are computed, and one is selected.
    for (left, threshold, sign) in [("x", 1.0, 1.0), ("less", 20.0, -1.0)] {
        let (nodes, outputs) = run(softplus(left, threshold), &x, vec![1, 6]);
        assert!(nodes.len() > 1, "{nodes:?}");
        let selected = x.iter().zip(&expected).map(|(&x, &soft)| if sign * x > threshold { x } else { soft });
        assert_eq!(outputs["y"].data, selected.collect::<Vec<f32>>(), "{left}");
    }
}

#[test]
fn operators_that_are_no_lstm_are_read_as_they_are() {
    let candidate = cell([0, 1, 2, 3], false, "Relu");
    let mut part = cell([0, 1, 2, 3], false, "Tanh");
    // σ(f) and σ(i) of the same part.
    part.node[5].input[0] = "p1".into();
    let mut scaled = cell([0, 1, 2, 3], false, "Tanh");
    scaled.node[12].input[0] = "kept".into();
    for graph in [candidate, part, scaled] {
        let (imported, _) = open(&bytes(graph), "x.onnx", &ALONE).unwrap();
        assert!(imported.model.architecture.nodes.iter().all(|node| node.cell != "lstm"));
    }
}

/// `(x - mean) / √(variance + ε) · gain + bias`, with the square as `square`.
fn norm(square: &str, epsilon: f32) -> GraphProto {
    let over = |node: NodeProto| {
        let axes = AttributeProto { name: "axes".into(), ints: vec![-1], kind: 7, ..AttributeProto::default() };
        NodeProto { attribute: vec![axes], ..node }
    };
    GraphProto {
        node: vec![
            over(node("ReduceMean", &["x"], &["mean"])),
            node("Sub", &["x", "mean"], &["d"]),
            node("Sub", &["x", "mean"], &["e"]),
            node(square, &["e", if square == "Pow" { "two" } else { "e" }], &["squares"]),
            over(node("ReduceMean", &["squares"], &["variance"])),
            node("Add", &["epsilon", "variance"], &["sum"]),
            node("Sqrt", &["sum"], &["deviation"]),
            node("Div", &["d", "deviation"], &["normal"]),
            node("Mul", &["normal", "gain"], &["scaled"]),
            node("Add", &["scaled", "bias"], &["y"]),
        ],
        initializer: vec![
            tensor("two", &[], vec![2.0]),
            tensor("epsilon", &[], vec![epsilon]),
            tensor("gain", &[6], values(6, 0.4)),
            tensor("bias", &[6], values(6, 1.9)),
        ],
        input: vec![info("x", &[1, 2, 6])],
        output: vec![info("y", &[1, 2, 6])],
        ..GraphProto::default()
    }
}

#[test]
fn the_operators_of_a_layer_normalization_become_one_node() {
    let x = values(2 * 6, 0.9);
    let (gain, bias) = (values(6, 0.4), values(6, 1.9));
    for (square, epsilon) in [("Mul", 1e-5), ("Pow", 0.5)] {
        let (nodes, outputs) = run(norm(square, epsilon), &x, vec![1, 2, 6]);
        assert_eq!(nodes, ["layer_norm"], "{square}");
        let wide = |x: &[f32]| x.iter().copied().map(f64::from).collect::<Vec<f64>>();
        let mut expected = Vec::new();
        for row in wide(&x).chunks(6) {
            let mean = row.iter().sum::<f64>() / 6.0;
            let variance = row.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / 6.0;
            let normal = row.iter().map(|x| (x - mean) / (variance + f64::from(epsilon)).sqrt());
            expected.extend(normal.zip(wide(&gain)).zip(wide(&bias)).map(|((x, gain), bias)| x * gain + bias));
        }
        let got = &outputs["y"].data;
        assert_eq!(got.len(), expected.len());
        assert!(worst(got.iter().zip(expected).map(|(&got, y)| (f64::from(got) - y).abs())) <= 1e-6, "{square}");
    }
}

/// `x / √(mean(x²) + ε) · gain`, as a quotient, or as a product with a reciprocal.
#[test]
fn the_operators_of_a_normalization_by_the_root_mean_square_become_one_node() {
    let x = values(2 * 6, 0.9);
    let gain = values(6, 0.4);
    let expected: Vec<f64> = x
        .chunks(6)
        .flat_map(|row| {
            let square = row.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>() / 6.0;
            row.iter().zip(&gain).map(move |(&x, &gain)| f64::from(x) / (square + 0.5).sqrt() * f64::from(gain))
        })
        .collect();
    let reciprocals = [
        vec![node("Div", &["x", "root"], &["normal"])],
        vec![node("Reciprocal", &["root"], &["r"]), node("Mul", &["x", "r"], &["normal"])],
        vec![node("Div", &["one", "root"], &["r"]), node("Mul", &["r", "x"], &["normal"])],
    ];
    for last in reciprocals {
        let mut graph = norm("Pow", 0.5);
        let scaled = NodeProto { output: vec!["y".into()], ..graph.node[8].clone() };
        graph.node.truncate(7);
        graph.node.drain(..3);
        graph.node[0].input[0] = "x".into();
        graph.node[3].output[0] = "root".into();
        graph.node.extend(last);
        graph.node.push(scaled);
        graph.initializer.push(tensor("one", &[], vec![1.0]));
        let (nodes, outputs) = run(graph, &x, vec![1, 2, 6]);
        assert_eq!(nodes, ["layer_norm"]);
        let got = &outputs["y"].data;
        assert_eq!(got.len(), expected.len());
        assert!(worst(got.iter().zip(&expected).map(|(&got, y)| (f64::from(got) - y).abs())) <= 1e-6);
    }
}

#[test]
fn a_quotient_that_is_no_layer_normalization_is_read_as_it_is() {
    let x = values(2 * 6, 0.9);
    let mut graph = norm("Mul", 1e-5);
    // The mean of another value.
    graph.node[2].input[1] = "gain".into();
    let (nodes, outputs) = run(graph, &x, vec![1, 2, 6]);
    assert!(!nodes.iter().any(|node| node == "layer_norm"), "{nodes:?}");
    let (gain, bias) = (values(6, 0.4), values(6, 1.9));
    let expected = x.chunks(6).flat_map(|row| {
        let mean = row.iter().sum::<f32>() / 6.0;
        let variance = row.iter().zip(&gain).map(|(x, gain)| (x - gain) * (x - gain)).sum::<f32>() / 6.0;
        let normal = row.iter().map(move |x| (x - mean) / (variance + 1e-5).sqrt());
        normal.zip(gain.iter().zip(&bias)).map(|(x, (gain, bias))| x * gain + bias).collect::<Vec<f32>>()
    });
    let got = &outputs["y"].data;
    assert_eq!(got.len(), x.len());
    assert!(worst(got.iter().zip(expected).map(|(&got, y)| (got - y).abs())) <= 1e-5);
}
