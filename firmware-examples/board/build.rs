//! Writes the memory map of the board and packs its model before the firmware is compiled.

#[path = "../build/board.rs"]
mod board;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    board::write(&["-Tlink.x", "-Tdefmt.x", "--nmagic"], tidegate::Layout::CortexM4)
}
