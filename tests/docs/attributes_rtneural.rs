//! Each key of a layer in RTNeural's JSON, and each field of a layer in RNNoise's file, is changed in the samples, whose
//! outputs other tests compare with those of RTNeural and RNNoise.

use serde_json::{Value as Json, json};
use tidegate_model::canonical::Canonical;
use tidegate_model::format::import_bytes;
use tidegate_tests::import::sample;

use super::outcomes::{Outcome, Table, written};
use super::repository;
use super::trial::{accepted, complete, words};

const SAMPLES: [&str; 7] = ["lstm", "gru", "full", "stacked", "convolutions", "dense", "images"];

fn import(bytes: &[u8]) -> Result<Canonical, String> {
    import_bytes(bytes, "x").map_err(|error| error.to_string())
}

fn of_json(json: &Json) -> Result<Canonical, String> {
    import(&serde_json::to_vec(json).expect("JSON can be written"))
}

/// Whether a changed file gives the same model or another one, or is refused.
fn outcome(base: &Canonical, tried: Result<Canonical, String>, name: &str) -> Outcome {
    match tried {
        Ok(model) if model == *base => Outcome::Harmless,
        Err(error) if error.contains(name) => Outcome::Refused,
        _ => Outcome::Honored,
    }
}

/// Combines the outcomes of all values that were tried: a key is read if one value is honored.
fn settle(table: &mut Table, class: &str, name: &str, outcome: Outcome) {
    let values = table.entry(class.to_owned()).or_default().entry(name.to_owned()).or_default();
    let known = values.first().map_or(outcome, |(_, known)| *known);
    *values = vec![(String::new(), if outcome == Outcome::Honored { outcome } else { known })];
}

/// Whether a value of the key is honored, so that other values cannot change the outcome.
fn is_settled(table: &Table, class: &str, name: &str) -> bool {
    let values = table.get(class).and_then(|row| row.get(name));
    values.is_some_and(|values| values.iter().any(|(_, outcome)| *outcome == Outcome::Honored))
}

/// Values of every type that a key may have.
fn values() -> [Json; 10] {
    let texts = ["relu", "valid", "same", "other"].map(Json::from);
    let [relu, valid, same, other] = texts;
    [json!(2), json!(3), json!(0.5), json!([2]), json!([null, null, 5]), json!([[0.5]]), relu, valid, same, other]
}

/// A layer of the file with another value of a key; `None` if the value has another type than the key.
fn changed(file: &Json, at: usize, key: &str, value: Json) -> Option<Result<Canonical, String>> {
    let mut file = file.clone();
    file["layers"][at][key] = value;
    Some(of_json(&file)).filter(|tried| !tried.as_ref().is_err_and(|error| error.contains("invalid type")))
}

#[test]
fn every_key_of_rtneural_s_layers_is_honored_harmless_or_refused() {
    let words = words("tools/model/src/format", "RTNeural");
    let keys: Vec<&str> = words.iter().map(String::as_str).chain(["type", "shape", "weights", "unheard_of"]).collect();
    let mut table = Table::new();
    for name in SAMPLES {
        let file: Json = serde_json::from_slice(&sample(&format!("rtneural/{name}.json"))).expect("the sample is JSON");
        let base = of_json(&file).expect("the sample imports");
        let layers = file["layers"].as_array().expect("the sample has layers");
        for (at, layer) in layers.iter().enumerate() {
            let class = layer["type"].as_str().expect("a layer has a type");
            for key in &keys {
                let unknown = [format!("unknown field `{key}`"), format!("{key} of a layer of type")];
                for value in values().into_iter().filter(|value| *value != layer[key]) {
                    if is_settled(&table, class, key) {
                        break;
                    }
                    let Some(tried) = changed(&file, at, key, value) else { continue };
                    let is_unknown = |error: &String| unknown.iter().any(|text| error.contains(text));
                    if tried.as_ref().is_err_and(is_unknown) {
                        assert!(layer.get(key).is_none(), "{name} {class} has {key}");
                        break;
                    } else {
                        settle(&mut table, class, key, outcome(&base, tried, key));
                    }
                }
            }
        }
        for key in &keys {
            let mut changed = file.clone();
            changed[key] = json!("text");
            let tried = of_json(&changed);
            // A file with keys of an architecture is another file.
            let unknown = [format!("field {key:?} beside the layers"), "an architecture without weights".to_owned()];
            if !tried.as_ref().is_err_and(|error| unknown.iter().any(|text| error.contains(text))) {
                settle(&mut table, "(beside the layers)", key, outcome(&base, tried, key));
            }
        }
    }
    assert!(!table.values().any(|keys| keys.contains_key("unheard_of")), "{table:?}");
    let one = |class: &str| {
        let layer = json!({"type": class, "shape": [null, null, 1], "weights": []});
        of_json(&json!({"in_shape": [null, null, 1], "layers": [layer]})).err()
    };
    let types = accepted(&words, |class| format!("a layer of type {class:?}"), one);
    complete("docs/rtneural.md", &table, &types);
    written("docs/rtneural.md", &table, "type of layer");
}

/// RNNoise's layers in the order of the file, with the number of their gates.
const LAYERS: [(&str, usize); 6] = [
    ("input_dense", 1),
    ("vad_gru", 3),
    ("noise_gru", 3),
    ("denoise_gru", 3),
    ("denoise_output", 1),
    ("vad_output", 1),
];

#[test]
fn every_field_of_rnnoise_s_file_is_honored_or_refused() {
    let path = repository().join("tests/rnnoise/weights.rnn");
    let file = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let base = import(&file).expect("the sample imports");
    let (mut table, mut at) = (Table::new(), 0);
    for (layer, gates) in LAYERS {
        let (inputs, neurons) = (usize::from(file[at]), usize::from(file[at + 1]));
        let products = gates * neurons * (inputs + if gates > 1 { neurons } else { 0 });
        for (name, offset) in
            [("inputs", 0), ("neurons", 1), ("activation", 2), ("weights", 3), ("biases", 3 + products)]
        {
            for value in (0..=255).filter(|&value| value != file[at + offset]) {
                if is_settled(&table, layer, name) {
                    break;
                }
                let mut changed = file.clone();
                changed[at + offset] = value;
                settle(&mut table, layer, name, outcome(&base, import(&changed), name));
            }
        }
        at += 3 + products + gates * neurons;
    }
    assert_eq!(at, file.len(), "the file has other layers");
    let text = |version: &str| import(format!("rnnoise-nu model file {version}\n42 24 0").as_bytes());
    settle(&mut table, "heading", "version", outcome(&base, text("version 2"), "version"));
    assert!(!table.values().flatten().any(|(_, values)| values[0].1 == Outcome::Harmless), "{table:?}");
    // Every node of the model is a layer of the file.
    complete("docs/rnnoise.md", &table, &base.architecture.nodes.iter().map(|node| node.name.clone()).collect());
    written("docs/rnnoise.md", &table, "layer");
}
