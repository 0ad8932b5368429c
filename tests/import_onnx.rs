//! ONNX: outputs of the package's own node tests and of ONNX Runtime, and damaged and malicious files.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use prost::Message;
use safetensors::SafeTensors;
use tidegate::Numeric;
use tidegate_model::backend::Engine;
use tidegate_model::canonical::Tensor;
use tidegate_model::data::read_tensors;
use tidegate_model::error::ImportError;
use tidegate_model::format::onnx::proto::{
    AttributeProto, DimProto, GraphProto, ModelProto, NodeProto, OperatorSetId, ShapeProto, TensorProto, TensorType,
    TypeProto, ValueInfo,
};
use tidegate_model::format::onnx::{Given, open};
use tidegate_model::format::{Imported, Options};
use tidegate_tests::corpus::Corpus;
use tidegate_tests::data;
use tidegate_tests::fuzz_import::import_onnx;
use tidegate_tests::images::AlignedBytes;
use tidegate_tests::import::{self, ALONE, damaged, sample};
use tidegate_tests::memory::{peak_bytes, ran_alone};
use tidegate_tests::tolerance::{self, worse, worst};

type Tensors = BTreeMap<String, Tensor>;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("frameworks/onnx")
}

fn file(name: &str) -> Vec<u8> {
    sample(&format!("onnx/{name}.onnx"))
}

fn import(bytes: &[u8], options: &Options) -> Result<Imported, ImportError> {
    open(bytes, "x.onnx", options).map(|(imported, _)| imported)
}

/// The metadata of a case.
fn metadata(path: &Path) -> HashMap<String, String> {
    let bytes = fs::read(path).unwrap();
    SafeTensors::read_metadata(&bytes).unwrap().1.metadata().clone().unwrap_or_default()
}

/// The largest difference of a model's outputs, as a fraction of the tolerance. The tolerance is `tolerance`, times the
/// largest value if that exceeds 1.
fn off(model: &Path, inputs: &Tensors, expected: &Tensors, tolerance: f32) -> f32 {
    let name = model.display();
    let folder = model.parent().map(Path::to_owned);
    let onnx = Given { offered: inputs.clone(), folder, ..Given::NONE };
    let options = Options { onnx, ..Options::default() };
    let (imported, interface) =
        open(&fs::read(model).unwrap(), "x.onnx", &options).unwrap_or_else(|error| panic!("{name}: {error}"));
    let image = AlignedBytes::pack(&imported.model, Numeric::F32);
    let outputs =
        interface.run(&Engine::from(&image.model()), inputs).unwrap_or_else(|error| panic!("{name}: {error}"));
    let mut worst = 0.0_f32;
    for (output, expected) in expected {
        let got = &outputs[output];
        assert_eq!(got.shape, expected.shape, "{name}: {output}");
        let scale = worse(1.0, tolerance::worst(expected.data.iter().map(|value| value.abs())));
        for (a, b) in got.data.iter().zip(&expected.data) {
            let part = (a - b).abs() / (tolerance * scale);
            assert!(!part.is_nan(), "{name}: {output}");
            worst = worse(worst, part);
        }
    }
    worst
}

fn cases() -> Vec<PathBuf> {
    let files = fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
    let mut cases: Vec<PathBuf> = files.filter(|path| path.extension().is_some_and(|end| end == "onnx")).collect();
    cases.sort();
    cases
}

#[test]
fn every_case_computes_the_outputs_that_onnx_states() {
    let (mut nodes, mut worst) = (0, 0.0_f32);
    for path in cases() {
        let beside = |end: &str| path.with_extension(format!("{end}.safetensors"));
        let (inputs, outputs) = (read_tensors(&beside("in")).unwrap(), read_tensors(&beside("out")).unwrap());
        let part = off(&path, &inputs, &outputs, metadata(&beside("out"))["tolerance"].parse().unwrap());
        assert!(part <= 1.0, "{}: {part} of the tolerance", path.display());
        worst = worse(worst, part);
        nodes += usize::from(path.file_name().unwrap().to_string_lossy().starts_with("node_"));
    }
    println!("{} cases, {nodes} of them node tests of ONNX; at most {worst:.3} of the tolerance", cases().len());
    assert_eq!(nodes, 18);
    assert!(cases().len() > 40);
}

