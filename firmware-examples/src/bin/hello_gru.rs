//! The step that needs the most stack: a GRU in `i8x16` with the reset after the product, which has separate sums.

#![no_std]
#![no_main]

use firmware_examples::arch::{below, entry};
use firmware_examples::{Console, start};
use tidegate::{Model, State};

const MODEL: Model<'static> = tidegate::include_model!(concat!(env!("OUT_DIR"), "/hello_gru.tgi"))
    .integers_only()
    .expect("hello_gru.tgi is a float image");

#[entry]
fn main() -> ! {
    start(run)
}

fn run() -> Option<()> {
    let mut console = Console::open();
    let (mut memory, mut scratch) = ([0; MODEL.state_words()], [0; MODEL.scratch_words()]);
    let mut state = State::new(&MODEL, &mut memory).ok()?;
    let mut output = [0; MODEL.output_size()];
    for input in [[8192, 0, 0, -8192], [0, 16384, 4096, 0]] {
        let mut stepped = Err(());
        let stack = below(|| {
            stepped = MODEL.step_i16(&mut state, &mut scratch, &input, &mut output).map_err(|_| ());
        });
        if stepped.ok()?.has_output() {
            console.stack_of_step(stack);
            console.text("step");
            console.integers(&output);
        }
    }
    Some(())
}
