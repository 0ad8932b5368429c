//! A keyword spotter: microphone interrupt → queue → front end → GRU_S → detector → LED.
//!
//! Each recorded word is heard alone, then all as one stream; `tests/firmware_twin.rs` computes the same bits.

#![no_std]
#![no_main]

use cortex_m_rt::{entry, exception};
use embedded_hal::digital::StatefulOutputPin;
use firmware_examples::recording::{CLIPS, block_count};
use firmware_examples::{Console, arch::BoardLed, exit, led::Led, microphone};
use tidegate::{Aligned, Detector, FrontEnd, ImageBytes, Model, State, StepError};
use tidegate::{detector::DetectorSettings, front_end::Mfcc};

static IMAGE: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/kws.tgi")));
const MODEL: Model<'static> = match Model::parse(ImageBytes::from_aligned(IMAGE)) {
    Ok(model) => model,
    Err(_) => panic!("kws.tgi is not a valid image"),
};
const MFCC: &Mfcc<'static> = MODEL.front_end().expect("kws.tgi has no front end");
const DETECTOR: &DetectorSettings<'static> = MODEL.detector().expect("kws.tgi has no detector");

#[exception]
fn SysTick() {
    microphone::interrupt();
}

#[entry]
fn main() -> ! {
    exit(run())
}

fn run() -> Option<()> {
    let mut console = Console::open();
    let (mut memory, mut scratch) = ([0; MODEL.state_words()], [0; MODEL.scratch_words()]);
    let (mut sound, mut means) = ([0; MFCC.memory_words()], [0; DETECTOR.memory_words()]);
    let (mut front_end, mut state) = (FrontEnd::new(MFCC, &mut sound).ok()?, State::new(&MODEL, &mut memory).ok()?);
    for clip in &CLIPS {
        front_end.reset();
        state.reset();
        for sample in clip.samples() {
            hear(&mut front_end, &mut state, &mut scratch, &[sample], |posteriors| {
                console.text("clip ");
                console.text(clip.label);
                console.bits(posteriors);
            })
            .ok()?;
        }
    }

    front_end.reset();
    state.reset();
    let mut blocks = microphone::start()?;
    let mut detector = Detector::new(DETECTOR, &mut means).ok()?;
    let mut led = Led::new(BoardLed::default(), 500).ok()?;
    let (mut heard, samples_per_ms) = (0, MFCC.settings().sample_rate / 1000);
    while heard < block_count() {
        let Some(block) = blocks.dequeue() else {
            cortex_m::asm::wfi();
            continue;
        };
        heard += 1;
        let now_ms = (heard * block.len()) as u32 / samples_per_ms;
        console.text(if led.tick(now_ms).ok()? { "led off\n" } else { "" });
        hear(&mut front_end, &mut state, &mut scratch, &block, |posteriors| {
            console.text("at ");
            console.hex(now_ms);
            console.bits(posteriors);
            if let Ok(Some(event)) = detector.push(posteriors, now_ms) {
                let Ok(()) = led.light(now_ms);
                console.text("event ");
                console.text(MODEL.labels().nth(event.label).unwrap_or_default());
                console.text(if led.pin().is_set_high() == Ok(true) { ", led on\n" } else { ", led broken\n" });
            }
        })
        .ok()?;
    }
    Some(())
}

/// Samples in; `decide` is called with the posteriors when a window of frames is full.
fn hear(
    front_end: &mut FrontEnd<'_, '_>,
    state: &mut State<'_>,
    scratch: &mut [u32],
    mut samples: &[i16],
    mut decide: impl FnMut(&[f32]),
) -> Result<(), StepError> {
    while !samples.is_empty() {
        samples = samples.get(front_end.push(samples)..).unwrap_or_default();
        while let Some(frame) = front_end.next() {
            let mut posteriors = [0.0; MODEL.output_size()];
            if MODEL.step_f32(state, scratch, frame, &mut posteriors)?.has_output() {
                decide(&posteriors);
            }
        }
    }
    Ok(())
}
