//! Networks in integers, and the hash of what the host's scalar code gives for each: the published keyword spotters over
//! real speech, every cell with every option, and every width of the inner loops.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use tidegate::activation::Activation;
use tidegate::cell::CellKind;
use tidegate::image::Layout;
use tidegate::{Model, Numeric, State};
use tidegate_tests::images::small_models;
use tidegate_tests::random::{Draw, Rng, Variant, chain};
use tidegate_tools::canonical::{Canonical, Schedule};
use tidegate_tools::data::{read_audio_at, read_index};
use tidegate_tools::load::{self, ImageBuffer, Settings};
use tidegate_tools::pack::{PackError, pack, pack_with};
use tidegate_tools::quantize::Ranges;
use tidegate_tools::runner::clip_features;

use crate::Bundle;

/// Of each keyword spotter.
const SPEECH_STEPS: usize = 500;
/// Of the others: enough that a state comes back, and a window is full.
const STEPS: usize = 9;
/// Columns of the finer and of the coarser part that the sweep goes through: all remainders of what the kernels take at once.
const COLUMNS: usize = 35;
const UNITS: usize = 20;

/// A network, how far its values reach, and what it is fed with.
pub struct Network {
    name: String,
    model: Canonical,
    ranges: Ranges,
    inputs: Vec<f32>,
}

/// All of them.
pub fn networks() -> Vec<Network> {
    let mut networks = spotters();
    let mut rng = Rng::new(6);
    for variant in Variant::all().into_iter().filter(|variant| variant.kind.integer_spec().is_some()) {
        for (input, units) in [(3, 2), (5, 17), (33, 9)] {
            networks.push(Network::drawn(&mut rng, &variant, input, units));
        }
    }
    // Windows and what runs over them, tables, a chain under a schedule.
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
    // More rows than a kernel is given at once, and every remainder of units that are updated at once.
    for units in (1..=40).chain([67, 130]) {
        for kind in [CellKind::Lstm, CellKind::Gru] {
            networks.push(Network::drawn(&mut rng, &plain(kind), 1 + 7 * units % 19, units));
        }
    }
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
        Self { name, model, ranges, inputs }
    }

    /// None if the numeric has no form of it, which the plain ones all have.
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

/// Each runs endlessly over clips of speech, one after the other.
fn spotters() -> Vec<Network> {
    ["Basic_LSTM_S", "LSTM_S", "GRU_S", "CRNN_S"].map(spotter).into()
}

fn spotter(name: &str) -> Network {
    let file = repository(&format!("assets/hello_edge/{name}.pb"));
    let mut model = load::canonical(&file, &Settings::default()).expect("a shipped model").model;
    model.architecture.schedule = Schedule::Endless;
    let image = ImageBuffer::new(&pack(&model, Numeric::F32).expect("it packs"));
    let loaded = image.model().expect("the packer's images are whole");
    let mfcc = loaded.front_end().expect("a keyword spotter hears");
    let mut inputs = Vec::new();
    for clip in read_index(&repository("assets/speech_commands/index.csv")).expect("the shipped clips") {
        let samples = read_audio_at(&clip.path, mfcc.settings().sample_rate).expect("a shipped clip").samples;
        inputs.extend(clip_features(mfcc, &samples).expect("a clip is long enough"));
    }
    assert!(inputs.len() >= SPEECH_STEPS * loaded.input_size(), "the clips have too few frames");
    inputs.truncate(SPEECH_STEPS * loaded.input_size());
    let ranges = Ranges::measure(&model, [[inputs.as_slice()].as_slice()]).expect("it runs");
    Network { name: name.to_owned(), model, ranges, inputs }
}

/// Every network in these layouts; a line has the hash and says what it is.
pub fn write(folder: &Path, networks: &[Network], layouts: &[Layout]) -> io::Result<()> {
    let mut bundle = Bundle::new(0);
    let mut cells = BTreeSet::new();
    for (network, numeric) in networks.iter().flat_map(|network| Numeric::INTEGER.map(|numeric| (network, numeric))) {
        let (mut first, mut integers) = (None, Vec::new());
        for &layout in layouts.iter().filter(|layout| layout.is_of(numeric)) {
            let Some(image) = network.pack(numeric, layout) else { continue };
            let model = image.model().expect("the packer's images are whole");
            if integers.is_empty() {
                let scale = model.inputs().next().expect("it has an input").scale;
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

/// As `firmware-examples/src/bin/same_bits.rs` does it.
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
