//! RV32IMAC on QEMU's `virt`: the machine timer and the counter of cycles.

use core::convert::Infallible;
use core::ptr;

use embedded_hal::digital::{ErrorType, OutputPin, StatefulOutputPin};
use riscv::register::{mcycle, mie, mstatus};
pub use riscv::singleton;
pub use riscv_rt::entry;

/// Ticks of the 10 MHz timer from one block of the microphone to the next: 1 ms, ten times as fast as speech.
const BLOCK_TICKS: u64 = 10_000;
/// The timer's registers (QEMU: `hw/riscv/virt.c`, `VIRT_CLINT`; the layout is SiFive's CLINT's), 64 bits each.
const TIME: *mut u32 = ptr::without_provenance_mut(0x0200_BFF8);
const DUE: *mut u32 = ptr::without_provenance_mut(0x0200_4000);

/// Starts the interrupt of the microphone, `MachineTimer`, which [`end_interrupt`] schedules again.
#[expect(unsafe_code)]
pub fn start_timer() -> Option<()> {
    end_interrupt();
    // SAFETY: `riscv-rt` has set the trap vector, and the handler is there.
    unsafe {
        mie::set_mtimer();
        mstatus::set_mie();
    }
    Some(())
}

/// Ends the interrupt and schedules the next one.
#[expect(unsafe_code)]
pub fn end_interrupt() {
    // SAFETY: on `virt` these are aligned registers; reading has no effect, writing sets when the interrupt is due.
    unsafe {
        let (low, high) = (TIME.read_volatile(), TIME.wrapping_add(1).read_volatile());
        let due = ((u64::from(high) << 32) | u64::from(low)).wrapping_add(BLOCK_TICKS);
        // Prevents an interrupt between the two writes.
        DUE.wrapping_add(1).write_volatile(u32::MAX);
        DUE.write_volatile(due as u32);
        DUE.wrapping_add(1).write_volatile((due >> 32) as u32);
    }
}

/// Does nothing: [`executed`] needs no counter to be started.
pub fn start_counter() -> Option<()> {
    Some(())
}

/// Number of instructions of `work` under `-icount shift=0`, where each takes one cycle of the core.
pub fn executed(work: impl FnOnce()) -> u64 {
    let before = mcycle::read64();
    work();
    mcycle::read64().wrapping_sub(before)
}

/// Sleeps until the next interrupt.
pub fn wait_for_interrupt() {
    riscv::asm::wfi();
}

/// A stand-in for an LED, which this machine does not have.
#[derive(Debug, Default)]
pub struct BoardLed {
    lit: bool,
}

impl ErrorType for BoardLed {
    type Error = Infallible;
}

impl OutputPin for BoardLed {
    fn set_low(&mut self) -> Result<(), Infallible> {
        self.lit = false;
        Ok(())
    }

    fn set_high(&mut self) -> Result<(), Infallible> {
        self.lit = true;
        Ok(())
    }
}

impl StatefulOutputPin for BoardLed {
    fn is_set_high(&mut self) -> Result<bool, Infallible> {
        Ok(self.lit)
    }

    fn is_set_low(&mut self) -> Result<bool, Infallible> {
        Ok(!self.lit)
    }
}
