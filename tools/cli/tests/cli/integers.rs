//! `pack` in integers with calibration and report, and `verify` of the image.

use std::fs;

use serde_json::Value;
use tidegate_model::canonical::{Canonical, Tensor};
use tidegate_model::data::{UNNAMED, write_tensors};

use super::{Workplace, gru_pb, shipped, yes_flac};

const CLIPS: [&str; 3] =
    ["yes/022cd682_nohash_0.flac", "_silence_/1041.flac", "_unknown_/backward_bfd26d6b_nohash_2.flac"];

/// Writes an index of three clips, and a folder with the same clips.
fn clips(here: &Workplace) {
    let mut index = "file,label\n".to_owned();
    fs::create_dir(here.path("clips")).unwrap();
    for (number, clip) in CLIPS.iter().enumerate() {
        let file = shipped(&format!("speech_commands/{clip}"));
        index += &format!("{file},{}\n", clip.split('/').next().unwrap());
        fs::copy(&file, here.path(&format!("clips/{number}.flac"))).unwrap();
    }
    here.write("clips.csv", index);
    here.write("clips/notes.txt", "not a clip");
}

fn features(seed: f32) -> Tensor {
    Tensor { shape: vec![30, 10], data: (0..300).map(|k| (k as f32 * seed).sin() * 20.0).collect() }
}

#[test]
fn without_data_a_keyword_spotter_is_calibrated_on_carried_sounds() {
    let here = Workplace::new();
    let done = here.command(&["pack", &gru_pb(), "-o", "g.tgi"]).output().unwrap();
    let stderr = String::from_utf8(done.stderr).unwrap();
    let note = "note: calibrated on the sounds that tidegate carries; use --calibrate to give your own input\n";
    assert!(done.status.success() && stderr.starts_with(note), "{stderr}");
    let told = String::from_utf8(done.stdout).unwrap();
    assert!(told.contains("the sounds that tidegate carries") && told.ends_with(" bytes, i8x16\n"), "{told}");
    let image = here.json(&["inspect", "g.tgi", "--json"]);
    assert_eq!(image["numeric"], "i8x16");
    // Nodes of an integer image have numbers instead of parameters.
    assert!(image["layers"].as_array().unwrap().iter().all(|layer| layer["params"].as_object().unwrap().is_empty()));
    // A model that is only packed in memory to run is f32 by default.
    assert_eq!(here.json(&["bench", &gru_pb(), "--steps", "2", "--json"])["numeric"], "f32");
    let done = here.run(&["inspect", &gru_pb(), "--numeric", "i8x16", "--json"]);
    let guess = String::from_utf8(done.stderr).unwrap();
    assert!(guess.contains("GRU_S.pb: the ranges of its integers are a guess"), "{guess}");
    assert_eq!(serde_json::from_slice::<Value>(&done.stdout).unwrap()["numeric"], "i8x16");
}

/// Nothing says which values a model without a front end reads, unless they are indices.
#[test]
fn without_data_a_model_of_features_is_refused() {
    let here = Workplace::new();
    let weights = rnnoise("weights.rnn");
    let pack = ["pack", &weights, "-o", "r.tgi"];
    here.refuse(&pack, &weights, &["--calibrate", "--calibrate noise for values from -1 to 1"]);
    here.run(&[&pack[..], &["--calibrate", "noise"]].concat());
    assert!(here.path("r.tgi").exists());
    let gru = gru_pb();
    here.refuse(&["pack", &gru, "-o", "g.tgi", "--calibrate", "noise"], &gru, &["leave it out"]);
    // The word is no file.
    here.write("noise", "1,2");
    here.refuse(&[&pack[..], &["--calibrate", "./noise"]].concat(), "./noise", &[]);
}

