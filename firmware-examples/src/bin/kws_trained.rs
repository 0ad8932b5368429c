//! The spotter trained by `tidegate-gpu train` (`assets/keywords`), and its decision for each recorded word. Its image
//! is in the portable layout, which every core reads.

#![no_std]
#![no_main]

use firmware_examples::recording::{CLIPS, Clip};
use firmware_examples::{Console, arch::entry, start};
use tidegate::{IntegerFrontEnd, IntegerMfcc, Model, State};

const MODEL: Model<'static> = tidegate::include_model!("../../../assets/keywords/keywords.tgi")
    .integers_only()
    .expect("keywords.tgi is not in integers");
const MFCC: IntegerMfcc<'static> = MODEL.integer_front_end().expect("keywords.tgi has no front end in integers");

#[entry]
fn main() -> ! {
    start(run)
}

fn run() -> Option<()> {
    let mut console = Console::open();
    for clip in &CLIPS {
        let posteriors = process(clip)?;
        let (class, _) = posteriors.iter().enumerate().max_by_key(|&(_, posterior)| posterior)?;
        console.text("clip ");
        console.text(clip.label);
        console.text(" is ");
        console.text(MODEL.labels().nth(class)?);
        console.integers(&posteriors);
    }
    Some(())
}

/// The posteriors after the first window of a clip.
fn process(clip: &Clip) -> Option<[i16; MODEL.output_size()]> {
    let (mut memory, mut sound) = ([0; MODEL.state_words()], [0; MFCC.memory_words()]);
    let mut front_end = IntegerFrontEnd::new(&MFCC, &mut sound).ok()?;
    let mut state = State::new(&MODEL, &mut memory).ok()?;
    let (mut scratch, mut posteriors) = ([0; MODEL.scratch_words()], [0; MODEL.output_size()]);
    for sample in clip.samples() {
        front_end.push(&[sample]);
        while let Some(frame) = front_end.next() {
            if MODEL.step_i16(&mut state, &mut scratch, frame, &mut posteriors).ok()?.has_output() {
                return Some(posteriors);
            }
        }
    }
    None
}
