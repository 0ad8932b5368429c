//! The smallest use: an image in flash, checked at compile time, and a few steps of it.
//!
//! No heap, no `core::fmt`, no panic: `cargo xtask test` checks that this program does not contain their symbols.

#![no_std]
#![no_main]

use firmware_examples::{Console, arch::entry, start};
use tidegate::{Model, State};

const MODEL: Model<'static> = tidegate::include_model!(concat!(env!("OUT_DIR"), "/hello.tgi"));

#[entry]
fn main() -> ! {
    start(run)
}

fn run() -> Option<()> {
    let mut console = Console::open();
    let (mut memory, mut scratch) = ([0; MODEL.state_words()], [0; MODEL.scratch_words()]);
    let mut state = State::new(&MODEL, &mut memory).ok()?;
    let mut posteriors = [0.0; MODEL.output_size()];
    for input in [[1.0, 0.0, 0.0, -1.0], [0.0, 2.0, 0.5, 0.0], [0.25, 0.0, -4.0, 0.0], [0.0; 4]] {
        if MODEL.step_f32(&mut state, &mut scratch, &input, &mut posteriors).ok()?.has_output() {
            console.text("step");
            console.bits(&posteriors);
        }
    }
    Some(())
}
