//! nRF52840-DK: LED 1, and a PDM microphone with its clock at P0.26 and its data at P0.27.

use embassy_executor::{InterruptExecutor, Spawner};
use embassy_nrf::gpio::{Level, Output, OutputDrive};
use embassy_nrf::interrupt::{InterruptExt, Priority};
use embassy_nrf::pdm::{self, Config, Frequency, Pdm, Ratio, SamplerState};
use embassy_nrf::{bind_interrupts, interrupt, peripherals};

use crate::SAMPLES;
use crate::network::{Block, SAMPLE_RATE};

const _: () = assert!(SAMPLE_RATE == 16_000, "the microphone has 16,000 samples a second, the model another rate");

bind_interrupts!(struct Interrupts {
    PDM => pdm::InterruptHandler<peripherals::PDM>;
});

/// Runs the task of the microphone, which interrupts the network.
static HEARING: InterruptExecutor = InterruptExecutor::new();

#[interrupt]
unsafe fn EGU0_SWI0() {
    // SAFETY: this is the interrupt that the executor was started with.
    unsafe { HEARING.on_interrupt() }
}

/// Starts the chip and the microphone.
pub fn start(_: Spawner) -> Output<'static> {
    let chip = embassy_nrf::init(embassy_nrf::config::Config::default());
    let mut config = Config::default();
    // 1.28 MHz / 80 = 16 kHz.
    (config.frequency, config.ratio) = (Frequency::_1280k, Ratio::Ratio80);
    let microphone = Pdm::new(chip.PDM, Interrupts, chip.P0_26, chip.P0_27, config);
    interrupt::EGU0_SWI0.set_priority(Priority::P6);
    HEARING.start(interrupt::EGU0_SWI0).spawn(defmt::unwrap!(hear(microphone)));
    Output::new(chip.P0_13, Level::High, OutputDrive::Standard)
}

/// Sends each block that DMA has filled. A block is lost when the queue is full.
#[embassy_executor::task]
async fn hear(mut microphone: Pdm<'static>) {
    let mut buffers = [[0; size_of::<Block>() / 2]; 2];
    let heard = microphone.run_task_sampler(&mut buffers, |block| {
        if SAMPLES.try_send(*block).is_err() {
            defmt::warn!("a block of sound is lost: the network is too slow");
        }
        SamplerState::Sampled
    });
    if heard.await.is_err() {
        defmt::error!("the microphone does not start");
    }
}

/// Switches the LED. Its other end is the supply, so a low pin lights it.
pub fn light(led: &mut Output<'static>, on: bool) {
    led.set_level(if on { Level::Low } else { Level::High });
}
