//! Runs the network of model.tgi: microphone → network → pin 8, which has the LED of many boards. The microphone is an I2S
//! one, such as an INMP441: SCK at GPIO 4, WS at GPIO 5, SD at GPIO 6, and L/R at ground.

#![no_std]
#![no_main]

mod network;

use esp_backtrace as _;
use esp_hal::dma_rx_stream_buffer;
use esp_hal::gpio::{Level, Output, OutputConfig};
use esp_hal::i2s::master::{Channels, DataFormat, I2s, TdmConfig};
use esp_hal::time::{Duration, Instant, Rate};
use esp_println::println;
use network::{Block, Memory, Network, SAMPLE_RATE};

esp_bootloader_esp_idf::esp_app_desc!();

/// How long the LED is on after a label.
const LIT: Duration = Duration::from_millis(500);
const LEN: usize = size_of::<Block>() / 2;
/// Bytes of a frame: a number of 32 bits for each channel.
const FRAME: usize = 8;

#[esp_hal::main]
fn main() -> ! {
    let chip = esp_hal::init(esp_hal::Config::default());
    let mut led = Output::new(chip.GPIO8, Level::Low, OutputConfig::default());
    let mut memory = Memory::new();
    let mut network = Network::new(&mut memory).expect("the memory has the model's size");
    let config = TdmConfig::new_tdm_philips()
        .with_sample_rate(Rate::from_hz(SAMPLE_RATE))
        .with_data_format(DataFormat::Data32Channel32)
        .with_channels(Channels::STEREO);
    let i2s = I2s::new(chip.I2S0, chip.DMA_CH0, config).expect("the settings are valid");
    let mut microphone = i2s.i2s_rx.with_bclk(chip.GPIO4).with_ws(chip.GPIO5).with_din(chip.GPIO6).build();
    // DMA goes on while the network computes, for up to twelve blocks.
    let mut buffer = dma_rx_stream_buffer!(12 * FRAME * LEN, 1024);
    let (mut bytes, mut block) = ([0; FRAME * LEN], [0; LEN]);
    let mut lit_at = Instant::now();
    loop {
        let mut heard = microphone.read(buffer).unwrap_or_else(|(error, ..)| panic!("{error:?}"));
        while !heard.is_done() {
            if heard.available_bytes() < bytes.len() {
                continue;
            }
            heard.pop(&mut bytes);
            // The left channel is first, and its upper half after the lower one.
            let (frames, _) = bytes.as_chunks::<FRAME>();
            for (sample, frame) in block.iter_mut().zip(frames) {
                *sample = i16::from_le_bytes([frame[2], frame[3]]);
            }
            let done = network.process(&block, |_, label| {
                if let Some(label) = label {
                    println!("{label}");
                    led.set_high();
                    lit_at = Instant::now();
                }
            });
            done.unwrap_or_else(|error| panic!("{error}"));
            if lit_at.elapsed() > LIT {
                led.set_low();
            }
        }
        println!("sound is lost: the network is too slow");
        (microphone, buffer) = heard.stop();
    }
}
