//! How much of the stack was ever used. `cortex-m-rt` paints it before `main` (feature `paint-stack`).

use core::ptr;

use cortex_m_rt::STACK_PAINT_VALUE;

/// Bytes from the lowest word that is no longer painted to the stack's start.
#[expect(unsafe_code)]
pub fn stack_bytes() -> u32 {
    unsafe extern "C" {
        static _stack_end: u32;
        static _stack_start: u32;
    }
    let (end, start) = (&raw const _stack_end, &raw const _stack_start);
    let mut word = end;
    // SAFETY: `link.x` places both symbols, `end` below `start`, on multiples of four in RAM that nothing but the
    // stack uses; the loop stays between them and only reads.
    while word < start && unsafe { ptr::read_volatile(word) } == STACK_PAINT_VALUE {
        word = word.wrapping_add(1);
    }
    (start.addr() - word.addr()) as u32
}
