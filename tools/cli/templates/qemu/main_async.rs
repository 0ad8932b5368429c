//! Runs the network of model.tgi in QEMU as a task that awaits its samples, and prints its outputs.

#![no_std]
#![no_main]

mod network;
mod print;
mod source;

// Critical sections.
use {{sections}} as _;
use embassy_executor::Spawner;
use embassy_sync::blocking_mutex::raw::CriticalSectionRawMutex;
use embassy_sync::channel::Channel;
use network::{BLOCK_MS, Block, Memory, Network};
use semihosting::process;

/// The samples on their way to the network. `None` is the end.
static SAMPLES: Channel<CriticalSectionRawMutex, Option<Block>, 4> = Channel::new();

/// Stands for the driver of a sensor.
#[embassy_executor::task]
async fn sense() {
    for block in (0..).map_while(source::read) {
        SAMPLES.send(Some(block)).await;
    }
    SAMPLES.send(None).await;
}

#[embassy_executor::main]
async fn main(spawner: Spawner) {
    spawner.spawn(sense().expect("the task runs once"));
    let mut memory = Memory::new();
    let mut network = Network::new(&mut memory).expect("the memory has the model's size");
    let mut now_ms = 0;
    while let Some(block) = SAMPLES.receive().await {
        now_ms += BLOCK_MS;
        let done = network.process(&block, |values, label| print::output(now_ms, values, label));
        done.unwrap_or_else(|error| panic!("{error}"));
    }
    process::exit(0)
}
