//! Damaged and malicious RTNeural files, and state dicts as text.

use serde_json::{Value as Json, json};
use tidegate_model::canonical::Canonical;
use tidegate_model::data::read_tensors;
use tidegate_model::error::ImportError;
use tidegate_model::format::{Options, import_bytes_with};
use tidegate_tests::corpus::Corpus;
use tidegate_tests::fuzz_import::{import_torch, seed};
use tidegate_tests::import::{self, ALONE, damaged, described, sample};

const SMALL: [&str; 4] = ["gru", "convolutions", "dense", "images"];

fn file(name: &str) -> Vec<u8> {
    sample(&format!("rtneural/{name}.json"))
}

fn import(bytes: &[u8], options: &Options) -> Result<Canonical, ImportError> {
    import_bytes_with(bytes, "x.json", options).map(|imported| imported.model)
}

#[track_caller]
fn refused(bytes: &[u8], options: &Options, reason: &str) {
    let line = import::line(&import(bytes, options).expect_err("it must be refused"), 2048);
    assert!(line.contains(reason), "{reason:?} is not in: {line}");
}

#[test]
fn every_prefix_of_a_file_is_refused() {
    for name in SMALL {
        let bytes = file(name);
        let text = bytes.trim_ascii_end();
        import(text, &ALONE).unwrap_or_else(|error| panic!("{name}: {error}"));
        for end in (0..text.len()).filter(|end| end % 31 == 0 || *end < 512 || end + 64 > text.len()) {
            import::line(&import(&text[..end], &ALONE).expect_err("it must be refused"), 2048);
        }
    }
}

#[test]
fn a_damaged_byte_is_refused_or_gives_a_model() {
    for name in SMALL {
        damaged(name, 7, &file(name), |bytes| import(bytes, &ALONE));
    }
}

/// The sample after a change.
fn changed(name: &str, change: impl FnOnce(&mut Json)) -> Vec<u8> {
    let mut json: Json = serde_json::from_slice(&file(name)).unwrap();
    change(&mut json);
    serde_json::to_vec(&json).unwrap()
}

