//! The steps of `hello_step` with an image that is loaded at run time, for networks that are replaced in the field. It
//! runs any image that fits the memory, with any cell. Therefore it links all cells, whereas `hello_step` links only
//! those of its image.
//!
//! No heap, no `core::fmt`, no panic: `cargo xtask test` checks that this program does not contain their symbols.

#![no_std]
#![no_main]

use core::hint::black_box;

use firmware_examples::{
    Console,
    arch::{below, entry},
    start,
};
use tidegate::{Aligned, ImageBytes, Model, State};

/// Represents a partition of the flash; the compiler does not evaluate its contents.
static IMAGE: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/hello.tgi")));

#[entry]
fn main() -> ! {
    start(run)
}

fn run() -> Option<()> {
    let mut console = Console::open();
    let model = Model::parse(ImageBytes::from_aligned(black_box(IMAGE))).ok()?;
    let (mut memory, mut scratch, mut posteriors) = ([0; 64], [0; 64], [0.0; 8]);
    // A model that was replaced in the field is tested first.
    let mut test = None;
    // The length of the memory is hidden: the compiler knows as little of it as of a memory in the field.
    let stack = below(|| test = model.self_test().map(|test| test.run(black_box(&mut memory[..]))));
    if let Some(result) = test {
        result.ok()?;
        console.stack_of_step(stack);
    }
    let mut state = State::new(&model, memory.get_mut(..model.state_words())?).ok()?;
    let scratch = scratch.get_mut(..model.scratch_words())?;
    let posteriors = posteriors.get_mut(..model.output_size())?;
    for input in [[1.0, 0.0, 0.0, -1.0], [0.0, 2.0, 0.5, 0.0], [0.25, 0.0, -4.0, 0.0], [0.0; 4]] {
        if model.step_f32(&mut state, scratch, &input, posteriors).ok()?.has_output() {
            console.text("step");
            console.bits(posteriors);
        }
    }
    Some(())
}
