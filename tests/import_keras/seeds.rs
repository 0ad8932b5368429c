//! The corpus of the fuzz target `import_keras`. Its seeds are sample files and handwritten architectures.

use std::collections::BTreeMap;
use std::io::{Cursor, Read};

use serde_json::{Value as Json, json};
use tidegate_tests::corpus::Corpus;
use tidegate_tests::fuzz_keras::{flag, import_keras, seed};
use tidegate_tests::import::sample;

use super::{layer, sequential};

/// Sample files, with the description of those that hold only weights.
const FILES: [(&str, u8, &str); 6] = [
    ("keras1/gru_gpu.h5", 0, ""),
    ("keras2/lstm_without_bias.h5", 0, ""),
    ("keras2/bidirectional_window.h5", flag::WINDOW, ""),
    ("keras2_tensorflow1/cudnn_gru.h5", 0, ""),
    ("keras2/weights.h5", 0, "keras2/weights.json"),
    ("keras3/weights.weights.h5", 0, "keras3/weights.json"),
];
/// Archives whose parts are seeds.
const ARCHIVES: [&str; 4] = ["simple_rnn", "two_outputs", "masking", "cells"];

/// Architectures with layers of each kind, with tensors to generate: layer, name, rank, dimensions.
fn made() -> Vec<(&'static str, Json, Vec<u8>)> {
    let shape = |shape: Json| json!({ "batch_input_shape": shape });
    let with = |mut json: Json, more: Json| {
        json.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json
    };
    let conv = json!({"filters": 2, "kernel_size": [2], "strides": [1], "padding": "causal", "dilation_rate": [1],
                      "data_format": "channels_last", "groups": 1, "activation": "relu", "use_bias": true});
    let gru = json!({"units": 2, "activation": "tanh", "recurrent_activation": "hard_sigmoid", "reset_after": false,
                     "return_sequences": false, "go_backwards": false, "stateful": false, "use_bias": true});
    let norm = json!({"axis": [2], "epsilon": 1.0, "center": true, "scale": true});
    let words = json!({"input_dim": 5, "output_dim": 3, "mask_zero": true, "input_length": 4});
    let lstm = json!({"units": 2, "return_sequences": true});
    vec![
        (
            "spotter",
            sequential(&[
                layer("Conv1D", "a", with(shape(json!([null, null, 3])), conv)),
                layer("BatchNormalization", "b", norm),
                layer("GRU", "c", gru),
                layer("Dense", "d", json!({"units": 2, "activation": "softmax", "use_bias": true})),
            ]),
            [
                &[0, 0, 3, 2, 3, 2, 0, 2, 1, 2, 1, 3, 1, 2, 1, 4, 1, 2, 1, 5, 1, 2, 1, 6, 1, 2][..],
                &[2, 0, 2, 2, 6, 2, 1, 2, 2, 6, 2, 2, 1, 6, 3, 0, 2, 2, 2, 3, 2, 1, 2],
            ]
            .concat(),
        ),
        (
            "text",
            sequential(&[
                layer("Embedding", "a", with(shape(json!([null, 4])), words)),
                layer("LSTM", "b", lstm.clone()),
                layer("TimeDistributed", "c", json!({"layer": layer("Dense", "d", json!({"units": 2}))})),
                layer("Flatten", "e", json!({})),
            ]),
            vec![0, 7, 2, 5, 3, 1, 0, 2, 3, 8, 1, 1, 2, 2, 8, 1, 2, 1, 8, 2, 0, 2, 2, 2, 2, 2, 1, 2],
        ),
        (
            "masked",
            sequential(&[
                layer("Masking", "a", with(shape(json!([null, 4, 3])), json!({"mask_value": 0.0}))),
                layer("LSTM", "b", with(lstm, json!({"return_sequences": false}))),
            ]),
            vec![1, 0, 2, 3, 8, 1, 1, 2, 2, 8, 1, 2, 1, 8],
        ),
    ]
}

/// The corpus.
fn corpus() -> Corpus {
    let named = |name: &str| name.replace(['/', '.'], "_");
    let mut seeds = BTreeMap::new();
    for (name, flags, arch) in FILES {
        let arch = if arch.is_empty() { vec![] } else { sample(arch) };
        seeds.insert(named(name), seed(flags, &arch, &sample(name)));
    }
    for name in ARCHIVES {
        let name = format!("keras3/{name}.keras");
        let mut archive = zip::ZipArchive::new(Cursor::new(sample(&name))).unwrap();
        let mut part = |name: &str| {
            let mut content = Vec::new();
            archive.by_name(name).unwrap().read_to_end(&mut content).unwrap();
            content
        };
        seeds.insert(named(&name), seed(flag::ARCHIVE, &part("config.json"), &part("model.weights.h5")));
    }
    seeds.insert("archive".into(), seed(0, b"", &sample("keras3/simple_rnn.keras")));
    for (name, config, tensors) in made() {
        seeds.insert(format!("made_{name}"), seed(flag::MADE, config.to_string().as_bytes(), &tensors));
    }
    Corpus { target: "import_keras", seeds }
}

#[test]
fn the_corpus_of_import_keras_passes() {
    let corpus = corpus();
    corpus.passes(0, import_keras);
    for (name, bytes) in &corpus.seeds {
        assert!(import_keras(bytes), "{name} gives no model");
    }
}

#[test]
#[ignore = "records the digests of the seeds and writes the seeds to target/fuzz"]
fn regenerate() {
    corpus().regenerate();
}
