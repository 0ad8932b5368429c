//! nRF52840-DK: LED 1. Its other end is the supply, so a low pin lights it.

use embassy_executor::Spawner;
use embassy_nrf::gpio::{Level, Output, OutputDrive};

/// Starts the chip and the task with the samples.
pub fn start(spawner: Spawner) -> Output<'static> {
    let chip = embassy_nrf::init(embassy_nrf::config::Config::default());
    spawner.spawn(defmt::unwrap!(crate::sense::sense()));
    Output::new(chip.P0_13, Level::High, OutputDrive::Standard)
}

/// Switches the LED.
pub fn light(led: &mut Output<'static>, on: bool) {
    led.set_level(if on { Level::Low } else { Level::High });
}
