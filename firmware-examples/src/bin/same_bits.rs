//! Runs every integer network of `same_bits.bin` over its inputs, and prints a hash of all outputs for each. The hashes
//! must be the same on every core.

#![no_std]
#![no_main]

use firmware_examples::arch::{entry, singleton};
use firmware_examples::bundle::{Bundle, Case};
use firmware_examples::{Console, Hash, start};
use tidegate::State;

/// Words of memory for the states and for the scratch.
const WORDS: usize = 16 << 10;
/// Elements of an output.
const OUTPUTS: usize = 1 << 10;

#[entry]
fn main() -> ! {
    start(run)
}

fn run() -> Option<()> {
    let mut console = Console::open();
    let mut bundle = Bundle::open(c"same_bits.bin")?;
    let memory = singleton!(: [u32; 2 * WORDS] = [0; 2 * WORDS])?;
    while let Some(case) = bundle.next_case() {
        match case.and_then(|case| hash(&case, memory)) {
            Some(hash) => console.hash(&hash),
            None => console.text("refused\n"),
        }
    }
    Some(())
}

fn hash(case: &Case<'_>, memory: &mut [u32; 2 * WORDS]) -> Option<Hash> {
    let (states, scratch) = memory.split_at_mut(WORDS);
    let mut state = State::new(&case.model, states).ok()?;
    let (mut input, mut output) = ([0; OUTPUTS], [0; OUTPUTS]);
    let input = input.get_mut(..case.model.input_size())?;
    let output = output.get_mut(..case.model.output_size())?;
    let mut hash = Hash::default();
    for step in case.inputs.chunks_exact(input.len()) {
        for (input, &bytes) in input.iter_mut().zip(step) {
            *input = i16::from_le_bytes(bytes);
        }
        if case.model.step_i16(&mut state, scratch, input, output).ok()?.has_output() {
            hash.add(output);
        }
    }
    Some(hash)
}
