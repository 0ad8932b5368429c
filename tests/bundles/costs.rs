//! The networks whose costs `cargo xtask costs` counts: every kind of layer in several sizes, and front ends.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

use tidegate::front_end::{Method, MfccSettings};
use tidegate::{Layout, Model, Numeric};
use tidegate_model::canonical::{self, Canonical, Mfcc, Port, Schedule};
use tidegate_model::cost::{front_end_key, front_end_terms, key, terms};
use tidegate_model::load::{self, ImageBuffer, Settings};
use tidegate_model::pack::{PackError, pack_with};
use tidegate_model::quantize::Ranges;
use tidegate_tests::bytes::in_bytes;
use tidegate_tests::front_end::{HELLO_EDGE, MLPERF};
use tidegate_tests::images::{over_windows, small_models};
use tidegate_tests::random::{Draw, Fit, Rng, Variant, chain};

use crate::Bundle;

/// Inputs and units. Costs are sums of terms, so five sizes determine them, and the others show the error.
const SIZES: [(usize, usize); 9] =
    [(8, 8), (16, 16), (24, 10), (32, 32), (64, 20), (20, 64), (40, 40), (96, 96), (160, 128)];
/// Maximum multiply-accumulates of a step in floats, each of which takes hundreds of instructions without an FPU.
const MOST_IN_FLOATS: usize = 24_000;
/// Maximum multiply-accumulates of any other step, so that the weights fit the memory of the program.
const MOST: usize = 400_000;
const STEPS: u32 = 4;

struct Network {
    model: Canonical,
    ranges: Ranges,
}

impl Network {
    fn new(rng: &mut Rng, model: Canonical) -> Self {
        let inputs = rng.numbers(12 * model.architecture.inputs[0].size, 1.0);
        let ranges = Ranges::measure(&model, [[inputs.as_slice()].as_slice()]).expect("a drawn model runs");
        Self { model, ranges }
    }
}

fn networks() -> Vec<Network> {
    let mut rng = Rng::new(28);
    let draw = Draw { weights: 1.5, biases: true };
    let mut networks = Vec::new();
    for variant in variants() {
        // A different activation changes only one term, so fewer sizes are enough.
        let is_usual = variant.activations.is_empty();
        for &(input, units) in SIZES.iter().step_by(if is_usual { 1 } else { 2 }) {
            let input = (variant.width)(input, units);
            let model = chain(&mut rng, input, &[(variant.clone(), units)], draw);
            networks.push(Network::new(&mut rng, model));
        }
    }
    // Two layers show what a step costs apart from its layers.
    let identity = Variant::plain("identity");
    for cells in [&[(identity.clone(), 8)][..], &[(identity.clone(), 8), (identity.clone(), 8)]] {
        let model = chain(&mut rng, 8, cells, draw);
        networks.push(Network::new(&mut rng, model));
    }
    for (input, length) in [(8, 2), (24, 4), (10, 9), (40, 3), (40, 10)] {
        let model = chain(&mut rng, input, &[(identity.clone(), input)], draw);
        networks.push(Network::new(&mut rng, only_window(over_windows(model, length, 1, false, false))));
    }
    // Randomly drawn layers have windows of three rows only.
    let window = Variant::plain("window_depthwise").fit(|input, length| Fit {
        extents: vec![("length", length), ("prefill", length - 1), ("multiplier", 1)],
        ..Fit::units(input, input)
    });
    for (channels, length) in [(8, 5), (16, 9), (32, 5), (32, 15), (48, 13), (64, 23), (40, 4)] {
        let model = chain(&mut rng, channels, &[(window.clone(), length)], draw);
        networks.push(Network::new(&mut rng, model));
    }
    let embedding = small_models().into_iter().find(|(name, _)| name == "embedding").expect("there is one").1;
    networks.push(Network::new(&mut rng, embedding));
    networks.extend(SHIPPED.iter().flat_map(|file| layers(file)).map(|layer| Network::new(&mut rng, layer)));
    for settings in front_ends() {
        let features = settings.coefficients as usize;
        let mut model = chain(&mut rng, features, &[(identity.clone(), features)], draw);
        model.architecture.front_end = Some(Mfcc::from(&settings));
        networks.push(Network::new(&mut rng, model));
    }
    networks
}

