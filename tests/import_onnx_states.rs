//! States of ONNX graphs that step: caches that a graph shifts are delays, states of recurrent operators must return to
//! their place, and others are fed back.

use std::fs;

use tidegate_model::canonical::Tensor;
use tidegate_model::data::read_tensors;
use tidegate_model::format::Options;
use tidegate_model::format::onnx::proto::{GraphProto, TensorProto};
use tidegate_model::format::onnx::{Given, open};
use tidegate_tests::data;
use tidegate_tests::import::{self, ALONE};
use tidegate_tests::onnx::{Tensors, bytes, floats, ints, node, outputs, port, tensor, values, with};
use tidegate_tests::tolerance::worst;

const STEPS: usize = 7;

fn state(input: &str, output: &str) -> Options {
    let states = [(input.to_owned(), output.to_owned())].into();
    Options { onnx: Given { states, ..Given::NONE }, ..Options::default() }
}

fn cells(imported: &tidegate_model::format::Imported) -> Vec<&str> {
    imported.model.architecture.nodes.iter().map(|node| node.cell.as_str()).collect()
}

/// y = [cache, x W] V, where the cache holds the last three values of x W.
fn cached(input: &str, output: &str) -> Vec<u8> {
    bytes(cached_graph(input, output))
}

fn cached_graph(input: &str, output: &str) -> GraphProto {
    GraphProto {
        node: vec![
            node("MatMul", &["x", "W"], &["p"]),
            with(node("Concat", &[input, "p"], &["seen"]), "axis", 1),
            node("Slice", &["seen", "one", "end", "one"], &[output]),
            node("MatMul", &["seen", "V"], &["y"]),
        ],
        initializer: vec![
            floats("W", &[2, 1], values(2, 0.7)),
            floats("V", &[4, 2], values(8, 1.3)),
            ints("one", &[1]),
            ints("end", &[99]),
        ],
        input: vec![port("x", &[1, 2]), port(input, &[1, 3])],
        output: vec![port("y", &[1, 2]), port(output, &[1, 3])],
        ..GraphProto::default()
    }
}

#[test]
fn a_cache_that_a_graph_shifts_is_a_delay_of_its_layer() {
    let x = values(2 * STEPS, 0.9);
    let inputs: Tensors = [tensor("x", &[STEPS, 1, 2], x.clone())].into();
    let (weights, last) = (values(2, 0.7), values(8, 1.3));
    let products: Vec<f32> = x.chunks(2).map(|x| x[0] * weights[0] + x[1] * weights[1]).collect();
    let past = |step: usize, k: usize| (step + k).checked_sub(3).map_or(0.0, |at| products[at]);
    let expected = (0..STEPS).flat_map(|step| {
        let last = &last;
        (0..2).map(move |unit| (0..4).map(|k| past(step, k) * last[2 * k + unit]).sum::<f32>())
    });
    let expected: Vec<f32> = expected.collect();
    // The names are those of one state, or the output holds elements of the input.
    for names in [("cache", "cache_out"), ("a", "b")] {
        let file = cached(names.0, names.1);
        let (imported, given) = outputs(&file, &ALONE, &inputs);
        assert_eq!(cells(&imported), ["dense", "window", "dense"]);
        assert!(imported.notes.iter().any(|note| note.contains("are a state that the network keeps")));
        let given = given.unwrap();
        assert_eq!(given.keys().collect::<Vec<_>>(), ["y"]);
        let off = worst(given["y"].data.iter().zip(&expected).map(|(a, b)| (a - b).abs()));
        assert!(off < 1e-6, "{off:e}");
        let mut begun = inputs.clone();
        begun.extend([tensor(names.0, &[1, 3], vec![0.0; 3])]);
        assert!(outputs(&file, &ALONE, &begun).1.is_ok());
        begun.extend([tensor(names.0, &[1, 3], vec![0.0, 0.5, 0.0])]);
        let error = outputs(&file, &ALONE, &begun).1.unwrap_err();
        assert!(error.contains("is not zero, but the network keeps this state itself"), "{error}");
    }
}

