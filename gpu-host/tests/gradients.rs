//! Compares the CPU path with PyTorch: scores, loss and gradients recorded by `tests/frameworks/torch_gradients.py`,
//! and by `torch_fake_quantize.py` for values rounded to 16 bits. Also tests the exported model.

use std::collections::BTreeMap;
use std::path::PathBuf;

use chacha20::ChaCha8Rng;
use chacha20::rand_core::SeedableRng;
use tidegate::{ImageBytes, Model, Numeric};
use tidegate_gpu::cpu::count::Units;
use tidegate_gpu::cpu::{Batch, Stack};
use tidegate_gpu::layout::Layout;
use tidegate_gpu::network::{Cpu, Draws, Learned, Lesson, Network, Scaling};
use tidegate_gpu::rnn::{Cell, Direction, InputMode, Rnn, Settings};
use tidegate_gpu::weights::{canonical_to_params, params_to_canonical};
use tidegate_model::canonical::Tensor;
use tidegate_model::data::read_tensors;
use tidegate_model::format::Description;
use tidegate_model::load::packed;
use tidegate_model::runner::run;
use tidegate_model::score::best;
use tidegate_tests::tolerance::worst;

const FEATURES: usize = 3;
const CLASSES: usize = 4;

struct Case {
    name: String,
    network: Network,
    dict: BTreeMap<String, Tensor>,
    params: Vec<f32>,
    lengths: Vec<usize>,
    classes: Vec<usize>,
    /// Scales, if values are rounded.
    units: Option<Vec<Vec<Units>>>,
}

impl Case {
    /// `[steps, features]` of each sequence, without padding.
    fn sequences(&self) -> Vec<&[f32]> {
        let x = &self.dict["x"];
        let rows = x.data.chunks(x.shape[1] * FEATURES).zip(&self.lengths);
        rows.map(|(rows, length)| &rows[..length * FEATURES]).collect()
    }

    fn batch(&self) -> Batch {
        let (sequences, steps) = (self.sequences(), *self.lengths.iter().max().unwrap());
        let mut data = vec![0.0; steps * sequences.len() * FEATURES];
        for (k, rows) in sequences.iter().enumerate() {
            for (step, row) in rows.chunks(FEATURES).enumerate() {
                let from = (step * sequences.len() + k) * FEATURES;
                data[from..from + FEATURES].copy_from_slice(row);
            }
        }
        Batch { data, lengths: self.lengths.clone(), features: FEATURES }
    }
}

fn cases() -> Vec<Case> {
    recorded("gradients", 8)
}

fn recorded(folder: &str, count: usize) -> Vec<Case> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests").join(folder);
    let mut found = Vec::new();
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let description = Description::read(&path).unwrap();
        let network = Network::new(&description).unwrap();
        let dict = read_tensors(&path.with_extension("safetensors")).unwrap();
        let whole = |name: &str| dict[name].data.iter().map(|&value| value as usize).collect::<Vec<_>>();
        let (params, lengths, classes) = (network.params(&dict).unwrap(), whole("lengths"), whole("y"));
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let units = |layer: &str| -> Option<Vec<Units>> {
            let rows = dict.get(&format!("units.{layer}"))?.data.as_chunks::<3>().0.iter();
            Some(rows.map(|&[hidden, cell, memory]| Units { hidden, cell, memory }).collect())
        };
        let units = description.layers.iter().map(|layer| units(&layer.name)).collect();
        found.push(Case { name, network, params, lengths, classes, units, dict });
    }
    assert_eq!(found.len(), count, "{}", folder.display());
    found
}

/// The largest difference relative to the largest value, or to 0.001 if all values are smaller: some gradients are
/// zero.
fn distance(found: &[f32], needed: &[f32]) -> f32 {
    assert_eq!(found.len(), needed.len());
    let largest = worst(needed.iter().map(|value| value.abs()));
    worst(found.iter().zip(needed).map(|(a, b)| (a - b).abs())) / largest.max(1e-3)
}

#[test]
fn scores_loss_and_gradients_equal_pytorch_s() {
    for case in cases() {
        compare(&case, 0.0);
    }
}

/// Gradients pass through rounding unchanged and are zero for saturated and clipped values. If scales are so small that
/// values saturate, sums in another order may round to the next integer, one of 32,767.
#[test]
fn gradients_through_rounded_values_equal_pytorch_s() {
    for case in recorded("counted", 10) {
        compare(&case, if case.name.ends_with("cut") { 1.0 / 32_767.0 } else { 0.0 });
    }
}

