//! The estimates of `tidegate inspect --for`, beside the instructions that `cargo xtask icount` and `cargo xtask zoo` count.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tidegate::internals::cell::CellKind;
use tidegate::{Layout, Numeric};
use tidegate_model::canonical::{Canonical, Schedule};
use tidegate_model::cost::Costs;
use tidegate_model::load::{self, ImageBuffer, Settings};
use tidegate_model::pack::pack_with;
use tidegate_model::quantize::Ranges;
use tidegate_tests::bytes::in_bytes;
use tidegate_tests::data;
use tidegate_tests::random::{Draw, Rng, Variant, chain};

/// What issue a user would notice: a tenth of the count.
const MOST: f64 = 0.1;

fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

fn record(path: &str) -> Value {
    serde_json::from_str(&fs::read_to_string(repository(path)).unwrap()).unwrap()
}

fn costs() -> Costs {
    Costs::from_json(&fs::read_to_string(repository("tools/cli/costs.json")).unwrap()).unwrap()
}

fn layout(name: &str) -> Layout {
    Layout::ALL.into_iter().find(|layout| layout.name() == name).unwrap()
}

fn numeric(name: &str) -> Numeric {
    let all = Numeric::FLOAT.into_iter().chain(Numeric::INTEGER).chain([Numeric::I8]);
    all.into_iter().find(|numeric| numeric.name() == name).unwrap()
}

/// The core of a figure and the layout of its own kernels.
fn layout_of(core: &str) -> Layout {
    match core {
        "m0plus" => Layout::CortexM0,
        "m4" => Layout::CortexM4,
        "m55" => Layout::CortexM55,
        _ => Layout::Portable,
    }
}

/// Fails with all estimates that are further off than [`MOST`].
fn hold(estimates: &[(String, f64, f64)]) {
    let off: Vec<String> = estimates
        .iter()
        .filter(|(_, estimate, count)| !((estimate / count - 1.0).abs() <= MOST))
        .map(|(name, estimate, count)| {
            format!("{name}: {estimate:.0} estimated, {count:.0} counted, {:+.1} %", 100.0 * (estimate / count - 1.0))
        })
        .collect();
    assert!(off.is_empty(), "{} of {}:\n{}", off.len(), estimates.len(), off.join("\n"));
}

#[test]
fn estimates_of_single_layers_are_near_the_counts_of_icount() {
    let costs = costs();
    let (mut models, mut images) = (BTreeMap::new(), BTreeMap::new());
    let mut estimates = Vec::new();
    for figure in record("firmware-examples/expected/icount.json")["figures"].as_array().unwrap() {
        let text = |name: &str| figure[name].as_str().unwrap();
        let number = |name: &str| figure[name].as_f64().unwrap();
        let (cell, size) = (text("cell"), number("hidden") as usize);
        // The figures of an M7 are those of an M4. An LSTM with weights of 16 bits is an exception that a user asks for.
        if text("core") == "m7" || cell == "lstm_16_bit" {
            continue;
        }
        let (ranges, model) = models.entry((cell, size)).or_insert_with(|| drawn(cell, size));
        let (numeric, layout) = (numeric(text("numeric")), layout(text("layout")));
        let image = images.entry((cell, size, numeric.name(), layout.name())).or_insert_with(|| {
            let bytes = (numeric == Numeric::I8).then(|| in_bytes(model.clone()));
            ImageBuffer::new(&pack_with(bytes.as_ref().unwrap_or(model), numeric, ranges, layout).unwrap())
        });
        let cost = costs.of(&image.model().unwrap(), text("core").trim_end_matches('f')).unwrap();
        assert!(cost.unknown.is_empty(), "{:?}", cost.unknown);
        let name = ["core", "cell", "numeric", "layout"].map(text).join(" ");
        estimates.push((format!("{name} {size}"), cost.step, number("instructions_per_step")));
    }
    assert!(estimates.len() > 500, "{}", estimates.len());
    hold(&estimates);
}

fn drawn(cell: &str, size: usize) -> (Ranges, Canonical) {
    let (kind, options): (_, &[_]) = match cell {
        "gru_reset_after" => (CellKind::Gru, &["reset_after"]),
        _ => (CellKind::from_name(cell).unwrap(), &[]),
    };
    let mut rng = Rng::new(16);
    let model = chain(&mut rng, size, &[(Variant::new(kind, options), size)], Draw { weights: 2.0, biases: true });
    let inputs = rng.numbers(4 * size, 1.0);
    (Ranges::measure(&model, [[inputs.as_slice()].as_slice()]).unwrap(), model)
}

/// Networks of the zoo, and their files in the repository if they are shipped.
const NETWORKS: [(&str, &str); 12] = [
    ("Hello Edge Basic_LSTM_S", "assets/hello_edge/Basic_LSTM_S.pb"),
    ("Hello Edge LSTM_S", "assets/hello_edge/LSTM_S.pb"),
    ("Hello Edge GRU_S", "assets/hello_edge/GRU_S.pb"),
    ("Hello Edge CRNN_S", "assets/hello_edge/CRNN_S.pb"),
    ("microWakeWord okay nabu, version 2", "assets/wake_word/okay_nabu.json"),
    ("microWakeWord vad, version 2", "assets/wake_word/vad.json"),
    ("Silero VAD, opset 15", "assets/silero_vad/silero_vad_16k_op15.onnx"),
    ("MNIST rows, int8", ""),
    ("DTLN, first half in int8", ""),
    ("DTLN, second network", ""),
    ("RNNoise", ""),
    ("NeuralSeed lstm8 TS9", ""),
];

#[test]
fn estimates_of_networks_are_near_the_counts_of_the_zoo() {
    let costs = costs();
    let zoo = record("tools/cli/zoo.json");
    let mut estimates = Vec::new();
    for (name, shipped) in NETWORKS {
        let entry = zoo.as_array().unwrap().iter().find(|entry| entry["name"] == name).unwrap();
        let file = match shipped {
            "" if data::is_whole() => data::file(entry["path"].as_str().unwrap()),
            "" => continue,
            shipped => repository(shipped),
        };
        let shape = name.starts_with("Silero").then(|| ("input".to_owned(), vec![1, 576]));
        let settings = Settings { shapes: shape.into_iter().collect(), ..Settings::default() };
        let model = load::canonical(&file, &settings).unwrap().model;
        let numeric = numeric(entry["figures"]["numeric"].as_str().unwrap());
        let ranges = if numeric.needs_ranges() { Ranges::without_data(&model).unwrap() } else { Ranges::default() };
        for (core, counts) in entry["figures"]["instructions"].as_object().unwrap() {
            let layout = if numeric.is_integer() { layout_of(core) } else { Layout::Portable };
            let image = ImageBuffer::new(&pack_with(&model, numeric, &ranges, layout).unwrap());
            let cost = costs.of(&image.model().unwrap(), core).unwrap();
            assert!(cost.unknown.is_empty(), "{name}: {:?}", cost.unknown);
            assert!(matches!(model.architecture.schedule, Schedule::Windows { .. }) || cost.longest == cost.step);
            estimates.push((format!("{name}, {core}"), cost.step, counts["step"].as_f64().unwrap()));
            if let Some(count) = counts["front_end"].as_f64().filter(|&count| count > 0.0) {
                estimates.push((format!("front end of {name}, {core}"), cost.front_end, count));
            }
        }
    }
    if !data::is_whole() {
        println!("SKIP networks of the zoo: set TIDEGATE_DATA_DIR; the shipped ones are compared");
    }
    hold(&estimates);
}
