//! What only the machine knows: the board's LED register and the painted stack. All `unsafe` of the firmware is here.

mod mps2;
mod stack;

pub use mps2::BoardLed;
pub use stack::stack_bytes;
