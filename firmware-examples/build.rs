//! Makes what the firmware includes: the memory map and the images.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::{env, fs};

use tidegate::Numeric;
use tidegate_tools::canonical::{Architecture, Canonical, Node, Port, Schedule, Tensor};
use tidegate_tools::pack::pack;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=memory.x");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::copy("memory.x", out.join("memory.x"))?;
    println!("cargo::rustc-link-search={}", out.display());

    write(&out, "hello.tgi", &pack(&hello(), Numeric::F32)?)
}

fn write(out: &Path, name: &str, bytes: &[u8]) -> Result<(), Box<dyn Error>> {
    let path = out.join(name);
    fs::write(&path, bytes).map_err(|error| format!("{}: {error}", path.display()).into())
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
