//! Damaged and malicious frozen graphs: refused with one clear line, quickly, in little memory.

use std::path::Path;
use std::time::Instant;

use tidegate_model::data::read_tensors;
use tidegate_model::error::ImportError;
use tidegate_model::format::graphdef::attr_value::Value as Attr;
use tidegate_model::format::{Options, graphdef, import_bytes, import_bytes_with, onnx::Given, tf1};
use tidegate_tests::corpus::Corpus;
use tidegate_tests::fuzz_import::import_graph;
use tidegate_tests::graphs::Graph;
use tidegate_tests::import;
use tidegate_tests::memory::{peak_bytes, ran_alone};

fn sample(name: &str) -> Vec<u8> {
    import::sample(&format!("tf1_graph/{name}.pb"))
}

/// The one-line error of refused bytes.
fn refusal(bytes: &[u8]) -> String {
    import::line(&import_bytes(bytes, "x.pb").expect_err("it must be refused"), 1000)
}

/// The same, checked to be quick.
fn refused_soon(what: &str, graph: &Graph) -> String {
    let (bytes, started) = (graph.bytes(), Instant::now());
    let line = refusal(&bytes);
    let seconds = started.elapsed().as_secs_f32();
    println!("{what}: {} bytes, {seconds:.2} s: {line:.150}", bytes.len());
    assert!(seconds < 20.0, "{what} takes {seconds} s");
    line
}

/// A prefix that ends after a node whose output no other node needs is a valid graph.
#[test]
fn every_prefix_of_a_graph_is_refused() {
    for name in ["dynamic_gru", "bidirectional_lstm", "static_lstm", "block_lstm", "keras_gru_unrolled"] {
        let bytes = sample(name);
        assert!(import_bytes(&bytes, name).is_ok(), "{name}");
        for end in (0..bytes.len()).filter(|end| end % 101 == 0 || end % 1024 == 0) {
            if graphdef::decode(&bytes[..end]).is_err() {
                refusal(&bytes[..end]);
            }
        }
    }
}

#[test]
fn a_damaged_byte_is_refused_or_gives_a_model() {
    for name in ["dynamic_lstm_projection_clips", "bidirectional_states", "conv_image"] {
        import::damaged(name, 37, &sample(name), |bytes| import_bytes(bytes, name));
    }
}

/// Appends nodes `n1`, `n2`, ... of an op, each reading the one before, `twice` for both of its operands. The last node
/// is `end`.
fn chain(graph: &mut Graph, op: &str, twice: bool, len: usize) {
    graph.node("n0", "Identity", &["x"]);
    for k in 1..=len {
        let (name, before) = (format!("n{k}"), format!("n{}", k - 1));
        let inputs: &[&str] = if twice { &[&before, &before] } else { &[&before] };
        graph.node(&name, op, inputs);
    }
}

#[test]
fn deep_graphs_and_graphs_that_double_are_refused_quickly() {
    for op in ["Tanh", "Neg", "Identity", "Softmax"] {
        let mut graph = Graph::of_input(&[-1, 4]);
        chain(&mut graph, op, false, 60_000);
        match op {
            // The output is the input itself: a network without layers.
            "Identity" | "Neg" => drop(import_bytes(&graph.bytes(), "x")),
            _ => assert!(refused_soon(op, &graph).contains("deeper than 100")),
        }
    }
    for op in ["Add", "Mul", "Sub", "Maximum"] {
        let mut graph = Graph::of_input(&[-1, 4]);
        chain(&mut graph, op, true, 60_000);
        refused_soon(op, &graph);
        // The features of the output are split at the end, which visits every operand of every node once.
        let mut graph = Graph::of_input(&[-1, 4]);
        chain(&mut graph, op, true, 90);
        graph.ints("begin", &[2], &[0, 1]).ints("size", &[2], &[-1, 2]).node("end", "Slice", &["n90", "begin", "size"]);
        refused_soon(op, &graph);
    }
    // Features that double at each step by concatenation, after an activation that prevents the concatenations from
    // being merged.
    let mut graph = Graph::of_input(&[-1, 4]);
    graph.ints("axis", &[], &[1]);
    for k in 0..100 {
        let before = if k == 0 { "x".to_owned() } else { format!("t{}", k - 1) };
        graph.node(&format!("c{k}"), "ConcatV2", &[&before, &before, "axis"]);
        graph.node(&format!("t{k}"), "Tanh", &[&format!("c{k}")]);
    }
    assert!(refused_soon("Concat and Tanh", &graph).contains("features"));
    let mut graph = Graph::of_input(&[-1, 4]);
    graph.ints("axis", &[], &[1]).node("c0", "ConcatV2", &["x", "x", "axis"]);
    for k in 1..100 {
        let before = format!("c{}", k - 1);
        graph.node(&format!("c{k}"), "ConcatV2", &[&before, &before, "axis"]);
    }
    assert!(refused_soon("Concat", &graph).contains("joins more than"));
}

