//! What every program here has besides a network: start-up, printing, the stack's measure. `cargo xtask size` takes it off.

#![no_std]
#![no_main]

use firmware_examples::{Console, arch::entry, start};

#[entry]
fn main() -> ! {
    start(run)
}

fn run() -> Option<()> {
    let mut console = Console::open();
    console.stack_of_step(0);
    console.integers(&[0]);
    Some(())
}
