//! The spotter that `tidegate-gpu train` has trained (`assets/keywords`): what it decides of each recorded word. Its image is
//! in the portable layout, which every core reads.

#![no_std]
#![no_main]

use firmware_examples::recording::{CLIPS, Clip};
use firmware_examples::{Console, arch::entry, start};
use tidegate::front_end::IntegerMfcc;
use tidegate::{Aligned, ImageBytes, IntegerFrontEnd, Model, State};

static IMAGE: &Aligned<[u8]> = &Aligned(*include_bytes!("../../../assets/keywords/keywords.tgi"));
const WHOLE: Model<'static> = match Model::parse(ImageBytes::from_aligned(IMAGE)) {
    Ok(model) => model,
    Err(_) => panic!("keywords.tgi is not a valid image"),
};
const MODEL: Model<'static> = WHOLE.integers_only().expect("keywords.tgi is not in integers");
const MFCC: IntegerMfcc<'static> =
    WHOLE.front_end().expect("keywords.tgi has no front end").integer().expect("it has floats");

#[entry]
fn main() -> ! {
    start(run)
}

fn run() -> Option<()> {
    let mut console = Console::open();
    for clip in &CLIPS {
        let posteriors = hear(clip)?;
        let (class, _) = posteriors.iter().enumerate().max_by_key(|&(_, posterior)| posterior)?;
        console.text("clip ");
        console.text(clip.label);
        console.text(" is ");
        console.text(MODEL.labels().nth(class)?);
        console.integers(&posteriors);
    }
    Some(())
}

/// The posteriors behind the first window of a clip.
fn hear(clip: &Clip) -> Option<[i16; MODEL.output_size()]> {
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
