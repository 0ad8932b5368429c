//! One product of the DSP extension.

use core::arch::asm;

/// The product of the lower halves of `a` and `b`, plus `c` of 16 bits.
#[inline(always)]
pub fn of_halves(a: i32, b: i32, c: i16) -> i32 {
    let c = i32::from(c);
    let sum: i32;
    // SAFETY: reads and writes only registers. The sum has at most 31 bits, so the saturation flag stays as it is.
    unsafe {
        asm!(
            "smlabb {sum}, {a}, {b}, {c}",
            sum = lateout(reg) sum, a = in(reg) a, b = in(reg) b, c = in(reg) c,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    sum
}
