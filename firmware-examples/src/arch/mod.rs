//! The machine-dependent parts: program start, the painted stack, the timer, the instruction counter, the LED. All
//! `unsafe` of the firmware is here.

#[cfg_attr(target_arch = "arm", path = "arm.rs")]
#[cfg_attr(target_arch = "riscv32", path = "riscv.rs")]
mod machine;
mod stack;

pub use machine::{
    BoardLed, end_interrupt, entry, executed, singleton, start_counter, start_timer, wait_for_interrupt,
};
pub use stack::{below, paint, used};