#[test]
fn the_golden_models_compute_the_outputs_of_onnx_runtime() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/onnx");
    let mut count = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|end| end != "onnx") {
            continue;
        }
        let beside = path.with_extension("safetensors");
        let (tensors, about) = (read_tensors(&beside).unwrap(), metadata(&beside));
        let named = |key: &str| -> Tensors {
            let names: Vec<String> = serde_json::from_str(&about[key]).unwrap();
            names.into_iter().map(|name| (name.clone(), tensors[&name].clone())).collect()
        };
        let part = off(&path, &named("input_names"), &named("output_names"), about["tolerance"].parse().unwrap());
        println!("{}: {part:.3} of the tolerance", path.display());
        assert!(part <= 1.0, "{}", path.display());
        count += 1;
    }
    assert_eq!(count, 12);
}

/// A stream of chunks of 512 samples, each with the 64 samples before it.
#[test]
fn silero_matches_onnx_runtime() {
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../assets/silero_vad/silero_vad_16k_op15.onnx");
    let bytes = fs::read(shipped).unwrap();
    let shapes = [("input".to_owned(), vec![1, 576])].into();
    let options = Options { onnx: Given { shapes, ..Given::NONE }, ..Options::default() };
    let (imported, interface) = open(&bytes, "silero_vad.onnx", &options).unwrap();
    let mut sound = hound::WavReader::open(data::file("silero_vad/test.wav")).unwrap();
    let samples: Vec<f32> = sound.samples::<i16>().map(|sample| f32::from(sample.unwrap()) / 32768.0).collect();
    let expected = &read_tensors(&data::file("silero_vad/reference.safetensors")).unwrap()["prob"];
    let (chunks, mut data) = (expected.data.len(), vec![0.0; 64]);
    assert_eq!(chunks, samples.len() / 512);
    data.extend(samples);
    let data: Vec<f32> = (0..chunks).flat_map(|chunk| data[512 * chunk..512 * chunk + 576].to_vec()).collect();
    let inputs = [("input".to_owned(), Tensor { shape: vec![chunks, 1, 576], data })].into();
    let image = AlignedBytes::pack(&imported.model, Numeric::F32);
    let outputs = interface.run(&Engine::from(&image.model()), &inputs).unwrap();
    assert_eq!(outputs["output"].shape, [chunks, 1, 1]);
    let off = outputs["output"].data.iter().zip(&expected.data).map(|(p, expected)| (p - expected).abs());
    let worst = worst(off);
    println!("{chunks} chunks, at most {worst:e} off; an image of {} bytes", image.get().len());
    assert!(worst <= 1e-4, "{worst:e}");
}

const SMALL: [&str; 3] = ["random_0", "random_5", "node_lstm_with_peepholes"];

fn offered(name: &str) -> Options {
    let offered = read_tensors(&folder().join(format!("{name}.in.safetensors"))).unwrap();
    Options { onnx: Given { offered, ..Given::NONE }, ..Options::default() }
}

#[test]
fn every_prefix_of_a_file_is_refused_or_a_model() {
    for name in SMALL {
        let (bytes, options) = (file(name), offered(name));
        import(&bytes, &options).unwrap_or_else(|error| panic!("{name}: {error}"));
        for end in 0..bytes.len() {
            if let Err(error) = import(&bytes[..end], &options) {
                import::line(&error, 4096);
            }
        }
    }
}

#[test]
fn a_damaged_byte_is_refused_or_gives_a_model() {
    for name in SMALL {
        let options = offered(name);
        damaged(name, 5, &file(name), |bytes| import(bytes, &options));
    }
}

