//! Writes the files that the firmware of a board includes: the memory map and the image of the spotter.

#[path = "spotter.rs"]
mod spotter;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::{env, fs};

use tidegate::{Layout, Numeric};

use spotter::{CLIPS, Spotter};

const REPOSITORY: &str = "../..";

/// Runs in the folder of the board, with the arguments of its linker and the layout of its core.
pub fn write(linker: &[&str], layout: Layout) -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=../build");
    println!("cargo::rerun-if-changed=memory.x");
    println!("cargo::rerun-if-changed={REPOSITORY}/{CLIPS}");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::copy("memory.x", out.join("memory.x"))?;
    println!("cargo::rustc-link-search={}", out.display());
    // Cargo merges the flags of the configuration files in all parent folders.
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS")?;
    for argument in linker.iter().filter(|&argument| !flags.contains(argument)) {
        println!("cargo::rustc-link-arg={argument}");
    }

    let spotter = Spotter::read(Path::new(REPOSITORY))?;
    println!("cargo::rerun-if-changed={}", spotter.file.display());
    for clip in &spotter.clips {
        println!("cargo::rerun-if-changed={}", clip.path.display());
    }
    Ok(fs::write(out.join("kws.tgi"), spotter.pack(Numeric::I8x16, layout)?)?)
}
