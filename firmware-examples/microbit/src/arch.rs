//! What writes a register by its bits.
#![allow(unsafe_code)]

use nrf51_hal::pac::UART0;

/// Sends a byte that nobody hears: no pin is connected yet. The HAL waits for the transmitter to be ready before it
/// sends its first one, and QEMU's is never ready until it has sent one; there, it is a line break.
pub fn prime(uart: &UART0) {
    uart.enable.write(|register| register.enable().enabled());
    // SAFETY: this task is the whole register, and 1 starts it.
    uart.tasks_starttx.write(|register| unsafe { register.bits(1) });
    // SAFETY: every byte may be sent.
    uart.txd.write(|register| unsafe { register.bits(u32::from(b'\n')) });
    while uart.events_txdrdy.read().bits() == 0 {}
    uart.enable.write(|register| register.enable().disabled());
}