#[test]
fn settings_that_rtneural_ignores_are_refused_by_name() {
    let gru = |change: fn(&mut Json)| changed("gru", |json| change(&mut json["layers"][0]));
    let dense = |change: fn(&mut Json)| changed("gru", |json| change(&mut json["layers"][1]));
    // RTNeural computes something else, or nothing, for each of these.
    for (bytes, reason) in [
        (gru(|layer| layer["activation"] = json!("relu")), r#"layer "gru_0" (gru): activation "relu" of a GRU"#),
        (dense(|layer| layer["activation"] = json!("selu")), r#"layer "dense_1" (dense): activation "selu""#),
        (dense(|layer| layer["type"] = json!("unknown")), r#"a layer of type "unknown""#),
        (dense(|layer| layer["units"] = json!(8)), "unknown field `units`"),
        (gru(|layer| layer["shape"] = json!([null, null, 7])), "units = 7"),
        (gru(|layer| layer["weights"] = json!([])), "0 arrays of weights, but 3 are needed"),
        (gru(|layer| layer["weights"][0][0][1] = json!([1.0])), "a list holds both lists and numbers"),
        (gru(|layer| layer["weights"][1][2] = json!(1.0)), "a list holds both numbers and lists"),
        (gru(|layer| layer["weights"][1][3] = json!([1.0])), "lists of 1 and of 24 elements have the same depth"),
        (gru(|layer| layer["weights"][2][0][0] = json!(1e39)), "does not fit 32 bits"),
        (changed("gru", |json| json["in_clip"] = json!(1)), r#"field "in_clip" beside the layers"#),
        (changed("gru", |json| json["in_skip"] = json!(2)), "in_skip = 2, other than 0 and 1,"),
        (changed("gru", |json| json["in_gain"] = json!(1e9)), "in_gain is 1000000000, not from -120 to 120 dB"),
        (changed("gru", |json| json["input_batch"] = json!([0.0])), "input_batch and output_batch without the other"),
        (changed("gru", |json| json["in_shape"] = json!([null, null, null])), "a frame must have 1 to"),
        (changed("gru", |json| json["layers"] = json!([])), "layers is empty"),
    ] {
        refused(&bytes, &ALONE, reason);
    }
    let images = |change: fn(&mut Json)| changed("images", |json| change(&mut json["layers"][0]));
    refused(&images(|layer| layer["padding"] = json!("circular")), &ALONE, r#"padding "circular""#);
    refused(&images(|layer| layer["dilation"] = json!(0)), &ALONE, "its dilation must be a number from 1 to");
    refused(&images(|layer| layer["strides"] = json!(1e9)), &ALONE, "its strides must be a number from 1 to");
    refused(&images(|layer| layer["groups"] = json!(2)), &ALONE, r#"groups of a layer of type "conv2d""#);
    let norm = |change: fn(&mut Json)| changed("images", |json| change(&mut json["layers"][1]));
    refused(&norm(|layer| layer["num_filters_in"] = json!(5)), &ALONE, "its num_features_in and num_filters_in differ");
    refused(&gru(|layer| layer["strides"] = json!(2)), &ALONE, r#"strides of a layer of type "gru""#);
    refused(
        &images(|layer| layer["num_features_in"] = json!(22)),
        &ALONE,
        "its num_features_in and num_filters_in differ",
    );
    refused(&file("gru"), &Options { window: Some(3), ..ALONE }, "--window");
    refused(br#"{"class_name": "Sequential", "config": {}}"#, &ALONE, "an architecture without weights");
    refused(b"{}", &ALONE, "");
    refused(&[b"{\"layers\":".as_slice(), &vec![b'['; 100_000]].concat(), &ALONE, "RTNeural model");
    let deep = gru(|layer| layer["weights"][0] = json!([[[[[[[[[1.0]]]]]]]]]));
    refused(&deep, &ALONE, "lists are nested more than 8 deep");
}

#[test]
fn comments_of_other_programs_change_nothing() {
    let bytes = changed("gru", |json| {
        json["samplerate"] = json!(48000.0);
        json["metadata"] = json!({"name": ["an amplifier"]});
    });
    assert_eq!(import(&bytes, &ALONE).unwrap(), import(&file("gru"), &ALONE).unwrap());
}

/// A state dict of PyTorch as text.
fn state_dict(path: &str) -> Vec<u8> {
    fn nested(shape: &[usize], data: &[f32]) -> Json {
        match shape {
            [] => json!(data[0]),
            [_, rest @ ..] => {
                let len = rest.iter().product::<usize>().max(1);
                data.chunks(len).map(|part| nested(rest, part)).collect()
            }
        }
    }
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("frameworks").join(path);
    let tensors = read_tensors(&path).unwrap();
    let json: Json = tensors.iter().map(|(name, tensor)| (name.clone(), nested(&tensor.shape, &tensor.data))).collect();
    serde_json::to_vec(&json).unwrap()
}

#[test]
fn a_state_dict_as_text_equals_the_one_in_safetensors() {
    let text = state_dict("torch/tensors_gru.safetensors");
    let model = import(&text, &ALONE).unwrap();
    let other = import(&sample("torch/tensors_gru.safetensors"), &ALONE).unwrap();
    assert_eq!((model.architecture.nodes, model.tensors), (other.architecture.nodes, other.tensors));
    let arch = described(r#"{"inputs": [{"name": "x", "size": 1}], "layers": [{"name": "no", "class": "GRU"}]}"#);
    refused(&text, &arch, "layers do not use tensor");
}

fn corpus() -> Corpus {
    let mut seeds: std::collections::BTreeMap<String, Vec<u8>> =
        ["lstm", "gru", "full", "stacked", "convolutions", "dense", "images", "strides"]
            .map(|name| (format!("{name}_json"), seed(0, b"", &file(name))))
            .into();
    seeds.insert("state_dict".to_owned(), seed(0, b"", &state_dict("torch/tensors_gru.safetensors")));
    let small = |name: &str| {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("data/small/deployed/amps");
        std::fs::read(folder.join(name)).unwrap()
    };
    seeds.insert("guitarml_json".to_owned(), seed(0, b"", &small("gru8_ts9_pytorch.json")));
    let mut amplifier: Json = serde_json::from_slice(&small("lstm.nam")).unwrap();
    // The initial states of the LSTM.
    (60..66).for_each(|k| amplifier["weights"][k] = json!(0.0));
    seeds.insert("nam".to_owned(), seed(0, b"", &serde_json::to_vec(&amplifier).unwrap()));
    Corpus { target: "import_rtneural", seeds }
}

#[test]
fn the_corpus_of_import_rtneural_passes() {
    // One target body serves every file format.
    corpus().passes(0, import_torch);
}

#[test]
#[ignore = "records the digests of the seeds and writes the seeds to target/fuzz"]
fn regenerate() {
    corpus().regenerate();
}
