//! ONNX graphs with an integer input that selects one of their parts: the value is bound, and errors propose one.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use prost::Message;
use tidegate::Numeric;
use tidegate_model::backend::Engine;
use tidegate_model::canonical::Tensor;
use tidegate_model::data::{read_audio_at, read_tensors};
use tidegate_model::format::onnx::proto::{
    AttributeProto, DimProto, GraphProto, ModelProto, NodeProto, OperatorSetId, ShapeProto, TensorProto, TensorType,
    TypeProto, ValueInfo,
};
use tidegate_model::format::onnx::{Given, open};
use tidegate_model::format::{Imported, Options};
use tidegate_model::load::{self, Settings};
use tidegate_tests::data;
use tidegate_tests::images::AlignedBytes;
use tidegate_tests::import::{self, ALONE};
use tidegate_tests::onnx;
use tidegate_tests::tolerance::worst;

type Tensors = BTreeMap<String, Tensor>;

const FLOAT: i32 = 1;
const INT64: i32 = 7;

fn info(name: &str, dims: &[i64], elem_type: i32) -> ValueInfo {
    let dim = dims.iter().map(|&size| DimProto { value: Some(size), ..DimProto::default() }).collect();
    let tensor = TensorType { elem_type, shape: Some(ShapeProto { dim }) };
    ValueInfo { name: name.into(), of: Some(TypeProto { tensor: Some(tensor) }) }
}

fn node(op: &str, input: &[&str], output: &str, attribute: Vec<AttributeProto>) -> NodeProto {
    let input = input.iter().map(|&name| name.to_owned()).collect();
    NodeProto {
        input,
        output: vec![output.into()],
        name: output.into(),
        op_type: op.into(),
        attribute,
        ..Default::default()
    }
}

/// y = 2 x if `rate` is compared with 16,000 by `op`, otherwise 3 x.
fn selected(op: &str, rank: usize) -> Vec<u8> {
    let number = |name: &str, data_type, int64_data, float_data| TensorProto {
        name: name.into(),
        data_type,
        int64_data,
        float_data,
        ..TensorProto::default()
    };
    let branch = |name: &str, factor: &str| {
        let output = vec![info("part", &[1, 3], FLOAT)];
        let graph =
            GraphProto { node: vec![node("Mul", &["x", factor], "part", vec![])], output, ..Default::default() };
        AttributeProto { name: name.into(), g: Some(Box::new(graph)), kind: 5, ..AttributeProto::default() }
    };
    let graph = GraphProto {
        node: vec![
            node(op, &["number", "rate"], "chosen", vec![]),
            node("If", &["chosen"], "y", vec![branch("then_branch", "two"), branch("else_branch", "three")]),
        ],
        initializer: vec![
            number("number", INT64, vec![16_000], vec![]),
            number("two", FLOAT, vec![], vec![2.0]),
            number("three", FLOAT, vec![], vec![3.0]),
        ],
        input: vec![info("x", &[1, 3], FLOAT), info("rate", &vec![1; rank], INT64)],
        output: vec![info("y", &[1, 3], FLOAT)],
        ..GraphProto::default()
    };
    let opset_import = vec![OperatorSetId { domain: String::new(), version: 17 }];
    let model = ModelProto { graph: Some(graph), opset_import, ..ModelProto::default() };
    [[1 << 3, 8].as_slice(), &model.encode_to_vec()].concat()
}

/// Options as of the command line.
fn bound(name: &str, value: &str) -> Options {
    let binds = vec![(name.to_owned(), PathBuf::from(value))];
    load::options(&Settings { binds, ..Settings::default() }).unwrap()
}

fn outputs(bytes: &[u8], options: &Options, inputs: &Tensors) -> (Imported, Tensors) {
    let (imported, interface) = open(bytes, "x.onnx", options).unwrap_or_else(|error| panic!("{error}"));
    let image = AlignedBytes::pack(&imported.model, Numeric::F32);
    let outputs = interface.run(&Engine::from(&image.model()), inputs).unwrap_or_else(|error| panic!("{error}"));
    (imported, outputs)
}

fn x() -> Tensors {
    [("x".to_owned(), Tensor { shape: vec![1, 3], data: vec![1.0, -0.5, 4.0] })].into()
}

#[test]
fn a_number_that_is_bound_selects_a_part_of_the_graph() {
    for (op, rank, rate, factor) in [
        ("Equal", 0, "16000", 2.0),
        ("Equal", 1, "16000", 2.0),
        ("Equal", 0, "8000", 3.0),
        ("Less", 0, "22050", 2.0),
        ("Greater", 1, "16e3", 3.0),
    ] {
        let (_, outputs) = outputs(&selected(op, rank), &bound("rate", rate), &x());
        assert_eq!(outputs["y"].data, [1.0, -0.5, 4.0].map(|x| factor * x), "{op} {rate}");
    }
}

