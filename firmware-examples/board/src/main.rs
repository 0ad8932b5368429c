//! A keyword spotter on an STM32 Nucleo-F411RE with an analog microphone: microphone → front end → GRU_S in integers →
//! detector → LED. It reports each detected word, and the cycles that it took, over the debug probe.
//!
//! For another board, change the pins and clocks in `start`, and `microphone.rs`.

#![no_std]
#![no_main]

mod arch;
#[path = "../../src/clock.rs"]
mod clock;
#[allow(dead_code, reason = "nobody asks this pin")]
#[path = "../../src/led.rs"]
mod led;
mod microphone;

use cortex_m::peripheral::DWT;
use cortex_m_rt::entry;
use defmt_rtt as _;
use embedded_hal::digital::OutputPin;
use panic_probe as _;
use stm32f4xx_hal::pac::{CorePeripherals, Peripherals};
use stm32f4xx_hal::prelude::*;
use stm32f4xx_hal::rcc::Config;
use tidegate::{Detector, DetectorSettings, FrontEnd, Mfcc, Model, State};

use clock::Clock;
use led::Led;
use microphone::{BLOCK_LEN, Microphone};

const MODEL: Model<'static> = tidegate::include_model!("../kws.tgi");
const MFCC: &Mfcc<'static> = MODEL.front_end().expect("kws.tgi has no front end");
const DETECTOR: &DetectorSettings<'static> = MODEL.detector().expect("kws.tgi has no detector");

const _: () = assert!(MFCC.settings().sample_rate == microphone::SAMPLE_RATE, "the microphone has another sample rate");

/// Clock frequency of the processor.
const CLOCK_MHZ: u32 = 100;

#[entry]
fn main() -> ! {
    let (chip, core) = (defmt::unwrap!(Peripherals::take()), defmt::unwrap!(CorePeripherals::take()));
    let mut counter = core.DWT;
    let mut debug = core.DCB;
    debug.enable_trace();
    counter.enable_cycle_counter();

    let mut rcc = chip.RCC.freeze(Config::hsi().sysclk(CLOCK_MHZ.MHz()));
    let port_a = chip.GPIOA.split(&mut rcc);
    // Arduino's pin A0, and the green LED, LD2.
    let sound = defmt::unwrap!(microphone::start(chip.ADC1, chip.TIM2, chip.DMA2, port_a.pa0.into_analog(), &mut rcc));
    spot(sound, port_a.pa5.into_push_pull_output())
}

/// Runs the spotter forever, on any microphone and any pin.
fn spot(mut microphone: impl Microphone, led: impl OutputPin) -> ! {
    let (mut memory, mut scratch) = ([0; MODEL.state_words()], [0; MODEL.scratch_words()]);
    let (mut sound, mut means) = ([0; MFCC.memory_words()], [0; DETECTOR.memory_words()]);
    let mut front_end = defmt::unwrap!(FrontEnd::new(MFCC, &mut sound));
    let mut state = defmt::unwrap!(State::new(&MODEL, &mut memory));
    let mut detector = defmt::unwrap!(Detector::new(DETECTOR, &mut means));
    let Ok(mut led) = Led::new(led, 500) else { defmt::panic!("the LED's pin does not answer") };
    defmt::info!("listens for");
    for label in MODEL.labels().filter(|label| !label.starts_with('_')) {
        defmt::info!("  {=str}", label);
    }

    let (mut clock, mut most_cycles) = (Clock::new(microphone::SAMPLE_RATE), 0);
    loop {
        let block = match microphone.read() {
            Ok(Some(block)) => block,
            Ok(None) => {
                cortex_m::asm::wfi();
                continue;
            }
            Err(microphone::Lost) => {
                defmt::warn!("sound was lost, begins anew");
                front_end.reset();
                state.reset();
                detector.reset();
                continue;
            }
        };
        let now_ms = clock.after(BLOCK_LEN as u32);
        let begin = DWT::cycle_count();
        if led.tick(now_ms).is_err() {
            defmt::warn!("the LED's pin does not answer");
        }
        let mut rest = block.as_slice();
        while !rest.is_empty() {
            rest = rest.get(front_end.push(rest)..).unwrap_or_default();
            while let Some(frame) = front_end.next() {
                let mut posteriors = [0.0; MODEL.output_size()];
                let step = defmt::unwrap!(MODEL.step_f32(&mut state, &mut scratch, frame, &mut posteriors));
                if !step.has_output() {
                    continue;
                }
                defmt::debug!("at {=u32} ms {=[?]}", now_ms, posteriors);
                if let Some(event) = defmt::unwrap!(detector.push(&posteriors, now_ms)) {
                    let label = MODEL.labels().nth(event.label).unwrap_or_default();
                    defmt::info!("{=str} at {=u32} ms: {}", label, now_ms, event);
                    if led.light(now_ms).is_err() {
                        defmt::warn!("the LED's pin does not answer");
                    }
                }
            }
        }
        let cycles = DWT::cycle_count().wrapping_sub(begin);
        if cycles > most_cycles {
            most_cycles = cycles;
            let budget = CLOCK_MHZ * 1000 * BLOCK_LEN as u32 / (microphone::SAMPLE_RATE / 1000);
            defmt::info!("{=u32} cycles for a block, of {=u32} that there are until the next", cycles, budget);
        }
    }
}
