//! Nucleo-F411RE: the LED, and an I2S microphone such as an INMP441: SD at PC3, SCK at PB10, WS at PB12, and L/R at ground.

use embassy_executor::Spawner;
use embassy_stm32::gpio::{Level, Output, Speed};
use embassy_stm32::i2s::{self, Format, I2S};
use embassy_stm32::rcc::{APBPrescaler, Pll, PllMul, PllPDiv, PllPreDiv, PllRDiv, Sysclk};
use embassy_stm32::time::Hertz;
use embassy_stm32::{bind_interrupts, dma, peripherals};

use crate::SAMPLES;
use crate::network::{Block, SAMPLE_RATE};

const LEN: usize = size_of::<Block>() / 2;
/// Words of 16 bits in a frame: two for each channel.
const FRAME: usize = 4;
/// The clock of the bits, 64 for each sample, is a whole part of that of the PLL.
const PLL_HZ: u32 = 128_000_000;
const _: () = assert!(PLL_HZ % (64 * SAMPLE_RATE) == 0, "the microphone cannot have the sample rate of the model");

bind_interrupts!(struct Interrupts {
    DMA1_STREAM3 => dma::InterruptHandler<peripherals::DMA1_CH3>;
});

/// Starts the chip and the microphone.
pub fn start(spawner: Spawner) -> Output<'static> {
    let mut config = embassy_stm32::Config::default();
    // The core: 16 MHz / 8 · 100 / 2 = 100 MHz.
    let (prediv, mul, divp) = (PllPreDiv::DIV8, PllMul::MUL100, Some(PllPDiv::DIV2));
    config.rcc.pll = Some(Pll { prediv, mul, divp, divq: None, divr: None });
    (config.rcc.sys, config.rcc.apb1_pre) = (Sysclk::PLL1_P, APBPrescaler::DIV2);
    // The microphone: 16 MHz / 16 · 256 / 2 = 128 MHz.
    let (prediv, mul, divr) = (PllPreDiv::DIV16, PllMul::MUL256, Some(PllRDiv::DIV2));
    config.rcc.plli2s = Some(Pll { prediv, mul, divp: None, divq: None, divr });
    let chip = embassy_stm32::init(config);
    let mut config = i2s::Config::default();
    (config.frequency, config.format, config.master_clock) = (Hertz(SAMPLE_RATE), Format::Data32Channel32, false);
    // DMA goes on while the network computes, for up to eight blocks.
    let buffer = defmt::unwrap!(cortex_m::singleton!(: [u16; 8 * FRAME * LEN] = [0; 8 * FRAME * LEN]));
    let (sd, ws, sck) = (chip.PC3, chip.PB12, chip.PB10);
    let microphone = I2S::new_rxonly_nomck(chip.SPI2, sd, ws, sck, chip.DMA1_CH3, buffer, Interrupts, config);
    spawner.spawn(defmt::unwrap!(hear(microphone)));
    Output::new(chip.PA5, Level::Low, Speed::Low)
}

/// Sends the blocks that DMA has filled.
#[embassy_executor::task]
async fn hear(mut microphone: I2S<'static, u16>) {
    let mut words = [0; FRAME * LEN];
    microphone.start();
    loop {
        if microphone.read(&mut words).await.is_err() {
            defmt::warn!("sound is lost: the network is too slow");
            continue;
        }
        // The left channel is first, and its upper half before the lower one.
        let (frames, _) = words.as_chunks::<FRAME>();
        let mut block = [0; LEN];
        for (sample, frame) in block.iter_mut().zip(frames) {
            *sample = frame[0] as i16;
        }
        SAMPLES.send(block).await;
    }
}

/// Switches the LED.
pub fn light(led: &mut Output<'static>, on: bool) {
    led.set_level(if on { Level::High } else { Level::Low });
}