/// Published networks whose layers are counted as well, because random layers are smaller and have fewer shapes.
const SHIPPED: [&str; 8] = [
    "assets/hello_edge/Basic_LSTM_S.pb",
    "assets/hello_edge/LSTM_S.pb",
    "assets/hello_edge/GRU_S.pb",
    "assets/hello_edge/CRNN_S.pb",
    "assets/wake_word/okay_nabu.json",
    "assets/wake_word/vad.json",
    "assets/silero_vad/silero_vad_16k_op15.onnx",
    "tests/rnnoise/weights.rnn",
];

/// Each layer of a file that has one input, as a network of its own.
fn layers(file: &str) -> Vec<Canonical> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(file);
    let shape = file.contains("silero").then(|| ("input".to_owned(), vec![1, 576]));
    let settings = Settings { shapes: shape.into_iter().collect(), ..Settings::default() };
    let model = load::canonical(&path, &settings).expect("a shipped file is read").model;
    let nodes = &model.architecture.nodes;
    let alone = nodes.iter().filter(|node| node.unroll.is_none()).filter_map(|node| {
        let [input] = node.inputs.as_slice() else { return None };
        let mut layer = model.clone();
        let architecture = &mut layer.architecture;
        let from = Port { name: "x".into(), size: node.input_size, ..Port::default() };
        architecture.inputs = vec![from];
        architecture.nodes = vec![canonical::Node { inputs: vec!["x".into()], ..node.clone() }];
        architecture.outputs =
            vec![Port { name: "y".into(), size: node.output_size, from: node.name.clone(), ..Port::default() }];
        // A node without an entry only moves its input, so the input has the entry.
        let mut before = input;
        while !model.architecture.integers.contains_key(before) {
            let Some(moved) = nodes.iter().find(|node| node.name == *before) else { break };
            before = moved.inputs.first()?;
        }
        let numbers = model.architecture.integers.get(before).cloned();
        architecture.integers.retain(|name, _| *name == node.name);
        architecture.integers.extend(numbers.map(|numbers| ("x".to_owned(), numbers)));
        (architecture.labels, architecture.front_end, architecture.detector) = (Vec::new(), None, None);
        architecture.schedule = Schedule::default();
        layer.tensors.retain(|name, _| name.strip_prefix(&node.name).is_some_and(|rest| rest.starts_with('.')));
        layer.validate().ok().map(|()| layer)
    });
    alone.collect()
}

/// One variant for each key: options, sizes, and activations where a layer has one. Clips cost next to nothing.
fn variants() -> Vec<Variant> {
    let mut seen = BTreeSet::new();
    let key = |variant: &Variant| {
        (variant.kind.spec().name, variant.options.clone(), variant.activations.clone(), variant.fit as usize)
    };
    let counts = |variant: &Variant| variant.activations.is_empty() || variant.kind.spec().activations.len() == 1;
    Variant::all().into_iter().filter(counts).filter(|variant| seen.insert(key(variant))).collect()
}

/// A window without the node over it.
fn only_window(mut model: Canonical) -> Canonical {
    model.architecture.nodes.truncate(1);
    model.architecture.outputs[0].from.clone_from(&model.architecture.nodes[0].name);
    model.architecture.outputs[0].size = model.architecture.nodes[0].output_size;
    model.tensors = BTreeMap::new();
    model.validate().expect("a window is valid");
    model
}

/// Front ends of each kind, with windows, steps, bands and features that differ.
fn front_ends() -> Vec<MfccSettings> {
    let mut all = Vec::new();
    for (window_len, stride_len, fft_len, mel_bands, coefficients) in [
        (640, 320, 1024, 40, 10),
        (640, 640, 1024, 40, 20),
        (1000, 320, 1024, 20, 10),
        (1000, 500, 1024, 20, 20),
        (800, 400, 1024, 32, 13),
        (480, 160, 512, 40, 10),
        (480, 320, 512, 40, 20),
        (400, 160, 512, 26, 13),
        (400, 240, 512, 20, 10),
        (512, 256, 512, 32, 13),
        (256, 128, 256, 16, 10),
        (200, 80, 256, 12, 12),
        (240, 120, 256, 16, 13),
        (200, 160, 256, 12, 10),
        (256, 200, 256, 14, 8),
    ] {
        let sample_rate = if fft_len == 256 { 8000 } else { 16_000 };
        let sizes = MfccSettings { window_len, stride_len, fft_len, mel_bands, coefficients, ..HELLO_EDGE };
        all.push(MfccSettings { sample_rate, bins_per_rate: fft_len, ..sizes });
    }
    for (stride_len, mel_bands) in [(512, 40), (256, 40), (512, 24), (320, 32), (640, 64)] {
        all.push(MfccSettings { stride_len, mel_bands, coefficients: mel_bands, ..MLPERF });
    }
    for method in [Method::Micro, Method::MicroWithoutGain] {
        for (window_len, stride_len, mel_bands) in
            [(480, 160, 40), (480, 320, 40), (480, 240, 24), (400, 160, 32), (400, 320, 20)]
        {
            let channels = MfccSettings { window_len, stride_len, mel_bands, coefficients: mel_bands, ..micro() };
            all.push(MfccSettings { method, ..channels });
        }
    }
    all
}

