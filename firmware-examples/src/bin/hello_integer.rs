//! The smallest use of integers: a few steps of an LSTM in `i8x16` with integers at its ports.

#![no_std]
#![no_main]

use firmware_examples::arch::{below, entry};
use firmware_examples::{Console, start};
use tidegate::{Model, State};

// Without `f32` conversion at the ports, which this program does not use.
const MODEL: Model<'static> = tidegate::include_model!(concat!(env!("OUT_DIR"), "/hello_integer.tgi"))
    .integers_only()
    .expect("hello_integer.tgi is a float image");

#[entry]
fn main() -> ! {
    start(run)
}

fn run() -> Option<()> {
    let mut console = Console::open();
    let (mut memory, mut scratch) = ([0; MODEL.state_words()], [0; MODEL.scratch_words()]);
    let mut state = State::new(&MODEL, &mut memory).ok()?;
    let mut output = [0; MODEL.output_size()];
    for input in [[8192, 0, 0, -8192], [0, 16384, 4096, 0], [2048, 0, -32767, 0], [0; 4]] {
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