#[test]
fn the_error_for_a_number_that_is_not_bound_proposes_one_that_works() {
    for op in ["Equal", "Less"] {
        let error = open(&selected(op, 0), "x.onnx", &ALONE).expect_err("it must be refused");
        let line = import::line(&error, 512);
        assert!(line.starts_with("input \"rate\" selects a part of the graph"), "{line}");
        let (name, value) = line.split_once("--bind ").unwrap().1.split_once(';').unwrap().0.split_once('=').unwrap();
        open(&selected(op, 0), "x.onnx", &bound(name, value)).unwrap();
    }
}

#[test]
fn a_number_among_the_inputs_selects_too() {
    let mut inputs = x();
    inputs.insert("rate".into(), Tensor { shape: vec![], data: vec![8_000.0] });
    let options = Options { onnx: Given { offered: inputs.clone(), ..Given::NONE }, ..ALONE };
    assert_eq!(outputs(&selected("Equal", 0), &options, &inputs).1["y"].data, [3.0, -1.5, 12.0]);
}

#[test]
fn a_file_may_have_the_name_of_a_number() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("16000");
    let error = |path: PathBuf| {
        let binds = vec![("rate".to_owned(), path)];
        load::options(&Settings { binds, ..Settings::default() }).unwrap_err().to_string()
    };
    assert!(error(file.clone()).contains("no such file"), "a path with folders is no number");
    fs::write(&file, "text").unwrap();
    assert!(error(file).contains("16000"));
}

#[test]
fn comparisons_of_constants_select_a_branch() {
    let branch = |name: &str, op: &str| {
        let output = vec![info("part", &[1, 3], FLOAT)];
        let graph = GraphProto { node: vec![node(op, &["x"], "part", vec![])], output, ..Default::default() };
        AttributeProto { name: name.into(), g: Some(Box::new(graph)), kind: 5, ..AttributeProto::default() }
    };
    let x = [-1.0, 0.5, 2.0];
    for (first, second, both, takes) in [
        ("Greater", "Less", "And", true),
        ("Greater", "Greater", "And", false),
        ("Greater", "Greater", "Or", true),
        ("LessOrEqual", "GreaterOrEqual", "Or", false),
    ] {
        let graph = GraphProto {
            node: vec![
                node(first, &["three", "two"], "first", vec![]),
                node(second, &["two", "three"], "second", vec![]),
                node(both, &["first", "second"], "both", vec![]),
                node("If", &["both"], "y", vec![branch("then_branch", "Relu"), branch("else_branch", "Neg")]),
            ],
            initializer: vec![onnx::floats("two", &[], vec![2.0]), onnx::floats("three", &[], vec![3.0])],
            input: vec![info("x", &[1, 3], FLOAT)],
            output: vec![info("y", &[1, 3], FLOAT)],
            ..GraphProto::default()
        };
        let input = Tensors::from([onnx::tensor("x", &[1, 3], x.to_vec())]);
        let (_, got) = onnx::outputs(&onnx::bytes(graph), &ALONE, &input);
        let expected = x.map(|x: f32| if takes { x.max(0.0) } else { -x });
        assert_eq!(got.unwrap()["y"].data, expected, "{first} {second} {both}");
    }
}

/// The inputs of Silero's exports, of which only the sound is read.
#[test]
fn the_chunks_of_silero_s_versions_are_assumed_by_their_inputs() {
    let open_port = |name: &str, dims: &[Option<i64>], elem_type: i32| {
        let dim = dims.iter().map(|&value| DimProto { value, ..DimProto::default() }).collect();
        let tensor = TensorType { elem_type, shape: Some(ShapeProto { dim }) };
        ValueInfo { name: name.into(), of: Some(TypeProto { tensor: Some(tensor) }) }
    };
    for (states, units, rate, samples) in [
        (&["state"][..], 128, Some(16_000), 576),
        (&["state"], 128, Some(8_000), 288),
        (&["state"], 128, None, 576),
        (&["h", "c"], 64, Some(16_000), 512),
        (&["h", "c"], 64, Some(8_000), 256),
    ] {
        let import = |units: i64, dims: &[Option<i64>], second: &str| {
            let mut input = vec![open_port("input", dims, FLOAT)];
            input.extend(rate.map(|_| open_port("sr", &[], INT64)));
            input.extend(states.iter().map(|state| open_port(state, &[Some(2), Some(1), Some(units)], FLOAT)));
            let node = ["output", second].map(|output| node("Relu", &["input"], output, vec![])).to_vec();
            let output = ["output", second].map(|output| info(output, &[1, samples], FLOAT)).to_vec();
            let options = rate.map_or(ALONE, |rate| bound("sr", &rate.to_string()));
            open(&onnx::bytes(GraphProto { node, input, output, ..GraphProto::default() }), "x.onnx", &options)
        };
        let (imported, _) = import(units, &[None, None], "stateN").unwrap();
        let note = format!("input \"input\" is assumed to be [1, {samples}]");
        assert!(imported.notes.iter().any(|of| of.contains(&note)), "{:?}", imported.notes);
        // Other networks with inputs of these names: another number of units, features, or no output for the state.
        import(100, &[None, None], "stateN").expect_err("its shape is open");
        import(units, &[None, None, Some(40)], "stateN").expect_err("its shape is open");
        if rate.is_none() {
            import(units, &[None, None], "other").expect_err("its shape is open");
        }
    }
}