/// An LSTM whose states are two parts of one input, joined to one output in this order.
fn joined(order: [&str; 2]) -> Vec<u8> {
    bytes(GraphProto {
        node: vec![
            with(node("Gather", &["s", "first"], &["h0"]), "axis", 0),
            with(node("Gather", &["s", "second"], &["c0"]), "axis", 0),
            with(node("LSTM", &["x", "W", "R", "", "", "h0", "c0"], &["Y", "h", "c"]), "hidden_size", 3),
            with(node("Concat", &order, &["s_out"]), "axis", 0),
        ],
        initializer: vec![
            floats("W", &[1, 12, 2], values(24, 0.3)),
            floats("R", &[1, 12, 3], values(36, 0.4)),
            ints("first", &[0]),
            ints("second", &[1]),
        ],
        input: vec![port("x", &[1, 1, 2]), port("s", &[2, 1, 3])],
        output: vec![port("Y", &[1, 1, 1, 3]), port("s_out", &[2, 1, 3])],
        ..GraphProto::default()
    })
}

#[test]
fn states_that_leave_in_another_order_are_refused() {
    open(&joined(["h", "c"]), "x.onnx", &ALONE).unwrap();
    let error = open(&joined(["c", "h"]), "x.onnx", &ALONE).expect_err("it must be refused");
    let line = import::line(&error, 512);
    assert!(line.contains(r#"output "s_out" holds at 0 the state that starts with "s" at 3"#), "{line}");
}

/// h' = tanh(x W + h R), written as operators.
fn written(input: &str, output: &str) -> Vec<u8> {
    bytes(GraphProto {
        node: vec![
            node("MatMul", &["x", "W"], &["a"]),
            node("MatMul", &[input, "R"], &["b"]),
            node("Add", &["a", "b"], &["sum"]),
            node("Tanh", &["sum"], &[output]),
        ],
        initializer: vec![floats("W", &[2, 3], values(6, 0.3)), floats("R", &[3, 3], values(9, 0.8))],
        input: vec![port("x", &[1, 2]), port(input, &[1, 3])],
        output: vec![port(output, &[1, 3])],
        ..GraphProto::default()
    })
}

/// The states of `written` after each step.
fn hidden(x: &[f32], mut h: Vec<f32>) -> Vec<Vec<f32>> {
    let (w, r) = (values(6, 0.3), values(9, 0.8));
    let mut all = Vec::new();
    for x in x.chunks(2) {
        let of_x = |k: usize| x.iter().enumerate().map(|(at, x)| x * w[3 * at + k]).sum::<f32>();
        let of_h = |k: usize| h.iter().enumerate().map(|(at, h)| h * r[3 * at + k]).sum::<f32>();
        h = (0..3).map(|k| (of_x(k) + of_h(k)).tanh()).collect();
        all.push(h.clone());
    }
    all
}

fn near(given: &Tensor, expected: &[f32]) {
    assert_eq!(given.data.len(), expected.len());
    let off = worst(given.data.iter().zip(expected).map(|(a, b)| (a - b).abs()));
    assert!(off < 1e-6, "{off:e}");
}

#[test]
fn a_state_is_fed_back_by_its_name_or_by_the_flag_that_the_error_proposes() {
    let x = values(2 * STEPS, 0.9);
    let inputs: Tensors = [tensor("x", &[STEPS, 1, 2], x.clone())].into();
    let expected = hidden(&x, vec![0.0; 3]);
    let given = outputs(&written("h", "h_out"), &ALONE, &inputs).1.unwrap();
    assert_eq!(given["h_out"].shape, [1, 3]);
    near(&given["h_out"], &expected[STEPS - 1]);

    let file = written("memory", "result");
    let error = outputs(&file, &ALONE, &inputs).1.unwrap_err();
    assert!(error.ends_with(r#"if "result" is its next value, run with --state memory=result"#), "{error}");
    let given = outputs(&file, &state("memory", "result"), &inputs).1.unwrap();
    near(&given["result"], &expected[STEPS - 1]);
    // A tensor with the shape in the graph is the first value; a tensor with steps has the value of every step.
    let mut begun = inputs.clone();
    begun.extend([tensor("memory", &[1, 3], vec![0.5, -0.25, 1.0])]);
    let given = outputs(&file, &state("memory", "result"), &begun).1.unwrap();
    near(&given["result"], &hidden(&x, vec![0.5, -0.25, 1.0])[STEPS - 1]);
    begun.extend([tensor("memory", &[STEPS, 1, 3], vec![0.0; 3 * STEPS])]);
    let given = outputs(&file, &state("memory", "result"), &begun).1.unwrap();
    let each: Vec<f32> = x.chunks(2).flat_map(|x| hidden(x, vec![0.0; 3])).flatten().collect();
    assert_eq!(given["result"].shape, [STEPS, 1, 3]);
    near(&given["result"], &each);
}

#[test]
fn a_state_that_the_graph_does_not_have_is_refused_by_name() {
    for (input, output, reason) in [
        ("memories", "result", r#"the graph has no input "memories""#),
        ("memory", "results", r#"the graph has no output "results""#),
        ("x", "result", "they are [1, 2] and [1, 3]"),
    ] {
        let error =
            open(&written("memory", "result"), "x.onnx", &state(input, output)).expect_err("it must be refused");
        let line = import::line(&error, 512);
        assert!(line.contains(reason) && line.contains(&format!("--state {input}={output}")), "{line}");
    }
}

#[test]
fn a_state_that_never_ends_or_never_changes_is_an_input_and_an_output() {
    // The output holds the input's own elements, in a circle: no layer computes them.
    let graph = GraphProto {
        node: vec![with(node("Gather", &["s", "order"], &["s_out"]), "axis", 1), node("Add", &["x", "s"], &["y"])],
        initializer: vec![ints("order", &[1, 0])],
        input: vec![port("x", &[1, 2]), port("s", &[1, 2])],
        output: vec![port("y", &[1, 2]), port("s_out", &[1, 2])],
        ..GraphProto::default()
    };
    let inputs: Tensors = [tensor("x", &[3, 1, 2], vec![0.0; 6]), tensor("s", &[1, 2], vec![1.0, 2.0])].into();
    let given = outputs(&bytes(graph), &ALONE, &inputs).1.unwrap();
    assert_eq!(given["y"].data, [1.0, 2.0, 2.0, 1.0, 1.0, 2.0]);
}

/// Three kinds of caches: of convolutions along time, of gated recurrent units, and of the units of each of 33 frequencies.
#[test]
fn gtcrn_matches_onnx_runtime_over_300_frames() {
    if !data::is_whole() {
        println!("SKIP: the model is not in the repository; set TIDEGATE_DATA_DIR");
        return;
    }
    let reference = read_tensors(&data::file("deployed/reference.safetensors")).unwrap();
    let mix = reference["gtcrn/mix"].data.clone();
    let frames = mix.len() / (2 * 257);
    let inputs: Tensors = [tensor("mix", &[frames, 1, 257, 1, 2], mix)].into();
    let file = fs::read(data::file("deployed/gtcrn/gtcrn_simple.onnx")).unwrap();
    let (imported, given) = outputs(&file, &ALONE, &inputs);
    let given = given.unwrap();
    assert_eq!(given["enh"].shape, [frames, 1, 257, 1, 2]);
    let found = cells(&imported);
    assert_eq!(found.iter().filter(|cell| **cell == "window").count(), 6);
    let apart = imported.model.architecture.nodes.iter().filter(|node| node.unroll.is_some_and(|of| of.apart));
    assert_eq!(apart.count(), 4);
    let expected = &reference["gtcrn/enh"].data;
    let off = worst(given["enh"].data.iter().zip(expected).map(|(a, b)| (a - b).abs()));
    println!("{frames} frames, at most {off:.1e} off; {} layers", found.len());
    assert!(frames == 300 && off <= 1e-4, "{off:e}");
}

#[test]
fn a_cache_with_a_default_of_zeros_is_a_cache_and_another_default_is_refused() {
    let import = |default: [f32; 3]| {
        let mut graph = cached_graph("cache", "cache_out");
        graph.initializer.push(floats("cache", &[1, 3], default.into()));
        open(&bytes(graph), "x.onnx", &ALONE).map(|(imported, _)| imported.model)
    };
    let plain = open(&cached("cache", "cache_out"), "x.onnx", &ALONE).unwrap().0.model;
    assert_eq!(import([0.0; 3]).unwrap(), plain);
    let line = import::line(&import([0.0, 1.0, 0.0]).expect_err("it must be refused"), 512);
    assert!(line.contains(r#"input "cache" has a default that is not zero"#) && line.contains("zeros"), "{line}");
}

/// y, h', c' of a recurrent operator over one step, with h and c as states, or as constants if they are `fixed`.
fn stepping(op: &str, gates: usize, defaults: Vec<TensorProto>, fixed: bool) -> Vec<u8> {
    let (units, is_lstm) = (3, op == "LSTM");
    let states: &[&str] = if is_lstm { &["h", "c"] } else { &["h"] };
    let news: Vec<String> = states.iter().map(|state| format!("{state}_out")).collect();
    let inputs = [&["x", "W", "R", "", ""][..], states].concat();
    let results = [&["y"][..], &news.iter().map(String::as_str).collect::<Vec<_>>()].concat();
    let mut initializer = vec![
        floats("W", &[1, gates * units, 2], values(gates * units * 2, 0.7)),
        floats("R", &[1, gates * units, units], values(gates * units * units, 1.3)),
    ];
    initializer.extend(defaults);
    bytes(GraphProto {
        node: vec![with(node(op, &inputs, &results), "hidden_size", units as i64)],
        initializer,
        input: [port("x", &[1, 1, 2])]
            .into_iter()
            .chain(states.iter().filter(|_| !fixed).map(|state| port(state, &[1, 1, units])))
            .collect(),
        output: [port("y", &[1, 1, 1, units])]
            .into_iter()
            .chain(news.iter().map(|state| port(state, &[1, 1, units])))
            .collect(),
        ..GraphProto::default()
    })
}

#[test]
fn an_lstm_starts_from_the_defaults_of_its_states() {
    let x = tensor("x", &[1, STEPS, 2], values(2 * STEPS, 0.9));
    let (h, c) = (values(3, 2.1), values(3, 0.3));
    // A default of zeros is known too.
    for h in [h.clone(), vec![0.0; 3]] {
        let given: Tensors = [x.clone(), tensor("h", &[1, 1, 3], h.clone()), tensor("c", &[1, 1, 3], c.clone())].into();
        let (_, expected) = outputs(&stepping("LSTM", 4, Vec::new(), false), &ALONE, &steps(given));
        let defaults = || vec![floats("h", &[1, 1, 3], h.clone()), floats("c", &[1, 1, 3], c.clone())];
        let (imported, found) = outputs(&stepping("LSTM", 4, defaults(), false), &ALONE, &steps([x.clone()].into()));
        assert_eq!(cells(&imported), ["lstm"]);
        let (_, fixed) = outputs(&stepping("LSTM", 4, defaults(), true), &ALONE, &steps([x.clone()].into()));
        let (expected, found, fixed) = (expected.unwrap(), found.unwrap(), fixed.unwrap());
        for (name, found) in ["y", "h_out", "c_out"].into_iter().flat_map(|name| [(name, &found), (name, &fixed)]) {
            assert_eq!(found[name].data.len(), expected[name].data.len());
            let off = worst(found[name].data.iter().zip(&expected[name].data).map(|(a, b)| (a - b).abs()));
            assert!(off <= 1e-7, "{name}: {off:e}");
        }
        // The network cannot store another start.
        let given: Tensors = [x.clone(), tensor("h", &[1, 1, 3], vec![0.0; 3])].into();
        let (_, refused) = outputs(&stepping("LSTM", 4, defaults(), false), &ALONE, &steps(given));
        assert!(refused.unwrap_err().contains(r#"the default of "h": leave it out"#));
    }
    for (op, gates, defaults, reason) in [
        ("GRU", 3, vec![floats("h", &[1, 1, 3], h.clone())], "only an LSTM"),
        ("LSTM", 4, vec![floats("h", &[1, 1, 3], h)], "the other is an input"),
    ] {
        let error = open(&stepping(op, gates, defaults, false), "x.onnx", &ALONE).expect_err("it must be refused");
        assert!(error.to_string().contains(reason), "{op}: {error}");
    }
}

/// The tensors with the steps of x in front.
fn steps(mut tensors: Tensors) -> Tensors {
    let x = tensors.get_mut("x").expect("there is an x");
    x.shape = vec![STEPS, 1, 2];
    tensors
}
