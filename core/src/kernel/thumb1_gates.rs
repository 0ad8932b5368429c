//! The gates of a GRU on Armv6-M, one unit at a time in registers. The results equal those of [`gates`](super::gates)
//! bit for bit.

use core::arch::asm;

use super::gates::GruSums;
use crate::curve::{PREACT_BITS, TANH_HALF};
use crate::quant::ONE;

const _: () = assert!(PREACT_BITS == 12 && TANH_HALF.len() == 1025);

/// The initial values of the registers, in their order: from r1 on, then r0.
#[repr(C)]
struct Frame {
    first: *const (),
    second: *const (),
    hidden: *const i16,
    new: *const i16,
    units: usize,
    sigmoid: i32,
    table: *const i16,
    sums: *const i32,
}

impl Frame {
    /// The frame for `units` units. `first` and `second` are the values of r1 and r2, followed by the pointers to h and
    /// h'.
    fn new(
        sums: *const i32,
        first: *const (),
        second: *const (),
        (hidden, new): (*const i16, *const i16),
        units: usize,
    ) -> Self {
        Self { first, second, hidden, new, units, sigmoid: (ONE + 1) << 7, table: TANH_HALF.as_ptr(), sums }
    }
}

/// Looks up the step of the table that contains `$x`: its start value to r6, and the difference to the next value times
/// the position within the step to `$x`. `$free` is scratch, r7 points to the table, r10 is 512. A step has `$shift`
/// bits; `$rest` is 32 - `$shift`.
#[rustfmt::skip]
macro_rules! step {
    ($x:literal, $free:literal, $shift:literal, $rest:literal) => {
        concat!(
            "asrs ", $free, ", ", $x, ", #", $shift, "\n",
            "add ", $free, ", r10\n",
            "lsrs r6, ", $free, ", #10\n",
            "beq 3f\n",
            // Beyond the table: its first or its last step.
            "asrs ", $free, ", ", $free, ", #31\n",
            "mvns ", $free, ", ", $free, "\n",
            "lsrs ", $free, ", ", $free, ", #22\n",
            "3:\n",
            "lsls ", $free, ", ", $free, ", #1\n",
            "ldrsh r6, [r7, ", $free, "]\n",
            "adds ", $free, ", ", $free, ", #2\n",
            "ldrsh ", $free, ", [r7, ", $free, "]\n",
            "subs ", $free, ", ", $free, ", r6\n",
            "lsls ", $x, ", ", $x, ", #", $rest, "\n",
            "lsrs ", $x, ", ", $x, ", #", $rest, "\n",
            "muls ", $x, ", ", $free, ", ", $x, "\n",
        )
    };
}

/// σ of `$x` in place; r8 is (1 + 2^15) 2^7.
#[rustfmt::skip]
macro_rules! sigmoid {
    ($x:literal, $free:literal) => {
        concat!(
            step!($x, $free, "7", "25"),
            "lsls r6, r6, #7\n",
            "adds ", $x, ", ", $x, ", r6\n",
            "add ", $x, ", r8\n",
            "asrs ", $x, ", ", $x, ", #8\n",
        )
    };
}

/// Computes h' from n in r4 and z (h - n) in r5. Stores it and leaves it in r4.
#[rustfmt::skip]
macro_rules! mix {
    () => {
        concat!(
            "add r5, r11\n",
            "asrs r5, r5, #15\n",
            "adds r4, r4, r5\n",
            "mov r5, r12\n",
            "strh r4, [r3, r5]\n",
        )
    };
}

/// The loop over the units of `$frame`, at least one, until r3, which points to h, is at its end. r12 is the distance
/// from h to h', r11 is half of 1; r4, r5, r6 and r9 are scratch.
///
/// # Safety
/// The table is read at indices from 0 to 1024, which it has. Registers that are not operands, and the stack pointer,
/// are restored. The caller specifies everything else that a unit reads and writes.
#[rustfmt::skip]
macro_rules! over {
    ($frame:expr, $($unit:expr),*) => {
        asm!(
            "push {{r6, r7, lr}}",
            "mov r4, r10",
            "mov r5, r11",
            "mov r6, r12",
            "push {{r4, r5, r6}}",
            "mov r4, r8",
            "mov r5, r9",
            "push {{r4, r5}}",
            "ldm r0!, {{r1, r2, r3, r4, r5, r6, r7}}",
            "ldr r0, [r0]",
            "mov r8, r6",
            "subs r4, r4, r3",
            "mov r12, r4",
            // The end of h.
            "lsls r5, r5, #1",
            "adds r5, r5, r3",
            "mov lr, r5",
            "movs r4, #1",
            "lsls r5, r4, #9",
            "mov r10, r5",
            "lsls r5, r4, #14",
            "mov r11, r5",
            "2:",
            $($unit,)*
            "cmp r3, lr",
            "bne 2b",
            "pop {{r4, r5}}",
            "mov r8, r4",
            "mov r9, r5",
            "pop {{r4, r5, r6}}",
            "mov r10, r4",
            "mov r11, r5",
            "mov r12, r6",
            "pop {{r6, r7}}",
            "pop {{r4}}",
            "mov lr, r4",
            inout("r0") &raw const $frame => _,
            out("r1") _, out("r2") _, out("r3") _, out("r4") _, out("r5") _,
        )
    };
}

