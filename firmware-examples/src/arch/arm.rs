//! LED 0 of Arm's MPS2 boards.

use core::convert::Infallible;
use core::ptr;

use embedded_hal::digital::{ErrorType, OutputPin, StatefulOutputPin};

/// `FPGAIO_LED0`, one LED a bit (Arm DAI 0386, FPGA system control and I/O; QEMU: `hw/misc/mps2-fpgaio.c`).
const LEDS: *mut u32 = ptr::without_provenance_mut(0x4002_8000);
const LED_0: u32 = 1;

/// LED 0. There is one: only `main` should make it.
#[derive(Debug, Default)]
pub struct BoardLed(());

impl BoardLed {
    #[expect(unsafe_code)]
    fn read(&self) -> u32 {
        // SAFETY: on the machines that memory.x is for, the address is an aligned register that reads without effect.
        unsafe { LEDS.read_volatile() }
    }

    #[expect(unsafe_code)]
    fn write(&mut self, leds: u32) {
        // SAFETY: as in `read`; writing switches LEDs and touches no memory of Rust's.
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
