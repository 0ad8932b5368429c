//! Damaged and malicious PyTorch files, and errors for files that lack information.

use std::fs;
use std::path::Path;

use serde_json::{Map, Value};
use tidegate_model::canonical::Canonical;
use tidegate_model::error::ImportError;
use tidegate_model::format::description::Size;
use tidegate_model::format::{Description, Options, import_bytes_with};
use tidegate_tests::corpus::Corpus;
use tidegate_tests::fuzz_import::{import_torch, seed};
use tidegate_tests::import::{self, ALONE, archive, described};

fn sample(name: &str) -> Vec<u8> {
    import::sample(&format!("torch/{name}"))
}

fn import(bytes: &[u8], options: &Options) -> Result<Canonical, ImportError> {
    import_bytes_with(bytes, "x.pt", options).map(|imported| imported.model)
}

/// The one-line error of refused bytes.
fn refusal(bytes: &[u8], options: &Options) -> String {
    import::line(&import(bytes, options).expect_err("it must be refused"), 16_384)
}

#[test]
fn every_prefix_of_a_state_dict_is_refused() {
    for name in ["lstm.pt", "old_lstm.pt", "tensors_gru.safetensors"] {
        let bytes = sample(name);
        import(&bytes, &ALONE).unwrap();
        // The older format ends with the last number, a zip archive with its directory.
        let ends = (0..bytes.len()).filter(|end| end % 7 == 0 || *end < 2048 || end + 64 > bytes.len());
        for end in ends {
            refusal(&bytes[..end], &ALONE);
        }
    }
}

#[test]
fn a_damaged_byte_is_refused_or_gives_a_model() {
    for name in ["lstm.pt", "old_lstm.pt", "tensors_gru.safetensors", "classifier.pth"] {
        import::damaged(name, 3, &sample(name), |bytes| import(bytes, &ALONE));
    }
}

#[test]
fn a_pickle_that_calls_a_function_is_refused_with_its_name() {
    let system = b"\x80\x02cposix\nsystem\nq\x00X\x02\x00\x00\x00idq\x01\x85q\x02Rq\x03.";
    for bytes in [system.to_vec(), archive(&[("archive/data.pkl", system)], false)] {
        let line = refusal(&bytes, &ALONE);
        assert!(line.contains("posix.system") && line.contains("nothing is called"), "{line}");
    }
}

#[test]
fn an_endless_pickle_does_not_use_endless_memory() {
    let put: Vec<u8> = (0..1_u32 << 19).flat_map(|k| [&b"r"[..], &k.to_le_bytes()].concat()).collect();
    for (start, rest) in [
        (&b"\x80\x02"[..], vec![b'N'; 1 << 20]),
        (b"\x80\x02N", vec![b'2'; 1 << 20]),
        (b"\x80\x02", vec![b'('; 1 << 20]),
        (b"\x80\x02N", put),
    ] {
        let line = refusal(&[start, &rest].concat(), &ALONE);
        assert!(line.contains("more than 262144 objects"), "{line}");
    }
}

#[test]
fn a_module_or_a_program_is_refused_with_advice() {
    let module = b"\x80\x02ctorch.nn.modules.rnn\nLSTM\nq\x00)\x81q\x01.";
    let line = refusal(&archive(&[("archive/data.pkl", module)], false), &ALONE);
    assert!(line.contains("torch.nn.modules.rnn.LSTM") && line.contains("torch.save(model.state_dict()"), "{line}");
    let script = archive(&[("m/data.pkl", b"\x80\x02}."), ("m/constants.pkl", b"\x80\x02).")], false);
    let line = refusal(&script, &ALONE);
    assert!(line.contains("TorchScript") && line.contains("torch.jit.load(FILE).state_dict()"), "{line}");
}

#[test]
fn a_zip_bomb_is_refused_before_it_is_unpacked() {
    let bomb = archive(&[("archive/data.pkl", &vec![0; 32 << 20])], true);
    assert!(refusal(&bomb, &ALONE).contains("unpacks to 33554432 or more"));
    // The same with a false size in its directory and in the entry.
    let mut lies = bomb;
    let size = (32_u32 << 20).to_le_bytes();
    let places: Vec<usize> = (0..lies.len() - 4).filter(|&at| lies[at..at + 4] == size).collect();
    assert!(!places.is_empty());
    for at in places {
        lies[at..at + 4].copy_from_slice(&64_u32.to_le_bytes());
    }
    refusal(&lies, &ALONE);
}