fn rnnoise(file: &str) -> String {
    format!("{}/../../tests/rnnoise/{file}", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn a_cell_without_an_integer_form_is_named() {
    let architecture = serde_json::json!({
        "version": 1, "source": "", "inputs": [{ "name": "x", "size": 2 }],
        "nodes": [{ "name": "slow", "cell": "indrnn", "inputs": ["x"], "input_size": 2, "hidden_size": 2, "output_size": 2 }],
        "outputs": [{ "name": "y", "size": 2, "from": "slow" }],
    });
    let zeros = |shape: &[usize]| Tensor { shape: shape.to_vec(), data: vec![0.0; shape.iter().product()] };
    let tensors =
        [("slow.input_weights", zeros(&[2, 2])), ("slow.recurrent_weights", zeros(&[2])), ("slow.bias", zeros(&[2]))];
    let model = Canonical {
        architecture: serde_json::from_value(architecture).unwrap(),
        tensors: tensors.map(|(name, tensor)| (name.to_owned(), tensor)).into(),
    };
    let here = Workplace::new();
    model.save(&here.path("slow.safetensors")).unwrap();
    let told = ["slow is a indrnn, which the integer numerics do not support", "pack with --numeric f16 or f32"];
    here.refuse(&["pack", "slow.safetensors", "-o", "s.tgi"], "slow.safetensors", &told);
    here.succeed(&["pack", "slow.safetensors", "-o", "s.tgi", "--numeric", "f16"]);
}

#[test]
fn ranges_come_from_an_index_a_folder_or_an_input_file() {
    let here = Workplace::new();
    clips(&here);
    let tensors = [("x.npy", UNNAMED), ("x.csv", UNNAMED), ("x.npz", "Mfcc"), ("x.safetensors", "Mfcc")];
    for (file, name) in tensors {
        write_tensors(&here.path(file), &[(name.to_owned(), features(0.7))].into()).unwrap();
    }
    let gru = gru_pb();
    let pack = |data: &str, image: &str| here.succeed(&["pack", &gru, "-o", image, "--calibrate", data]);
    let told = pack("clips.csv", "index.tgi");
    assert!(told.contains("calibration  3 clips of clips.csv: "), "{told}");
    assert!(pack("clips", "folder.tgi").contains("calibration  3 clips of clips: "));
    assert_eq!(here.read("index.tgi"), here.read("folder.tgi"), "the same clips");
    // With a byte order mark, as spreadsheets write it.
    here.write("bom.csv", [b"\xef\xbb\xbf", here.read("clips.csv").as_slice()].concat());
    assert!(pack("bom.csv", "bom.tgi").contains("calibration  3 clips of bom.csv: "));
    for (file, _) in tensors {
        assert!(pack(file, "x.tgi").contains(&format!("calibration  {file}: ")));
        assert_eq!(here.read("x.tgi").len(), here.read("index.tgi").len());
        assert_ne!(here.read("x.tgi"), here.read("index.tgi"), "{file}");
    }
    assert!(pack(&yes_flac(), "x.tgi").contains("022cd682_nohash_0.flac: "));
    // A model with an endless state processes the clips as one stream.
    here.succeed(&["pack", &gru, "-o", "endless.tgi", "--calibrate", "clips.csv", "--schedule", "endless"]);
}

#[test]
fn bad_calibration_data_is_refused_by_name() {
    let here = Workplace::new();
    let gru = gru_pb();
    let refuse = |data: &str, parts: &[&str]| {
        here.refuse(&["pack", &gru, "-o", "g.tgi", "--calibrate", data], data, parts);
    };
    refuse("missing.npy", &["there is no such file"]);
    refuse("missing.csv", &["there is no such file"]);
    fs::create_dir(here.path("empty")).unwrap();
    refuse("empty", &["has no .wav and no .flac", "an index CSV or an input file"]);
    here.write("index.csv", "file,label\nnone.flac,yes\n");
    refuse("index.csv", &["none.flac", "there is no such file", "paths are relative to the index"]);
    here.write("numbers.csv", "1,2,3\n4,5,6\n");
    refuse("numbers.csv", &["tensor of shape [2, 3]", "\"Mfcc\" takes [steps, 10]"]);
    write_tensors(&here.path("other.npz"), &[("other".to_owned(), features(0.3))].into()).unwrap();
    write_tensors(
        &here.path("two.npz"),
        &[("Mfcc".to_owned(), features(0.3)), ("other".to_owned(), features(0.3))].into(),
    )
    .unwrap();
    refuse("two.npz", &["tensor \"other\" is no input of the model, which has Mfcc"]);
    let mut odd = features(0.3);
    odd.data[25] = f32::NAN;
    write_tensors(&here.path("odd.npy"), &[(UNNAMED.to_owned(), odd)].into()).unwrap();
    refuse("odd.npy", &["has NaN in step 2"]);
    here.write("clip.wav", "RIFF");
    refuse("clip.wav", &[]);
    // Three steps do not fill the window of ten, so no node after it would have a range.
    let few = Tensor { shape: vec![3, 10], data: vec![0.5; 30] };
    write_tensors(&here.path("few.npy"), &[(UNNAMED.to_owned(), few)].into()).unwrap();
    let crnn = shipped("hello_edge/CRNN_S.pb");
    let told = ["the layer \"window\" never ran", "calibrate with more steps"];
    here.refuse(&["pack", &crnn, "-o", "c.tgi", "--calibrate", "few.npy"], "few.npy", &told);
    // Invalid values, and options that do not apply to floats.
    here.refuse(
        &["pack", &gru, "-o", "g.tgi", "--range", "none:mse"],
        "--range",
        &["the model has no \"none\"; it has ", "Mfcc"],
    );
    here.refuse_use(&["pack", &gru, "-o", "g.tgi", "--range", "most"], "write auto, minmax, mse, or percentile=P");
    here.refuse_use(&["pack", &gru, "-o", "g.tgi", "--range", "Mfcc:percentile=0"], "P from 1 to 100");
    for option in [["--for", "cortex-m4"], ["--range", "mse"], ["--evaluate", "i.csv"], ["--report", "r.json"]] {
        let args = [&["pack", &gru, "-o", "g.tgi", "--numeric", "f16"], &option[..]].concat();
        here.refuse(&args, option[0], &["is only for integers, not for f16: leave ", " or --numeric out"]);
    }
    let calibrate = ["pack", &gru, "-o", "g.tgi", "--numeric", "f32", "--calibrate", "index.csv"];
    here.refuse(&calibrate, "--calibrate", &["is only for integers, not for f32"]);
    here.write("index.csv", format!("file,label\n{},hello\n", yes_flac()));
    let evaluate = ["pack", &gru, "-o", "g.tgi", "--calibrate", "index.csv", "--evaluate", "index.csv"];
    here.refuse(&evaluate, "index.csv", &["label \"hello\" is not one of the model's"]);
}

#[test]
fn noise_is_long_enough_for_the_longest_window() {
    let architecture = serde_json::json!({
        "version": 1, "source": "", "inputs": [{ "name": "x", "size": 1 }],
        "nodes": [
            { "name": "w", "cell": "window", "inputs": ["x"], "input_size": 1, "hidden_size": 150, "output_size": 150,
              "extents": { "length": 150, "hop": 2 } },
            { "name": "v", "cell": "window", "inputs": ["w"], "input_size": 150, "hidden_size": 300, "output_size": 300,
              "extents": { "length": 2, "hop": 1 } },
        ],
        "outputs": [{ "name": "y", "size": 300, "from": "v" }],
    });
    let here = Workplace::new();
    let model = Canonical { architecture: serde_json::from_value(architecture).unwrap(), tensors: [].into() };
    model.save(&here.path("w.safetensors")).unwrap();
    let done = here.run(&["pack", "w.safetensors", "-o", "w.tgi", "--calibrate", "noise", "--report", "w.json"]);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let report: Value = serde_json::from_slice(&here.read("w.json")).unwrap();
    let layers = report["layers"].as_array().unwrap();
    assert!(layers.iter().all(|layer| layer["values"].as_u64().unwrap() > 0), "{report}");
    // A shorter input has no output to compare.
    let short = Tensor { shape: vec![151, 1], data: vec![0.5; 151] };
    write_tensors(&here.path("short.npy"), &[(UNNAMED.to_owned(), short)].into()).unwrap();
    let verify = ["verify", "w.tgi", "--against", "w.safetensors", "--input", "short.npy"];
    here.refuse(&verify, "short.npy", &["ends before the model gives an output: give more steps"]);
}

#[test]
fn a_peephole_that_is_large_beside_its_cell_state_is_not_cut_off() {
    let architecture = serde_json::json!({
        "version": 1, "source": "", "inputs": [{ "name": "x", "size": 1 }],
        "nodes": [{ "name": "l", "cell": "lstm", "inputs": ["x"], "input_size": 1, "hidden_size": 1, "output_size": 1,
                    "options": ["peephole"] }],
        "outputs": [{ "name": "y", "size": 1, "from": "l" }],
    });
    let tensor = |shape: &[usize], data: &[f32]| Tensor { shape: shape.to_vec(), data: data.to_vec() };
    // The cell state c counts the steps, and gate o closes after three.
    let tensors = [
        ("l.input_weights", tensor(&[4, 1], &[0.0; 4])),
        ("l.recurrent_weights", tensor(&[4, 1], &[0.0; 4])),
        ("l.input_bias", tensor(&[4], &[20.0, 20.0, 20.0, 70.0])),
        ("l.input_peephole", tensor(&[1], &[0.0])),
        ("l.forget_peephole", tensor(&[1], &[0.0])),
        ("l.output_peephole", tensor(&[1], &[-20.0])),
    ];
    let model = Canonical {
        architecture: serde_json::from_value(architecture).unwrap(),
        tensors: tensors.map(|(name, tensor)| (name.to_owned(), tensor)).into(),
    };
    let here = Workplace::new();
    model.save(&here.path("l.safetensors")).unwrap();
    for (file, steps) in [("long.npy", 20_000), ("short.npy", 6)] {
        let ones = Tensor { shape: vec![steps, 1], data: vec![1.0; steps] };
        write_tensors(&here.path(file), &[(UNNAMED.to_owned(), ones)].into()).unwrap();
    }
    here.succeed(&["pack", "l.safetensors", "-o", "l.tgi", "--calibrate", "long.npy"]);
    let verify = ["verify", "l.tgi", "--against", "l.safetensors", "--input", "short.npy", "--json"];
    let found = here.json(&verify);
    assert!(found["max_abs_error"].as_f64().unwrap() < 1e-3, "{found}");
}

#[test]
fn a_report_lists_every_value() {
    let here = Workplace::new();
    clips(&here);
    let gru = gru_pb();
    let pack = ["pack", &gru, "-o", "g.tgi", "--calibrate", "clips.csv", "--evaluate", "clips.csv"];
    let ranges = ["--range", "percentile=90", "--range", "Mfcc:minmax"];
    let told = here.pack_poorly(&[&pack[..], &ranges, &["--report", "g.json"]].concat());
    here.pack_poorly(&[&pack[..], &ranges, &["--report", "g.txt"]].concat());
    let text = String::from_utf8(here.read("g.txt")).unwrap();
    assert!(told.contains(&text) && text.lines().count() > 5, "{text}");
    let found: Value = serde_json::from_slice(&here.read("g.json")).unwrap();
    assert_eq!(found["ranges_from"], "3 clips of clips.csv");
    assert_eq!(found["decisions"]["clips"], 3);
    for count in ["correct", "f32_correct", "same"] {
        assert!(found["decisions"][count].as_u64().unwrap() <= 3, "{found}");
    }
    let value = |of: &str, index: usize| found[of][index].clone();
    let input = value("inputs", 0);
    assert_eq!((&input["name"], &input["rule"], &input["seen"]), (&"Mfcc".into(), &"minmax".into(), &input["range"]));
    assert_eq!(input["saturated"], 0);
    assert!(input["snr_db"].is_null(), "the front end gives whole units: {input}");
    // The logits are clipped at their 90th percentile, and the report says so.
    let logits = value("layers", 1);
    assert_eq!(logits["rule"], "percentile=90");
    assert!(logits["range"].as_f64() < logits["seen"].as_f64(), "{logits}");
    let saturation = logits["saturation"].as_f64().unwrap();
    // Three clips have 36 logits. The range is that of the logits at every step of a window.
    assert!((0.02..0.5).contains(&saturation), "{logits}");
    assert!(text.contains(&format!("{:.4} %", 100.0 * saturation)), "{text}");
}

#[test]
fn integers_are_verified_layer_by_layer_and_over_time() {
    let here = Workplace::new();
    clips(&here);
    let lstm = shipped("hello_edge/LSTM_S.pb");
    here.succeed(&["pack", &lstm, "-o", "l.tgi", "--calibrate", "clips.csv"]);
    let verify = ["verify", "l.tgi", "--against", &lstm];
    let found = here.json(&[&verify[..], &["--input", &yes_flac(), "--json"]].concat());
    let layers = found["layers"].as_array().unwrap();
    assert!(layers.len() >= 3, "{found}");
    for layer in layers {
        assert!(layer["max_abs_error"].as_f64().unwrap() > 0.0 && layer["snr_db"].as_f64().unwrap() > 20.0, "{layer}");
    }
    assert_eq!(found["states"].as_array().unwrap().len(), 1, "the cell state: {found}");
    let stream = [&verify[..], &["--index", "clips.csv", "--seed", "2", "--plot", "d.svg"]].concat();
    let told = here.succeed(&stream);
    assert!(told.contains("cell_state") && told.ends_with("drawn in d.svg\n"), "{told}");
    let picture = String::from_utf8(here.read("d.svg")).unwrap();
    let picture = roxmltree::Document::parse(&picture).unwrap();
    assert!(picture.descendants().any(|node| node.text().is_some_and(|text| text.contains("seconds"))));
    here.refuse_use(&verify, "--input <INPUT>|--index <INDEX>");
    here.refuse_use(&[&verify[..], &["--input", &yes_flac(), "--seed", "3"]].concat(), "cannot be used with");
    here.refuse(&[&verify[..], &["--index", "clips.csv", "--plot", "l.tgi"]].concat(), "l.tgi", &["is also an input"]);
}

/// A dense layer of two inputs, and 200 steps of input in `x.npy`.
fn dense(here: &Workplace, weights: [f32; 2], input: impl Fn(usize) -> [f32; 2]) {
    let architecture = serde_json::json!({
        "version": 1, "source": "", "inputs": [{ "name": "x", "size": 2 }],
        "nodes": [{ "name": "sum", "cell": "dense", "inputs": ["x"], "input_size": 2, "hidden_size": 1, "output_size": 1 }],
        "outputs": [{ "name": "y", "size": 1, "from": "sum" }],
    });
    let weights = Tensor { shape: vec![1, 2], data: weights.to_vec() };
    let model = Canonical {
        architecture: serde_json::from_value(architecture).unwrap(),
        tensors: [("sum.weights".to_owned(), weights)].into(),
    };
    model.save(&here.path("d.safetensors")).unwrap();
    let x = Tensor { shape: vec![200, 2], data: (0..200).flat_map(input).collect() };
    write_tensors(&here.path("x.npy"), &[(UNNAMED.to_owned(), x)].into()).unwrap();
}

/// Packs a poor image of the model of [`dense`], and returns the warning.
fn warned(here: &Workplace, more: &[&str]) -> String {
    let pack = [&["pack", "d.safetensors", "-o", "d.tgi", "--calibrate", "x.npy", "--report", "d.json"], more].concat();
    let done = here.run(&pack);
    assert!(done.status.success() && here.path("d.tgi").exists());
    let warning = String::from_utf8(done.stderr).unwrap();
    let text = String::from_utf8(done.stdout).unwrap();
    let output = text.lines().find(|line| line.starts_with("output ")).unwrap();
    assert!(output.contains(" dB; weakest: ") && output.contains("; try "), "{output}");
    let report: Value = serde_json::from_slice(&here.read("d.json")).unwrap();
    assert_eq!(report["warnings"].as_array().map(Vec::len), Some(1), "{report}");
    fs::remove_file(here.path("d.tgi")).unwrap();
    let strict = here.run(&[&pack[..], &["--strict"]].concat());
    assert_eq!(strict.status.code(), Some(1));
    assert!(!here.path("d.tgi").exists());
    warning
}

#[test]
fn a_poor_image_is_warned_of_and_refused_if_strict() {
    let here = Workplace::new();
    let wave = |k: usize| (k as f32 * 0.7).sin();
    // The difference of two values that are nearly the same: eight bits round it away.
    dense(&here, [1.0, -0.998], |k| [wave(k), wave(k)]);
    let warning = warned(&here, &[]);
    assert!(
        warning.contains("layer sum") && warning.contains("its weights have too few bits; try --keep sum=16"),
        "{warning}"
    );
    dense(&here, [1.0, -0.93], |k| [wave(k), wave(k)]);
    let nibbles = warned(&here, &["--numeric", "i4x16"]);
    assert!(nibbles.contains("its weights have too few bits; try --keep sum=8"), "{nibbles}");
    // The output follows the smaller input, which drowns in the steps of the greater.
    dense(&here, [0.0, 1.0], |k| [1000.0 * wave(2 * k), 0.01 * wave(k)]);
    let warning = warned(&here, &[]);
    assert!(
        warning.contains("or for what it reads; try inputs of one magnitude") && !warning.contains("--keep"),
        "{warning}"
    );
    // Values beyond half of the range are clipped.
    dense(&here, [1.0, 0.5], |k| [wave(k), wave(3 * k)]);
    let warning = warned(&here, &["--range", "sum:percentile=50"]);
    assert!(warning.contains("layer sum") && warning.contains("% of its values saturate"), "{warning}");
}

#[test]
fn calibration_data_of_zeros_are_warned_of() {
    let here = Workplace::new();
    dense(&here, [1.0, 0.5], |_| [0.0, 0.0]);
    let pack = ["pack", "d.safetensors", "-o", "d.tgi", "--calibrate", "x.npy"];
    let done = here.run(&pack);
    let warning = String::from_utf8(done.stderr).unwrap();
    assert!(done.status.success() && warning.contains("data are zero throughout in \"x\"; try real data"), "{warning}");
    assert_eq!(here.run(&[&pack[..], &["--strict"]].concat()).status.code(), Some(1));
}

#[test]
fn changed_decisions_are_warned_of() {
    let here = Workplace::new();
    clips(&here);
    let gru = gru_pb();
    let pack = ["pack", &gru, "-o", "g.tgi", "--calibrate", "clips.csv", "--evaluate", "clips.csv"];
    let done = here.run(&[&pack[..], &["--range", "dense:percentile=20"]].concat());
    let warning = String::from_utf8(done.stderr).unwrap();
    assert!(warning.contains("decisions of clips.csv differ") && warning.contains("weakest: layer dense"), "{warning}");
    let text = String::from_utf8(done.stdout).unwrap();
    assert!(text.lines().any(|line| line.starts_with("decisions as in f32: ")), "{text}");
}

#[test]
fn a_report_is_a_page_with_pictures() {
    let here = Workplace::new();
    clips(&here);
    here.succeed(&["pack", &gru_pb(), "-o", "g.tgi", "--calibrate", "clips.csv", "--report", "r.html"]);
    let page = String::from_utf8(here.read("r.html")).unwrap();
    let (_, page) = page.split_once("<!DOCTYPE html>").unwrap();
    // maud leaves out the end of void elements, which XML needs.
    let page = page.replace("<meta charset=\"utf-8\">", "");
    let page = roxmltree::Document::parse(&page).unwrap();
    let count = |name: &str| page.descendants().filter(|node| node.has_tag_name(name)).count();
    // A row for each value and the titles; a histogram for each value; a bar of memory for each part.
    assert!(count("tr") >= 5 && count("svg") + 1 == count("tr"), "{} {}", count("tr"), count("svg"));
    let text: String = page.descendants().filter_map(|node| node.text()).collect();
    for part in ["GRU_S.pb", "g.tgi: 87,760 bytes", "output ", "Flash: 87,760 bytes", "states", "gru 8"] {
        assert!(text.contains(part), "{part}");
    }
}

/// The shipped keyword spotters deserve no warning.
#[test]
fn a_good_image_gives_no_warning() {
    let here = Workplace::new();
    let index = shipped("speech_commands/index.csv");
    for model in ["Basic_LSTM_S", "LSTM_S", "GRU_S", "CRNN_S"] {
        let file = shipped(&format!("hello_edge/{model}.pb"));
        let done = here.run(&["pack", &file, "-o", "g.tgi", "--calibrate", &index, "--strict"]);
        assert!(done.status.success() && done.stderr.is_empty(), "{}", String::from_utf8_lossy(&done.stderr));
    }
}

/// Goals that cannot be reached, and layers that cannot have weights of 16 bits, are refused, and no image is written.
#[test]
fn goals_that_cannot_be_reached_are_refused() {
    let here = Workplace::new();
    clips(&here);
    let gru = gru_pb();
    let pack = ["pack", &gru, "-o", "g.tgi", "--calibrate", "clips.csv"];
    let refused: [(&[&str], &[&str]); 5] = [
        (&["--keep", "nothing=16"], &["--keep", "nothing", "these can: gru, dense"]),
        (&["--at-least", "119dB"], &["the output reaches", "--at-least"]),
        (&["--budget", "10KiB"], &["the image takes", "--budget"]),
        (&["--keep", "gru=16", "--numeric", "i4x16"], &["--keep", "in i4x16 weights have 4 or 8 bits"]),
        (&["--keep", "gru=4"], &["--keep", "in i8x16 weights have 8 or 16 bits"]),
    ];
    for (args, parts) in refused {
        let done = here.run(&[&pack[..], args].concat());
        let error = String::from_utf8(done.stderr).unwrap();
        assert!(done.status.code() == Some(1) && error.lines().count() == 1, "{args:?}: {error}");
        assert!(parts.iter().all(|part| error.contains(part)), "{args:?}: {error}");
        assert!(!here.path("g.tgi").exists());
    }
    for wrong in [["--keep", "gru"], ["--keep", "gru=5"], ["--at-least", "much"], ["--budget", "1GB"]] {
        let done = here.run(&[&pack[..], &wrong].concat());
        assert_eq!(done.status.code(), Some(2), "{wrong:?}");
    }
    let float = here.run(&["pack", &gru, "-o", "g.tgi", "--numeric", "f32", "--keep", "gru=16"]);
    assert!(String::from_utf8(float.stderr).unwrap().contains("--keep: is only for integers"));
    let kept = here.succeed(&[&pack[..], &["--keep", "gru=16", "--at-least", "45dB"]].concat());
    assert!(kept.lines().any(|line| line.starts_with("output ")), "{kept}");
}
