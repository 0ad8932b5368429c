//! Quantization-aware training uses the weights that the packer stores.

use std::collections::BTreeMap;
use std::path::Path;

use chacha20::ChaCha8Rng;
use chacha20::rand_core::SeedableRng;
use tidegate::{Layout, Numeric};
use tidegate_gpu::cpu::count::{count, stop};
use tidegate_gpu::network::{Integers, Network, Scaling};
use tidegate_model::canonical::Canonical;
use tidegate_model::format::Description;
use tidegate_model::load::ImageBuffer;
use tidegate_model::pack::pack_with;
use tidegate_model::quantize::{Kept, KeptWeight, Ranges};
use tidegate_model::runner::run;
use tidegate_tests::tolerance::worst;

const STEPS: usize = 40;
const NUMERICS: [Numeric; 2] = [Numeric::I8x16, Numeric::I4x16];

/// Networks with every layer that can be trained.
fn networks() -> Vec<(&'static str, Network)> {
    let layer = |class: &str, args: serde_json::Value| serde_json::json!({"name": "rnn", "class": class, "args": args, "take": "last"});
    let all = [
        ("lstm", layer("LSTM", serde_json::json!({"hidden_size": 24, "num_layers": 2}))),
        ("projection", layer("LSTM", serde_json::json!({"hidden_size": 20, "proj_size": 12}))),
        ("gru", layer("GRU", serde_json::json!({"hidden_size": 40, "bidirectional": true}))),
        ("elman", layer("RNN", serde_json::json!({"hidden_size": 33}))),
    ];
    let network = |(name, layer)| {
        let arch = serde_json::json!({
            "framework": "torch", "inputs": [{"name": "x", "size": 7, "steps": STEPS}],
            "layers": [
                layer,
                {"name": "hidden", "class": "Linear", "args": {"out_features": 37}}, {"name": "bend", "class": "ReLU"},
                {"name": "fc", "class": "Linear", "args": {"out_features": 5}},
            ]
        });
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("arch.json");
        std::fs::write(&path, arch.to_string()).unwrap();
        (name, Network::new(&Description::read(&path).unwrap()).unwrap())
    };
    all.into_iter().map(network).collect()
}

/// A scaling like that of speech: the means and ranges of the features differ.
fn scaling() -> Scaling {
    Scaling {
        mean: (0..7).map(|k| k as f32 - 2.0).collect(),
        deviation: (0..7).map(|k| 0.3 * (k + 1) as f32).collect(),
    }
}

fn input() -> Vec<f32> {
    let rows = (0..STEPS).flat_map(|step| (0..7).map(move |k| (((step * 7 + k) * 37 % 64) as f32 / 16.0) - 2.0));
    let mut rows: Vec<f32> = rows.collect();
    rows.chunks_exact_mut(7).for_each(|row| scaling().undo(row));
    rows
}

fn ranges(model: &Canonical) -> Ranges {
    Ranges::measure(model, [[input().as_slice()].as_slice()]).unwrap()
}

fn last(model: &Canonical, numeric: Numeric, ranges: &Ranges) -> Vec<f32> {
    let image = ImageBuffer::new(&pack_with(model, numeric, &ranges.nearest(), Layout::Portable).unwrap());
    let outputs = run(&image.model().unwrap(), &[&input()], None).unwrap().outputs;
    outputs[0].rchunks(5).next().unwrap().to_vec()
}

fn distance(a: &[f32], b: &[f32]) -> f32 {
    worst(a.iter().zip(b).map(|(a, b)| (a - b).abs()))
}

/// In f32, the rounded weights give the image's results up to the 16 bits of values; the original weights do not.
#[test]
fn rounded_weights_equal_those_of_the_image() {
    for (name, network) in networks() {
        let params: Vec<f32> =
            network.initial(&mut ChaCha8Rng::seed_from_u64(3)).iter().map(|weight| 3.0 * weight).collect();
        let model = network.model(&params, &scaling(), "").unwrap();
        let ranges = ranges(&model);
        for numeric in NUMERICS {
            let integers = Integers::new(&network, numeric, &scaling()).unwrap();
            let rounded = integers.rounded(&network, &params, &model, &ranges).unwrap();
            let kept = network.model(&rounded.params, &scaling(), "").unwrap();
            let image = last(&model, numeric, &ranges);
            let off = distance(&last(&kept, Numeric::F32, &ranges), &image);
            let other = distance(&last(&model, Numeric::F32, &ranges), &image);
            println!("{name} {}: {off:e} off, {other:e} without", numeric.name());
            assert!(off < other / 4.0, "{name} {}: {off:e}, {other:e}", numeric.name());
        }
    }
}

