//! Writes the files that the firmware includes: the memory map, the images and the recording.

mod c;
mod hello;
mod spotter;
mod update;
mod vad;
mod wake_word;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::{env, fs};

use tidegate_model::pack::pack;
use tidegate_model::tidegate::{Layout, Numeric};

use hello::{hello, hello_gru, in_integers};
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
    let kws = spotter.pack(Numeric::I8x16, layout)?;
    let [first, second] = update::signed(&kws)?;
    fs::write(out.join("kws_signed.tgi"), first)?;
    fs::write(out.join("kws_update.tgi"), second)?;
    fs::write(out.join("kws.tgi"), kws)?;
    fs::write(out.join("kws_f32.tgi"), spotter.pack(Numeric::F32, Layout::Portable)?)?;
    println!("cargo::rerun-if-changed={REPOSITORY}/{}", vad::MODEL);
    fs::write(out.join("vad.tgi"), vad::image(Path::new(REPOSITORY))?)?;
    println!("cargo::rerun-if-changed={REPOSITORY}/{}", wake_word::FOLDER);
    fs::write(out.join("wake_word.tgi"), wake_word::word(Path::new(REPOSITORY), layout)?)?;
    fs::write(out.join("wake_gate.tgi"), wake_word::gate(Path::new(REPOSITORY), layout)?)?;
    recording(&out, &spotter)?;
    update::for_c(&out, [&pack(&hello(), Numeric::F32)?, &pack(&hello_gru(), Numeric::F32)?])?;
    c::write(&out, &spotter, hello())
}

/// Writes one static for each clip, so that each symbol has the size of its clip.
fn recording(out: &Path, spotter: &Spotter) -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={REPOSITORY}/{CLIPS}");
    let (mut statics, mut clips) = (String::new(), Vec::new());
    let wake_word = wake_word::sound(Path::new(REPOSITORY))?;
    let sounds = spotter.clips.iter().map(|clip| (clip.label.as_str(), &clip.samples));
    for (number, (label, samples)) in sounds.chain([("okay_nabu", &wake_word)]).enumerate() {
        let bytes: Vec<u8> = samples.iter().flat_map(|sample| sample.to_le_bytes()).collect();
        statics += &format!("static CLIP_{number}: [u8; {}] = *include_bytes!(\"clip{number}.i16\");\n", bytes.len());
        clips.push(format!("Clip {{ label: {label:?}, bytes: &CLIP_{number} }}"));
        fs::write(out.join(format!("clip{number}.i16")), bytes)?;
    }
    for clip in &spotter.clips {
        println!("cargo::rerun-if-changed={}", clip.path.display());
    }
    let wake_word = clips.pop().unwrap_or_default();
    statics +=
        &format!("/// The shipped clips.\npub static CLIPS: [Clip; {}] = [{}];\n", clips.len(), clips.join(", "));
    statics += &format!("/// The sound of the wake word.\npub static WAKE_WORD: [Clip; 1] = [{wake_word}];\n");
    Ok(fs::write(out.join("clips.rs"), statics)?)
}
