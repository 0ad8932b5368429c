//! Frozen graphs that TensorFlow wrote and ran (`frameworks/tf1_graph.py`, `tf1_graph_contrib.py`, `tf2_graph.py`):
//! every graph can be imported and computes TensorFlow's outputs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use tidegate::{Numeric, State};
use tidegate_model::canonical::{Canonical, Tensor};
use tidegate_model::data::read_tensors;
use tidegate_model::format::{Options, import_with, onnx::Given};
use tidegate_tests::images::AlignedBytes;
use tidegate_tests::tolerance;

/// Largest allowed difference from TensorFlow's output.
const BOUND: f32 = 1e-5;

fn folders() -> Vec<PathBuf> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("frameworks/tf1_graph");
    let more = std::env::var_os("TIDEGATE_FRAMEWORKS_DIR").map(|folder| PathBuf::from(folder).join("tf1_graph"));
    std::iter::once(own).chain(more.filter(|more| more.is_dir())).collect()
}

/// All outputs of a sequence, concatenated.
fn outputs(model: &Canonical, x: &[f32]) -> Vec<f32> {
    let image = AlignedBytes::pack(model, Numeric::F32);
    let model = image.model().endless();
    let (mut memory, mut scratch) = (vec![0; model.state_words()], vec![0; model.scratch_words()]);
    let mut state = State::new(&model, &mut memory).unwrap();
    let (mut all, mut y) = (Vec::new(), vec![0.0; model.output_size()]);
    for x in x.chunks(model.input_size()) {
        if model.step_f32(&mut state, &mut scratch, x, &mut y).unwrap().has_output() {
            all.extend_from_slice(&y);
        }
    }
    all
}

/// The largest difference: over all outputs of a sequence, or in the last output for graphs with a single output.
fn worst(model: &Canonical, case: &BTreeMap<String, Tensor>) -> Result<f32, String> {
    let (input, expected) = (&case["input"], &case["output"]);
    let all = outputs(model, &input.data);
    let skipped = if expected.shape.len() == 2 { all.len().saturating_sub(expected.data.len()) } else { 0 };
    let counted = &all[skipped..];
    if counted.len() != expected.data.len() {
        return Err(format!("{} outputs, TensorFlow has {:?}", counted.len(), expected.shape));
    }
    let differences = counted.iter().zip(&expected.data).map(|(got, expected)| (got - expected).abs());
    Ok(tolerance::worst(differences))
}

#[test]
fn graphs_that_tensorflow_wrote_compute_the_outputs_of_tensorflow() {
    let (mut passed, mut failed) = (0, Vec::new());
    for folder in folders() {
        let mut files: Vec<PathBuf> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.retain(|file| file.extension().is_some_and(|extension| extension == "pb"));
        files.sort();
        for file in files {
            let case = read_tensors(&file.with_extension("safetensors")).unwrap();
            let window = case.get("window").map(|window| window.data[0] as usize);
            let dims = |shape: &Tensor| shape.data.iter().map(|&dim| dim as usize).collect();
            let shapes = case.get("shape").map(|shape| ("features".to_owned(), dims(shape))).into_iter().collect();
            let onnx = Given { shapes, ..Given::default() };
            let imported = import_with(&file, &Options { window, onnx, ..Options::default() });
            let imported = imported.map_err(|error| error.to_string());
            let result = imported.and_then(|imported| worst(&imported.model, &case));
            match result {
                Ok(worst) if worst <= BOUND => passed += 1,
                Ok(worst) => failed.push(format!("{}: {worst:.2e}", file.display())),
                Err(reason) => failed.push(format!("{}: {reason}", file.display())),
            }
        }
    }
    println!("{passed} graphs of TensorFlow 1 agree, {} do not", failed.len());
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    assert!(passed >= 20, "only {passed} graphs");
}

#[test]
fn a_placeholder_without_a_shape_asks_for_it_with_the_number_of_features_if_a_product_shows_it() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("frameworks/tf1_graph");
    let refusal = |name: &str| import_with(&folder.join(name), &Options::default()).unwrap_err().to_string();
    let line = refusal("of_unknown_rank.pb");
    // A cell joins its input and its state.
    let expected =
        "give it with --shape features=1,STEPS,FEATURES, with the numbers of steps and of features of a step";
    assert!(line.contains(expected), "{line}");
    let line = refusal("unshaped_dense.pb");
    assert!(
        line.contains("give it with --shape features=1,STEPS,") && line.contains("with STEPS, the number of steps,"),
        "{line}"
    );
    let features = read_tensors(&folder.join("unshaped_dense.safetensors")).unwrap()["input"].shape[2];
    assert!(line.contains(&format!("1,STEPS,{features}, with")), "{line}");
}
