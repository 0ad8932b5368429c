//! Integer networks with the hash of the outputs that the host's scalar code computes: the published keyword spotters
//! over real speech, every cell with every option, and every width of the inner loops; in `i8`, two wake words from
//! TFLite that compute windows in place.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use tidegate::internals::{activation::Activation, cell::CellKind};
use tidegate::{Layout, Model, Numeric, State};
use tidegate_model::canonical::{Canonical, Schedule};
use tidegate_model::data::{read_audio_at, read_index};
use tidegate_model::load::{self, ImageBuffer, Settings};
use tidegate_model::pack::{PackError, pack, pack_with};
use tidegate_model::quantize::Ranges;
use tidegate_model::runner::clip_features;
use tidegate_tests::images::small_models;
use tidegate_tests::random::{Draw, Rng, Variant, chain};

use crate::Bundle;

/// Steps of each keyword spotter.
const SPEECH_STEPS: usize = 500;
/// Steps of the other networks: enough for a state to feed back and for a window to fill.
const STEPS: usize = 9;
/// Steps of each wake word: enough for every window to fill.
const WAKE_WORD_STEPS: usize = 80;
/// Number of columns of the finer and of the coarser part in the sweep: every remainder of the kernels' unrolling.
const COLUMNS: usize = 35;
const UNITS: usize = 20;

/// A network, the ranges of its values, and its inputs.
pub struct Network {
    name: String,
    model: Canonical,
    ranges: Ranges,
    inputs: Vec<f32>,
    numerics: &'static [Numeric],
}

/// All networks.
pub fn networks() -> Vec<Network> {
    let mut networks = spotters();
    let mut rng = Rng::new(6);
    for variant in Variant::all().into_iter().filter(|variant| variant.kind.integer_spec().is_some()) {
        for (input, units) in [(3, 2), (5, 17), (33, 9)] {
            networks.push(Network::drawn(&mut rng, &variant, input, units));
        }
    }
    // Windows and the nodes over them, embeddings, and a chain with a schedule.
    for (name, model) in small_models() {
        if model.architecture.inputs.len() == 1 && model.architecture.outputs.len() == 1 {
            networks.push(Network::new(&mut rng, name, model));
        }
    }
    let plain = |kind| Variant::new(kind, &[]);
    let identity = |variant: Variant| variant.activation("activation", Activation::Identity);
    for columns in 1..=COLUMNS {
        for units in 1..=UNITS {
            networks.push(Network::drawn(&mut rng, &identity(plain(CellKind::Elman)), columns, units));
        }
        for units in [1, 4, 9] {
            networks.push(Network::drawn(&mut rng, &identity(plain(CellKind::Dense)), columns, units));
        }
    }
    // More rows than a kernel receives at once, and every remainder of the units that are updated at once.
    for units in (1..=40).chain([67, 130]) {
        for kind in [CellKind::Lstm, CellKind::Gru] {
            networks.push(Network::drawn(&mut rng, &plain(kind), 1 + 7 * units % 19, units));
        }
    }
    networks.extend(wake_words(&mut rng));
    networks
}

impl Network {
    fn drawn(rng: &mut Rng, variant: &Variant, input: usize, units: usize) -> Self {
        let draw = Draw { weights: rng.pick(&[0.5, 1.5]), biases: rng.below(4) > 0 };
        let model = chain(rng, input, &[(variant.clone(), units)], draw);
        Self::new(rng, format!("{}, {input} to {units}", variant.name()), model)
    }

    fn new(rng: &mut Rng, name: String, model: Canonical) -> Self {
        let inputs = rng.numbers(STEPS * model.architecture.inputs[0].size, 2.0);
        let ranges = Ranges::measure(&model, [[inputs.as_slice()].as_slice()]).expect("a drawn model runs");
        Self { name, model, ranges, inputs, numerics: &Numeric::INTEGER }
    }

    /// Packs the network, or returns `None` if the numeric has no form of it. Plain networks have all forms.
    fn pack(&self, numeric: Numeric, layout: Layout) -> Option<ImageBuffer> {
        match pack_with(&self.model, numeric, &self.ranges, layout) {
            Ok(image) => Some(ImageBuffer::new(&image)),
            Err(PackError::Quantize(_)) => None,
            Err(error) => panic!("{}: {error}", self.name),
        }
    }
}

fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

/// The shipped keyword spotters, each run endlessly over clips of speech that follow each other.
fn spotters() -> Vec<Network> {
    ["Basic_LSTM_S", "LSTM_S", "GRU_S", "CRNN_S"].map(spotter).into()
}

