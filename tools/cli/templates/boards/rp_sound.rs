//! Raspberry Pi Pico and Pico 2: the LED, and an I2S microphone such as an INMP441: SD at GPIO 18 with a resistor of 100
//! kΩ to ground, SCK at GPIO 19, WS at GPIO 20, and L/R at ground.

use embassy_executor::{InterruptExecutor, Spawner};
use embassy_rp::gpio::{Level, Output};
use embassy_rp::interrupt::{InterruptExt, Priority};
use embassy_rp::peripherals::{DMA_CH0, PIO0};
use embassy_rp::pio::{self, Pio};
use embassy_rp::pio_programs::i2s::{PioI2sIn, PioI2sInProgram};
use embassy_rp::{bind_interrupts, dma, interrupt};

use crate::SAMPLES;
use crate::network::{Block, SAMPLE_RATE};

bind_interrupts!(struct Interrupts {
    DMA_IRQ_0 => dma::InterruptHandler<DMA_CH0>;
    PIO0_IRQ_0 => pio::InterruptHandler<PIO0>;
});

/// Runs the task of the microphone, which interrupts the network.
static HEARING: InterruptExecutor = InterruptExecutor::new();

#[interrupt]
unsafe fn SWI_IRQ_0() {
    // SAFETY: this is the interrupt that the executor was started with.
    unsafe { HEARING.on_interrupt() }
}

/// Starts the chip and the microphone.
pub fn start(_: Spawner) -> Output<'static> {
    let chip = embassy_rp::init(embassy_rp::config::Config::default());
    let Pio { mut common, sm0, .. } = Pio::new(chip.PIO0, Interrupts);
    let program = PioI2sInProgram::new(&mut common);
    let (sd, sck, ws) = (chip.PIN_18, chip.PIN_19, chip.PIN_20);
    let microphone = PioI2sIn::new(
        &mut common, sm0, chip.DMA_CH0, Interrupts, false, sd, sck, ws, SAMPLE_RATE, 16, 2, &program,
    );
    interrupt::SWI_IRQ_0.set_priority(Priority::P2);
    HEARING.start(interrupt::SWI_IRQ_0).spawn(defmt::unwrap!(hear(microphone)));
    Output::new(chip.PIN_25, Level::Low)
}

/// Sends each block that DMA has filled. A block is lost when the queue is full.
#[embassy_executor::task]
async fn hear(mut microphone: PioI2sIn<'static, PIO0, 0>) {
    let mut frames = [0; size_of::<Block>() / 2];
    microphone.start();
    loop {
        microphone.read(&mut frames).await;
        // The left channel is the upper half of a frame.
        if SAMPLES.try_send(frames.map(|frame| (frame >> 16) as i16)).is_err() {
            defmt::warn!("a block of sound is lost: the network is too slow");
        }
    }
}

/// Switches the LED.
pub fn light(led: &mut Output<'static>, on: bool) {
    led.set_level(if on { Level::High } else { Level::Low });
}
