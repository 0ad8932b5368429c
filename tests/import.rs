//! Importers: the shipped TensorFlow 1 graphs, refusals, and damaged files.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use tidegate::front_end::{First, MelCorners, Method, Spectrum, Window};
use tidegate_model::canonical::{Canonical, Detector, Mfcc, Schedule, Tensor};
use tidegate_model::error::{ImportError, ModelError};
use tidegate_model::format::graphdef::attr_value::Value as Attr;
use tidegate_model::format::graphdef::{self, AttrValue, NodeDef};
use tidegate_model::format::{Options, import, import_bytes, tf1};
use tidegate_tests::golden;

fn shipped(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../assets/hello_edge").join(name)
}

/// A random generator that is the same everywhere (xorshift64, Marsaglia 2003).
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end as u64) as usize
    }
}

#[test]
fn the_shipped_graphs_import_with_their_sizes() {
    // file, cell, [input, hidden, output], options, frames, every, stride
    type Row = (&'static str, &'static str, [usize; 3], &'static [&'static str], u32, u32, u32);
    let rows: [Row; 3] = [
        ("Basic_LSTM_S.pb", "lstm", [10, 118, 118], &[], 49, 12, 320),
        ("LSTM_S.pb", "lstm", [10, 144, 98], &["peephole", "projection"], 25, 6, 640),
        ("GRU_S.pb", "gru", [10, 154, 154], &[], 25, 6, 640),
    ];
    for (file, cell, sizes, options, frames, every, stride_len) in rows {
        let model = import(&shipped(file)).unwrap().architecture;
        let [rnn, dense, softmax] = &model.nodes[..] else { panic!("{file}: {:?}", model.nodes) };
        assert_eq!((rnn.cell.as_str(), [rnn.input_size, rnn.hidden_size, rnn.output_size]), (cell, sizes), "{file}");
        assert_eq!(rnn.options, options, "{file}");
        assert_eq!((dense.cell.as_str(), dense.output_size, softmax.cell.as_str()), ("dense", 12, "softmax"), "{file}");
        assert!(rnn.params.is_empty() && rnn.activations.is_empty() && dense.activations.is_empty(), "{file}");
        assert_eq!((model.inputs[0].name.as_str(), model.outputs[0].name.as_str()), ("Mfcc", "labels_softmax"));
        assert_eq!(model.schedule, Schedule::Windows { frames, every }, "{file}");
        let front_end = Mfcc {
            method: Method::Mfcc,
            sample_rate: 16_000,
            window_len: 640,
            stride_len,
            window: Window::Hann,
            fft_len: 1024,
            spectrum: Spectrum::Magnitude,
            mel_bands: 40,
            lower_hz: 20.0,
            upper_hz: 4000.0,
            bins_per_rate: None,
            corners: MelCorners::Exact,
            coefficients: 10,
            log_floor: 1e-12,
            first: First::Cepstrum,
            lead_frames: 0,
        };
        assert_eq!(model.front_end, Some(front_end), "{file}");
    }
}

