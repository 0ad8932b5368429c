//! Runs the network of model.tgi: samples → network → LED. Prints through the debug probe.

#![no_std]
#![no_main]

mod board;
mod network;
{{source_modules}}

use defmt_rtt as _;
use embassy_executor::Spawner;
use embassy_sync::blocking_mutex::raw::CriticalSectionRawMutex;
use embassy_sync::channel::Channel;
use embassy_time::{Duration, Instant};
use network::{Block, Memory, Network};
use panic_probe as _;

/// The samples on their way to the network.
static SAMPLES: Channel<CriticalSectionRawMutex, Block, 4> = Channel::new();
/// How long the LED is on after a label.
const LIT: Duration = Duration::from_millis(500);

#[embassy_executor::main]
async fn main(spawner: Spawner) {
    let mut led = board::start(spawner);
    let mut lit_at = Instant::now();
    let mut memory = Memory::new();
    let mut network = defmt::unwrap!(Network::new(&mut memory));
    loop {
        let block = SAMPLES.receive().await;
        let done = network.process(&block, |values, label| {
            defmt::debug!("{=[?]}", values.as_slice());
            if let Some(label) = label {
                defmt::info!("{=str}", label);
                board::light(&mut led, true);
                lit_at = Instant::now();
            }
        });
        defmt::unwrap!(done);
        if lit_at.elapsed() > LIT {
            board::light(&mut led, false);
        }
    }
}
