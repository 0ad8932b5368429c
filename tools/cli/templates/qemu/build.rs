//! Runs the network on the host, and writes the bits of its outputs for tests/twin.rs.

#[allow(dead_code, reason = "only the program prints times")]
#[path = "src/network.rs"]
mod network;
#[path = "src/source.rs"]
mod source;

use std::error::Error;
use std::path::PathBuf;
use std::{env, fs};

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    let mut memory = network::Memory::new();
    let mut network = network::Network::new(&mut memory)?;
    let mut bits = Vec::new();
    for block in (0..).map_while(source::read) {
        network.process(&block, |output, _| bits.extend(output.iter().flat_map(|value| value.to_le_bytes())))?;
    }
    let out = PathBuf::from(env::var("OUT_DIR")?);
    Ok(fs::write(out.join("host.bits"), bits)?)
}