fn compare(case: &Case, more: f32) {
    let name = &case.name;
    let units = case.units.as_deref();
    let Ok((scores, _)) = case.network.scores(&mut Cpu, &case.params, case.batch(), None, units);
    assert!(distance(&scores, &case.dict["scores"].data) < 1e-5 + more, "{name}");
    let mut gradient = vec![0.0; case.network.params_size()];
    let count = case.classes.len();
    let draws = Draws::new(vec![(ChaCha8Rng::seed_from_u64(0), count)]);
    let lesson = Lesson { batch: case.batch(), classes: &case.classes, sequences: count, from: None, units };
    let Ok(Learned { loss, right, .. }) = case.network.learn(&mut Cpu, &case.params, lesson, draws, &mut gradient);
    assert!((loss as f32 - case.dict["loss"].data[0]).abs() < 1e-5 + more, "{name}: {loss}");
    let rows = scores.chunks(CLASSES).zip(&case.classes);
    assert_eq!(right, rows.filter(|(row, class)| best(row) == **class).count(), "{name}");
    let gradients = case.network.state_dict(&gradient);
    let needed: Vec<&String> = case.dict.keys().filter(|key| key.starts_with("grad.")).collect();
    assert_eq!(gradients.len(), needed.len(), "{name}");
    for (key, found) in &gradients {
        let apart = distance(&found.data, &case.dict[&format!("grad.{key}")].data);
        assert!(apart < 2e-5 + more, "{name}: gradient of {key} is {apart:e} off");
    }
}

/// Gradients are accumulated, and the parts of a batch have the gradient of the whole batch.
#[test]
fn a_batch_in_parts_has_the_same_gradient() {
    for case in cases() {
        let learn = |batch, classes: &[usize], into: &mut [f32]| {
            let draws = Draws::new(vec![(ChaCha8Rng::seed_from_u64(0), classes.len())]);
            let lesson = Lesson { batch, classes, sequences: 5, from: None, units: None };
            let Ok(learned) = case.network.learn(&mut Cpu, &case.params, lesson, draws, into);
            learned
        };
        let mut whole = vec![0.0; case.network.params_size()];
        let mut parts = whole.clone();
        learn(case.batch(), &case.classes, &mut whole);
        for (rows, class) in case.sequences().into_iter().zip(&case.classes) {
            let batch = Batch { data: rows.to_vec(), lengths: vec![rows.len() / FEATURES], features: FEATURES };
            learn(batch, &[*class], &mut parts);
        }
        assert!(distance(&parts, &whole) < 1e-5, "{}", case.name);
    }
}

#[test]
fn a_state_dict_is_read_back() {
    for case in cases() {
        assert_eq!(case.network.params(&case.network.state_dict(&case.params)).unwrap(), case.params, "{}", case.name);
        let mut dict = case.network.state_dict(&case.params);
        let name = dict.keys().next().unwrap().clone();
        dict.get_mut(&name).unwrap().shape.push(1);
        assert!(case.network.params(&dict).unwrap_err().to_string().contains(&name));
        dict.remove(&name);
        assert!(case.network.params(&dict).unwrap_err().to_string().contains(&name));
    }
}

/// The exported model reads unscaled features.
#[test]
fn the_exported_model_computes_the_trained_scores() {
    let scaling = Scaling { mean: vec![5.0, -2.0, 0.5], deviation: vec![10.0, 0.25, 2.0] };
    let clipped = recorded("counted", 10).into_iter().filter(|case| case.units.is_none());
    for case in cases().into_iter().chain(clipped).filter(|case| case.name != "gru_without_bias") {
        let model = case.network.model(&case.params, &scaling, "a test").unwrap();
        let image = packed(&PathBuf::from(&case.name), &model, Numeric::F32).unwrap();
        let longest = *case.lengths.iter().max().unwrap();
        let scores = &case.dict["scores"].data;
        for (k, rows) in case.sequences().into_iter().enumerate() {
            // A model with a window runs only over whole windows.
            let windowed = model.architecture.nodes.iter().any(|node| node.unroll.is_some());
            if windowed && rows.len() < longest * FEATURES {
                continue;
            }
            let whole = rows.iter().zip((0..FEATURES).cycle());
            let raw: Vec<f32> = whole.map(|(x, k)| x * scaling.deviation[k] + scaling.mean[k]).collect();
            let image = Model::parse(ImageBytes::new(image.bytes()).unwrap()).unwrap();
            let outputs = run(&image.endless(), &[&raw], None).unwrap().outputs;
            let last = outputs[0].rchunks(CLASSES).next().unwrap();
            assert!(distance(last, &scores[k * CLASSES..(k + 1) * CLASSES]) < 1e-4, "{}", case.name);
        }
    }
}

