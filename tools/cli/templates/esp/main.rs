//! Runs the network of model.tgi: samples → network → pin 8, which has the LED of many boards.

#![no_std]
#![no_main]

mod network;
mod source;

use esp_backtrace as _;
use esp_hal::gpio::{Level, Output, OutputConfig};
use esp_hal::time::{Duration, Instant};
use esp_println::println;
use network::{BLOCK_MS, Memory, Network};

esp_bootloader_esp_idf::esp_app_desc!();

/// How long the LED is on after a label.
const LIT: Duration = Duration::from_millis(500);

#[esp_hal::main]
fn main() -> ! {
    let chip = esp_hal::init(esp_hal::Config::default());
    let mut led = Output::new(chip.GPIO8, Level::Low, OutputConfig::default());
    let mut memory = Memory::new();
    let mut network = Network::new(&mut memory).expect("the memory has the model's size");
    let (mut due, mut lit_at) = (Instant::now(), Instant::now());
    loop {
        // FILL IN: wait for the samples of your sensor.
        for block in (0..).map_while(source::read) {
            due += Duration::from_millis(BLOCK_MS.into());
            while Instant::now() < due {}
            let done = network.process(&block, |values, label| {
                println!("{values:.3?} {}", label.unwrap_or_default());
                if label.is_some() {
                    led.set_high();
                    lit_at = Instant::now();
                }
            });
            done.unwrap_or_else(|error| panic!("{error}"));
            if lit_at.elapsed() > LIT {
                led.set_low();
            }
        }
    }
}
