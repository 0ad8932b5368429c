//! Counts the instructions of the steps and the front end of each network of `zoo.bin` under `-icount shift=0`. The number
//! in the file is the number of steps. The program runs these steps twice and counts the second time, when all windows
//! are full. It prints the instructions of the steps, those of a frame, the bytes of stack of a step, and the addresses of
//! the code of the last layer and of the front end. `cargo xtask zoo` writes the file, and `cargo xtask costs` as well. The
//! functions named `detected` are there for the size of their code.

#![no_std]
#![no_main]

use core::array::from_fn;
use core::hint::black_box;

use firmware_examples::arch::{below, entry, executed, paint, singleton, start_counter};
use firmware_examples::bundle::Bundle;
use firmware_examples::{Console, exit};
use tidegate::{Aligned, Detector, FrontEnd, IntegerDetector, IntegerFrontEnd, Mfcc, Model, State, StepError};

/// On Arm enough for a network of DTLN in f32. RISC-V's `singleton` would copy that over the stack.
const IMAGE_BYTES: usize = if cfg!(target_arch = "arm") { 2560 << 10 } else { 512 << 10 };
/// Words of memory for states, scratch and front end.
const WORDS: usize = 160 << 10;
/// Elements of all inputs, and of all outputs.
const PORTS: usize = 2048;
/// Number of ports on either side.
const MOST: usize = 4;
/// Frames over which the front end is counted.
const FRAMES: u32 = 8;

#[entry]
fn main() -> ! {
    exit(run())
}

fn run() -> Option<()> {
    let mut console = Console::open();
    let image = singleton!(: Aligned<[u8; IMAGE_BYTES]> = Aligned([0; IMAGE_BYTES]))?;
    let mut bundle = Bundle::open_in(c"zoo.bin", &mut image.0, &mut [])?;
    let memory = singleton!(: [u32; WORDS] = [0; WORDS])?;
    let floats = singleton!(: [[f32; PORTS]; 2] = [[0.0; PORTS]; 2])?;
    let integers = singleton!(: [[i16; PORTS]; 2] = [[0; PORTS]; 2])?;
    for (k, (x, q)) in floats.iter_mut().zip(integers.iter_mut()).flat_map(|(x, q)| x.iter_mut().zip(q)).enumerate() {
        *q = (k * 37 % 64) as i16 - 32;
        *x = f32::from(*q) / 64.0;
    }
    start_counter()?;
    let steps = bundle.number;
    while let Some(case) = bundle.next_case() {
        let model = case?.model;
        let frame = front_end(&model, memory)?;
        memory.fill(0);
        let (states, scratch) = memory.split_at_mut_checked(model.state_words())?;
        let mut state = State::new(&model, states).ok()?;
        let mut stack = 0;
        let all = match model.numeric().is_integer() {
            true => {
                let step = |from: &[&[i16]], to: &mut [&mut [i16]]| model.step_ports_i16(&mut state, scratch, from, to);
                counted(&model, integers, steps, step, &mut stack)
            }
            false => {
                let step = |from: &[&[f32]], to: &mut [&mut [f32]]| model.step_ports(&mut state, scratch, from, to);
                counted(&model, floats, steps, step, &mut stack)
            }
        }?;
        console.hex((all >> 32) as u32);
        console.hex(all as u32);
        console.text(" ");
        console.hex(frame as u32);
        console.text(" ");
        console.hex(stack);
        let features = model.integer_front_end().map(|features| features.code_address());
        let features = features.or(model.front_end().map(Mfcc::code_address));
        for address in [model.nodes().last().map(|node| node.code_address()), features] {
            console.text(" ");
            console.hex(address.unwrap_or_default() as u32);
        }
        console.text("\n");
        black_box(detected_f32(&model, memory, &floats[1]));
        black_box(detected_i16(&model, memory, &integers[1]));
    }
    Some(())
}

/// The label that a detector in floats finds in posteriors. Its code is that of a program with a detector.
#[inline(never)]
fn detected_f32<'m>(model: &Model<'m>, memory: &mut [u32], posteriors: &[f32]) -> Option<&'m str> {
    let mut detector = Detector::new(model.detector()?, memory).ok()?;
    let event = detector.push(posteriors.get(..model.output_size())?, 0).ok()??;
    model.labels().nth(event.label)
}

/// The same with a detector in integers.
#[inline(never)]
fn detected_i16<'m>(model: &Model<'m>, memory: &mut [u32], posteriors: &[i16]) -> Option<&'m str> {
    let mut detector = IntegerDetector::new(model.detector()?, model.output_scale(), memory).ok()?;
    let event = detector.push(posteriors.get(..model.output_size())?, 0).ok()??;
    model.labels().nth(event.label)
}

/// Instructions of `steps` steps, each with a slice for every port, after as many steps. `stack` becomes the bytes of stack
/// of a step.
fn counted<T, R>(
    model: &Model<'_>,
    [inputs, outputs]: &mut [[T; PORTS]; 2],
    steps: u32,
    mut step: impl FnMut(&[&[T]], &mut [&mut [T]]) -> Result<R, StepError>,
    stack: &mut u32,
) -> Option<u64> {
    let mut from: [&[T]; MOST] = from_fn(|_| -> &[T] { &[] });
    let mut to: [&mut [T]; MOST] = from_fn(|_| -> &mut [T] { &mut [] });
    let (mut rest, mut count) = (&inputs[..], 0);
    for (port, part) in model.inputs().zip(&mut from) {
        (*part, rest) = rest.split_at_checked(port.size)?;
        count += 1;
    }
    let (mut left, mut written) = (&mut outputs[..], 0);
    for (port, part) in model.outputs().zip(&mut to) {
        (*part, left) = left.split_at_mut_checked(port.size)?;
        written += 1;
    }
    let (from, to) = (from.get(..count)?, to.get_mut(..written)?);
    let mut all = 0;
    paint();
    *stack = below(|| drop(black_box(step(from, to))));
    for is_counted in [false, true] {
        for _ in 0..steps {
            let mut done = false;
            let instructions = executed(|| done = black_box(step(from, to)).is_ok());
            all += if is_counted { instructions } else { 0 };
            done.then_some(())?;
        }
    }
    Some(all)
}

/// Instructions of the front end for a frame; 0 if the image has none.
fn front_end(model: &Model<'_>, memory: &mut [u32]) -> Option<u64> {
    if let Some(features) = model.integer_front_end() {
        let mut front_end = IntegerFrontEnd::new(&features, memory).ok()?;
        return a_frame(|samples| (front_end.push(samples), front_end.next().is_some()));
    }
    let Some(features) = model.front_end() else { return Some(0) };
    let mut front_end = FrontEnd::new(features, memory).ok()?;
    a_frame(|samples| (front_end.push(samples), front_end.next().is_some()))
}

/// Instructions for a frame of noise. `hear` accepts samples until a frame is complete, and returns their number and
/// whether there is a frame.
fn a_frame(mut hear: impl FnMut(&[i16]) -> (usize, bool)) -> Option<u64> {
    let mut noise = [0; 251];
    let mut random = 1_u32;
    for sample in &mut noise {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        *sample = (random >> 18) as i16 - 8192;
    }
    let mut rest = &noise[..];
    let mut frames = |mut count| {
        while count > 0 {
            let (taken, has_frame) = hear(rest);
            rest = rest.get(taken..).filter(|rest| !rest.is_empty()).unwrap_or(&noise);
            count -= u32::from(has_frame);
        }
    };
    frames(FRAMES);
    executed(|| frames(FRAMES)).checked_div(u64::from(FRAMES))
}
