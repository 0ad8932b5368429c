//! Cortex-M on Arm's MPS2 and MPS3 boards: SysTick, and LED 0 of the FPGA's registers.

use core::convert::Infallible;
use core::ptr;

use cortex_m::peripheral::SYST;
use cortex_m::peripheral::syst::SystClkSource;
pub use cortex_m::singleton;
pub use cortex_m_rt::entry;
use embedded_hal::digital::{ErrorType, OutputPin, StatefulOutputPin};

/// Processor cycles from one block of the microphone to the next: 1 ms at 25 MHz, ten times as fast as speech.
const BLOCK_CYCLES: u32 = 25_000;
/// Maximum count of SysTick.
const COUNTER_MAX: u32 = 0xFF_FFFF;
/// Length of a tick of the processor's clock, 25 MHz on MPS2 and 32 MHz on MPS3, in quarters of a nanosecond. With
/// `-icount shift=0` an instruction takes one nanosecond.
const QUARTERS: u64 = if cfg!(mps3) { 125 } else { 160 };

fn start(period: u32) -> Option<SYST> {
    let mut timer = cortex_m::Peripherals::take()?.SYST;
    timer.set_clock_source(SystClkSource::Core);
    timer.set_reload(period);
    timer.clear_current();
    timer.enable_counter();
    Some(timer)
}

/// Starts the interrupt of the microphone, `SysTick`. `None` if the timer is already running.
pub fn start_timer() -> Option<()> {
    start(BLOCK_CYCLES - 1)?.enable_interrupt();
    Some(())
}

/// Does nothing: SysTick reloads itself.
pub fn end_interrupt() {}

/// Starts the counter that [`executed`] reads. `None` if the timer is already running.
pub fn start_counter() -> Option<()> {
    start(COUNTER_MAX).map(drop)
}

/// Number of instructions of `work` under `-icount shift=0`, to within two ticks; at most 500 million.
pub fn executed(work: impl FnOnce()) -> u64 {
    let before = SYST::get_current();
    work();
    // SysTick counts down.
    let ticks = before.wrapping_sub(SYST::get_current()) & COUNTER_MAX;
    u64::from(ticks) * QUARTERS / 4
}

/// Sleeps until the next interrupt.
pub fn wait_for_interrupt() {
    cortex_m::asm::wfi();
}

/// `FPGAIO_LED0`, one bit per LED (Arm DAI 0386, FPGA system control and I/O; DAI 0547, its secure address; QEMU:
/// `hw/misc/mps2-fpgaio.c`).
const LEDS: *mut u32 = ptr::without_provenance_mut(if cfg!(mps3) { 0x5930_2000 } else { 0x4002_8000 });
const LED_0: u32 = 1;

/// LED 0. Only `main` should create it, because there is only one.
#[derive(Debug, Default)]
pub struct BoardLed(());

impl BoardLed {
    #[expect(unsafe_code)]
    fn read(&self) -> u32 {
        // SAFETY: on the machines of the memory maps, the address is an aligned register, and reading it has no effect.
        unsafe { LEDS.read_volatile() }
    }

    #[expect(unsafe_code)]
    fn write(&mut self, leds: u32) {
        // SAFETY: as in `read`; writing switches LEDs and affects no memory of Rust.
        unsafe { LEDS.write_volatile(leds) }
    }
}

impl ErrorType for BoardLed {
    type Error = Infallible;
}

impl OutputPin for BoardLed {
    fn set_low(&mut self) -> Result<(), Infallible> {
        self.write(self.read() & !LED_0);
        Ok(())
    }

    fn set_high(&mut self) -> Result<(), Infallible> {
        self.write(self.read() | LED_0);
        Ok(())
    }
}

impl StatefulOutputPin for BoardLed {
    fn is_set_high(&mut self) -> Result<bool, Infallible> {
        Ok(self.read() & LED_0 != 0)
    }

    fn is_set_low(&mut self) -> Result<bool, Infallible> {
        Ok(self.read() & LED_0 == 0)
    }
}
