//! Models that the frameworks wrote, compared with the outputs that the frameworks computed. The samples are in
//! `tests/frameworks`; `TIDEGATE_FRAMEWORKS_DIR` may name a folder with models that the scripts there wrote with
//! another seed. `cargo test --release -p tidegate-tests --test import frameworks -- --nocapture`

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use safetensors::SafeTensors;
use serde_json::{Value as Json, json};
use tidegate::{Layout, Numeric, State};
use tidegate_model::cadence::steps_per_output;
use tidegate_model::canonical::{Canonical, Tensor};
use tidegate_model::data::read_tensors;
use tidegate_model::error::ImportError;
use tidegate_model::format::{Options, import_with};
use tidegate_model::pack::pack_with;
use tidegate_model::quantize::{Ranges, RangesError};
use tidegate_tests::images::AlignedBytes;
use tidegate_tests::tolerance::worst;

/// Largest allowed difference from the framework's output.
const TOLERANCE: f32 = 1e-5;
/// Least signal-to-noise ratio in integers.
const LEAST_DB: f64 = 28.0;

/// The sample folders, and the one in `TIDEGATE_FRAMEWORKS_DIR`.
fn folders() -> Vec<PathBuf> {
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("frameworks");
    let mut folders: Vec<PathBuf> = fs::read_dir(&samples)
        .expect("the samples are there")
        .map(|entry| entry.expect("the folder can be read").path())
        // `tf1_graphs.rs`, `import_onnx.rs`, `import_tflite.rs`, `import_amps.rs` and `docs/attributes.rs` read the others.
        .filter(|path| {
            path.is_dir() && !["attributes", "nam", "tf1_graph", "onnx", "tflite"].iter().any(|own| path.ends_with(own))
        })
        .collect();
    folders.sort();
    folders.extend(std::env::var_os("TIDEGATE_FRAMEWORKS_DIR").map(PathBuf::from));
    folders
}

fn cases(folder: &Path) -> Vec<PathBuf> {
    let mut cases: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.expect("the folder can be read").path())
        .filter(|path| path.to_string_lossy().ends_with(".golden.safetensors"))
        .collect();
    cases.sort();
    cases
}

#[test]
fn models_of_frameworks_compute_the_outputs_of_the_frameworks() {
    let mut bad = Vec::new();
    for folder in folders() {
        let cases = cases(&folder);
        let results: Vec<Result<f32, String>> = cases.iter().map(|path| run(path)).collect();
        for (path, result) in cases.iter().zip(&results) {
            if let Err(reason) = result {
                println!("failed {}: {reason}", path.display());
            }
        }
        let failed = results.iter().filter(|result| result.is_err()).count();
        let most = worst(results.iter().flatten().copied());
        println!("{}: {} passed, {failed} failed, {most:e} off at most", folder.display(), cases.len() - failed);
        if failed > 0 || cases.len() < 20 {
            bad.push(format!("{}: {failed} of {} failed", folder.display(), cases.len()));
        }
    }
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}

