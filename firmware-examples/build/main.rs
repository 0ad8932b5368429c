//! Writes the files that the firmware includes: the memory map, the images and the recording.

mod c;
mod spotter;
mod vad;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::{env, fs};

use tidegate_model::canonical::{Architecture, Canonical, Node, Port, Tensor};
use tidegate_model::pack::{pack, pack_with};
use tidegate_model::quantize::Ranges;
use tidegate_model::tidegate::{Layout, Numeric};

use spotter::{CLIPS, Spotter};

const REPOSITORY: &str = "..";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build");
    println!("cargo::rerun-if-changed=memory");
    let (out, target) = (PathBuf::from(env::var("OUT_DIR")?), env::var("TARGET")?);
    let memory = match target.as_str() {
        "thumbv6m-none-eabi" | "thumbv7m-none-eabi" | "thumbv7em-none-eabihf" => "mps2",
        "thumbv8m.main-none-eabihf" => "mps3_an547",
        "riscv32imac-unknown-none-elf" => "virt",
        _ => return Err(format!("there is no memory map for {target}").into()),
    };
    let has = |kernels: &str| env::var_os(format!("CARGO_FEATURE_{kernels}")).is_some();
    let layout = match target.as_str() {
        _ if has("MVE") => Layout::CortexM55,
        _ if has("DSP") => Layout::CortexM4,
        "thumbv6m-none-eabi" => Layout::CortexM0,
        _ => Layout::Portable,
    };
    fs::copy(format!("memory/{memory}.x"), out.join("memory.x"))?;
    println!("cargo::rustc-link-search={}", out.display());
    println!("cargo::rustc-check-cfg=cfg(mps3)");
    if memory.starts_with("mps3") {
        println!("cargo::rustc-cfg=mps3");
    }

    fs::write(out.join("hello.tgi"), pack(&hello(), Numeric::F32)?)?;
    fs::write(out.join("hello_integer.tgi"), in_integers(hello(), layout)?)?;
    fs::write(out.join("hello_gru.tgi"), in_integers(hello_gru(), layout)?)?;
    let spotter = Spotter::read(Path::new(REPOSITORY))?;
    println!("cargo::rerun-if-changed={}", spotter.file.display());
    fs::write(out.join("kws.tgi"), spotter.pack(Numeric::I8x16, layout)?)?;
    fs::write(out.join("kws_f32.tgi"), spotter.pack(Numeric::F32, Layout::Portable)?)?;
    println!("cargo::rerun-if-changed={REPOSITORY}/{}", vad::MODEL);
    fs::write(out.join("vad.tgi"), vad::image(Path::new(REPOSITORY))?)?;
    recording(&out, &spotter)?;
    c::write(&out, &spotter, hello())
}

/// Writes one static for each clip, so that each symbol has the size of its clip.
fn recording(out: &Path, spotter: &Spotter) -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={REPOSITORY}/{CLIPS}");
    let (mut statics, mut clips) = (String::new(), Vec::new());
    for (number, clip) in spotter.clips.iter().enumerate() {
        println!("cargo::rerun-if-changed={}", clip.path.display());
        let bytes: Vec<u8> = clip.samples.iter().flat_map(|sample| sample.to_le_bytes()).collect();
        statics += &format!("static CLIP_{number}: [u8; {}] = *include_bytes!(\"clip{number}.i16\");\n", bytes.len());
        clips.push(format!("Clip {{ label: {:?}, bytes: &CLIP_{number} }}", clip.label));
        fs::write(out.join(format!("clip{number}.i16")), bytes)?;
    }
    statics +=
        &format!("/// The shipped clips.\npub static CLIPS: [Clip; {}] = [{}];\n", clips.len(), clips.join(", "));
    Ok(fs::write(out.join("clips.rs"), statics)?)
}

/// Packs the first layer of a model in integers. Its features are within ±4.
fn in_integers(mut model: Canonical, layout: Layout) -> Result<Vec<u8>, Box<dyn Error>> {
    let Architecture { nodes, outputs, .. } = &mut model.architecture;
    nodes.truncate(1);
    let [first] = nodes.as_slice() else { return Err("a model without a layer".into()) };
    let own = format!("{}.", first.name);
    outputs[0] = Port { name: "h".into(), size: first.output_size, from: first.name.clone() };
    model.tensors.retain(|name, _| name.starts_with(&own));
    let heard: &[f32] = &[4.0, 0.0, -4.0, 1.0, 0.0, 2.0, 0.5, 0.0];
    // Two rows are no distribution.
    let ranges = Ranges::measure(&model, [[heard].as_slice()])?.nearest();
    Ok(pack_with(&model, Numeric::I8x16, &ranges, layout)?)
}

/// GRU 4 → 32 with the reset after the product, as in Keras and cuDNN.
fn hello_gru() -> Canonical {
    let mut gru = node("gru", "gru", "features", [4, 32]);
    gru.options = vec!["reset_after".into()];
    let tensors = [
        ("gru.input_weights", tensor(&[96, 4])),
        ("gru.recurrent_weights", tensor(&[96, 32])),
        ("gru.input_bias", tensor(&[96])),
        ("gru.recurrent_bias", tensor(&[96])),
    ];
    chain(vec![gru], ("h", "gru", 32), tensors)
}

/// LSTM 4 → 8, dense → 3, softmax.
fn hello() -> Canonical {
    let nodes = vec![
        node("lstm", "lstm", "features", [4, 8]),
        node("dense", "dense", "lstm", [8, 3]),
        node("softmax", "softmax", "dense", [3, 3]),
    ];
    let tensors = [
        ("lstm.input_weights", tensor(&[32, 4])),
        ("lstm.recurrent_weights", tensor(&[32, 8])),
        ("lstm.input_bias", tensor(&[32])),
        ("dense.weights", tensor(&[3, 8])),
        ("dense.bias", tensor(&[3])),
    ];
    chain(nodes, ("posteriors", "softmax", 3), tensors)
}

/// A layer without options.
fn node(name: &str, cell: &str, input: &str, [input_size, output_size]: [usize; 2]) -> Node {
    Node {
        name: name.into(),
        cell: cell.into(),
        inputs: vec![input.into()],
        input_size,
        hidden_size: output_size,
        output_size,
        ..Node::default()
    }
}

/// Steps of 37 modulo 64, in 64ths around zero. They are exact in f32, and no two rows are equal.
fn tensor(shape: &[usize]) -> Tensor {
    let data = (0..shape.iter().product()).map(|k: usize| (k * 37 % 64) as f32 / 64.0 - 0.5);
    Tensor { shape: shape.to_vec(), data: data.collect() }
}

/// A model of layers over four features. The second argument is the output's name, layer and size.
fn chain<const N: usize>(
    nodes: Vec<Node>,
    (output, from, size): (&str, &str, usize),
    tensors: [(&str, Tensor); N],
) -> Canonical {
    let port = |name: &str, size: usize, from: &str| Port { name: name.into(), size, from: from.into() };
    let architecture = Architecture {
        version: 1,
        source: "hello_step".into(),
        inputs: vec![port("features", 4, "")],
        nodes,
        outputs: vec![port(output, size, from)],
        ..Architecture::default()
    };
    Canonical { architecture, tensors: tensors.map(|(name, tensor)| (name.into(), tensor)).into() }
}