fn spotter(name: &str) -> Network {
    let file = repository(&format!("assets/hello_edge/{name}.pb"));
    let mut model = load::canonical(&file, &Settings::default()).expect("the shipped model is readable").model;
    model.architecture.schedule = Schedule::Endless;
    let image = ImageBuffer::new(&pack(&model, Numeric::F32).expect("the model packs"));
    let loaded = image.model().expect("the packer's images are valid");
    let mfcc = loaded.front_end().expect("a keyword spotter has a front end");
    let mut inputs = Vec::new();
    for clip in read_index(&repository("assets/speech_commands/index.csv")).expect("the shipped index is readable") {
        let samples =
            read_audio_at(&clip.path, mfcc.settings().sample_rate).expect("a shipped clip is readable").samples;
        inputs.extend(clip_features(mfcc, &samples).expect("the clip is long enough"));
    }
    assert!(inputs.len() >= SPEECH_STEPS * loaded.input_size(), "the clips have too few frames");
    inputs.truncate(SPEECH_STEPS * loaded.input_size());
    let ranges = Ranges::measure(&model, [[inputs.as_slice()].as_slice()]).expect("the model runs");
    Network { name: name.to_owned(), model, ranges, inputs, numerics: &Numeric::INTEGER }
}

/// The wake words in the repository, whose inputs are any of TFLite's integers.
fn wake_words(rng: &mut Rng) -> [Network; 2] {
    let files = [("micro_wake_word/v2/okay_nabu", false), ("mlperf_streaming/str_ww_ref_model", true)];
    files.map(|(name, stream)| {
        let file = repository(&format!("tests/data/small/deployed/{name}.tflite"));
        let settings = Settings { stream, ..Settings::default() };
        let model = load::canonical(&file, &settings).expect("the model is readable").model;
        let input = &model.architecture.inputs[0];
        let integers = &model.architecture.integers[&input.name];
        let mut value = || (rng.below(256) as i32 - 128 - integers.zero_point) as f32 * integers.scale;
        let inputs = (0..WAKE_WORD_STEPS * input.size).map(|_| value()).collect();
        Network { name: name.to_owned(), model, ranges: Ranges::default(), inputs, numerics: &[Numeric::I8] }
    })
}

/// Writes every network in these layouts. The line of text is the hash and a description.
pub fn write(folder: &Path, networks: &[Network], layouts: &[Layout]) -> io::Result<()> {
    let mut bundle = Bundle::new(0);
    let mut cells = BTreeSet::new();
    let each = networks.iter().flat_map(|network| network.numerics.iter().map(move |&numeric| (network, numeric)));
    for (network, numeric) in each {
        let (mut first, mut integers) = (None, Vec::new());
        for &layout in layouts.iter().filter(|layout| layout.is_of(numeric)) {
            let Some(image) = network.pack(numeric, layout) else { continue };
            let model = image.model().expect("the packer's images are valid");
            if integers.is_empty() {
                let scale = model.inputs().next().expect("the model has an input").scale;
                integers = network.inputs.iter().map(|x| (x / scale).round().clamp(-32767.0, 32767.0) as i16).collect();
            }
            let hash = hash(&model, &integers);
            assert_eq!(hash, *first.get_or_insert(hash), "{} in {}", network.name, layout.name());
            let line = format!("{hash:016x} {}, {}, {}", network.name, numeric.name(), layout.name());
            bundle.push(image.bytes(), &integers, &line);
            cells.extend(network.model.architecture.nodes.iter().map(|node| node.cell.clone()));
        }
    }
    for kind in CellKind::ALL.iter().filter(|kind| kind.integer_spec().is_some()) {
        assert!(cells.contains(kind.spec().name), "no network has {}", kind.spec().name);
    }
    println!("{}: {} networks of {}", folder.display(), bundle.lines.lines().count(), Vec::from_iter(cells).join(", "));
    bundle.write(folder, "same_bits")
}

/// The same hash as in `firmware-examples/src/bin/same_bits.rs`.
fn hash(model: &Model<'_>, inputs: &[i16]) -> u64 {
    let (mut memory, mut scratch) = (vec![0; model.state_words()], vec![0; model.scratch_words()]);
    let mut state = State::new(model, &mut memory).expect("the memory has the model's own length");
    let mut hash = 0xCBF2_9CE4_8422_2325;
    let mut add = |values: &[i16]| {
        for byte in values.iter().flat_map(|value| value.to_le_bytes()) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3);
        }
    };
    let mut output = vec![0; model.output_size()];
    for input in inputs.chunks_exact(model.input_size()) {
        let done = model.step_i16(&mut state, &mut scratch, input, &mut output);
        if done.expect("the sizes are the model's own").has_output() {
            add(&output);
        }
    }
    hash
}
