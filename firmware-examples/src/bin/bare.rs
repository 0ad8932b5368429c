//! `hello_integer` without its network: start-up, printing, stack measurement, inputs and outputs. `cargo xtask size`
//! reports the difference to `hello_integer`, which is the cost of a network.

#![no_std]
#![no_main]

use core::hint::black_box;

use firmware_examples::arch::{below, entry};
use firmware_examples::{Console, start};

#[entry]
fn main() -> ! {
    start(run)
}

fn run() -> Option<()> {
    let mut console = Console::open();
    let mut output = [0; 8];
    for input in [[8192, 0, 0, -8192], [0, 16384, 4096, 0], [2048, 0, -32767, 0], [0; 4]] {
        let stack = below(|| {
            black_box((&input, &mut output));
        });
        console.stack_of_step(stack);
        console.text("step");
        console.integers(&output);
    }
    Some(())
}
