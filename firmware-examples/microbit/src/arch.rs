//! Writes of registers by their bits, which need `unsafe`.
#![allow(unsafe_code)]

use nrf51_hal::pac::UART0;

/// Sends a byte before a pin is connected, so that nobody receives it. The HAL waits until the transmitter is ready
/// before it sends its first byte, but that of QEMU is not ready until it has sent one. Under QEMU the byte appears as
/// a line break.
pub fn prime(uart: &UART0) {
    uart.enable.write(|register| register.enable().enabled());
    // SAFETY: this task is the whole register, and 1 starts it.
    uart.tasks_starttx.write(|register| unsafe { register.bits(1) });
    // SAFETY: every byte may be sent.
    uart.txd.write(|register| unsafe { register.bits(u32::from(b'\n')) });
    while uart.events_txdrdy.read().bits() == 0 {}
    uart.enable.write(|register| register.enable().disabled());
}