/// A float constant by name.
fn constant(nodes: &[NodeDef], name: &str) -> Tensor {
    let node = nodes.iter().find(|node| node.name == name).unwrap();
    match node.attr["value"].value.as_ref().unwrap() {
        Attr::Tensor(proto) => proto.floats().unwrap(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn weights_are_placed_in_the_order_of_the_cell() {
    let file = shipped("Basic_LSTM_S.pb");
    let nodes = graphdef::decode(&fs::read(&file).unwrap()).unwrap();
    let model = import(&file).unwrap();
    let kernel = constant(&nodes, "lstm/rnn/basic_lstm_cell/kernel");
    let bias = constant(&nodes, "lstm/rnn/basic_lstm_cell/bias");
    let tensor = |name: &str| &model.tensors[name].data;
    // Canonical gates i, f, g, o are column blocks 0, 2, 1, 3 of the kernel. Its rows are 10 of x, then 118 of h.
    for (gate, block) in [0, 2, 1, 3].into_iter().enumerate() {
        for unit in [0, 1, 117] {
            let (row, col) = (gate * 118 + unit, block * 118 + unit);
            let forget_bias = if gate == 1 { 1.0 } else { 0.0 };
            assert_eq!(tensor("lstm.input_bias")[row], bias.data[col] + forget_bias);
            for k in [0, 9] {
                assert_eq!(tensor("lstm.input_weights")[row * 10 + k], kernel.data[k * 472 + col]);
            }
            for k in [0, 60, 117] {
                assert_eq!(tensor("lstm.recurrent_weights")[row * 118 + k], kernel.data[(10 + k) * 472 + col]);
            }
        }
    }
    let dense = constant(&nodes, "W_o");
    assert_eq!(tensor("dense.weights")[3 * 118 + 7], dense.data[7 * 12 + 3]);
}

#[test]
fn a_saved_model_reads_back_equal_and_saves_to_the_same_bytes() {
    for file in ["Basic_LSTM_S.pb", "LSTM_S.pb", "GRU_S.pb"] {
        let mut model = import(&shipped(file)).unwrap();
        let labels = fs::read_to_string(shipped("labels.txt")).unwrap();
        model.architecture.labels = labels.lines().map(str::to_owned).collect();
        model.architecture.detector = Some(Detector::default_for(&model.architecture.labels, 1000));
        let bytes = model.to_bytes().unwrap();
        let again = import_bytes(&bytes, file).unwrap();
        assert_eq!(again, model);
        assert_eq!(again.to_bytes().unwrap(), bytes);
    }
}

#[test]
fn unsupported_formats_are_named() {
    let refusal = |bytes: &[u8]| import_bytes(bytes, "x").unwrap_err().to_string();
    assert!(refusal(b"PK\x03\x04....").contains("zip archive"));
    assert!(refusal(b"\x1c\0\0\0TFL3....").contains("TFLite"));
    assert!(refusal(b"\x89HDF\r\n\x1a\n").contains("HDF5"));
    assert!(refusal(b"\x08\x07\x12\x07pytorch").contains("ONNX"));
    assert!(refusal(b"\x02\0\0\0\0\0\0\0{}").contains("its names show no layer"));
    assert!(matches!(import_bytes(b"", "x"), Err(ImportError::Refused { .. })));
    assert!(matches!(import(Path::new("/nowhere/x.pb")), Err(ImportError::Io(_))));
}

#[test]
fn an_unknown_op_is_refused_with_its_node() {
    let mut nodes = graphdef::decode(&fs::read(shipped("GRU_S.pb")).unwrap()).unwrap();
    node(&mut nodes, "Output-Layer/MatMul").op = "LRN".into();
    let name = node(&mut nodes, "Output-Layer/MatMul").name.clone();
    let message = tf1::import_graph(&nodes, "x", &Options::default()).unwrap_err().to_string();
    assert_eq!(message, format!("node '{name}' has op LRN, which this importer does not support"));
}

#[test]
fn a_convolution_before_cells_streams() {
    let model = import(&shipped("CRNN_S.pb")).unwrap().architecture;
    let nodes: Vec<_> = model.nodes.iter().map(|node| (node.name.as_str(), node.output_size)).collect();
    let expected =
        [("window", 100), ("conv", 192), ("gru", 60), ("gru_2", 60), ("dense", 84), ("dense_2", 12), ("softmax", 12)];
    assert_eq!(nodes, expected);
    assert_eq!((model.nodes[0].extents["length"], model.nodes[0].extents["hop"]), (10, 2));
    // The kernel of ten frames has a stride of two, so it never covers the last of the 49 frames.
    assert_eq!(model.schedule, Schedule::Windows { frames: 48, every: 12 });
    assert_eq!(model.front_end.unwrap().stride_len, 320);
}

#[test]
fn stacked_cells_and_dense_layers_with_activations_are_read() {
    let mut nodes = graphdef::decode(&fs::read(shipped("CRNN_S.pb")).unwrap()).unwrap();
    // CRNN_S without its convolution: two GRU cells, a dense layer with Relu, a dense layer.
    let conv = ["Conv2D", "add", "W", "W/read", "Variable", "Variable/read", "Mfcc", "AudioSpectrogram"];
    let front = ["decoded_sample_data", "wav_data", "Reshape", "Reshape/shape", "Reshape_1", "Reshape_1/shape"];
    nodes.retain(|node| !conv.contains(&node.name.as_str()) && !front.contains(&node.name.as_str()));
    let features = nodes.iter_mut().find(|node| node.name == "Relu").unwrap();
    features.op = "Placeholder".into();
    features.input.clear();
    let dim = [-1, 20, 4, 48].map(|size| graphdef::Dim { size }).to_vec();
    let shape = Attr::Shape(graphdef::TensorShape { dim, unknown_rank: false });
    features.attr = BTreeMap::from([
        ("dtype".into(), AttrValue { value: Some(Attr::Type(graphdef::FLOAT)) }),
        ("shape".into(), AttrValue { value: Some(shape) }),
    ]);
    let model = tf1::import_graph(&nodes, "x", &Options::default()).unwrap().model.architecture;
    let cells: Vec<_> = model.nodes.iter().map(|node| (node.name.as_str(), node.inputs[0].as_str())).collect();
    let expected =
        [("gru", "Relu"), ("gru_2", "gru"), ("dense", "gru_2"), ("dense_2", "dense"), ("softmax", "dense_2")];
    assert_eq!(cells, expected);
    assert_eq!(model.nodes[2].activations["activation"], "relu");
    assert!(model.nodes[3].activations.is_empty() && model.front_end.is_none());
}

/// Checks that a shipped graph with one change is refused with a message that contains `expected`.
fn refused(file: &str, expected: &str, change: impl FnOnce(&mut Vec<NodeDef>)) {
    let mut nodes = graphdef::decode(&fs::read(shipped(file)).unwrap()).unwrap();
    change(&mut nodes);
    let message = tf1::import_graph(&nodes, "x", &Options::default()).expect_err(expected).to_string();
    assert!(message.contains(expected), "{message:?} does not say {expected:?}");
    assert!(!message.contains('\n'), "{message:?}");
}

fn node<'a>(nodes: &'a mut [NodeDef], end: &str) -> &'a mut NodeDef {
    nodes.iter_mut().find(|node| node.name.ends_with(end)).unwrap()
}

fn set_ints(nodes: &mut [NodeDef], name: &str, ints: &[i32]) {
    let Some(Attr::Tensor(proto)) = node(nodes, name).attr.get_mut("value").unwrap().value.as_mut() else { panic!() };
    proto.tensor_content = Vec::new();
    proto.int_val = ints.to_vec();
}

fn set_float(nodes: &mut [NodeDef], name: &str, value: f32) {
    let Some(Attr::Tensor(proto)) = node(nodes, name).attr.get_mut("value").unwrap().value.as_mut() else { panic!() };
    proto.float_val = vec![value];
}

fn set_flag(nodes: &mut [NodeDef], name: &str, attr: &str, flag: bool) {
    node(nodes, name).attr.get_mut(attr).unwrap().value = Some(Attr::Bool(flag));
}

#[test]
fn every_operand_of_a_pattern_is_checked() {
    let gru = |expected, change: fn(&mut Vec<NodeDef>)| refused("GRU_S.pb", expected, change);
    gru("its axis is 0", |n| set_ints(n, "gru_cell/split/split_dim", &[0]));
    gru("its axis is 0", |n| set_ints(n, "gru_cell/concat_1/axis", &[0]));
    gru("matrix of 308 rows", |n| set_flag(n, "gru_cell/MatMul", "transpose_b", true));
    gru("transpose_a must be false", |n| set_flag(n, "gru_cell/MatMul", "transpose_a", true));
    gru("no known cell", |n| set_float(n, "gru_cell/sub/x", 2.0));
    gru("all steps in their order", |n| set_ints(n, "concat/values_0", &[0, 1]));
    gru("must be zeros", |n| set_float(n, "zeros/Const", 0.5));
    gru("must start at 0", |n| set_ints(n, "rnn/time", &[1]));
    gru("all steps in their order", |n| set_ints(n, "rnn/TensorArrayUnstack/range/start", &[1]));
    gru("the loop runs 0 times", |n| set_ints(n, "rnn/Shape", &[0, 1, 10]));
    gru("over all steps of its input", |n| set_ints(n, "rnn/Shape", &[24, 1, 10]));
    gru("all steps in their order", |n| set_ints(n, "Reshape_1/shape", &[-1, 10, 25]));
    gru("its shape does not fit", |n| {
        node(n, "AudioSpectrogram").attr.get_mut("stride").unwrap().value = Some(Attr::Int(320));
    });
    gru("magnitude_squared", |n| set_flag(n, "AudioSpectrogram", "magnitude_squared", false));
    gru("no known cell", |n| {
        let update = node(n, "gru_cell/mul_1");
        update.input[0] = update.input[0].replace(":1", "");
    });
    gru("two nodes are named", |n| n.push(n[0].clone()));
    gru("needs its own output", |n| node(n, "Output-Layer/MatMul").input[0] = "labels_softmax".into());
    gru("which does not exist", |n| node(n, "Output-Layer/MatMul").input[0] = "nothing".into());
    gru("has no output 7", |n| node(n, "gru_cell/mul_1").input[0] = "Mfcc:7".into());
    gru("has the name", |n| n[3].name.clear());
    gru("has the name", |n| n[3].name = "two\nlines".into());

    let lstm = |expected, change: fn(&mut Vec<NodeDef>)| refused("LSTM_S.pb", expected, change);
    lstm("no known cell", |n| {
        let cell = node(n, "while/Identity_2").name.clone();
        node(n, "lstm_cell/mul_4").input[1] = cell;
    });
    lstm("154 features by a matrix of 108 rows", |n| {
        let cell = node(n, "while/Identity_2").name.clone();
        let hidden = std::mem::replace(&mut node(n, "lstm_cell/concat").input[1], cell);
        node(n, "lstm_cell/concat").input.push(format!("^{hidden}"));
    });
    lstm("no known cell", |n| {
        node(n, "while/NextIteration_2").input[0] = "LSTM-Layer/lstm/rnn/while/Identity_2".into();
    });
}

/// Changes that the normal form can express are accepted: gates are the columns that the graph selects.
#[test]
fn gates_are_the_columns_that_the_graph_selects() {
    let file = shipped("GRU_S.pb");
    let mut nodes = graphdef::decode(&fs::read(&file).unwrap()).unwrap();
    // The reset gate reads the column of the update gate.
    node(&mut nodes, "gru_cell/mul").input[0].push_str(":1");
    let mut twin = node(&mut nodes, "labels_softmax").clone();
    twin.name = "another".into();
    nodes.push(twin);
    let model = tf1::import_graph(&nodes, "x", &Options::default()).unwrap().model;
    let weights = &model.tensors["gru.input_weights"].data;
    assert_eq!(weights[..1540], weights[1540..3080]);
    let outputs: Vec<_> =
        model.architecture.outputs.iter().map(|port| (port.name.as_str(), port.from.as_str())).collect();
    assert_eq!(outputs, [("labels_softmax", "softmax"), ("another", "softmax")]);
}

#[test]
fn clips_of_an_lstm_cell_are_imported() {
    let bytes = fs::read(shipped("LSTM_S.pb")).unwrap();
    let mut nodes = graphdef::decode(&bytes).unwrap();
    // c' and the projection are clipped as clip_by_value does: Maximum(Minimum(x, 3), -3).
    for (k, clipped) in ["lstm_cell/add_3", "lstm_cell/MatMul_1"].into_iter().enumerate() {
        let name = node(&mut nodes, clipped).name.clone();
        let mut inner = node(&mut nodes, clipped).clone();
        inner.name = format!("inner{k}");
        let limit = |suffix: &str, value: f32, nodes: &mut Vec<NodeDef>| {
            let mut limit = node(nodes, "lstm_cell/add/y").clone();
            limit.name = format!("{suffix}{k}");
            limit.input.clear();
            nodes.push(limit);
            set_float(nodes, &format!("{suffix}{k}"), value);
        };
        limit("high", 3.0, &mut nodes);
        limit("low", -3.0, &mut nodes);
        let minimum = NodeDef {
            name: format!("minimum{k}"),
            op: "Minimum".into(),
            input: vec![inner.name.clone(), format!("high{k}")],
            ..NodeDef::default()
        };
        let outer = node(&mut nodes, clipped);
        *outer = NodeDef {
            name,
            op: "Maximum".into(),
            input: vec![minimum.name.clone(), format!("low{k}")],
            ..NodeDef::default()
        };
        nodes.extend([inner, minimum]);
    }
    let model = tf1::import_graph(&nodes, "x", &Options::default()).unwrap().model;
    let params: Vec<(&str, f32)> =
        model.architecture.nodes[0].params.iter().map(|(name, value)| (name.as_str(), *value)).collect();
    assert_eq!(params, [("cell_clip", 3.0), ("projection_clip", 3.0)]);
}

#[test]
fn a_truncated_file_is_refused() {
    for file in ["Basic_LSTM_S.pb", "LSTM_S.pb", "GRU_S.pb"] {
        let bytes = fs::read(shipped(file)).unwrap();
        for end in (0..bytes.len()).step_by(1000) {
            assert!(import_bytes(&bytes[..end], file).is_err(), "{file} cut at {end}");
        }
        let model = import_bytes(&bytes, file).unwrap().to_bytes().unwrap();
        for end in (0..model.len()).step_by(1000) {
            assert!(import_bytes(&model[..end], file).is_err(), "canonical {file} cut at {end}");
        }
    }
}

#[test]
fn damaged_files_never_panic() {
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    for file in ["LSTM_S.pb", "GRU_S.pb"] {
        let bytes = fs::read(shipped(file)).unwrap();
        let canonical = import_bytes(&bytes, file).unwrap().to_bytes().unwrap();
        // Most bytes of both files are weights; the structure is in these first bytes.
        for (bytes, structure) in [(&bytes, 6000), (&canonical, 3000)] {
            for _ in 0..100 {
                let mut damaged = bytes.clone();
                for _ in 0..=random.below(3) {
                    let end = if random.below(4) == 0 { bytes.len() } else { structure };
                    damaged[random.below(end)] = random.below(256) as u8;
                }
                let _ = import_bytes(&damaged, file);
            }
        }
    }
    let nodes = graphdef::decode(&fs::read(shipped("LSTM_S.pb")).unwrap()).unwrap();
    for _ in 0..1000 {
        // Changes to edges and ops keep the structure valid where changes to bytes would not.
        let mut nodes = nodes.clone();
        let (a, b) = (random.below(nodes.len()), random.below(nodes.len()));
        match random.below(4) {
            0 => nodes[a].op = nodes[b].op.clone(),
            1 => nodes[a].input = nodes[b].input.clone(),
            2 => nodes[a].attr = nodes[b].attr.clone(),
            _ => {
                let to = nodes[b].name.clone();
                if let Some(input) = nodes[a].input.first_mut() {
                    *input = to;
                }
            }
        }
        if let Err(error) = tf1::import_graph(&nodes, "x", &Options::default()) {
            assert!(!error.to_string().contains('\n'), "{error}");
        }
    }
}

fn minimal() -> Canonical {
    import(&shipped("GRU_S.pb")).unwrap()
}

#[test]
fn a_model_that_does_not_fit_its_cells_is_refused_with_numbers() {
    let refused = |expected: &str, change: fn(&mut Canonical)| {
        let mut model = minimal();
        change(&mut model);
        let message = model.validate().expect_err(expected).to_string();
        assert!(message.contains(expected), "{message:?} does not say {expected:?}");
    };
    refused("gru.input_weights is 462 x 11, but a cell of 154 units over 10 features needs 462 x 10", |m| {
        m.tensors.get_mut("gru.input_weights").unwrap().shape[1] = 11;
    });
    refused("\"gru.recurrent_weights\" is missing", |m| drop(m.tensors.remove("gru.recurrent_weights")));
    refused("\"gru.more\" belongs to no node", |m| {
        drop(m.tensors.insert("gru.more".into(), Tensor { shape: vec![], data: vec![0.0] }));
    });
    refused("gru.input_bias holds NaN at 5", |m| m.tensors.get_mut("gru.input_bias").unwrap().data[5] = f32::NAN);
    refused("no cell \"grue\"", |m| m.architecture.nodes[0].cell = "grue".into());
    refused("no option \"peephole\"", |m| m.architecture.nodes[0].options.push("peephole".into()));
    refused("no parameter \"cell_clip\"", |m| {
        m.architecture.nodes[0].params.insert("cell_clip".into(), 1.0);
    });
    refused("activation \"snake\": there is no activation of this name", |m| {
        drop(m.architecture.nodes[0].activations.insert("new_activation".into(), "snake".into()));
    });
    refused("must be equal", |m| m.architecture.nodes[0].output_size = 153);
    refused("must be 1 to 1048576", |m| m.architecture.nodes[0].hidden_size = 1 << 40);
    refused("but its input_size is 10", |m| m.architecture.nodes[0].inputs.push("Mfcc".into()));
    refused("neither an input nor an earlier node", |m| m.architecture.nodes[0].inputs = vec!["dense".into()]);
    refused("named \"gru\"", |m| {
        m.architecture.inputs[0].name = "gru".into();
        m.architecture.nodes[0].inputs[0] = "gru".into();
    });
    refused("which does not exist", |m| m.architecture.outputs[0].from = "nothing".into());
    refused("there are 1 labels", |m| m.architecture.labels.push("yes".into()));
    refused("its every is 0", |m| m.architecture.schedule = Schedule::Windows { frames: 1, every: 0 });
    refused("1025 states in turn", |m| m.architecture.schedule = Schedule::Windows { frames: 1025, every: 1 });
    refused("its mean_of is 257, but must be 1 to 256", |m| {
        m.architecture.detector = Some(Detector { mean_of: 257, labels: vec![] });
    });
    refused("the detector has 1 labels", |m| {
        m.architecture.detector = Some(Detector::default_for(&["a".into()], 1000));
    });
    refused("gives 9 features", |m| m.architecture.front_end.as_mut().unwrap().coefficients = 9);
    assert!(matches!(Canonical::from_bytes(b"\x02\0\0\0\0\0\0\0{}"), Err(ModelError::NotCanonical)));
}

#[test]
fn unknown_arguments_and_tensors_are_refused_by_name() {
    let matrix = |rows: usize, cols: usize| Tensor { shape: vec![rows, cols], data: vec![0.5; rows * cols] };
    let vector = |len: usize| Tensor { shape: vec![len], data: vec![0.5; len] };
    let case = |cls: &str, args: &str, inputs: &str| {
        let tensors = BTreeMap::from([("rnn/kernel".to_owned(), matrix(5, 8)), ("rnn/bias".to_owned(), vector(8))]);
        let metadata: HashMap<String, String> = [
            ("family", "tf1"),
            ("cls", cls),
            ("constructor_args", args),
            ("param_names", r#"["rnn/kernel", "rnn/bias"]"#),
            ("input_names", inputs),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into();
        golden::from_case(&metadata, &tensors).map(|conversion| conversion.model)
    };
    let model =
        case("a.LSTMCell", r#"{"num_units": 2, "forget_bias": 2.5, "cell_clip": null}"#, r#"["input"]"#).unwrap();
    assert_eq!(model.architecture.nodes[0].input_size, 3);
    assert_eq!(model.tensors["lstm.input_bias"].data, [0.5, 0.5, 3.0, 3.0, 0.5, 0.5, 0.5, 0.5]);
    for (cls, args, inputs, expected) in [
        ("a.LSTMCell", r#"{"layer_norm": true}"#, r#"["input"]"#, "argument layer_norm = true"),
        ("a.LSTMCell", r#"{"activation": "snake"}"#, r#"["input"]"#, "argument activation = \"snake\""),
        ("a.LSTMCell", r#"{"cell_clip": 0.0}"#, r#"["input"]"#, "argument cell_clip = 0"),
        ("a.AttentionCell", "{}", r#"["input"]"#, "class \"AttentionCell\""),
        ("a.LSTMCell", "{}", r#"["input", "mask"]"#, "an input \"mask\""),
        ("a.LSTMCell", r#"{"use_peepholes": true}"#, r#"["input"]"#, "\"w_i_diag\" is missing"),
        ("a.GRUCell", "{}", r#"["input"]"#, "\"gates/kernel\" is missing"),
    ] {
        let message = case(cls, args, inputs).expect_err(expected).to_string();
        assert!(message.contains(expected), "{message:?} does not say {expected:?}");
    }
}

#[test]
fn a_network_of_cells_accepts_the_arguments_of_each() {
    let tensor = |shape: &[usize]| Tensor { shape: shape.to_vec(), data: vec![0.5; shape.iter().product()] };
    let kernels = [("rnn/cell_0/lstm_cell", [5, 8]), ("rnn/cell_1/lstm_cell", [6, 16])];
    let mut tensors = BTreeMap::from([("input".to_owned(), tensor(&[1, 4, 3]))]);
    for (name, [rows, cols]) in kernels {
        tensors.insert(format!("{name}/kernel"), tensor(&[rows, cols]));
        tensors.insert(format!("{name}/bias"), tensor(&[cols]));
    }
    let case = |args: &str| {
        let params: Vec<&String> = tensors.keys().filter(|name| name.starts_with("rnn")).collect();
        let metadata: HashMap<String, String> = [
            ("family", "tf1"),
            ("cls", "a.MultiRNNCell"),
            ("constructor_args", args),
            ("variable_prefix", "rnn/"),
            ("param_names", &format!("{params:?}")),
            ("input_names", r#"["input", "initial_cell_0_c"]"#),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into();
        golden::from_case(&metadata, &tensors)
    };
    let conversion = case(r#"{"cells": ["LSTMCell(2)", "BasicLSTMCell(4, state_is_tuple=False)"]}"#).unwrap();
    let nodes = conversion.model.architecture.nodes.iter();
    let sizes: Vec<_> = nodes.map(|node| (node.name.as_str(), node.input_size, node.hidden_size)).collect();
    assert_eq!(sizes, [("lstm", 3, 2), ("lstm_2", 2, 4)]);
    let places = conversion.states.iter();
    let places: Vec<_> =
        places.map(|part| (part.node.as_str(), part.state, part.at.tensor.as_str(), part.at.from)).collect();
    assert_eq!(
        places,
        [
            ("lstm", "hidden", "cell_0_h", 0),
            ("lstm", "cell_state", "cell_0_c", 0),
            ("lstm_2", "hidden", "cell_1", 4),
            ("lstm_2", "cell_state", "cell_1", 0),
        ]
    );
    for (args, expected) in [
        (r#"{"cells": ["LSTMCell(2)"]}"#, "tensor \"rnn/cell_1/lstm_cell/bias\" of MultiRNNCell"),
        (r#"{"cells": ["LSTMCell(2, layer_norm=True)"]}"#, "argument layer_norm = true"),
        (r#"{"cells": ["LSTMCell(3)"]}"#, "num_units = 3 with tensors of 2"),
        (r#"{"cells": ["ZoneoutWrapper(LSTMCell(2))"]}"#, "class \"ZoneoutWrapper\""),
        (r#"{"cells": ["LSTMCell(2"]}"#, "cell \"LSTMCell(2\""),
    ] {
        let message = case(args).expect_err(expected).to_string();
        assert!(message.contains(expected), "{message:?} does not say {expected:?}");
    }
}

#[test]
fn wrappers_contain_the_variants_of_an_lstm() {
    let cells = ["cell_0/layer_norm_lstm_cell", "cell_1/coupled_lstm_cell", "cell_2/wn/wn", "cell_3/basic_lstm_cell"];
    let [normalized, coupled, weights, basic] = cells;
    let mut tensors = BTreeMap::new();
    let mut give = |cell: &str, name: &str, shape: &[usize]| {
        let data = vec![0.5; shape.iter().product()];
        tensors.insert(format!("rnn/{cell}/{name}"), Tensor { shape: shape.to_vec(), data });
    };
    let scopes = ["input", "transform", "forget", "output", "state"];
    for (cell, scopes, units) in [(normalized, &scopes[..], 4), (coupled, &scopes[1..], 2), (basic, &scopes, 3)] {
        for scope in scopes {
            give(cell, &format!("{scope}/gamma"), &[units]);
            give(cell, &format!("{scope}/beta"), &[units]);
        }
    }
    for (cell, name, shape) in [
        (normalized, "kernel", [5, 16].as_slice()),
        // Saved, but not added.
        (normalized, "bias", &[16]),
        (normalized, "projection/kernel", &[4, 2]),
        (coupled, "W_0", &[2, 6]),
        (coupled, "W_1", &[2, 6]),
        (coupled, "B", &[6]),
        (coupled, "W_F_diag", &[2]),
        (coupled, "W_O_diag", &[2]),
        (weights, "kernel", &[3, 16]),
        (weights, "bias", &[16]),
        (weights, "norm_0", &[16]),
        (weights, "norm_1", &[16]),
        (weights, "projection/kernel", &[4, 1]),
        (weights, "projection/norm_0", &[1]),
        (basic, "kernel", &[4, 12]),
    ] {
        give(cell, name, shape);
    }
    tensors.insert("input".to_owned(), Tensor { shape: vec![1, 5, 3], data: vec![0.5; 15] });

    let params: Vec<&String> = tensors.keys().filter(|name| name.starts_with("rnn")).collect();
    let calls = [
        "DropoutWrapper(LayerNormLSTMCell(4, num_proj=2, layer_norm=True, cell_clip=0.5), output_keep_prob=0.5)",
        "ResidualWrapper(CoupledInputForgetGateLSTMCell(2, num_unit_shards=2, use_peepholes=True, layer_norm=True))",
        "WeightNormLSTMCell(4, num_proj=1, proj_clip=0.5)",
        "DeviceWrapper(LayerNormBasicLSTMCell(3, dropout_keep_prob=0.5), device='cpu')",
    ];
    let metadata: HashMap<String, String> = [
        ("family", "tf1"),
        ("cls", "a.MultiRNNCell"),
        ("constructor_args", &format!(r#"{{"cells": {calls:?}}}"#)),
        ("variable_prefix", "rnn/"),
        ("param_names", &format!("{params:?}")),
        ("input_names", r#"["input"]"#),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .into();
    let model = golden::from_case(&metadata, &tensors).unwrap().model;
    let nodes = model.architecture.nodes.iter();
    let found: Vec<_> = nodes.map(|node| (node.name.as_str(), node.output_size, node.options.join(" "))).collect();
    let expected = [
        ("lstm", 2, "projection gate_norm cell_norm"),
        ("lstm_2", 2, "peephole gate_norm cell_norm coupled"),
        ("merge", 2, "add"),
        ("lstm_3", 1, "projection"),
        ("lstm_4", 3, "gate_norm cell_norm"),
    ];
    assert_eq!(found, expected.map(|(name, size, options)| (name, size, options.to_owned())));
    // The four weights 0.5 of a column together have norm 1, and a single one has norm 0.5; the target norm is 0.5.
    assert!(model.tensors["lstm_3.projection_weights"].data.iter().all(|&weight| weight == 0.25));
    assert!(model.tensors["lstm_3.recurrent_weights"].data.iter().all(|&weight| weight == 0.5));
}