/// A pickle with one tensor `w` of this size, these strides and this offset in a storage of `numbers` numbers.
fn pickled(numbers: i32, offset: i32, size: &[i32], strides: &[i32]) -> Vec<u8> {
    let int = |value: i32| [&b"J"[..], &value.to_le_bytes()].concat();
    let ints =
        |values: &[i32]| [b"(".to_vec(), values.iter().flat_map(|&value| int(value)).collect(), b"t".to_vec()].concat();
    let storage = [
        &b"(X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpu"[..],
        &int(numbers),
        b"tQ",
    ];
    [
        &b"\x80\x02}X\x01\x00\x00\x00wctorch._utils\n_rebuild_tensor_v2\n("[..],
        &storage.concat(),
        &int(offset),
        &ints(size),
        &ints(strides),
        b"\x89}tRs.",
    ]
    .concat()
}

#[test]
fn tensors_of_absurd_sizes_are_refused() {
    let linear = described(
        r#"{"inputs": [{"name": "x", "size": 2}], "layers": [{"name": "w", "class": "Linear", "prefix": "", "args": {"bias": false}}]}"#,
    );
    let zip = |pickle: &[u8]| archive(&[("a/data.pkl", pickle), ("a/data/0", &[0; 16])], false);
    // numbers in the storage, offset, size, strides, expected error
    type Row = (i32, i32, &'static [i32], &'static [i32], &'static str);
    let rows: [Row; 7] = [
        (4, 0, &[i32::MAX, i32::MAX, i32::MAX], &[0, 0, 0], "reaches beyond"),
        (4, 0, &[60_000, 60_000], &[0, 0], "would take more than 64 MiB of memory"),
        (4, 1, &[2, 2], &[2, 1], "reaches beyond its storage of 4"),
        (4, -1, &[2, 2], &[2, 1], "invalid"),
        (4, 0, &[2, 2], &[2], "reaches beyond"),
        (9, 0, &[3, 3], &[3, 1], "beyond the end of its storage"),
        (4, 0, &[1; 9], &[1; 9], "invalid"),
    ];
    for (numbers, offset, size, strides, reason) in rows {
        let line = refusal(&zip(&pickled(numbers, offset, size, strides)), &linear);
        assert!(line.contains(reason), "{size:?}: {line}");
    }
    let line = refusal(&archive(&[("a/data.pkl", &pickled(4, 0, &[2, 2], &[2, 1]))], false), &linear);
    assert!(line.contains("storage \"0\" of w is missing"), "{line}");
    // Correct except for its name.
    let line = refusal(&zip(&pickled(4, 0, &[2, 2], &[2, 1])), &linear);
    assert!(line.contains("tensor \"weight\" is missing; the nearest are w"), "{line}");
}

#[test]
fn a_missing_tensor_is_named_with_the_nearest() {
    let arch = r#"{"inputs": [{"name": "x", "size": 7}], "layers": [
        {"name": "rnn", "class": "LSTM", "args": {"num_layers": 2}}, {"name": "fc", "class": "Linear"}]}"#;
    let line = refusal(&sample("classifier.pth"), &described(arch));
    assert!(line.contains("\"rnn.weight_ih_l1\"") && line.contains("the nearest are rnn.weight_ih_l0"), "{line}");
}

