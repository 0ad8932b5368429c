//! Tells the linker the memory map of the board.

#[path = "../build/board.rs"]
mod board;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=banks.x");
    println!("cargo::rustc-link-arg-bin=microbit-update=-Tbanks.x");
    board::link(&["-Tlink.x", "--nmagic"])
}