/// The signal-to-noise ratio in integers of the models whose cells all have an integer form and whose outputs are not
/// all zero. They are calibrated on their own input.
#[test]
fn models_of_frameworks_stay_accurate_in_integers() {
    let (mut held, mut far) = (0, Vec::new());
    for path in folders().iter().flat_map(|folder| cases(folder)) {
        let (model, tensors) = case(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let (inputs, expected) = (ports(&tensors, "input"), ports(&tensors, "output"));
        let data: Vec<&[f32]> = inputs.iter().map(|input| input.data.as_slice()).collect();
        let ranges = match Ranges::measure(&model, [data.as_slice()]) {
            Ok(ranges) => ranges,
            // A window longer than the input.
            Err(RangesError::NeverRan { .. }) => continue,
            Err(error) => panic!("{}: {error}", path.display()),
        };
        let bytes = match pack_with(&model, Numeric::I8x16, &ranges, Layout::Portable) {
            Ok(bytes) => bytes,
            Err(error) => {
                println!("{}: {error}", path.display());
                continue;
            }
        };
        let given = outputs(&AlignedBytes::new(&bytes), &inputs).expect("the model runs").concat();
        let power = |values: &mut dyn Iterator<Item = f32>| values.map(|value| f64::from(value).powi(2)).sum::<f64>();
        let expected: Vec<f32> = expected.iter().flat_map(|port| port.data.iter().copied()).collect();
        assert_eq!(given.len(), expected.len(), "{}", path.display());
        let noise = power(&mut given.iter().zip(&expected).map(|(y, expected)| y - expected));
        let snr = 10.0 * (power(&mut expected.iter().copied()) / noise).log10();
        println!("{}: {snr:.1} dB", path.display());
        held += 1;
        if snr < LEAST_DB {
            far.push(format!("{}: {snr:.1} dB", path.display()));
        }
    }
    println!("{held} models in integers");
    assert!(held > 100 && far.is_empty(), "{}", far.join("\n"));
}

/// Weights show neither activations nor which outputs are used: a draft leaves these open, and is refused unchanged.
#[test]
fn a_draft_of_an_architecture_is_refused_until_it_is_completed_and_then_computes_the_outputs() {
    let mut seen = 0;
    for path in folders().iter().flat_map(|folder| cases(folder)) {
        let Some(name) = path.file_name().and_then(|name| name.to_str()).filter(|name| name.starts_with("draft"))
        else {
            continue;
        };
        let metadata = metadata(&path).unwrap();
        let file = path.with_file_name(&metadata["model"]);
        let draft = match import_with(&file, &Options::default()) {
            Err(ImportError::NeedsArchitecture { draft, .. }) => draft,
            other => panic!("{}: {other:?}", path.display()),
        };
        let tensors = read_tensors(&path).unwrap();
        let (inputs, expected) = (ports(&tensors, "input"), ports(&tensors, "output"));
        let windowed = draft.contains("Bidirectional");
        let import = |text: &str| {
            let description = Some(serde_json::from_str(text).expect("the draft is a description"));
            let window = windowed.then(|| inputs[0].shape[0]);
            import_with(&file, &Options { description, window, ..Options::default() })
        };
        assert!(import(&draft).is_err(), "{}: {draft}", path.display());
        let mut json: Json = serde_json::from_str(&draft).unwrap();
        if metadata.get("framework").is_some_and(|framework| framework == "torch") {
            let arch = fs::read(path.with_file_name(&metadata["arch"])).expect("the architecture can be read");
            insert_functions(&mut json, &serde_json::from_slice(&arch).expect("the architecture is JSON"));
        }
        complete(&mut json);
        let completed = import(&json.to_string());
        seen += 1;
        if name.contains("equal") {
            assert!(completed.is_err() && draft.contains(r#""inputs":["?"]"#), "{draft}");
            continue;
        }
        let model = completed.unwrap_or_else(|error| panic!("{}: {error}: {json}", path.display())).model;
        let given = outputs(&AlignedBytes::pack(&model, Numeric::F32), &inputs).unwrap().concat();
        let off = worst(given.iter().zip(&expected[0].data).map(|(y, expected)| (y - expected).abs()));
        assert!(given.len() == expected[0].data.len() && off <= TOLERANCE, "{}: {off:e}", path.display());
    }
    assert!(seen >= 10, "{seen} drafts");
}

/// Replaces the open layers of a draft, which have no weights, by those of the architecture with the same names.
fn insert_functions(draft: &mut Json, arch: &Json) {
    let layers = draft["layers"].as_array_mut().expect("a draft has layers");
    let known = arch["layers"].as_array().expect("an architecture has layers");
    layers.retain_mut(|layer| {
        let same = known.iter().find(|known| known["name"] == layer["name"]);
        if let Some(class) = same.map(|known| known["class"].clone()).filter(|_| layer["class"] == "?") {
            layer["class"] = class;
        }
        layer["class"] != "?"
    });
}

/// Fills in what all models with drafts have in common; the order of layers stays open.
fn complete(json: &mut Json) {
    let is_recurrent = json.get("return_sequences").is_some();
    let values = match json {
        Json::Object(object) => object.iter_mut().map(|(key, value)| (key.clone(), value)).collect(),
        Json::Array(list) => list.iter_mut().map(|value| (String::new(), value)).collect(),
        _ => Vec::new(),
    };
    for (key, value) in values {
        if value != "?" {
            complete(value);
            continue;
        }
        *value = match key.as_str() {
            "activation" if is_recurrent => json!("tanh"),
            "activation" => json!("linear"),
            "recurrent_activation" => json!("sigmoid"),
            "merge_mode" => json!("concat"),
            "epsilon" => json!(0.001),
            "mask_zero" => json!(false),
            "padding" => json!("causal"),
            "return_sequences" => json!(true),
            "strides" => json!(1),
            "take" => json!("sequence"),
            _ => continue,
        };
    }
}

fn metadata(golden: &Path) -> Result<HashMap<String, String>, String> {
    let bytes = fs::read(golden).map_err(|error| error.to_string())?;
    let (_, header) = SafeTensors::read_metadata(&bytes).map_err(|error| error.to_string())?;
    Ok(header.metadata().clone().unwrap_or_default())
}

/// The model of a case, with its inputs and expected outputs.
fn case(golden: &Path) -> Result<(Canonical, BTreeMap<String, Tensor>), String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let metadata = metadata(golden)?;
    let beside = |key: &str| metadata.get(key).map(|name| golden.with_file_name(name));
    let window = metadata.get("window").map(|window| window.parse()).transpose().map_err(|error| text(&error))?;
    let options = Options::new(beside("arch").as_deref(), window).map_err(|error| text(&error))?;
    let file = beside("model").ok_or("no model")?;
    let imported = import_with(&file, &options).map_err(|error| text(&error))?;
    Ok((imported.model, read_tensors(golden).map_err(|error| text(&error))?))
}

/// Runs a model and returns the largest difference of its output.
fn run(golden: &Path) -> Result<f32, String> {
    let (model, tensors) = case(golden)?;
    let (inputs, expected) = (ports(&tensors, "input"), ports(&tensors, "output"));
    let given = outputs(&AlignedBytes::pack(&model, Numeric::F32), &inputs)?;
    let lengths = |all: &mut dyn Iterator<Item = usize>| all.collect::<Vec<_>>();
    let has = lengths(&mut given.iter().map(Vec::len));
    let wanted = lengths(&mut expected.iter().map(|port| port.data.len()));
    if has != wanted {
        return Err(format!("{has:?} numbers where the framework has {wanted:?}"));
    }
    let expected = expected.iter().flat_map(|port| &port.data);
    let off = given.iter().flatten().zip(expected).map(|(y, expected)| (y - expected).abs());
    match off.fold(0.0, |most: f32, off| if off > most || off.is_nan() { off } else { most }) {
        most if most <= TOLERANCE => Ok(most),
        most => Err(format!("{most:e} off")),
    }
}

/// The tensors of all ports: `input`, `input_1`, ...
fn ports<'a>(tensors: &'a BTreeMap<String, Tensor>, name: &str) -> Vec<&'a Tensor> {
    let names = (0..).map(|k| if k == 0 { name.to_owned() } else { format!("{name}_{k}") });
    names.map_while(|name| tensors.get(&name)).collect()
}