/// [`gates::reset_update`](super::gates::reset_update) with σ and tanh.
pub fn reset_update(sums: &[[i32; 2]], hidden: &[i16], reset: &mut [i16], update: &mut [i16]) {
    let units = sums.len().min(hidden.len()).min(reset.len()).min(update.len());
    if units == 0 {
        return;
    }
    let (reset, update) = (reset.as_mut_ptr().cast_const().cast(), update.as_mut_ptr().cast_const().cast());
    let frame = Frame::new(sums.as_ptr().cast(), reset, update, (hidden.as_ptr(), hidden.as_ptr()), units);
    // SAFETY: reads sums and h, and writes r ⊙ h and z, for `units` units, which every slice has. All are aligned to
    // their elements.
    unsafe {
        over!(
            frame,
            "ldm r0!, {{r4, r5}}",
            "mov r9, r5",
            sigmoid!("r4", "r5"),
            "movs r5, #0",
            "ldrsh r5, [r3, r5]",
            "adds r3, r3, #2",
            "muls r4, r5, r4",
            "add r4, r11",
            "asrs r4, r4, #15",
            "strh r4, [r1]",
            "adds r1, r1, #2",
            "mov r5, r9",
            sigmoid!("r5", "r4"),
            "strh r5, [r2]",
            "adds r2, r2, #2"
        );
    }
}

/// [`gates::interpolate`](super::gates::interpolate) with σ and tanh.
pub fn interpolate(sums: &[i32], update: &[i16], hidden: &mut [i16], new: &mut [i16]) {
    let units = sums.len().min(update.len()).min(hidden.len()).min(new.len());
    if units == 0 {
        return;
    }
    let (hidden, new) = (hidden.as_mut_ptr().cast_const(), new.as_mut_ptr().cast_const());
    let frame = Frame::new(sums.as_ptr(), update.as_ptr().cast(), core::ptr::null(), (hidden, new), units);
    // SAFETY: reads sums, z and h, and writes h' to two slices, for `units` units, which every slice has. All are
    // aligned to their elements.
    unsafe {
        over!(
            frame,
            "ldm r0!, {{r4}}",
            step!("r4", "r5", "6", "26"),
            "asrs r4, r4, #6",
            "adds r4, r4, r6",
            "movs r6, #0",
            "ldrsh r5, [r3, r6]",
            "subs r5, r5, r4",
            "ldrh r6, [r1]",
            "adds r1, r1, #2",
            "muls r5, r6, r5",
            mix!(),
            "strh r4, [r3]",
            "adds r3, r3, #2"
        );
    }
}

/// [`gates::gru`](super::gates::gru) with σ and tanh.
pub fn gru(sums: GruSums<'_>, hidden: &[i16], new: &mut [i16]) {
    let GruSums { gates, of_input, of_hidden } = sums;
    let units = gates.len().min(of_input.len()).min(of_hidden.len()).min(hidden.len()).min(new.len());
    if units == 0 {
        return;
    }
    let (of_input, of_hidden) = (of_input.as_ptr().cast(), of_hidden.as_ptr().cast());
    let ends = (hidden.as_ptr(), new.as_mut_ptr().cast_const());
    let frame = Frame::new(gates.as_ptr().cast(), of_input, of_hidden, ends, units);
    // SAFETY: reads sums of each kind and h, and writes h', for `units` units, which every slice has. All are aligned
    // to their elements.
    unsafe {
        over!(
            frame,
            "ldm r0!, {{r4, r5}}",
            "mov r9, r5",
            sigmoid!("r4", "r5"),
            // The sum over h is clamped to 17 bits.
            "ldm r2!, {{r5}}",
            "lsls r6, r5, #15",
            "asrs r6, r6, #15",
            "cmp r6, r5",
            "beq 3f",
            "asrs r5, r5, #31",
            "movs r6, #0",
            "mvns r6, r6",
            "uxth r6, r6",
            "eors r5, r5, r6",
            "3:",
            "muls r4, r5, r4",
            "add r4, r11",
            "asrs r4, r4, #15",
            "ldm r1!, {{r5}}",
            "adds r4, r4, r5",
            // tanh
            step!("r4", "r5", "6", "26"),
            "asrs r4, r4, #6",
            "adds r4, r4, r6",
            "mov r5, r9",
            "mov r9, r4",
            sigmoid!("r5", "r4"),
            // n 2^15 + z (h - n)
            "mov r4, r9",
            "movs r6, #0",
            "ldrsh r6, [r3, r6]",
            "subs r6, r6, r4",
            "muls r5, r6, r5",
            mix!(),
            "adds r3, r3, #2"
        );
    }
}
