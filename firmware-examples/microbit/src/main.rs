//! The keyword spotter on a BBC micro:bit: a Cortex-M0 at 16 MHz without an FPU. It has no microphone either: features
//! are received as lines of text over the serial port, at 115,200 baud, and each line is answered.
//!
//! `cargo run --release < ../expected/microbit.in` runs it under QEMU. On a board the sender must wait for the answer
//! to a line before it sends the next one: the chip's receiver holds six bytes.

#![no_std]
#![no_main]

mod arch;
#[path = "../../src/led.rs"]
mod led;
mod terminal;

use core::panic::PanicInfo;

use cortex_m::peripheral::SCB;
use cortex_m_rt::entry;
use embedded_hal::delay::DelayNs;
use nrf51_hal::Timer;
use nrf51_hal::gpio::{Level, p0::Parts};
use nrf51_hal::pac::Peripherals;
use nrf51_hal::uart::{Baudrate, Parity, Pins, Uart};
use tidegate::Model;

use led::Led;
use terminal::Terminal;

const MODEL: Model<'static> = tidegate::include_model!("../kws.tgi");
const INPUTS: usize = MODEL.input_size();
const OUTPUTS: usize = MODEL.output_size();

#[entry]
fn main() -> ! {
    if let Some(chip) = Peripherals::take() {
        run(chip);
    }
    SCB::sys_reset()
}

/// Runs until the other end of the line requests a restart.
fn run(chip: Peripherals) -> Option<()> {
    let pins = Parts::new(chip.GPIO);
    let line = Pins {
        rxd: pins.p0_25.into_floating_input().degrade(),
        txd: pins.p0_24.into_push_pull_output(Level::High).degrade(),
        cts: None,
        rts: None,
    };
    arch::prime(&chip.UART0);
    let line = Uart::new(chip.UART0, line, Parity::EXCLUDED, Baudrate::BAUD115200);
    // The LED in the upper left corner: its row is high, and its column, which is the other end, is low.
    let _column = pins.p0_04.into_push_pull_output(Level::Low);
    let mut led = Led::new(pins.p0_13.into_push_pull_output(Level::High), 0).ok()?;

    led.light(0).ok()?;
    Timer::new(chip.TIMER0).delay_ms(200);
    led.tick(0).ok()?;

    let (mut memory, mut scratch) = ([0; MODEL.state_words()], [0; MODEL.scratch_words()]);
    Terminal::<_, INPUTS, OUTPUTS>::new(&MODEL, &mut memory, &mut scratch, line)?.serve(led.pin())
}

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    SCB::sys_reset()
}