#[test]
fn unrolled_steps_that_share_their_operands_are_refused_quickly() {
    let mut graph = Graph::of_input(&[1, 8, 4]);
    graph.node("steps", "Unpack", &["x"]).with("axis", Attr::Int(1)).with("num", Attr::Int(8));
    let mut level: Vec<String> = (0..8).map(|step| format!("steps:{step}")).collect();
    for depth in 0..60 {
        for (step, before) in level.iter_mut().enumerate() {
            let name = format!("d{depth}_{step}");
            graph.node(&name, "Mul", &[before, before]);
            *before = name;
        }
    }
    let parts: Vec<&str> = level.iter().map(String::as_str).collect();
    graph.node("end", "Pack", &parts).with("axis", Attr::Int(1));
    let started = Instant::now();
    drop(import_bytes(&graph.bytes(), "x"));
    assert!(started.elapsed().as_secs_f32() < 20.0);
}

#[test]
fn cycles_and_endless_loops_are_refused() {
    let frame = || Attr::Bytes(b"f".to_vec());
    let mut graph = Graph::of_input(&[-1, 4]);
    graph.node("a", "Add", &["x", "b"]).node("b", "Tanh", &["a"]);
    assert!(refused_soon("cycle", &graph).contains("needs its own output"));
    // NextIteration does not excuse a cycle that passes through no loop.
    let mut graph = Graph::of_input(&[-1, 4]);
    graph.node("m", "Merge", &["x", "n"]).node("n", "NextIteration", &["m"]).node("end", "Tanh", &["n"]);
    refused_soon("a loop that is not entered", &graph);
    let turning = |graph: &mut Graph, condition: &str, plus: i32| {
        graph.ints("zero", &[], &[0]).ints("one", &[], &[plus]).ints("bound", &[], &[5]);
        graph.node("e", "Enter", &["zero"]).with("frame_name", frame());
        graph.node("m", "Merge", &["e", "next"]).node("less", "Less", &["m", condition]);
        graph.node("cond", "LoopCond", &["less"]).node("s", "Switch", &["m", "cond"]);
        graph.node("add", "Add", &["s:1", "one"]).node("next", "NextIteration", &["add"]);
        graph.node("exit", "Exit", &["s"]).node("shape", "Pack", &["exit", "exit"]);
        graph.floats("one_more", &[], &[1.0]).node("y", "Fill", &["shape", "one_more"]).node("end", "Add", &["x", "y"]);
    };
    for (condition, plus, expected) in [("bound", 0, "count up by 1"), ("bound", -1, "count up by 1"), ("m", 1, "")] {
        let mut graph = Graph::of_input(&[-1, 4]);
        turning(&mut graph, condition, plus);
        assert!(refused_soon("a counter", &graph).contains(expected));
    }
}