#[test]
fn an_architecture_may_omit_arguments_that_the_tensors_determine() {
    let with = |args: &str| {
        let layers = format!(r#"[{{"name": "rnn", "class": "LSTM", "prefix": "", "args": {args}}}]"#);
        let mut options = described(&format!(r#"{{"inputs": [{{"name": "x", "size": 6}}], "layers": {layers}}}"#));
        options.window = Some(5);
        import(&sample("lstm_projection_stack_bidirectional.pt"), &options)
    };
    let whole = with(r#"{"num_layers": 2, "bidirectional": true, "proj_size": 2}"#).unwrap();
    assert_eq!(with("{}").unwrap(), whole);
    let line = with(r#"{"bidirectional": false}"#).unwrap_err().to_string();
    assert!(line.contains("an input of 2 features where weight_ih_l1 takes 4"), "{line}");
}

#[test]
fn unused_tensors_are_named() {
    let alone = r#"{"inputs": [{"name": "x", "size": 7}], "layers": [{"name": "rnn", "class": "LSTM"}]}"#;
    let line = refusal(&sample("classifier.pth"), &described(alone));
    assert!(line.contains("layers do not use tensor \"fc.bias\" (and 1 more)"), "{line}");
    let mut options = described(alone);
    options.description.as_mut().unwrap().unused.push("fc".into());
    let imported = import_bytes_with(&sample("classifier.pth"), "x", &options).unwrap();
    assert_eq!(imported.notes, ["not used: fc.bias", "not used: fc.weight"]);
    let line = refusal(
        &sample("lstm.pt"),
        &described(
            r#"{"inputs": [{"name": "x", "size": 4}], "layers": [{"name": "a", "class": "LSTM", "prefix": "", "args": {"momentum": 2}}]}"#,
        ),
    );
    assert!(line.contains("layer \"a\" (LSTM)") && line.contains("momentum"), "{line}");
}

#[test]
fn settings_that_the_names_do_not_show_are_asked_for_with_a_draft() {
    for (name, reason) in [
        ("rnn_tanh.pt", "tanh or relu"),
        ("both_directions_last.pt", "both directions"),
        ("conv.pt", "do not determine"),
        ("cells.pt", "how its layers follow each other"),
        ("plain.pt", "do not determine"),
    ] {
        match import(&sample(name), &Options { window: Some(5), ..Options::default() }) {
            Err(ImportError::NeedsArchitecture { reason: given, draft }) => {
                assert!(given.contains(reason), "{name}: {given}");
                let description: Description = serde_json::from_str(&draft).unwrap();
                assert!(!description.layers.is_empty());
            }
            other => panic!("{name}: {other:?}"),
        }
    }
    let line = refusal(&sample("lstm_bidirectional.pt"), &ALONE);
    assert!(line.contains("needs the whole sequence") && line.contains("--window N"), "{line}");
}

/// A state dict with these tensors, as the JSON that RTNeural's helpers write.
fn dict(tensors: &[(&str, &[usize])]) -> Vec<u8> {
    fn nested(shape: &[usize]) -> Value {
        match shape {
            [] => 0.5.into(),
            [first, rest @ ..] => vec![nested(rest); *first].into(),
        }
    }
    let tensors: Map<String, Value> = tensors.iter().map(|&(name, shape)| (name.to_owned(), nested(shape))).collect();
    Value::from(tensors).to_string().into_bytes()
}

#[test]
fn a_linear_layer_that_fits_before_and_after_the_recurrent_one_is_asked_for() {
    let both = |input: usize, output: usize| {
        let (linear, bias) = ([output, 2], [output]);
        dict(&[
            ("fc.weight", &linear),
            ("fc.bias", &bias),
            ("rnn.weight_ih_l0", &[6, input]),
            ("rnn.weight_hh_l0", &[6, 2]),
            ("rnn.bias_ih_l0", &[6]),
            ("rnn.bias_hh_l0", &[6]),
        ])
    };
    import(&both(3, 4), &ALONE).unwrap();
    match import(&both(3, 3), &ALONE) {
        Err(ImportError::NeedsArchitecture { reason, draft }) => {
            let begins =
                "its names and sizes fit \"fc\" before \"rnn\" as well as after it (every \"?\" is to be filled in";
            assert!(reason.starts_with(begins), "{reason}");
            let line = refusal(&both(3, 3), &described(&draft));
            assert!(line.contains("layer \"fc\" has \"?\" for its inputs: fill it in"), "{line}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_draft_has_its_layers_in_an_order_that_their_sizes_fit() {
    // In the order of the alphabet, as in a safetensors file.
    let tensors = dict(&[
        ("emb.weight", &[9, 6]),
        ("head.bias", &[1]),
        ("head.weight", &[1, 2]),
        ("norm.bias", &[2]),
        ("norm.weight", &[2]),
        ("proj.bias", &[4]),
        ("proj.weight", &[4, 6]),
        ("rnn.weight_hh_l0", &[6, 2]),
        ("rnn.weight_ih_l0", &[6, 4]),
    ]);
    let Err(ImportError::NeedsArchitecture { draft, .. }) = import(&tensors, &ALONE) else { panic!("norm has no eps") };
    let description: Description = serde_json::from_str(&draft).unwrap();
    let names: Vec<&str> = description.layers.iter().map(|layer| layer.name.as_str()).collect();
    let order = ["emb", "proj", "after proj", "rnn", "after rnn", "norm", "after norm", "head", "after head"];
    assert_eq!(names, order);
    // Nothing is known about the functions between the modules.
    let classes: Vec<&str> = description.layers.iter().map(|layer| layer.class.as_str()).collect();
    assert_eq!(classes, ["Embedding", "Linear", "?", "GRU", "?", "LayerNorm", "?", "Linear", "?"]);
    let line = refusal(&tensors, &described(&draft));
    assert!(line.contains("layer \"after proj\" has \"?\" for its class: fill it in"), "{line}");
    let open = r#"{"name":"after proj","class":"?"},"#;
    assert!(draft.contains(open), "{draft}");
    let mut filled: Value = serde_json::from_str(&draft).unwrap();
    filled["layers"].as_array_mut().unwrap().retain(|layer| layer["class"] != "?");
    filled["layers"][2]["take"] = "sequence".into();
    let line = refusal(&tensors, &described(&filled.to_string()));
    assert!(line.contains("layer \"norm\" has \"?\" for argument eps"), "{line}");
    filled["layers"][3]["args"]["eps"] = 1e-5.into();
    import(&tensors, &described(&filled.to_string())).unwrap();
}

#[test]
fn a_draft_keeps_the_order_of_the_file_if_that_is_not_the_alphabet_s() {
    // As in a state dict of `gru`, `gru2` and `dense`; the sizes fit both orders of the GRUs.
    let text = r#"{"gru.weight_ih_l0": [[1],[1],[1]], "gru.weight_hh_l0": [[1],[1],[1]],
        "gru2.weight_ih_l0": [[1],[1],[1]], "gru2.weight_hh_l0": [[1],[1],[1]], "dense.weight": [[1]], "dense.bias": [1]}"#;
    let Err(ImportError::NeedsArchitecture { draft, .. }) = import(text.as_bytes(), &ALONE) else { panic!() };
    let description: Description = serde_json::from_str(&draft).unwrap();
    let names: Vec<&str> = description.layers.iter().map(|layer| layer.name.as_str()).collect();
    assert_eq!(names, ["gru", "after gru", "gru2", "after gru2", "dense", "after dense"]);
    assert!(description.layers.iter().all(|layer| layer.inputs.is_empty()), "{draft}");
}

#[test]
fn a_draft_of_images_tells_convolutions_from_transposed_ones_and_asks_for_the_width() {
    let tensors = dict(&[
        ("a.weight", &[4, 1, 3, 2]),
        ("a.bias", &[4]),
        ("b.weight", &[4]),
        ("b.bias", &[4]),
        ("b.running_mean", &[4]),
        ("b.running_var", &[4]),
        ("c.weight", &[4, 2, 1, 3]),
        ("c.bias", &[2]),
    ]);
    let Err(ImportError::NeedsArchitecture { reason, draft }) = import(&tensors, &ALONE) else { panic!() };
    assert!(reason.contains("stride, padding and dilation"), "{reason}");
    let description: Description = serde_json::from_str(&draft).unwrap();
    let classes: Vec<&str> = description.layers.iter().map(|layer| layer.class.as_str()).collect();
    assert_eq!(classes, ["Conv2d", "?", "BatchNorm2d", "?", "ConvTranspose2d", "?"]);
    assert_eq!(description.inputs[0].size, Size::Shape(vec![0, 1]), "{draft}");
}

#[test]
fn a_flattened_output_in_another_order_than_pytorch_s_is_refused() {
    let layers = r#"[{"name": "flat", "class": "Flatten", "args": {"start_dim": 2, "channels_first": true}}, {"name": "end", "class": "Tanh"}]"#;
    let given = format!(r#"{{"inputs": [{{"name": "x", "size": [3, 2]}}], "layers": {layers}}}"#);
    let description: Description = serde_json::from_str(&given).unwrap();
    let error = description.model("torch", &[].into(), None, "x").unwrap_err().to_string();
    assert!(error.contains("features that were flattened with channels_first"), "{error}");
}

#[test]
fn lost_digits_are_reported() {
    let notes = import_bytes_with(&sample("double_gru.pt"), "x", &ALONE).unwrap().notes;
    assert!(
        notes.iter().any(|note| note.starts_with("weight_ih_l0: ") && note.contains("rounded from f64")),
        "{notes:?}"
    );
    let notes = import_bytes_with(&sample("half_lstm.pt"), "x", &ALONE).unwrap().notes;
    assert_eq!(notes.len(), 1, "{notes:?}");
    let notes = import_bytes_with(&sample("checkpoint.pt"), "x", &ALONE).unwrap().notes;
    assert!(notes.contains(&"not used: optimizer_state_dict of the checkpoint".to_owned()), "{notes:?}");
}

/// Samples that seed the fuzz target, covering every kind of file and layer.
const SEEDS: [(&str, u8); 9] = [
    ("lstm.pt", 0),
    ("old_gru_stack_bidirectional.pt", 1),
    ("tensors_gru.safetensors", 0),
    ("checkpoint.pt", 0),
    ("both_directions_final.pt", 1),
    ("plain.pt", 0),
    ("conv_padded.pt", 1),
    ("images.pt", 0),
    ("last.pt", 0),
];

/// The flags of each seed repeat what the sample's description says about its window.
fn corpus() -> Corpus {
    let arch = |name: &str| {
        let path = format!("{}.json", name.split('.').next().unwrap());
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("frameworks/torch").join(path);
        fs::read(path).unwrap_or_default()
    };
    let seeds = SEEDS.iter().map(|&(name, flags)| (name.replace('.', "_"), seed(flags, &arch(name), &sample(name))));
    Corpus { target: "import_torch", seeds: seeds.collect() }
}

#[test]
fn the_corpus_of_import_torch_passes() {
    corpus().passes(0, import_torch);
}

#[test]
#[ignore = "records the digests of the seeds and writes the seeds to target/fuzz"]
fn regenerate() {
    corpus().regenerate();
}
