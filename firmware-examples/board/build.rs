//! Makes what the firmware includes: the memory map and the image.

#[path = "../build/spotter.rs"]
mod spotter;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::{env, fs};

use tidegate::Numeric;
use tidegate::image::Layout;

use spotter::{CLIPS, Spotter};

const REPOSITORY: &str = "../..";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=../build/spotter.rs");
    println!("cargo::rerun-if-changed=memory.x");
    println!("cargo::rerun-if-changed={REPOSITORY}/{CLIPS}");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::copy("memory.x", out.join("memory.x"))?;
    println!("cargo::rustc-link-search={}", out.display());
    // Cargo joins the flags of configurations in all folders above.
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS")?;
    for argument in ["-Tlink.x", "-Tdefmt.x", "--nmagic"] {
        if !flags.contains(argument) {
            println!("cargo::rustc-link-arg={argument}");
        }
    }

    let spotter = Spotter::read(Path::new(REPOSITORY))?;
    println!("cargo::rerun-if-changed={}", spotter.file.display());
    for clip in &spotter.clips {
        println!("cargo::rerun-if-changed={}", clip.path.display());
    }
    Ok(fs::write(out.join("kws.tgi"), spotter.pack(Numeric::I8x16, Layout::CortexM4)?)?)
}