#[test]
fn sizes_that_nothing_can_hold_are_not_trusted() {
    if ran_alone(concat!(module_path!(), "::sizes_that_nothing_can_hold_are_not_trusted")) {
        return;
    }
    let before = peak_bytes();
    // Many constants that state many values in few bytes.
    let mut graph = Graph::of_input(&[-1, 4]);
    for k in 0..1000 {
        graph.floats(&format!("c{k}"), &[4096, 4096], &[1.0]);
        let before = if k == 0 { "x".to_owned() } else { format!("m{}", k - 1) };
        graph.node(&format!("m{k}"), "MatMul", &[&before, &format!("c{k}")]);
    }
    assert!(refused_soon("constants", &graph).contains("far more weights than its file holds"));
    for dims in [[i64::MAX, 2], [-5, 4], [1 << 31, 1 << 33], [0, 4]] {
        let mut graph = Graph::of_input(&[-1, 4]);
        graph.floats("c", &dims, &[1.0]).node("end", "MatMul", &["x", "c"]);
        refused_soon("a constant", &graph);
        refused_soon("an input", Graph::of_input(&dims).node("end", "Tanh", &["x"]));
        let mut graph = Graph::of_input(&[-1, 4]);
        graph.ints("a", &[], &[i32::MAX]).node("b", "Mul", &["a", "a"]).node("c", "Mul", &["b", "b"]);
        graph.node("shape", "Pack", &["c", "c"]).floats("one", &[], &[1.0]).node("f", "Fill", &["shape", "one"]);
        refused_soon("a fill", graph.node("end", "Add", &["x", "f"]));
    }
    // Products near the numbers that stand for unknown dimensions.
    let mut graph = Graph::of_input(&[-1, 4]);
    graph.ints("n0", &[], &[-2]);
    for k in 1..63 {
        graph.node(&format!("n{k}"), "Mul", &[&format!("n{}", k - 1), "two"]);
    }
    graph.ints("two", &[], &[2]).node("shape", "Pack", &["n62", "n62"]).node("end", "Reshape", &["x", "shape"]);
    assert!(refused_soon("a product", &graph).contains("too large"));
    // An input with more features than an image can hold, multiplied by a number.
    let mut graph = Graph::of_input(&[1, 65_535, 65_535, 65_535]);
    graph.ints("flat", &[2], &[1, -1]).node("r", "Reshape", &["x", "flat"]).floats("c", &[2], &[1.0, 2.0]);
    refused_soon("features", graph.node("end", "Mul", &["r", "c"]));
    // Nodes with many outputs, and many edges of long vectors.
    let mut graph = Graph::of_input(&[-1, 65_535]);
    graph.ints("axis", &[], &[1]);
    for k in 0..2000 {
        graph.node(&format!("s{k}"), "Split", &["axis", "x"]).with("num_split", Attr::Int(65_535));
        graph.node(&format!("t{k}"), "Tanh", &[&format!("s{k}")]);
    }
    let ends: Vec<String> = (0..2000).map(|k| format!("t{k}")).collect();
    graph.node("end", "AddN", &ends.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(refused_soon("outputs", &graph).contains("too many outputs"));
    let mut graph = Graph::of_input(&[-1, 4]);
    let edges = vec!["v"; 200_000];
    graph.ints("v", &[65_535], &[1]).node("p", "Pack", &edges).node("end", "Reshape", &["x", "p"]);
    assert!(refused_soon("edges", &graph).contains("too many integers"));
    // One matrix shared by many layers.
    let mut graph = Graph::of_input(&[-1, 256]);
    graph.floats("w", &[256, 256], &vec![0.5; 256 * 256]);
    let layers: Vec<String> = (0..500).map(|k| format!("m{k}")).collect();
    for (k, layer) in layers.iter().enumerate() {
        graph.floats(&format!("b{k}"), &[], &[k as f32]).node(&format!("a{k}"), "Mul", &["x", &format!("b{k}")]);
        graph.node(&format!("t{k}"), "Sigmoid", &[&format!("a{k}")]);
        graph.node(layer, "MatMul", &[&format!("t{k}"), "w"]);
        graph.node(&format!("u{k}"), "Tanh", &[layer]);
    }
    for k in 0..20 {
        let ends: Vec<String> = (k * 25..(k + 1) * 25).map(|k| format!("u{k}")).collect();
        graph.node(&format!("s{k}"), "AddN", &ends.iter().map(String::as_str).collect::<Vec<_>>());
    }
    let ends: Vec<String> = (0..20).map(|k| format!("s{k}")).collect();
    graph.node("end", "AddN", &ends.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(refused_soon("layers", &graph).contains("far more weights than its file holds"));
    // The largest of these files has 1.5 MB.
    assert!(peak_bytes() - before < 1 << 29, "{} bytes more", peak_bytes() - before);
}

#[test]
fn a_function_call_is_refused_with_its_node() {
    let mut graph = Graph::of_input(&[-1, 4]);
    graph.node("call", "StatefulPartitionedCall", &["x"]).node("end", "Tanh", &["call"]);
    assert!(refused_soon("a call", &graph).contains("node 'call' has op StatefulPartitionedCall"));
}

#[test]
fn an_op_that_another_export_does_not_have_is_refused_with_that_export() {
    for (op, advice) in [
        ("StatelessWhile", "lower_control_flow=True"),
        ("PartitionedCall", "disable_control_flow_v2()"),
        ("Exit", "unroll=True"),
        ("Switch", "the training flag as a constant"),
        ("VarHandleOp", "freeze the graph"),
    ] {
        let mut graph = Graph::of_input(&[-1, 4]);
        graph.node("this", op, &["x", "x"]).node("end", "Tanh", &["this"]);
        let error = import_bytes(&graph.bytes(), "x.pb").expect_err("it must be refused");
        let (reason, found) = (error.to_string(), error.advice());
        assert!(reason.contains("'this'") && reason.contains(op) && found.contains(advice), "{reason}; {found}");
    }
}

#[test]
fn a_placeholder_of_unknown_rank_needs_a_shape_that_fits_the_graph() {
    let bytes = sample("of_unknown_rank");
    let import = |bytes: &[u8], shapes: &[(&str, &[usize])]| {
        let shapes = shapes.iter().map(|(name, shape)| ((*name).to_owned(), shape.to_vec())).collect();
        let onnx = Given { shapes, ..Given::default() };
        import_bytes_with(bytes, "x.pb", &Options { onnx, ..Options::default() }).map_err(|error| error.to_string())
    };
    let line = import(&bytes, &[]).unwrap_err();
    assert!(line.contains("'features'") && line.contains("--shape features=1,STEPS,FEATURES"), "{line}");
    // Graphs of the first versions have an empty shape for an unknown one.
    let mut nodes = graphdef::decode(&bytes).unwrap();
    for node in nodes.iter_mut().filter(|node| node.name == "features") {
        let Some(Attr::Shape(shape)) = node.attr.get_mut("shape").unwrap().value.as_mut() else { panic!() };
        assert!(std::mem::take(&mut shape.unknown_rank));
    }
    let empty = Graph { nodes }.bytes();
    assert!(import(&empty, &[]).unwrap_err().contains("--shape features=1,STEPS,FEATURES"));
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("frameworks/tf1_graph");
    let case = read_tensors(&folder.join("of_unknown_rank.safetensors")).unwrap();
    let shape = case["input"].shape.as_slice();
    let model = import(&bytes, &[("features", shape)]).unwrap().model;
    assert_eq!(import(&empty, &[("features", shape)]).unwrap().model, model);
    assert!(import(&bytes, &[("feature", shape)]).unwrap_err().contains("--shape of \"feature\""));
    assert!(import(&bytes, &[("features", &[1, 5, 1000])]).is_err());
    // A placeholder that no output needs.
    let mut nodes = graphdef::decode(&bytes).unwrap();
    let spare = nodes.iter().find(|node| node.name == "features").unwrap().clone();
    nodes.push(graphdef::NodeDef { name: "spare".into(), ..spare });
    let with_spare = Graph { nodes }.bytes();
    assert_eq!(import(&with_spare, &[("features", shape)]).unwrap().model, model);
    let line = import(&with_spare, &[("features", shape), ("spare", &[1, 2])]).unwrap_err();
    assert!(line.contains("--shape of \"spare\": no output depends"), "{line}");
    let line = import(&sample("dynamic_gru"), &[("features", &[1, 5, 1000])]).unwrap_err();
    assert!(line.contains("but --shape says [1, 5, 1000]"), "{line}");
}

#[test]
fn missing_information_about_steps_is_asked_for() {
    let refusal = |name: &str, window: Option<usize>| {
        let options = Options { window, ..Options::default() };
        import_bytes_with(&sample(name), "x.pb", &options).unwrap_err()
    };
    let error = refusal("bidirectional_open", None);
    assert!(matches!(error, ImportError::NeedsWindow { .. }), "{error}");
    assert_eq!(error.advice(), "give it with --window N");
    let error = refusal("dynamic_gru", Some(100)).to_string();
    assert!(error.contains("steps, but --window says 100"), "{error}");
    // Assumptions are reported.
    let imported = import_bytes_with(&sample("length_fed"), "x.pb", &Options::default()).unwrap();
    assert_eq!(imported.notes, ["\"length\" is taken as the length of sequences that are full"]);
    let imported = import_bytes_with(&sample("dropout_fed"), "x.pb", &Options::default()).unwrap();
    assert_eq!(imported.notes, ["\"keep_prob\" has its default"]);
}

/// A cell that has taken one step is part of a sequence only if this is the first step or the last one.
#[test]
fn a_single_step_in_the_middle_is_refused() {
    let mut nodes = graphdef::decode(&sample("static_bidirectional_last")).unwrap();
    let backward = nodes.iter_mut().filter(|node| node.name.contains("/bw/"));
    let moved = backward.flat_map(|node| &mut node.input).filter(|input| *input == "unstack:6");
    let moved = moved.map(|input| *input = "unstack:1".to_owned()).count();
    assert!(moved > 0, "the sample has other steps");
    let error = tf1::import_graph(&nodes, "x", &Options::default()).unwrap_err().to_string();
    assert!(error.contains("neither all at the first step nor all at the last"), "{error}");
}

/// Only a convolution reads zeros around a value, and blocks of positions must be joined again.
#[test]
fn zeros_that_no_convolution_reads_are_refused() {
    let padded = |zeros: [i32; 2], block: i32, crops: [i32; 2]| {
        let mut graph = Graph::of_input(&[1, 8, 4]);
        graph.ints("zeros", &[3, 2], &[0, 0, zeros[0], zeros[1], 0, 0]).node("padded", "Pad", &["x", "zeros"]);
        graph.ints("block", &[1], &[block]).ints("none", &[1, 2], &[0, 0]).ints("crops", &[1, 2], &crops);
        graph.node("split", "SpaceToBatchND", &["padded", "block", "none"]);
        graph.ints("one", &[], &[1]).node("image", "ExpandDims", &["split", "one"]);
        graph.floats("weights", &[1, 3, 4, 1], &[0.5; 12]);
        let list = |list: &[i64]| Attr::List(graphdef::ListValue { i: list.to_vec() });
        graph.node("conv", "Conv2D", &["image", "weights"]).with("padding", Attr::Bytes(b"VALID".to_vec()));
        graph.with("strides", list(&[1, 1, 1, 1]));
        graph.node("steps", "Squeeze", &["conv"]).with("squeeze_dims", list(&[1]));
        graph.node("joined", "BatchToSpaceND", &["steps", "block", "crops"]);
        graph
    };
    assert!(import_bytes(&padded([4, 0], 2, [0, 0]).bytes(), "x").is_ok());
    for (what, zeros, block, crops, reason) in [
        ("zeros beyond the kernel", [5, 0], 2, [0, 0], "it is padded by more than its kernel reaches"),
        ("many zeros", [i32::MAX, i32::MAX], 2, [0, 0], "numbers from 0 to 65535"),
        ("negative zeros", [-1, 0], 2, [0, 0], "numbers from 0 to 65535"),
        ("a great block", [4, 0], i32::MAX, [0, 0], "its blocks must be sizes"),
        ("no block", [4, 0], 0, [0, 0], "its blocks must be sizes"),
        ("crops of the values", [4, 0], 2, [0, 1], "its crops are larger than the paddings"),
    ] {
        let line = refused_soon(what, &padded(zeros, block, crops));
        assert!(line.contains(reason), "{what}: {line}");
    }
    // Without a zero, a value can be read by any op.
    let mut graph = padded([0, 0], 2, [0, 0]);
    graph.node("end", "Tanh", &["padded"]);
    assert!(import_bytes(&graph.bytes(), "x").is_ok());
    for (op, input) in [("Tanh", "padded"), ("Tanh", "split"), ("Tanh", "conv")] {
        let mut graph = padded([4, 0], 2, [0, 0]);
        graph.node("end", op, &[input]);
        let line = refused_soon(op, &graph);
        assert!(line.contains("zeros around a value must be read by a convolution"), "{input}: {line}");
    }
    let mut graph = padded([4, 0], 2, [0, 0]);
    graph.ints("blocks", &[1], &[3]).node("end", "BatchToSpaceND", &["steps", "blocks", "crops"]);
    assert!(refused_soon("other blocks", &graph).contains("its blocks are not those of SpaceToBatchND"));
}

/// A `sequence_length` shorter than the sequence, and dropout that is active, change the result.
#[test]
fn sequences_that_end_early_and_active_dropout_are_refused() {
    let changed = |name: &str, node: &str, change: fn(&mut graphdef::TensorProto)| {
        let mut nodes = graphdef::decode(&sample(name)).unwrap();
        let node = nodes.iter_mut().find(|found| found.name == node).unwrap();
        let Some(Attr::Tensor(proto)) = node.attr.get_mut("value").unwrap().value.as_mut() else { panic!() };
        change(proto);
        refusal(&Graph { nodes }.bytes())
    };
    let two = |proto: &mut graphdef::TensorProto| {
        proto.tensor_content.clear();
        proto.int_val = vec![2];
    };
    let line = changed("length_constant", "rnn/Cast/x", two);
    assert!(line.contains("does not run over all steps"), "{line}");
    let line = changed("length_static_constant", "Const", two);
    assert!(line.contains("steps"), "{line}");
    let half = |proto: &mut graphdef::TensorProto| {
        proto.tensor_content.clear();
        proto.float_val = vec![0.5];
    };
    let line = changed("dropout_fed", "keep_prob/input", half);
    assert!(line.contains("drops features at random"), "{line}");
}

/// Samples that seed the fuzz target: small files of every kind of file and layer.
const SEEDS: [(&str, u8); 13] = [
    ("block_lstm_peephole", 0),
    ("gru_block_cell_unrolled", 0),
    ("dynamic_basic_rnn_relu_last", 0),
    ("dynamic_basic_rnn", 1),
    ("static_split", 0),
    ("conv_1d_same", 0),
    ("lstm_block_cell", 0),
    ("flattened", 0),
    ("conv_image", 0),
    ("depthwise_conv", 0),
    ("dynamic_lstm_projection_clips", 0),
    ("length_fed_open", 1),
    ("tf2_keras3_simple", 0),
];

/// Each seed is a byte of flags, then the graph reduced to few bytes.
fn corpus() -> Corpus {
    let seed = |&(name, flags): &(&str, u8)| {
        let graph = Graph { nodes: graphdef::decode(&sample(name)).unwrap() }.small();
        (name.to_owned(), [&[flags], &*graph.bytes()].concat())
    };
    Corpus { target: "import_graph", seeds: SEEDS.iter().map(seed).collect() }
}

#[test]
fn the_corpus_of_import_graph_passes() {
    corpus().passes(1, import_graph);
}

#[test]
#[ignore = "records the digests of the seeds and writes the seeds to target/fuzz"]
fn regenerate() {
    corpus().regenerate();
}