/// All outputs of each port for a sequence, concatenated. Fails if they do not come as often as [`steps_per_output`] says.
fn outputs(image: &AlignedBytes, inputs: &[&Tensor]) -> Result<Vec<Vec<f32>>, String> {
    let model = image.model();
    let (mut memory, mut scratch) = (vec![0; model.state_words()], vec![0; model.scratch_words()]);
    let mut state = State::new(&model, &mut memory).expect("the memory has the model's own length");
    let takes: Vec<usize> = model.inputs().map(|port| port.size).collect();
    let has: Vec<usize> = inputs.iter().map(|input| input.shape.iter().skip(1).product()).collect();
    if takes != has {
        return Err(format!("inputs of {takes:?} features where the framework has {has:?}"));
    }
    let sizes: Vec<usize> = model.outputs().map(|port| port.size).collect();
    let mut all = vec![Vec::new(); sizes.len()];
    let mut last = None;
    for step in 0..=inputs[0].shape[0] {
        let mut y: Vec<Vec<f32>> = sizes.iter().map(|&size| vec![0.0; size]).collect();
        let mut slices: Vec<&mut [f32]> = y.iter_mut().map(Vec::as_mut_slice).collect();
        let row = |(input, &size): (&&Tensor, &usize)| input.data.chunks(size).nth(step).map(<[f32]>::to_vec);
        let rows: Option<Vec<Vec<f32>>> = inputs.iter().zip(&takes).map(row).collect();
        let is_end = rows.is_none();
        let done = match rows {
            Some(rows) => {
                let rows: Vec<&[f32]> = rows.iter().map(Vec::as_slice).collect();
                model.step_ports(&mut state, &mut scratch, &rows, &mut slices)
            }
            None => model.finish(&mut state, &mut scratch, &mut slices),
        };
        if done.expect("every length is right").has_output() {
            for (port, y) in all.iter_mut().zip(y) {
                port.extend(y);
            }
            let (every, before) = (steps_per_output(&model), last.replace(step));
            if let Some(passed) = before.map(|before| step - before).filter(|passed| !is_end && *passed != every) {
                return Err(format!("an output after {passed} steps, not {every}"));
            }
        }
    }
    Ok(all)
}
