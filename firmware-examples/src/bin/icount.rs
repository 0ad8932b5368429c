//! Counts the instructions of a step of every network of `icount.bin`, or of a block of samples of an amplifier, and of parsing
//! its image: under `-icount shift=0` an instruction takes a nanosecond, which the timer of the core measures. The number in
//! the file is the number of calls that are measured together.
//!
//! `traced_step` is the function to look for in a trace of QEMU.

#![no_std]
#![no_main]

use core::hint::black_box;

use firmware_examples::arch::{entry, executed, singleton, start_counter};
use firmware_examples::bundle::Bundle;
use firmware_examples::{Console, Hash, exit};
use tidegate::{ImageBytes, Model, Numeric, State};

/// Words of memory for the states and for the scratch.
const WORDS: usize = 4 << 10;
/// Elements of an input, and of an output.
const PORT: usize = 128;
/// Samples of a block of an amplifier: a millisecond at 48 kHz.
const BLOCK: usize = 48;

#[entry]
fn main() -> ! {
    exit(run())
}

fn run() -> Option<()> {
    let mut console = Console::open();
    let mut bundle = Bundle::open(c"icount.bin")?;
    start_counter()?;
    let memory = singleton!(: [u32; 2 * WORDS] = [0; 2 * WORDS])?;
    let steps = bundle.number;
    while let Some(case) = bundle.next_case() {
        let model = case?.model;
        let (states, scratch) = memory.split_at_mut(WORDS);
        let mut network = Network::new(&model, states, scratch)?;
        network.step();
        traced_step(&mut network);
        let instructions = executed(|| (0..steps).for_each(|_| network.step()));
        console.hex(instructions as u32);
        console.text(" ");
        let image = ImageBytes::new(model.image().bytes).ok()?;
        // In a trace, parsing would fill the log.
        let parsing = if steps > 0 { executed(|| parse(image)) } else { 0 };
        console.hex(parsing as u32);
        console.text(" ");
        let mut hash = Hash::default();
        hash.add(&network.output);
        for output in network.output_f32 {
            let bits = output.to_bits();
            hash.add(&[bits as i16, (bits >> 16) as i16]);
        }
        console.hash(&hash);
    }
    Some(())
}

struct Network<'m, 's> {
    model: &'m Model<'m>,
    state: State<'s>,
    scratch: &'s mut [u32],
    integer: bool,
    /// Lengths of the ports.
    inputs: usize,
    outputs: usize,
    input: [i16; PORT],
    input_f32: [f32; PORT],
    output: [i16; PORT],
    output_f32: [f32; PORT],
}

impl<'m, 's> Network<'m, 's> {
    fn new(model: &'m Model<'m>, states: &'s mut [u32], scratch: &'s mut [u32]) -> Option<Self> {
        // Steps of 37 modulo 64 around zero: adjacent values differ.
        let input = core::array::from_fn(|k| (k * 37 % 64) as i16 - 32);
        let is_amp = (model.input_size(), model.output_size()) == (1, 1);
        let elements = |size| if is_amp { BLOCK } else { size };
        let sizes_fit = model.input_size().max(model.output_size()) <= PORT;
        let most = if model.numeric() == Numeric::I8 { 7 } else { 1000 };
        sizes_fit.then_some(Self {
            model,
            state: State::new(model, states).ok()?,
            scratch,
            integer: model.numeric().is_integer(),
            inputs: elements(model.input_size()),
            outputs: elements(model.output_size()),
            input: input.map(|x| most * x),
            input_f32: input.map(|x| f32::from(x) / 32.0),
            output: [0; PORT],
            output_f32: [0.0; PORT],
        })
    }

    /// The call that a program makes for a time step, or for a block of an amplifier.
    fn step(&mut self) {
        if self.inputs == BLOCK { self.block() } else { self.one() }
    }

    #[inline(never)]
    fn one(&mut self) {
        let Self { model, state, scratch, inputs, outputs, .. } = self;
        let done = if self.integer {
            let input = self.input.get(..*inputs).unwrap_or_default();
            model.step_i16(state, scratch, input, self.output.get_mut(..*outputs).unwrap_or_default())
        } else {
            let input = self.input_f32.get(..*inputs).unwrap_or_default();
            model.step_f32(state, scratch, input, self.output_f32.get_mut(..*outputs).unwrap_or_default())
        };
        let _ = black_box(done);
    }

    #[inline(never)]
    fn block(&mut self) {
        let Self { model, state, scratch, inputs, outputs, .. } = self;
        let done = if self.integer {
            let input = self.input.get(..*inputs).unwrap_or_default();
            model.run_i16(state, scratch, input, self.output.get_mut(..*outputs).unwrap_or_default())
        } else {
            let input = self.input_f32.get(..*inputs).unwrap_or_default();
            model.run_f32(state, scratch, input, self.output_f32.get_mut(..*outputs).unwrap_or_default())
        };
        let _ = black_box(done);
    }
}

/// The call that a program makes for an image in another flash bank.
#[inline(never)]
fn parse(image: ImageBytes<'_>) {
    let _ = black_box(Model::parse(black_box(image)));
}

/// A step for a trace: from this function's first instruction to its return.
#[inline(never)]
fn traced_step(network: &mut Network<'_, '_>) {
    network.step();
    black_box(network);
}
