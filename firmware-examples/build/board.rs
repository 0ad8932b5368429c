//! Passes the memory map of a board and the arguments for its linker to cargo. Runs in the folder of the board.

use std::error::Error;
use std::path::PathBuf;
use std::{env, fs};

/// Copies `memory.x` to where the linker looks for it.
pub fn link(arguments: &[&str]) -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=../build/board.rs");
    println!("cargo::rerun-if-changed=memory.x");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::copy("memory.x", out.join("memory.x"))?;
    println!("cargo::rustc-link-search={}", out.display());
    // Cargo merges the flags of the configuration files in all parent folders.
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS")?;
    for argument in arguments.iter().filter(|&argument| !flags.contains(argument)) {
        println!("cargo::rustc-link-arg={argument}");
    }
    Ok(())
}
