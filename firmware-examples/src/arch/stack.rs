//! Measures the maximum use of the stack: it is painted at the start, and overwritten words have been used.

use core::arch::asm;
use core::ptr;

const PAINT: u32 = 0xCCCC_CCCC;

#[expect(unsafe_code)]
unsafe extern "C" {
    #[cfg_attr(target_arch = "riscv32", link_name = "__estack")]
    static _stack_end: u32;
    static _stack_start: u32;
}

/// Paints the free part of the stack. Must be called first, before interrupts are enabled.
#[expect(unsafe_code)]
pub fn paint() {
    let end = (&raw const _stack_end).cast_mut();
    // SAFETY: the linker script places `end` on a multiple of four at the lower end of the RAM that only the stack uses. The
    // loop stores from there up to the stack pointer, below which nothing is alive, and uses no stack.
    unsafe {
        #[cfg(target_arch = "arm")]
        asm!(
            "1:", "cmp {at}, sp", "bhs 2f", "str {paint}, [{at}]", "adds {at}, #4", "b 1b", "2:",
            at = inout(reg) end => _, paint = in(reg) PAINT, options(nostack),
        );
        #[cfg(target_arch = "riscv32")]
        asm!(
            "1:", "bgeu {at}, sp, 2f", "sw {paint}, 0({at})", "addi {at}, {at}, 4", "j 1b", "2:",
            at = inout(reg) end => _, paint = in(reg) PAINT, options(nostack),
        );
    }
}

/// The lowest word that has been overwritten.
#[expect(unsafe_code)]
fn lowest() -> *const u32 {
    let start = &raw const _stack_start;
    let mut word = &raw const _stack_end;
    // SAFETY: the linker script places both symbols, `_stack_end` below `_stack_start`, on multiples of four in RAM that
    // nothing but the stack uses; the loop stays between them and only reads.
    while word < start && unsafe { ptr::read_volatile(word) } == PAINT {
        word = word.wrapping_add(1);
    }
    word
}

/// Bytes of stack that have been used so far.
pub fn used() -> u32 {
    ((&raw const _stack_start).addr() - lowest().addr()) as u32
}

/// Bytes of stack that `work` uses below the caller's frame, unless more of it was used before.
#[inline(never)]
#[expect(unsafe_code)]
pub fn below(work: impl FnOnce()) -> u32 {
    let top: usize;
    // SAFETY: reads a register.
    unsafe {
        #[cfg(target_arch = "arm")]
        asm!("mov {}, sp", out(reg) top, options(nomem, nostack, preserves_flags));
        #[cfg(target_arch = "riscv32")]
        asm!("mv {}, sp", out(reg) top, options(nomem, nostack, preserves_flags));
    }
    work();
    top.saturating_sub(lowest().addr()) as u32
}
