//! Tells the linker the memory map of the board.

#[path = "../build/board.rs"]
mod board;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    board::link(&["-Tlink.x", "-Tlink-rp.x", "-Tdefmt.x", "--nmagic"])
}
