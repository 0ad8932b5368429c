//! RNNoise from its own weights file: its layers, its gains compared with RNNoise's C code and with an f64 network, the
//! sound without noise, and damaged files.

use std::fs;
use std::path::{Path, PathBuf};

use nnnoiseless::{DenoiseFeatures, DenoiseState};
use tidegate::{Layout, Numeric, Sequence, State};
use tidegate_fused::FusedModel;
use tidegate_model::backend::Engine;
use tidegate_model::canonical::Canonical;
use tidegate_model::data::{Audio, read_audio_at, read_tensors};
use tidegate_model::denoise::{BANDS, FRAME, Networks, Recipe, Rnnoise, denoise, sound};
use tidegate_model::error::ImportError;
use tidegate_model::format::{Options, import_bytes_with};
use tidegate_model::pack::pack_with;
use tidegate_model::quantize::Ranges;
use tidegate_tests::backend::{self, Backend};
use tidegate_tests::corpus::Corpus;
use tidegate_tests::fuzz_import::{import_torch, seed};
use tidegate_tests::images::AlignedBytes;
use tidegate_tests::import::{self, ALONE, damaged, described};
use tidegate_tests::oracle::{Bounded, Oracle};
use tidegate_tests::random::Rng;
use tidegate_tests::tolerance::{each_within, same_bits, worse, worst};

const FEATURES: usize = 42;
/// Largest allowed difference of a gain from RNNoise's.
const TOLERANCE: f64 = 1e-4;

fn beside(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("rnnoise").join(name)
}