fn micro() -> MfccSettings {
    MfccSettings::from(&Mfcc::micro_wake_word(10))
}

/// Writes the networks in each layout that their numerics have. The line of text holds the kind of the layer and the
/// terms of its cost; a front end has the kind `front_end`.
pub fn write(folder: &Path, own: Layout) -> io::Result<()> {
    let mut bundle = Bundle::new(STEPS);
    // For most layers, wide weights, scales of units and fine sums give no new form, so equal lines are skipped.
    let mut seen = BTreeSet::new();
    let layouts = crate::layouts(own);
    for network in networks() {
        let of_bytes = !network.model.architecture.integers.is_empty();
        let bytes = if of_bytes { network.model.clone() } else { in_bytes(network.model.clone()) };
        let [mut wide, mut scaled, mut fine] = [(); 3].map(|()| network.ranges.clone());
        let names = || network.model.architecture.nodes.iter().map(|node| node.name.clone());
        wide.add_wide(names());
        scaled.add_unit_scales(names());
        fine.add_fine_sums(names());
        let floats = Numeric::FLOAT.map(|numeric| (numeric, &network.model, &network.ranges));
        let integers = Numeric::INTEGER.map(|numeric| (numeric, &network.model, &network.ranges));
        let others = [&wide, &scaled, &fine].map(|ranges| (Numeric::I8x16, &network.model, ranges));
        let of_floats = floats.into_iter().chain(integers).chain(others).filter(|_| !of_bytes);
        for (numeric, model, ranges) in of_floats.chain([(Numeric::I8, &bytes, &network.ranges)]) {
            for &layout in layouts.iter().filter(|layout| layout.is_of(numeric)) {
                // A cell without a form in a numeric has no figures for this numeric. The forms in bytes have no groups.
                let image = match pack_with(model, numeric, ranges, layout) {
                    Ok(image) => ImageBuffer::new(&image),
                    Err(PackError::Quantize(_)) => continue,
                    Err(_) if numeric == Numeric::I8 => continue,
                    Err(error) => panic!("{} {}: {error}", model.architecture.nodes[0].cell, numeric.name()),
                };
                let has_fpu = [Layout::CortexM4, Layout::CortexM55].contains(&own);
                let line = image.model().ok().and_then(|model| line(&model, has_fpu));
                if let Some(line) = line.filter(|line| seen.insert(line.clone())) {
                    bundle.push(image.bytes(), &[], &line);
                }
            }
        }
    }
    bundle.write(folder, "zoo")
}

/// The kind of a network's layer or front end, and its terms; `None` for a network with a layer before it, or, without an
/// FPU, with too many products in floats.
fn line(model: &Model<'_>, has_fpu: bool) -> Option<String> {
    let nodes: Vec<_> = model.nodes().collect();
    let (kind, terms) = match (model.front_end(), nodes.as_slice()) {
        (Some(front_end), _) => {
            let key = front_end_key(front_end, model.integer_front_end().is_some());
            (format!("front_end {key}"), front_end_terms(front_end))
        }
        (None, [node]) => (key(model, node), terms(node)),
        (None, [first, second]) if first.kind == second.kind => (format!("two {}", key(model, second)), terms(second)),
        _ => return None,
    };
    let most = if model.numeric().is_integer() || has_fpu { MOST } else { MOST_IN_FLOATS };
    let is_long = nodes.iter().any(|node| node.macs() > most);
    let numbers: Vec<String> = terms.iter().map(f64::to_string).collect();
    (!is_long).then(|| format!("{kind} {}", numbers.join(" ")))
}
