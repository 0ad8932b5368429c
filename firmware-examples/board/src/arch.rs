//! The access to the processor that needs `unsafe`.
#![allow(unsafe_code)]

use stm32f4xx_hal::pac::{Interrupt, NVIC};

/// Enables an interrupt.
pub fn unmask(interrupt: Interrupt) {
    // SAFETY: no critical section of this program relies on masking a single interrupt.
    unsafe { NVIC::unmask(interrupt) };
}
