//! {{about}}: the green LED. The clocks are those after reset: set them in the `Config` for speed.

use embassy_executor::Spawner;
use embassy_stm32::Config;
use embassy_stm32::gpio::{Level, Output, Speed};

/// Starts the chip and the task with the samples.
pub fn start(spawner: Spawner) -> Output<'static> {
    let chip = embassy_stm32::init(Config::default());
    spawner.spawn(defmt::unwrap!(crate::sense::sense()));
    Output::new(chip.{{led}}, Level::Low, Speed::Low)
}

/// Switches the LED.
pub fn light(led: &mut Output<'static>, on: bool) {
    led.set_level(if on { Level::High } else { Level::Low });
}