/// A port of a graph; a size of 0 is unknown.
fn info(name: &str, dims: &[i64]) -> ValueInfo {
    let dim = |&size: &i64| DimProto { value: (size != 0).then_some(size), ..DimProto::default() };
    let shape = ShapeProto { dim: dims.iter().map(dim).collect() };
    let tensor = TensorType { elem_type: 1, shape: Some(shape) };
    ValueInfo { name: name.into(), of: Some(TypeProto { tensor: Some(tensor) }) }
}

fn floats(name: &str, dims: &[i64]) -> TensorProto {
    let count = dims.iter().product::<i64>() as usize;
    let raw_data = (0..count).flat_map(|k| (0.01 * (k % 7) as f32).to_le_bytes()).collect();
    TensorProto { dims: dims.to_vec(), data_type: 1, raw_data, name: name.into(), ..Default::default() }
}

/// An LSTM over X [5, 1, 3], with 4 units.
fn lstm() -> ModelProto {
    let node = NodeProto {
        input: ["X", "W", "R", "B"].map(String::from).to_vec(),
        output: ["Y", "Y_h", "Y_c"].map(String::from).to_vec(),
        name: "memory".into(),
        op_type: "LSTM".into(),
        ..NodeProto::default()
    };
    let graph = GraphProto {
        node: vec![node],
        initializer: vec![floats("W", &[1, 16, 3]), floats("R", &[1, 16, 4]), floats("B", &[1, 32])],
        input: vec![info("X", &[5, 1, 3])],
        output: vec![info("Y", &[5, 1, 1, 4])],
        ..GraphProto::default()
    };
    let opset_import = vec![OperatorSetId { domain: String::new(), version: 14 }];
    ModelProto { graph: Some(graph), opset_import, ..ModelProto::default() }
}

fn int(name: &str, i: i64) -> AttributeProto {
    AttributeProto { name: name.into(), i, kind: 2, ..AttributeProto::default() }
}

fn text(name: &str, s: &str) -> AttributeProto {
    AttributeProto { name: name.into(), s: s.into(), kind: 3, ..AttributeProto::default() }
}

fn texts(name: &str, all: &[&str]) -> AttributeProto {
    AttributeProto {
        name: name.into(),
        strings: all.iter().map(|&s| s.into()).collect(),
        kind: 8,
        ..AttributeProto::default()
    }
}

fn numbers(name: &str, floats: &[f32]) -> AttributeProto {
    AttributeProto { name: name.into(), floats: floats.to_vec(), kind: 6, ..AttributeProto::default() }
}

fn changed(change: impl FnOnce(&mut ModelProto)) -> Vec<u8> {
    let mut model = lstm();
    change(&mut model);
    encoded(&model)
}

/// The bytes of a file. Field 1 is the version of the file format, which the importer does not read.
fn encoded(model: &ModelProto) -> Vec<u8> {
    [[1 << 3, 8].as_slice(), &model.encode_to_vec()].concat()
}

/// The LSTM with another attribute.
fn with(attribute: AttributeProto) -> Vec<u8> {
    changed(|model| model.graph.as_mut().unwrap().node[0].attribute.push(attribute))
}

fn graph(change: impl FnOnce(&mut GraphProto)) -> Vec<u8> {
    changed(|model| change(model.graph.as_mut().unwrap()))
}

#[track_caller]
fn refused(bytes: &[u8], options: &Options, reason: &str) {
    let line = import::line(&import(bytes, options).expect_err("it must be refused"), 2048);
    assert!(line.contains(reason), "{reason:?} is not in: {line}");
}

