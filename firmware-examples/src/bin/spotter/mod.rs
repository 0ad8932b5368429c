//! Microphone interrupt → queue → front end → network → detector → LED, for the `MODEL` of a program and its `chain`, in
//! integers or in f32.
//!
//! Each recorded word is heard alone, then all as one stream; `tests/firmware_twin.rs` computes the same bits.

use embedded_hal::digital::StatefulOutputPin;
use firmware_examples::arch::{BoardLed, below, wait_for_interrupt};
use firmware_examples::recording::{CLIPS, block_count};
use firmware_examples::{Console, led::Led, microphone};
use tidegate::image::SectionKind;
use tidegate::{State, StepError};

use super::MODEL;
use super::chain::{self, DETECTOR_WORDS, FrontEnd, Judge, MFCC, Value};

#[cfg(target_arch = "arm")]
#[cortex_m_rt::exception]
fn SysTick() {
    microphone::interrupt();
}

#[cfg(target_arch = "riscv32")]
#[riscv_rt::core_interrupt(riscv::interrupt::Interrupt::MachineTimer)]
fn machine_timer() {
    microphone::interrupt();
}

/// The program.
pub fn run() -> Option<()> {
    let mut console = Console::open();
    let (mut memory, mut scratch) = ([0; MODEL.state_words()], [0; MODEL.scratch_words()]);
    let (mut sound, mut means) = ([0; MFCC.memory_words()], [0; DETECTOR_WORDS]);
    let (mut front_end, mut state) = (chain::front_end(&mut sound)?, State::new(&MODEL, &mut memory).ok()?);
    let silence = [Value::default(); MODEL.input_size()];
    let stack = below(|| {
        let _ = chain::step(&mut state, &mut scratch, &silence, &mut [Value::default(); MODEL.output_size()]);
    });
    console.stack_of_step(stack);
    for clip in &CLIPS {
        front_end.reset();
        state.reset();
        for sample in clip.samples() {
            hear(&mut front_end, &mut state, &mut scratch, &[sample], |posteriors| {
                console.text("clip ");
                console.text(clip.label);
                console.words(posteriors.iter().map(|&posterior| chain::bits(posterior)));
            })
            .ok()?;
        }
    }

    front_end.reset();
    state.reset();
    let mut blocks = microphone::start()?;
    let mut judge = Judge::new(&mut means)?;
    let mut led = Led::new(BoardLed::default(), 500).ok()?;
    let (mut heard, samples_per_ms) = (0, MFCC.settings().sample_rate / 1000);
    while heard < block_count() {
        let Some(block) = blocks.dequeue() else {
            wait_for_interrupt();
            continue;
        };
        heard += 1;
        let now_ms = (heard * block.len()) as u32 / samples_per_ms;
        console.text(if led.tick(now_ms).ok()? { "led off\n" } else { "" });
        hear(&mut front_end, &mut state, &mut scratch, &block, |posteriors| {
            console.text("at ");
            console.hex(now_ms);
            console.words(posteriors.iter().map(|&posterior| chain::bits(posterior)));
            if let Some(label) = judge.push(posteriors, now_ms) {
                let Ok(()) = led.light(now_ms);
                console.text("event ");
                console.bytes(name(label));
                console.text(if led.pin().is_set_high() == Ok(true) { ", led on\n" } else { ", led broken\n" });
            }
        })
        .ok()?;
    }
    Some(())
}

/// The name of a label as it lies in the image, whose text `parse` has checked: `Model::labels` would check it again, with a
/// kilobyte of code.
fn name(label: usize) -> &'static [u8] {
    let names = MODEL.image().section(SectionKind::Labels).unwrap_or_default();
    names.split(|&byte| byte == b'\n').nth(label).unwrap_or_default()
}

/// Samples in; `decide` is called with the posteriors when a window of frames is full.
fn hear(
    front_end: &mut FrontEnd<'_>,
    state: &mut State<'_>,
    scratch: &mut [u32],
    mut samples: &[i16],
    mut decide: impl FnMut(&[Value]),
) -> Result<(), StepError> {
    while !samples.is_empty() {
        samples = samples.get(front_end.push(samples)..).unwrap_or_default();
        while let Some(frame) = front_end.next() {
            let mut posteriors = [Value::default(); MODEL.output_size()];
            if chain::step(state, scratch, frame, &mut posteriors)?.has_output() {
                decide(&posteriors);
            }
        }
    }
    Ok(())
}
