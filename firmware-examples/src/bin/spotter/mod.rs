//! The shared part of the keyword spotters: microphone interrupt → queue → front end, network, detector → LED.
//!
//! Each recorded word is processed alone, then all of them as one stream; `tests/firmware_twin.rs` computes the same
//! bits.

use embedded_hal::digital::StatefulOutputPin;
use firmware_examples::arch::{BoardLed, below, wait_for_interrupt};
use firmware_examples::recording::{Clip, block_count};
use firmware_examples::{Console, led::Led, microphone};
use tidegate::StepError;

/// A front end, a network and a detector with one number type.
pub trait Spotter {
    /// Samples per second.
    const SAMPLE_RATE: u32;
    /// The clips that the microphone plays.
    const HEARD: &'static [Clip];

    /// Resets all states.
    fn reset(&mut self);
    /// Accepts samples until a frame is complete; returns the number of accepted samples.
    fn push(&mut self, samples: &[i16]) -> usize;
    /// Runs the network over the next frame, if it is complete, and returns whether the step has posteriors.
    fn step(&mut self) -> Option<Result<bool, StepError>>;
    /// Runs the network over a frame of zeros.
    fn step_over_zeros(&mut self) -> Result<(), StepError>;
    /// Prints the bits of every posterior, each after a space.
    fn print(&self, console: &mut Console);
    /// The label detected from these posteriors.
    fn detect(&mut self, now_ms: u32) -> Option<&'static str>;
}

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

/// Runs the program.
pub fn run<S: Spotter>(mut spotter: S) -> Option<()> {
    let mut console = Console::open();
    let mut stepped = Ok(());
    console.stack_of_step(below(|| stepped = spotter.step_over_zeros()));
    stepped.ok()?;
    for clip in S::HEARD {
        spotter.reset();
        for sample in clip.samples() {
            process(&mut spotter, &[sample], |spotter| {
                console.text("clip ");
                console.text(clip.label);
                spotter.print(&mut console);
            })
            .ok()?;
        }
    }

    spotter.reset();
    let mut blocks = microphone::start(S::HEARD)?;
    let mut led = Led::new(BoardLed::default(), 500).ok()?;
    let (mut heard, samples_per_ms) = (0, S::SAMPLE_RATE / 1000);
    while heard < block_count(S::HEARD) {
        let Some(block) = blocks.dequeue() else {
            wait_for_interrupt();
            continue;
        };
        heard += 1;
        let now_ms = (heard * block.len()) as u32 / samples_per_ms;
        console.text(if led.tick(now_ms).ok()? { "led off\n" } else { "" });
        process(&mut spotter, &block, |spotter| {
            console.text("at ");
            console.hex(now_ms);
            spotter.print(&mut console);
            if let Some(label) = spotter.detect(now_ms) {
                let Ok(()) = led.light(now_ms);
                console.text("event ");
                console.text(label);
                console.text(if led.pin().is_set_high() == Ok(true) { ", led on\n" } else { ", led broken\n" });
            }
        })
        .ok()?;
    }
    Some(())
}

/// Processes samples, and calls `decide` whenever there are posteriors, that is when a window of frames is full.
fn process<S: Spotter>(spotter: &mut S, mut samples: &[i16], mut decide: impl FnMut(&mut S)) -> Result<(), StepError> {
    while !samples.is_empty() {
        samples = samples.get(spotter.push(samples)..).unwrap_or_default();
        while let Some(step) = spotter.step() {
            if step? {
                decide(spotter);
            }
        }
    }
    Ok(())
}
