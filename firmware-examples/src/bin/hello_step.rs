//! The smallest use: an image in flash, checked by the compiler, and a few steps of it.
//!
//! No heap, no `core::fmt`, no panic: `cargo xtask test` looks for their symbols in this program.

#![no_std]
#![no_main]

use firmware_examples::{Console, arch::entry, start};
use tidegate::{Aligned, ImageBytes, Model, State};

static IMAGE: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/hello.tgi")));
const MODEL: Model<'static> = match Model::parse(ImageBytes::from_aligned(IMAGE)) {
    Ok(model) => model,
    Err(_) => panic!("hello.tgi is not a valid image"),
};

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
