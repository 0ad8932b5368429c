//! Makes what the firmware includes: the memory map, the images and the recording.

mod build_c;

use std::collections::BTreeMap;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::{env, fs};

use tidegate::Numeric;
use tidegate_tools::canonical::{Architecture, Canonical, Node, Port, Schedule, Tensor};
use tidegate_tools::data::{read_audio_at, read_index};
use tidegate_tools::load::{self, Settings};
use tidegate_tools::pack::pack;

const MODEL: &str = "../assets/hello_edge/GRU_S.pb";
const CLIPS: &str = "../assets/speech_commands/index.csv";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=build_c.rs");
    println!("cargo::rerun-if-changed=memory.x");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::copy("memory.x", out.join("memory.x"))?;
    println!("cargo::rustc-link-search={}", out.display());

    fs::write(out.join("hello.tgi"), pack(&hello(), Numeric::F32)?)?;
    println!("cargo::rerun-if-changed={MODEL}");
    let kws = load::canonical(Path::new(MODEL), &Settings::default())?.model;
    fs::write(out.join("kws.tgi"), pack(&kws, Numeric::F32)?)?;
    let rate = kws.architecture.front_end.as_ref().ok_or("the model has no front end")?.sample_rate;
    build_c::write(&out, &kws, hello(), &recording(&out, rate)?)
}

/// The first clip of every class, in the order of the index: one static each, so that a symbol tells its size.
/// Returns their labels and how many samples they have.
fn recording(out: &Path, sample_rate: u32) -> Result<Vec<(String, usize)>, Box<dyn Error>> {
    println!("cargo::rerun-if-changed={CLIPS}");
    let (mut labels, mut lens): (Vec<String>, Vec<usize>) = Default::default();
    let mut statics = String::new();
    for clip in read_index(Path::new(CLIPS))? {
        if labels.contains(&clip.label) {
            continue;
        }
        println!("cargo::rerun-if-changed={}", clip.path.display());
        let samples = read_audio_at(&clip.path, sample_rate)?.samples;
        let (number, count) = (labels.len(), samples.len());
        let bytes: Vec<u8> = samples.into_iter().flat_map(i16::to_le_bytes).collect();
        fs::write(out.join(format!("clip{number}.i16")), bytes)?;
        statics += &format!("static CLIP_{number}: [u8; 2 * {count}] = *include_bytes!(\"clip{number}.i16\");\n");
        labels.push(clip.label);
        lens.push(count);
    }
    let clips: Vec<String> = labels
        .iter()
        .enumerate()
        .map(|(number, label)| format!("Clip {{ label: {label:?}, bytes: &CLIP_{number} }}"))
        .collect();
    statics +=
        &format!("/// The shipped clips.\npub static CLIPS: [Clip; {}] = [{}];\n", clips.len(), clips.join(", "));
    fs::write(out.join("clips.rs"), statics)?;
    Ok(labels.into_iter().zip(lens).collect())
}

/// LSTM 4 → 8, dense → 3, softmax, with weights that a formula gives.
fn hello() -> Canonical {
    let node = |name: &str, cell: &str, input: &str, [input_size, output_size]: [usize; 2]| Node {
        name: name.into(),
        cell: cell.into(),
        inputs: vec![input.into()],
        input_size,
        hidden_size: output_size,
        output_size,
        options: Vec::new(),
        params: BTreeMap::new(),
        activations: BTreeMap::new(),
        extents: BTreeMap::new(),
        unroll: None,
    };
    let port = |name: &str, size: usize, from: &str| Port { name: name.into(), size, from: from.into() };
    let architecture = Architecture {
        version: 1,
        source: "hello_step".into(),
        inputs: vec![port("features", 4, "")],
        nodes: vec![
            node("lstm", "lstm", "features", [4, 8]),
            node("dense", "dense", "lstm", [8, 3]),
            node("softmax", "softmax", "dense", [3, 3]),
        ],
        outputs: vec![port("posteriors", 3, "softmax")],
        labels: Vec::new(),
        front_end: None,
        schedule: Schedule::Endless,
        detector: None,
    };
    // Steps of 37 modulo 64, as 64ths around zero: exact in f32, and no two rows alike.
    let tensor = |shape: &[usize]| Tensor {
        shape: shape.to_vec(),
        data: (0..shape.iter().product()).map(|k: usize| (k * 37 % 64) as f32 / 64.0 - 0.5).collect(),
    };
    let tensors = [
        ("lstm.input_weights", tensor(&[32, 4])),
        ("lstm.recurrent_weights", tensor(&[32, 8])),
        ("lstm.input_bias", tensor(&[32])),
        ("dense.weights", tensor(&[3, 8])),
        ("dense.bias", tensor(&[3])),
    ];
    Canonical { architecture, tensors: tensors.map(|(name, tensor)| (name.into(), tensor)).into() }
}