fn file(name: &str) -> Vec<u8> {
    let path = beside(name);
    fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn import(bytes: &[u8], options: &Options) -> Result<Canonical, ImportError> {
    import_bytes_with(bytes, "x.rnn", options).map(|imported| imported.model)
}

fn model() -> Canonical {
    import(&file("weights.rnn"), &ALONE).unwrap()
}

/// Inputs, neurons and gates of every layer, given the numbers of neurons.
fn layers([dense, vad, noise, denoise]: [usize; 4]) -> [(usize, usize, usize); 6] {
    [
        (FEATURES, dense, 1),
        (dense, vad, 3),
        (dense + vad + FEATURES, noise, 3),
        (vad + noise + FEATURES, denoise, 3),
        (denoise, BANDS, 1),
        (vad, 1, 1),
    ]
}

/// Number of weights and biases of a layer.
fn weights((inputs, neurons, gates): (usize, usize, usize)) -> usize {
    gates * neurons * (inputs + 1 + if gates > 1 { neurons } else { 0 })
}

/// A binary file with random weights and alternating activations.
fn small(sizes: [usize; 4], first: u8) -> Vec<u8> {
    let mut rng = Rng::new(90);
    let mut bytes = Vec::new();
    for (layer, activation) in layers(sizes).into_iter().zip(first..) {
        bytes.extend([layer.0 as u8, layer.1 as u8, activation % 3]);
        bytes.extend((0..weights(layer)).map(|_| rng.below(256) as u8));
    }
    bytes
}

/// The same numbers as text.
fn text(bytes: &[u8], sizes: [usize; 4]) -> Vec<u8> {
    let (mut text, mut rest) = ("rnnoise-nu model file version 1\n".to_owned(), bytes);
    for layer in layers(sizes) {
        let (head, body) = rest.split_at(3);
        let (body, behind) = body.split_at(weights(layer));
        head.iter().for_each(|byte| text += &format!("{byte} "));
        body.iter().for_each(|byte| text += &format!("{}\n", byte.cast_signed()));
        rest = behind;
    }
    assert!(rest.is_empty());
    text.into_bytes()
}

const TINY: [usize; 4] = [1, 2, 1, 3];
const TRAINED: [usize; 4] = [24, 24, 48, 96];

#[test]
fn every_prefix_of_a_file_is_refused() {
    let bytes = small(TINY, 0);
    for whole in [bytes.clone(), text(&bytes, TINY).trim_ascii_end().to_vec()] {
        import(&whole, &ALONE).unwrap();
        for end in 0..whole.len() {
            match import(&whole[..end], &ALONE) {
                Err(error) => drop(import::line(&error, 1024)),
                // In text, only the last number may have lost digits.
                Ok(_) => assert!(whole[end].is_ascii_digit() && end + 3 > whole.len(), "{end} of {}", whole.len()),
            }
        }
        for more in [b" 0".as_slice(), b"\n0 0"] {
            let line = import::line(&import(&[&whole, more].concat(), &ALONE).expect_err("it must be refused"), 1024);
            assert!(line.contains("numbers follow its last layer"), "{line}");
        }
    }
}

#[test]
fn a_damaged_byte_is_refused_or_gives_a_model() {
    let bytes = small(TINY, 2);
    damaged("bytes", 1, &bytes, |bytes| import(bytes, &ALONE));
    damaged("text", 1, &text(&bytes, TINY), |bytes| import(bytes, &ALONE));
}

#[test]
fn files_that_are_not_rnnoise_are_refused_by_name() {
    let whole = small(TINY, 0);
    // The offset of each layer.
    let starts = layers(TINY).into_iter().scan(0, |at, layer| Some(std::mem::replace(at, *at + 3 + weights(layer))));
    let starts: Vec<usize> = starts.collect();
    let changed = |layer: usize, field: usize, value: u8| {
        let mut bytes = whole.clone();
        bytes[starts[layer] + field] = value;
        bytes
    };
    let words = |from: &str, to: &str| {
        let text = String::from_utf8(text(&whole, TINY)).unwrap();
        assert!(text.contains(from), "{from:?}");
        text.replacen(from, to, 1).into_bytes()
    };
    for (bytes, reason) in [
        (changed(1, 0, 2), "vad_gru has 2 inputs, but what it reads is 1 wide"),
        (changed(2, 0, 0), "noise_gru has 0 inputs, where 1 to 128 are read"),
        (changed(3, 0, 200), "denoise_gru has 200 inputs, where 1 to 128 are read"),
        (changed(3, 1, 129), "denoise_gru has 129 neurons, where 1 to 128 are read"),
        (changed(4, 1, 18), "denoise_output has 18 neurons; RNNoise has 22 there"),
        (changed(5, 1, 2), "vad_output has 2 neurons; RNNoise has 1 there"),
        (changed(1, 2, 3), "vad_gru has activation 3, where 0 to 2 are known"),
        (whole[..30].to_vec(), "it ends within input_dense's weights, after 30 numbers"),
        (words("version 1", "version 2"), r#"its version is "2", where 1 is known"#),
        (words("42 1", "38 1"), "input_dense has 38 inputs, but what it reads is 42 wide"),
        (words("42 1", "42.0 1"), r#"number 1, of input_dense's inputs, is "42.0""#),
        (words("42 1 0 ", "42 1 0 128 "), r#"number 4, of input_dense's weights, is "128""#),
        (words("42 1 0 ", "42 1 0 one\u{7}two "), r#"is "one\u{7}two""#),
        ([text(&whole, TINY), vec![0xff]].concat(), "there are other bytes than text below its first line"),
        (b"DNNw\0\0\0\0".to_vec(), "a weights blob of RNNoise 0.2 or of Opus, which is not supported"),
    ] {
        let line = import::line(&import(&bytes, &ALONE).expect_err("it must be refused"), 1024);
        assert!(line.contains(reason), "{reason:?} is not in: {line}");
    }
    let arch = described(r#"{"inputs": [{"name": "x", "size": 42}], "layers": [{"name": "no", "class": "GRU"}]}"#);
    for (options, reason) in [(arch, "--arch"), (Options { window: Some(3), ..ALONE }, "--window")] {
        let line = import::line(&import(&whole, &options).expect_err("it must be refused"), 1024);
        assert!(line.contains(reason), "{line}");
    }
}

#[test]
fn text_and_binary_files_are_one_model_with_the_layers_of_rnnoise() {
    let bytes = file("weights.rnn");
    let model = model();
    assert_eq!(import(&text(&bytes, TRAINED), &ALONE).unwrap(), model);
    let nodes: Vec<(&str, usize, Vec<&str>)> = model
        .architecture
        .nodes
        .iter()
        .map(|node| (node.name.as_str(), node.output_size, node.inputs.iter().map(String::as_str).collect()))
        .collect();
    assert_eq!(
        nodes,
        [
            ("input_dense", 24, vec!["features"]),
            ("vad_gru", 24, vec!["input_dense"]),
            ("noise_gru", 48, vec!["input_dense", "vad_gru", "features"]),
            ("denoise_gru", 96, vec!["vad_gru", "noise_gru", "features"]),
            ("denoise_output", 22, vec!["denoise_gru"]),
            ("vad_output", 1, vec!["vad_gru"]),
        ]
    );
    let outputs = model.architecture.outputs.iter().map(|port| (port.name.as_str(), port.size, port.from.as_str()));
    assert!(outputs.eq([("gains", 22, "denoise_output"), ("vad", 1, "vad_output")]));
}

/// RNNoise's network in f64, read from the bytes of its file and written after `rnn.c` of xiph/rnnoise, without the
/// importer.
struct Network {
    layers: Vec<OfFile>,
    states: [Vec<f64>; 3],
    tanh: fn(f64) -> f64,
}

struct OfFile {
    neurons: usize,
    activation: u8,
    /// `[inputs, gates · neurons]`, then `[neurons, 3 · neurons]` of a GRU, then `[gates · neurons]`.
    weights: Vec<f64>,
}

impl OfFile {
    /// The sum of gate `gate` of neuron `neuron`: bias, weights and, in a GRU, recurrent weights.
    fn sum(&self, (gate, gates): (usize, usize), neuron: usize, x: &[f64], h: &[f64]) -> f64 {
        let (stride, column) = (gates * self.neurons, gate * self.neurons + neuron);
        let row = |row: usize| self.weights[row * stride + column];
        let seen = x.iter().chain(h).chain([&1.0]).enumerate();
        seen.map(|(k, value)| row(k) * value).sum()
    }

    fn apply(&self, tanh: fn(f64) -> f64, x: f64) -> f64 {
        match self.activation {
            0 => tanh(x),
            1 => sigmoid(tanh, x),
            _ => x.max(0.0),
        }
    }

    fn dense(&self, tanh: fn(f64) -> f64, x: &[f64]) -> Vec<f64> {
        (0..self.neurons).map(|neuron| self.apply(tanh, self.sum((0, 1), neuron, x, &[]))).collect()
    }

    fn gru(&self, tanh: fn(f64) -> f64, x: &[f64], h: &mut Vec<f64>) {
        let gate = |gate, neuron, h: &[f64]| sigmoid(tanh, self.sum((gate, 3), neuron, x, h));
        let z: Vec<f64> = (0..self.neurons).map(|neuron| gate(0, neuron, h)).collect();
        let reset: Vec<f64> = (0..self.neurons).map(|neuron| gate(1, neuron, h) * h[neuron]).collect();
        let new = |neuron| self.apply(tanh, self.sum((2, 3), neuron, x, &reset));
        *h = (0..self.neurons).map(|neuron| z[neuron] * h[neuron] + (1.0 - z[neuron]) * new(neuron)).collect();
    }
}

fn sigmoid(tanh: fn(f64) -> f64, x: f64) -> f64 {
    0.5 + 0.5 * tanh(0.5 * x)
}

/// RNNoise's tanh: the nearest of 201 values with six digits, 0.04 apart, and two terms of the series around it; 1 from
/// 8 on.
fn tabulated(x: f64) -> f64 {
    if x.abs() >= 8.0 {
        return x.signum();
    }
    let nearest = (25.0 * x.abs() + 0.5).floor();
    let rest = x.abs() - 0.04 * nearest;
    let y = ((0.04 * nearest).tanh() * 1e6).round() / 1e6;
    (y + rest * (1.0 - y * y) * (1.0 - y * rest)) * x.signum()
}

impl Network {
    fn new(bytes: &[u8], tanh: fn(f64) -> f64) -> Self {
        let mut rest = bytes;
        let layers = layers(TRAINED).map(|layer| {
            let (head, body) = rest.split_at(3);
            assert_eq!((usize::from(head[0]), usize::from(head[1])), (layer.0, layer.1));
            let (body, behind) = body.split_at(weights(layer));
            rest = behind;
            let weights = body.iter().map(|byte| f64::from(byte.cast_signed()) / 256.0).collect();
            OfFile { neurons: layer.1, activation: head[2], weights }
        });
        Self { layers: layers.into(), states: [24, 48, 96].map(|units| vec![0.0; units]), tanh }
    }

    /// Gains, followed by the voice probability.
    fn step(&mut self, features: &[f32]) -> Vec<f64> {
        let [input_dense, vad_gru, noise_gru, denoise_gru, denoise_output, vad_output] = self.layers.as_slice() else {
            panic!("six layers")
        };
        let [vad, noise, denoise] = &mut self.states;
        let features: Vec<f64> = features.iter().map(|&x| x.into()).collect();
        let dense = input_dense.dense(self.tanh, &features);
        vad_gru.gru(self.tanh, &dense, vad);
        noise_gru.gru(self.tanh, &[dense.as_slice(), vad, &features].concat(), noise);
        denoise_gru.gru(self.tanh, &[vad.as_slice(), noise, &features].concat(), denoise);
        [denoise_output.dense(self.tanh, denoise), vad_output.dense(self.tanh, vad)].concat()
    }

    fn run(bytes: &[u8], tanh: fn(f64) -> f64, features: &[f32]) -> Vec<Vec<f64>> {
        let mut network = Self::new(bytes, tanh);
        features.chunks(FEATURES).map(|features| network.step(features)).collect()
    }
}

/// Every frame that RNNoise's C code processed in `testing.raw`: features, and gains followed by the voice probability.
fn recorded() -> (Vec<f32>, Vec<Vec<f64>>) {
    let features = read_tensors(&beside("features.safetensors")).unwrap().remove("features").unwrap();
    let gains = read_tensors(&beside("gains.safetensors")).unwrap();
    let rows = gains["gains"].data.chunks(BANDS).zip(&gains["vad"].data);
    let rows = rows.map(|(gains, vad)| gains.iter().chain([vad]).map(|&value| value.into()).collect()).collect();
    (features.data, rows)
}

/// The same computed by a backend, step by step, with the states before each step.
fn stepped(backend: &dyn Backend, features: &[f32]) -> Vec<(Vec<f32>, Vec<f32>)> {
    let model = backend.model();
    let mut memory = vec![0; model.state_words()];
    let mut state = State::new(model, &mut memory).unwrap();
    let step = |features| {
        let before = state.values().to_vec();
        let (mut gains, mut vad) = ([f32::NAN; BANDS], [f32::NAN]);
        let step = backend.step(&mut state, &[features], &mut [&mut gains, &mut vad]).unwrap();
        assert!(step.has_output());
        (before, [gains.as_slice(), &vad].concat())
    };
    features.chunks(FEATURES).map(step).collect()
}

/// The greatest difference between two runs.
fn off<A: Copy + Into<f64>, B: Copy + Into<f64>>(a: &[Vec<A>], b: &[Vec<B>]) -> f64 {
    assert_eq!(a.len(), b.len());
    let rows = a.iter().zip(b).flat_map(|(a, b)| {
        assert_eq!(a.len(), b.len());
        a.iter().zip(b)
    });
    worst(rows.map(|(&a, &b)| (a.into() - b.into()).abs()))
}

/// Error of the table. Two terms of the series miss |x|³ / 6 times the third derivative of tanh, where the derivative
/// is at most 2 and |x| at most 0.02. Six digits miss 5e-7, and the terms computed from them as much again.
const OF_TABLE: f64 = 0.02 * 0.02 * 0.02 / 3.0 + 6e-7;

#[test]
fn rnnoises_table_is_near_the_exact_functions() {
    let arguments = || (-900_000..900_000).map(|k| f64::from(k) * 1e-5);
    let most = |off: fn(f64) -> f64| worst(arguments().map(off));
    let of_tanh = most(|x| (tabulated(x) - x.tanh()).abs());
    let of_sigmoid = most(|x| (sigmoid(tabulated, 2.0 * x) - 1.0 / (1.0 + (-2.0 * x).exp())).abs());
    println!("tanh {of_tanh:.2e} off, sigmoid {of_sigmoid:.2e}");
    assert!(of_tanh <= OF_TABLE && of_sigmoid <= OF_TABLE / 2.0);
}

/// The reference is RNNoise's C code, in f32 with its table; every backend computes in f32 without the table.
#[test]
fn gains_match_those_of_rnnoise() {
    let (features, expected) = recorded();
    let bytes = file("weights.rnn");
    let tables = Network::run(&bytes, tabulated, &features);
    let functions = Network::run(&bytes, f64::tanh, &features);
    let moved = off(&tables, &functions);
    println!(
        "{} frames: the table moves a gain by {moved:.2e} at most, f32 RNNoise's own by {:.2e}",
        expected.len(),
        off(&tables, &expected)
    );
    // As stated in docs/rnnoise.md.
    assert!(expected.len() == 100 && moved <= 4e-6, "{moved:e}");
    for numeric in [Numeric::F32, Numeric::F16] {
        let image = AlignedBytes::pack(&model(), numeric);
        for backend in backend::all(&image.model()) {
            let given: Vec<Vec<f32>> = stepped(&*backend, &features).into_iter().map(|(_, given)| given).collect();
            let (worst, rounded) = (off(&given, &expected), off(&given, &functions));
            println!("{numeric:?}, {}: {worst:.2e} from RNNoise, {rounded:.2e} from f64", backend.name());
            assert!(worst <= TOLERANCE, "{worst:e}");
        }
    }
}

#[test]
fn every_step_of_every_backend_is_within_the_derived_bound_and_a_sequence_equals_stepping() {
    let (features, _) = recorded();
    let model = model();
    let oracle = Oracle::new(&model);
    let image = AlignedBytes::pack(&model, Numeric::F32);
    assert!(FusedModel::new(&image.model()).packed().iter().all(|&packed| packed), "every layer has a kernel");
    let backends = backend::all(&image.model());
    // Each step starts from the state that `core` has there.
    let states: Vec<Vec<f32>> = stepped(&*backends[0], &features).into_iter().map(|(state, _)| state).collect();
    for backend in &backends {
        let model = backend.model();
        let mut used = 0.0_f64;
        for (before, features) in states.iter().zip(features.chunks(FEATURES)) {
            let mut bounded: Vec<Bounded> = before.iter().map(|&value| Bounded::exact(value)).collect();
            let exact = oracle.step(&mut bounded, &[features]).unwrap().concat();
            let mut memory = vec![0; model.state_words()];
            let mut state = State::new(model, &mut memory).unwrap();
            state.values_mut().copy_from_slice(before);
            let (mut gains, mut vad) = ([f32::NAN; BANDS], [f32::NAN]);
            let _ = backend.step(&mut state, &[features], &mut [&mut gains, &mut vad]).unwrap();
            for (got, exact) in [([&gains[..], &vad].concat(), exact), (state.values().to_vec(), bounded)] {
                let (values, bounds): (Vec<f64>, Vec<f64>) = exact.iter().map(|of| (of.value, of.error)).unzip();
                let part = each_within(&got, &values, &bounds);
                used = used.max(part.unwrap_or_else(|miss| panic!("{}: {miss}", backend.name())));
            }
        }
        println!("{}: {:.0} % of the bound", backend.name(), 100.0 * used);
    }
    hold_sequences(&image, &features);
}

/// A sequence equals its steps, bit for bit, on every backend.
fn hold_sequences(image: &AlignedBytes, features: &[f32]) {
    for backend in backend::all(&image.model()) {
        let steps = stepped(&*backend, features);
        let model = backend.model();
        let mut memory = vec![0; model.state_words()];
        let mut state = State::new(model, &mut memory).unwrap();
        let (mut gains, mut vad) = (vec![f32::NAN; steps.len() * BANDS], vec![f32::NAN; steps.len()]);
        backend.run(&mut state, &[features], &mut [&mut gains, &mut vad], &Sequence::ALL).unwrap();
        let given: Vec<f32> =
            gains.chunks(BANDS).zip(&vad).flat_map(|(gains, vad)| gains.iter().chain([vad])).copied().collect();
        let steps: Vec<f32> = steps.into_iter().flat_map(|(_, given)| given).collect();
        same_bits(&given, &steps).unwrap_or_else(|miss| panic!("{}: {miss}", backend.name()));
    }
}

/// Calibrated on the first half of the frames and measured on all. Every backend gives the same bits.
/// docs/rnnoise.md states the accuracy.
#[test]
fn in_integers_every_backend_has_the_same_bits() {
    let (features, expected) = recorded();
    let ranges = Ranges::measure(&model(), [[&features[..features.len() / 2]].as_slice()]).unwrap();
    let bytes = pack_with(&model(), Numeric::I8x16, &ranges, Layout::Portable).unwrap();
    let image = AlignedBytes::new(&bytes);
    let runs: Vec<Vec<Vec<f32>>> = backend::all(&image.model())
        .iter()
        .map(|backend| stepped(&**backend, &features).into_iter().map(|(_, given)| given).collect())
        .collect();
    for run in &runs[1..] {
        same_bits(&run.concat(), &runs[0].concat()).unwrap();
    }
    hold_sequences(&image, &features);
    let power = |values: &mut dyn Iterator<Item = f64>| values.map(|value| value * value).sum::<f64>();
    let expected = expected.concat();
    let noise = power(&mut runs[0].concat().iter().zip(&expected).map(|(&y, expected)| f64::from(y) - expected));
    let snr = 10.0 * (power(&mut expected.iter().copied()) / noise).log10();
    println!("i8x16: an image of {} bytes, {snr:.1} dB", image.get().len());
    assert!(snr > 45.0, "{snr}");
}

fn heard(name: &str) -> Vec<i16> {
    read_audio_at(&beside(name), 48_000).unwrap().samples
}

/// The sound in blocks of this length, without its noise.
fn denoised(samples: &[i16], block: usize) -> Audio {
    let image = AlignedBytes::pack(&model(), Numeric::F32);
    let engines = [Engine::fused(&image.model())];
    sound(&denoise(Recipe::Rnnoise, &engines, samples.chunks(block), |_, _, _| ()).unwrap(), Recipe::Rnnoise)
}

/// RNNoise's own program drops the incomplete frame at the end.
#[test]
fn the_recipe_removes_noise_from_a_clip_as_rnnoise_does() {
    let (noisy, clean) = (heard("noisy.wav"), heard("clean.wav"));
    let found = denoised(&noisy, FRAME);
    assert_eq!((found.samples.len(), found.sample_rate, clean.len()), (noisy.len(), 48_000, 99 * FRAME));
    let mut differ = [0; 3];
    for (found, expected) in found.samples.iter().zip(&clean) {
        differ[usize::from(found.abs_diff(*expected).min(2))] += 1;
    }
    println!("{} samples, {differ:?} are 0, 1 and more off", clean.len());
    assert!(1000 * differ[2] <= clean.len(), "{differ:?}");
}

#[test]
fn blocks_of_any_length_give_the_same_sound_with_as_many_samples() {
    let noisy = &heard("noisy.wav")[..10 * FRAME + 17];
    let whole = denoised(noisy, noisy.len());
    assert_eq!(whole.samples.len(), noisy.len());
    for block in [1, 7, FRAME, 1001] {
        assert_eq!(denoised(noisy, block), whole, "{block}");
    }
    assert!(denoised(&[], 1).samples.is_empty());
    assert_eq!(denoised(&noisy[..5], 5).samples.len(), 5);
}

/// Compares frame by frame with the nnnoiseless crate, a port of RNNoise with its own network, and with the f64 network on
/// the features of nnnoiseless.
#[test]
fn gains_voice_and_sound_match_those_of_nnnoiseless() {
    let noisy: Vec<f32> = heard("noisy.wav").into_iter().map(f32::from).collect();
    let image = AlignedBytes::pack(&model(), Numeric::F32);
    let engines = [Engine::from(&image.model())];
    let mut memory = Networks::memory(&engines);
    let (mut networks, mut ours) = (Networks::new(&engines, &mut memory), Rnnoise::default());
    let mut step = |network: usize, input: &[f32], outputs: &mut [&mut [f32]]| networks.step(network, input, outputs);
    let (mut theirs, mut features) = (DenoiseState::new(), DenoiseFeatures::new());
    let mut network = Network::new(&file("weights.rnn"), tabulated);
    let (mut of_sound, mut of_voice, mut of_gains) = (0.0_f32, 0.0_f32, 0.0_f64);
    for frame in noisy.as_chunks::<FRAME>().0 {
        let (mut out, mut expected) = ([0.0; FRAME], [0.0; FRAME]);
        let parts = frame.map(|sample| sample / 32_768.0);
        let heard = ours.push(&parts, &mut out, &mut step).unwrap().expect("no frame is silent");
        let voice = theirs.process_frame(&mut expected, frame);
        features.shift_and_filter_input(frame);
        assert!(!features.compute_frame_features());
        let of_network = network.step(features.features());
        of_gains = worse(of_gains, off(&[heard.gains.to_vec()], &[of_network[..BANDS].to_vec()]));
        of_voice = worse(of_voice, (heard.voice - voice).abs());
        of_sound =
            worse(of_sound, worst(out.iter().zip(&expected).map(|(y, expected)| (32_768.0 * y - expected).abs())));
    }
    println!("{} frames: gains {of_gains:.2e} off, voice {of_voice:.2e}, samples {of_sound:.2e}", noisy.len() / FRAME);
    assert!(of_gains <= TOLERANCE && f64::from(of_voice) <= TOLERANCE && of_sound <= 1.0);
}

/// A voice that glides from 70 to 700 Hz in ten seconds, in noise, with pauses of half a second.
///
/// A Fourier transform in `f32` moves a bin by up to 1e-6 of the largest. Levels end 70 dB below the largest one, where that
/// is 0.3 % of an amplitude and 3e-3 of a level; a coefficient averages those of the bands.
#[test]
fn features_of_a_gliding_voice_match_those_of_nnnoiseless() {
    const RATE: usize = 48_000;
    let mut rng = Rng::new(42);
    let mut phase = 0.0;
    let voice = |at: usize| {
        phase += 70.0 * 10.0_f64.powf(at as f64 / (10 * RATE) as f64) / RATE as f64;
        let harmonics = (1..=8).map(f64::from).map(|k| (std::f64::consts::TAU * k * phase).sin() / k);
        let is_pause = at / (RATE / 2) % 4 == 3;
        if is_pause { 0.0 } else { 3000.0 * harmonics.sum::<f64>() as f32 + rng.number(100.0) }
    };
    let sound: Vec<f32> = (0..10 * RATE).map(voice).collect();
    let (mut ours, mut theirs) = (Rnnoise::default(), DenoiseFeatures::new());
    let (mut frames, mut other_periods, mut off) = (0, 0, 0.0);
    for frame in sound.as_chunks::<FRAME>().0 {
        theirs.shift_and_filter_input(frame);
        let is_silent = theirs.compute_frame_features();
        let mut compare = |_: usize, features: &[f32], _: &mut [&mut [f32]]| {
            assert!(!is_silent);
            frames += 1;
            let expected = theirs.features();
            // Two periods correlate equally but for rounding.
            if features[40] != expected[40] {
                other_periods += 1;
                return Ok(());
            }
            off = worse(off, worst(features.iter().zip(expected).map(|(x, expected)| (x - expected).abs())));
            Ok(())
        };
        ours.push(&frame.map(|sample| sample / 32_768.0), &mut [0.0; FRAME], &mut compare).unwrap();
    }
    println!("{frames} frames, {other_periods} with another period, features {off:.1e} off");
    assert!(frames > 700 && 200 * other_periods <= frames && off <= 3e-3);
}

fn corpus() -> Corpus {
    let seeds = [
        ("tiny", small(TINY, 0)),
        ("relu", small([2, 1, 2, 1], 2)),
        ("sigmoid", small([3, 3, 1, 1], 1)),
        ("text", text(&small(TINY, 0), TINY)),
    ];
    let seeds = seeds.map(|(name, bytes)| (name.to_owned(), seed(0, b"", &bytes)));
    Corpus { target: "import_rnnoise", seeds: seeds.into() }
}

#[test]
fn the_corpus_of_import_rnnoise_passes() {
    // One target body serves every file format.
    corpus().passes(0, import_torch);
}

#[test]
#[ignore = "records the digests of the seeds and writes the seeds to target/fuzz"]
fn regenerate() {
    corpus().regenerate();
}
