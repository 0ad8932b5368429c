//! Runs the network of model.tgi in QEMU and prints its outputs.

#![no_std]
#![no_main]

mod network;
mod print;
mod source;

use network::{BLOCK_MS, Memory, Network};
use semihosting::process;

#[{{entry}}]
fn main() -> ! {
    let mut memory = Memory::new();
    let mut network = Network::new(&mut memory).expect("the memory has the model's size");
    let mut now_ms = 0;
    for block in (0..).map_while(source::read) {
        now_ms += BLOCK_MS;
        let done = network.process(&block, |values, label| print::output(now_ms, values, label));
        done.unwrap_or_else(|error| panic!("{error}"));
    }
    process::exit(0)
}
