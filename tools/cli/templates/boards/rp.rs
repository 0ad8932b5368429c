//! Raspberry Pi Pico and Pico 2: the LED.

use embassy_executor::Spawner;
use embassy_rp::gpio::{Level, Output};

/// Starts the chip and the task with the samples.
pub fn start(spawner: Spawner) -> Output<'static> {
    let chip = embassy_rp::init(embassy_rp::config::Config::default());
    spawner.spawn(defmt::unwrap!(crate::sense::sense()));
    Output::new(chip.PIN_25, Level::Low)
}

/// Switches the LED.
pub fn light(led: &mut Output<'static>, on: bool) {
    led.set_level(if on { Level::High } else { Level::Low });
}