/// Silero's current export, with both sample rates in one graph, over 12 s of noisy speech.
#[test]
fn the_current_export_of_silero_matches_onnx_runtime_at_both_rates() {
    if !data::is_whole() {
        println!("SKIP: the model is not in the repository; set TIDEGATE_DATA_DIR");
        return;
    }
    let bytes = fs::read(data::file("deployed/silero/silero_vad.onnx")).unwrap();
    let line = import::line(&open(&bytes, "silero_vad.onnx", &ALONE).expect_err("it must be refused"), 512);
    assert!(line.contains("--bind sr=16000"), "{line}");
    let reference = read_tensors(&data::file("deployed/reference.safetensors")).unwrap();
    let noisy = read_audio_at(&data::file("deployed/noisy.flac"), 16_000).unwrap().samples;
    let noisy: Vec<f32> = noisy.iter().map(|&sample| f32::from(sample) / 32_768.0).collect();
    for (rate, samples) in [(16_000, noisy.as_slice()), (8_000, &reference["silero/samples_8000"].data)] {
        let (chunk, before) = (rate / 1_000 * 32, rate / 1_000 * 4);
        let expected = &reference[&format!("silero/prob_{rate}")].data;
        let samples = [vec![0.0; before].as_slice(), samples].concat();
        let chunks: Vec<f32> = samples.windows(chunk + before).step_by(chunk).flatten().copied().collect();
        let shape = vec![chunks.len() / (chunk + before), 1, chunk + before];
        assert_eq!(shape[0], expected.len());
        let input = [("input".to_owned(), Tensor { shape, data: chunks })].into();
        let (imported, outputs) = outputs(&bytes, &bound("sr", &rate.to_string()), &input);
        assert!(imported.notes.iter().any(|note| note.contains("is assumed to be [1, ")), "{:?}", imported.notes);
        assert_eq!(outputs["output"].data.len(), expected.len());
        let most = worst(outputs["output"].data.iter().zip(expected).map(|(a, b)| (a - b).abs()));
        println!("{rate} Hz: {} chunks, at most {most:.1e} off", expected.len());
        assert!(most <= 1e-4, "{most:e}");
    }
}

/// DTLN's second network: a layer normalization and two LSTMs as operators, the states as an input and an output.
#[test]
fn the_second_network_of_dtln_matches_onnx_runtime_as_a_stream() {
    if !data::is_whole() {
        println!("SKIP: the model is not in the repository; set TIDEGATE_DATA_DIR");
        return;
    }
    let reference = read_tensors(&data::file("deployed/reference.safetensors")).unwrap();
    let rows = |name: &str, port: &str, size: usize| {
        let data = reference[name].data.clone();
        Tensors::from([(port.to_owned(), Tensor { shape: vec![1, data.len() / size, size], data })])
    };
    for (model, port, size, output, [given, expected], cells) in [
        ("model_1", "input_2", 257, "activation_2", ["dtln/mag", "dtln/mask"], &["lstm", "lstm", "dense"][..]),
        (
            "model_2",
            "input_4",
            512,
            "conv1d_3",
            ["dtln/block_in", "dtln/block_out"],
            &["dense", "layer_norm", "lstm", "lstm", "dense", "merge", "dense"],
        ),
    ] {
        let bytes = fs::read(data::file(&format!("deployed/dtln/{model}.onnx"))).unwrap();
        let (imported, outputs) = outputs(&bytes, &ALONE, &rows(given, port, size));
        let found: Vec<&str> = imported.model.architecture.nodes.iter().map(|node| node.cell.as_str()).collect();
        assert_eq!(found, cells, "{model}");
        let expected = &rows(expected, output, size)[output];
        assert_eq!(outputs[output].shape, expected.shape, "{model}");
        let most = worst(outputs[output].data.iter().zip(&expected.data).map(|(a, b)| (a - b).abs()));
        println!("{model}: at most {most:.1e} off");
        assert!(most <= 1e-5, "{model}: {most:e}");
    }
}