#[test]
fn scaling_requires_a_bias() {
    let case = cases().into_iter().find(|case| case.name == "gru_without_bias").unwrap();
    let scaling = Scaling { mean: vec![1.0; 3], deviation: vec![1.0; 3] };
    let error = case.network.model(&case.params, &scaling, "").unwrap_err().to_string();
    assert!(error.contains("\"rnn\"") && error.contains("bias"), "{error}");
    case.network.model(&case.params, &Scaling::none(3), "").unwrap();
}

/// Missing input weights are equivalent to the identity, forward and backward.
#[test]
fn missing_input_weights_are_the_identity() {
    for cell in Cell::ALL {
        let settings = Settings { layers: 2, direction: Direction::Bidirectional, ..Settings::new(cell, 4, 4) };
        let linear = Rnn::new(settings).unwrap();
        let skipped = Rnn::new(Settings { input_mode: InputMode::Skip, ..settings }).unwrap();
        let mut number = 0_u32;
        let mut next = |len: usize| -> Vec<f32> {
            let mut each = || {
                number = number.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (number >> 8) as f32 / (1 << 24) as f32 - 0.5
            };
            (0..len).map(|_| each()).collect()
        };
        let params = next(Layout::described(&skipped).params_size());
        let mut weights = params_to_canonical(&Layout::described(&skipped), &params).unwrap();
        let identity = (0..cell.blocks() * 16).map(|k| f32::from(u8::from(k / 4 % 4 == k % 4))).collect::<Vec<_>>();
        for layer in &mut weights[..2] {
            layer.insert("input_weights", Tensor { shape: vec![cell.blocks() * 4, 4], data: identity.clone() });
        }
        let mut whole = vec![0.0; Layout::described(&linear).params_size()];
        canonical_to_params(&Layout::described(&linear), &weights, &mut whole).unwrap();
        let batch = Batch { data: next(5 * 3 * 4), lengths: vec![5, 2, 4], features: 4 };
        let through = |rnn: &Rnn, params: &[f32]| {
            let stack = Stack::new(rnn);
            let (outputs, tape, _) = stack.forward(params, &batch, None, None, None);
            let mut gradient = vec![0.0; params.len()];
            let to_x = stack.backward(params, &tape, &outputs.data, &mut gradient);
            (outputs.data, to_x, params_to_canonical(&Layout::described(rnn), &gradient).unwrap())
        };
        let (found, needed) = (through(&skipped, &params), through(&linear, &whole));
        assert!(distance(&found.0, &needed.0) < 1e-6 && distance(&found.1, &needed.1) < 1e-5, "{cell:?}");
        for (found, needed) in found.2.iter().zip(&needed.2) {
            for (name, tensor) in found {
                assert!(distance(&tensor.data, &needed[name].data) < 1e-5, "{cell:?}: {name}");
            }
        }
    }
}

/// Two halves of a sequence with a carried state are equivalent to the whole sequence.
#[test]
fn a_carried_state_joins_two_sequences() {
    for case in cases().iter().filter(|case| case.network.goes_on()) {
        for rows in case.sequences().into_iter().filter(|rows| rows.len() > FEATURES) {
            let batch =
                |rows: &[f32]| Batch { data: rows.to_vec(), lengths: vec![rows.len() / FEATURES], features: FEATURES };
            let (first, second) = rows.split_at(rows.len() / FEATURES / 2 * FEATURES);
            let Ok((_, carried)) = case.network.scores(&mut Cpu, &case.params, batch(first), None, None);
            let Ok((parts, end)) = case.network.scores(&mut Cpu, &case.params, batch(second), Some(&carried), None);
            let Ok((whole, whole_end)) = case.network.scores(&mut Cpu, &case.params, batch(rows), None, None);
            assert_eq!((parts, end), (whole, whole_end), "{}", case.name);
        }
    }
    assert!(cases().iter().any(|case| !case.network.goes_on()));
}