/// Every weight is rounded to the nearest value of its row or group, or saturates.
#[test]
fn weights_move_by_half_a_step_or_saturate() {
    for (name, network) in networks() {
        let params = network.initial(&mut ChaCha8Rng::seed_from_u64(4));
        let model = network.model(&params, &Scaling::none(7), "").unwrap();
        for (numeric, group) in [(Numeric::I8x16, usize::MAX), (Numeric::I4x16, 32)] {
            let kept = Kept::new(&model, &ranges(&model), numeric).unwrap();
            let matrices: BTreeMap<&String, _> = model.tensors.iter().filter(|(_, of)| of.shape.len() == 2).collect();
            assert_eq!(kept.weights.keys().collect::<Vec<_>>(), matrices.keys().copied().collect::<Vec<_>>(), "{name}");
            for (tensor, before) in matrices {
                let cols = before.shape[1];
                for (kept, before) in kept.weights[tensor].chunks(cols).zip(before.data.chunks(cols)) {
                    let greatest = worst(before.iter().map(|weight| weight.abs()));
                    for (kept, before) in kept.chunks(group.min(cols)).zip(before.chunks(group.min(cols))) {
                        in_steps(kept, before, greatest);
                    }
                }
            }
        }
    }
}

/// `greatest` is the largest absolute weight of the row.
fn in_steps(kept: &[KeptWeight], before: &[f32], greatest: f32) {
    // Values are multiples of a step. If all are 0, the step is bounded by that of 4 bits for the largest weight of the
    // row.
    let mut numbers: Vec<f32> = kept.iter().map(|kept| kept.value).chain([0.0]).collect();
    numbers.sort_by(f32::total_cmp);
    let gaps = numbers.windows(2).map(|pair| pair[1] - pair[0]).filter(|gap| *gap > 1e-3 * greatest);
    let gap = gaps.fold(greatest / 4.0, f32::min);
    let most = worst(numbers.iter().map(|number| number.abs()));
    for (kept, before) in kept.iter().zip(before) {
        let moved = (kept.value - before).abs();
        let cut = kept.value.abs() < before.abs() && kept.value.abs() >= 0.8 * most && moved > 0.0;
        assert!(if kept.cut { cut } else { moved <= 0.501 * gap }, "{before} is {kept:?}, with steps of {gap}");
    }
}

#[test]
fn saturated_values_have_no_gradient() {
    let mut values = [0.0, 0.24, -0.26, 32_767.4, 32_767.6, -1e6, 1.5, -0.5, f32::MIN_POSITIVE];
    let cut = count(&mut values, 1.0);
    assert_eq!(values, [0.0, 0.0, -0.0, 32_767.0, 32_767.0, -32_767.0, 2.0, -0.0, 0.0]);
    let mut gradient = [1.0; 9];
    stop(&mut gradient, &cut);
    assert_eq!(gradient, [1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 1.0, 1.0, 1.0]);
    stop(&mut gradient, &[]);
    assert_eq!(gradient.iter().sum::<f32>(), 7.0);
}

/// The recipe of docs/training.md works with integers too.
#[test]
fn the_keyword_spotter_is_trained_in_integers() {
    let recipes = Path::new(env!("CARGO_MANIFEST_DIR")).join("recipes");
    let network = Network::new(&Description::read(&recipes.join("keywords.json")).unwrap()).unwrap();
    let integers = Integers::new(&network, Numeric::I8x16, &Scaling::none(20)).unwrap();
    let params = network.initial(&mut ChaCha8Rng::seed_from_u64(5));
    let model = network.model(&params, &Scaling::none(20), "").unwrap();
    let noise: Vec<f32> = (0..49 * 20).map(|k| (k * 37 % 64) as f32 - 32.0).collect();
    let ranges = Ranges::measure(&model, [[noise.as_slice()].as_slice()]).unwrap();
    let units = integers.rounded(&network, &params, &model, &ranges).unwrap().units;
    assert_eq!(units.iter().map(Vec::len).collect::<Vec<_>>(), [2, 0, 1]);
    assert!(units[0].iter().all(|units| units.hidden == 1.0 / 32_768.0));
}