#[test]
fn unsupported_features_are_refused_by_name() {
    import(&encoded(&lstm()), &ALONE).unwrap();
    for (bytes, reason) in [
        (with(text("direction", "sideways")), r#"node 'memory' (op LSTM): attribute direction = "sideways""#),
        (with(int("layout", 2)), "attribute layout = 2"),
        (with(int("input_forget", 2)), "attribute input_forget = 2"),
        (with(int("linear_before_reset", 1)), "attribute linear_before_reset of LSTM"),
        (with(int("hidden_size", 5)), "attribute hidden_size = 5, but R has 4 columns"),
        (with(int("projection", 5)), "attribute projection is not known"),
        (with(text("hidden_size", "5")), "attribute hidden_size has a different type"),
        (
            with(AttributeProto { name: "clip".into(), f: -1.0, kind: 1, ..AttributeProto::default() }),
            "attribute clip = -1",
        ),
        (with(texts("activations", &["Sigmoid", "Tanh"])), "attribute activations names 2, but 3 are needed"),
        (with(texts("activations", &["Sigmoid", "Mish", "Tanh"])), r#"activation "Mish""#),
        (with(texts("activations", &["Sigmoid", "Affine", "Tanh"])), "activation Affine without its alpha or beta"),
        (with(numbers("activation_alpha", &[0.5])), "more alphas or betas than its activations need"),
        (graph(|graph| graph.node[0].op_type = "LSTMCell".into()), "node 'memory' has op LSTMCell"),
        (graph(|graph| graph.node[0].domain = "com.example".into()), "op com.example.LSTM"),
        (graph(|graph| graph.node[0].input[0] = "Z".into()), r#"its input "Z" is not computed by any node"#),
        (graph(|graph| graph.node[0].input[0] = String::new()), "it needs X, W and R"),
        (graph(|graph| graph.input[0] = info("X", &[5, 1, 2])), "W is [1, 16, 3], but [1, 16, 2] is needed"),
        (graph(|graph| graph.initializer[1] = floats("R", &[1, 12, 4])), "R is [1, 12, 4], but [1, 16, 4]"),
        (graph(|graph| graph.initializer[2] = floats("B", &[1, 16])), "B is [1, 16], but [1, 32] is needed"),
        (graph(|graph| graph.initializer[0].data_location = 1), "its values are in another file"),
        (graph(|graph| graph.initializer[0].data_type = 8), "its element type is 8"),
        (graph(|graph| graph.initializer[0].dims[1] = 17), "its shape needs 204 bytes, but it holds 192"),
        (graph(|graph| graph.initializer[0].dims[0] = 1 << 40), "elements"),
        (graph(|graph| graph.output[0].name = "Z".into()), r#"output "Z" is not computed by any node"#),
        (graph(|graph| graph.output[0] = info("Y_c", &[1, 1, 4])), "its only output is Y_c"),
        (graph(|graph| graph.output.clear()), "it has no output"),
        (changed(|model| model.opset_import[0].version = 6), "version 6 (opset)"),
        // docs/onnx.md names the range.
        (changed(|model| model.opset_import[0].version = 29), "version 29 (opset)"),
        (changed(|model| model.graph = None), "it has no graph"),
    ] {
        refused(&bytes, &ALONE, reason);
    }
    refused(&encoded(&lstm()), &import::described(r#"{"inputs": [], "layers": []}"#), "--arch");
    let begins = graph(|graph| {
        graph.node[0].input.extend(["".into(), "H".into()]);
        let (input, output) = (vec!["Z".into()], vec!["H".into()]);
        graph.node.insert(0, NodeProto { input, output, op_type: "Relu".into(), ..NodeProto::default() });
        graph.input.push(info("Z", &[1, 1, 4]));
    });
    refused(&begins, &ALONE, "its initial state must be known or an input of the graph");
    let weight = graph(|graph| {
        graph.input.push(info("W", &[1, 16, 3]));
        graph.initializer.remove(0);
    });
    refused(&weight, &ALONE, r#"input "W" is a weight"#);
    let backwards = graph(|graph| {
        graph.input[0] = info("X", &[0, 1, 3]);
        graph.node[0].attribute.push(text("direction", "reverse"));
    });
    refused(&backwards, &ALONE, "needs the whole sequence");
    import(&backwards, &Options { window: Some(6), ..Options::default() }).unwrap();
    let shape = Given { shapes: [("X".to_owned(), vec![6, 1, 4])].into(), ..Given::NONE };
    refused(&backwards, &Options { onnx: shape, ..Options::default() }, r#"input "X" is [?, 1, 3], not [6, 1, 4]"#);
    let shape = Given { shapes: [("Z".to_owned(), vec![6])].into(), ..Given::NONE };
    refused(&encoded(&lstm()), &Options { onnx: shape, ..Options::default() }, r#"--shape of "Z""#);
}

/// A loop of tf2onnx with a part of it changed.
#[test]
fn loops_of_other_forms_are_refused_with_the_reason() {
    let changed = |change: fn(&mut GraphProto)| {
        let mut model = ModelProto::decode(&*file("keras_gru")).unwrap();
        change(model.graph.as_mut().unwrap());
        encoded(&model)
    };
    fn body(graph: &mut GraphProto) -> &mut GraphProto {
        let node = graph.node.iter_mut().find(|node| node.op_type == "Loop").unwrap();
        node.attribute[0].g.as_mut().unwrap()
    }
    fn set(graph: &mut GraphProto, data_type: i32, old: &[u8], new: &[u8]) {
        let of = |tensor: &&mut TensorProto| tensor.data_type == data_type && tensor.raw_data == old;
        graph.initializer.iter_mut().find(of).unwrap().raw_data = new.to_vec();
    }
    let is_not_changed = import(&changed(|_| {}), &ALONE);
    assert!(is_not_changed.is_ok(), "{:?}", is_not_changed.err());
    let steps = changed(|graph| set(graph, 7, &7_i64.to_le_bytes(), &5_i64.to_le_bytes()));
    refused(&steps, &ALONE, "it has 5 steps over a sequence of 7");
    let start = changed(|graph| set(graph, 1, &0_f32.to_le_bytes(), &1_f32.to_le_bytes()));
    refused(&start, &ALONE, "does not start from zero");
    let counter = changed(|graph| set(body(graph), 6, &1_i32.to_le_bytes(), &0_i32.to_le_bytes()));
    refused(&counter, &ALONE, "is no counter");
    let other = |from: &'static str, to: &'static str| {
        let mut model = ModelProto::decode(&*file("keras_gru")).unwrap();
        let nodes = &mut body(model.graph.as_mut().unwrap()).node;
        nodes.iter_mut().filter(|node| node.op_type == from).for_each(|node| node.op_type = to.into());
        encoded(&model)
    };
    refused(&other("Tanh", "Floor"), &ALONE, "it is not supported in a recurrent cell");
    refused(&other("Less", "Equal"), &ALONE, "in its body");
    refused(&other("Sub", "Add"), &ALONE, "no known cell");
    let fraction = changed(|graph| {
        let step = body(graph).initializer.iter_mut().find(|tensor| tensor.data_type == 6).unwrap();
        (step.data_type, step.raw_data) = (1, 1.5_f32.to_le_bytes().to_vec());
    });
    refused(&fraction, &ALONE, "it reads something else than rows");
    let foreign = changed(|graph| {
        let node = body(graph).node.iter_mut().find(|node| node.op_type == "Tanh").unwrap();
        node.domain = "com.microsoft".into();
    });
    refused(&foreign, &ALONE, "it is not supported in a recurrent cell");
    let shorter = changed(|graph| drop(body(graph).output.pop()));
    refused(&shorter, &ALONE, "another number of inputs or outputs");
}

#[test]
fn large_and_deep_files_are_refused_quickly_in_little_memory() {
    if ran_alone(concat!(module_path!(), "::large_and_deep_files_are_refused_quickly_in_little_memory")) {
        return;
    }
    let nodes = graph(|graph| {
        graph.node = vec![NodeProto::default(); 400_000];
    });
    let values = graph(|graph| {
        let node = |name: &str, input: String, op: &str| NodeProto {
            output: vec![name.into()],
            input: vec![input, "R".into()],
            op_type: op.into(),
            ..NodeProto::default()
        };
        let chain =
            (0..2000).map(|k| node(&format!("v{k}"), if k == 0 { "Y".into() } else { format!("v{}", k - 1) }, "Add"));
        graph.node.extend(chain.collect::<Vec<_>>());
        graph.output = vec![info("v1999", &[])];
    });
    let deep = graph(|graph| {
        let mut inner = GraphProto { output: vec![info("Y", &[])], ..GraphProto::default() };
        for _ in 0..40 {
            let branch = |name: &str| AttributeProto {
                name: name.into(),
                g: Some(Box::new(inner.clone())),
                kind: 5,
                ..AttributeProto::default()
            };
            let node = NodeProto {
                input: vec!["c".into()],
                output: vec!["Y".into()],
                op_type: "If".into(),
                attribute: vec![branch("then_branch")],
                ..NodeProto::default()
            };
            inner = GraphProto { node: vec![node], output: vec![info("Y", &[])], ..GraphProto::default() };
        }
        *graph = inner;
    });
    let shape = |size: i64| TensorProto {
        dims: vec![2],
        data_type: 7,
        int64_data: vec![size, size],
        name: "s".into(),
        ..Default::default()
    };
    let huge = graph(|graph| {
        graph.initializer.push(shape(1 << 30));
        graph.node.insert(
            0,
            NodeProto {
                input: vec!["s".into()],
                output: vec!["B".into()],
                op_type: "ConstantOfShape".into(),
                ..NodeProto::default()
            },
        );
        graph.initializer.remove(2);
    });
    let product = graph(|graph| {
        graph.initializer.push(shape(1 << 12));
        let node = |op: &str, input: &[&str], output: &str| NodeProto {
            input: input.iter().map(|&name| name.into()).collect(),
            output: vec![output.into()],
            op_type: op.into(),
            ..NodeProto::default()
        };
        let nodes = [node("ConstantOfShape", &["s"], "m"), node("MatMul", &["m", "m"], "B")];
        graph.node.splice(0..0, nodes);
        graph.initializer.remove(2);
    });
    let all =
        [("nodes", nodes), ("a chain", values), ("depth", deep), ("a size", huge), ("a constant product", product)];
    for (what, bytes) in all {
        let started = Instant::now();
        let error = import(&bytes, &ALONE).expect_err("it must be refused");
        let seconds = started.elapsed().as_secs_f32();
        println!("{what}: {} bytes, {seconds:.2} s: {error:.150}", bytes.len());
        import::line(&error, 2048);
        assert!(seconds < 10.0, "{what}: {seconds} s");
    }
    let peak = peak_bytes();
    assert!(peak < 4 << 30, "{peak} bytes of address space");
}

fn corpus() -> Corpus {
    let random = [0, 2, 3, 4, 5, 9, 12].map(|k| format!("random_{k}"));
    let networks = ["keywords", "chunks", "per_step"].map(|name| format!("network_{name}"));
    let seed = |name: &String| (format!("{name}_onnx"), [&[0], file(name).as_slice()].concat());
    let mut seeds: BTreeMap<String, Vec<u8>> = random.iter().chain(&networks).map(seed).collect();
    let others = ["stream_caches", "stream_written", "keras_gru"].map(str::to_owned);
    seeds.extend(others.iter().map(seed));
    seeds.insert("lstm_onnx".into(), [&[0], encoded(&lstm()).as_slice()].concat());
    Corpus { target: "import_onnx", seeds }
}

#[test]
fn the_corpus_of_import_onnx_passes() {
    corpus().passes(3, import_onnx);
}

#[test]
#[ignore = "records the digests of the seeds and writes the seeds to target/fuzz"]
fn regenerate() {
    corpus().regenerate();
}
