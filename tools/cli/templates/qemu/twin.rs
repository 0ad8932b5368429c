//! `cargo test`: the device in QEMU gives the outputs that build.rs has computed on the host, bit for bit.

#![no_std]
#![no_main]

#[allow(dead_code, reason = "only the program prints times")]
#[path = "../src/network.rs"]
mod network;
#[path = "../src/source.rs"]
mod source;

use network::{Memory, Network};
use semihosting::{println, process};

static HOST: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/host.bits"));

#[{{entry}}]
fn main() -> ! {
    let mut expected = HOST.as_chunks().0.iter().map(|bytes| u32::from_le_bytes(*bytes));
    let mut memory = Memory::new();
    let mut network = Network::new(&mut memory).expect("the memory has the model's size");
    let mut compared = 0;
    for (number, block) in (0..).map_while(source::read).enumerate() {
        let done = network.process(&block, |output, _| {
            for value in output {
                assert_eq!(Some(value.to_bits()), expected.next(), "an output of block {number}: device, host");
                compared += 1;
            }
        });
        done.unwrap_or_else(|error| panic!("{error}"));
    }
    assert!(compared > 0 && expected.next().is_none(), "the host has other outputs after the {compared} of the device");
    println!("{compared} values of host and device have the same bits");
    process::exit(0)
}
