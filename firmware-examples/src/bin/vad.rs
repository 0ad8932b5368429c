//! Silero's voice activity detector, an ONNX model: the probability of speech, every 32 ms. For cores with an FPU.
//!
//! It processes each of the shipped clips alone; `tests/firmware_twin.rs` computes the same bits.

#![no_std]
#![no_main]

use firmware_examples::arch::{entry, singleton};
use firmware_examples::recording::CLIPS;
use firmware_examples::{Console, start};
use tidegate::{Model, State};

const MODEL: Model<'static> = tidegate::include_model!(concat!(env!("OUT_DIR"), "/vad.tgi"));
/// Samples of a step: those of a chunk, preceded by the last samples of the previous chunk.
const INPUT: usize = MODEL.input_size();
const CONTEXT: usize = 64;

#[entry]
fn main() -> ! {
    start(run)
}

fn run() -> Option<()> {
    let mut console = Console::open();
    let memory = singleton!(: [u32; MODEL.state_words()] = [0; MODEL.state_words()])?;
    let scratch = singleton!(: [u32; MODEL.scratch_words()] = [0; MODEL.scratch_words()])?;
    let mut state = State::new(&MODEL, memory).ok()?;
    let (mut heard, mut speech) = ([0.0; INPUT], [0.0]);
    for clip in &CLIPS {
        state.reset();
        heard.fill(0.0);
        let mut samples = clip.samples();
        while samples.len() >= INPUT - CONTEXT {
            heard.copy_within(INPUT - CONTEXT.., 0);
            for (heard, sample) in heard.iter_mut().skip(CONTEXT).zip(&mut samples) {
                *heard = f32::from(sample) / 32768.0;
            }
            let _ = MODEL.step_f32(&mut state, scratch, &heard, &mut speech).ok()?;
            console.text(clip.label);
            console.bits(&speech);
        }
    }
    Some(())
}
