//! The gates of an LSTM and of a GRU on RV32IM, one unit at a time in registers. The results equal those of
//! [`gates`](super::gates) bit for bit.

use core::arch::asm;

use super::gates::{GruSums, LstmShifts};
use crate::curve::{PREACT_BITS, TANH_HALF};
use crate::quant::ONE;

const _: () = assert!(PREACT_BITS == 12 && TANH_HALF.len() == 1025);

/// Looks up the step of the table that contains t3: its start value to t5, and the difference to the next value times the
/// position within the step to t3. A step has `$shift` bits; `$mask` is 2^`$shift` - 1. t4 and t6 are scratch.
#[rustfmt::skip]
macro_rules! step {
    ($shift:literal, $mask:literal) => {
        concat!(
            "srai t4, t3, ", $shift, "\n",
            "addi t6, t4, 512\n",
            "bltu t6, a5, 3f\n",
            // Beyond the table: its first or its last step.
            "srai t4, t3, 31\n",
            "xori t4, t4, 511\n",
            "3:\n",
            "slli t4, t4, 1\n",
            "add t4, t4, a4\n",
            "lh t5, 0(t4)\n",
            "lh t6, 2(t4)\n",
            "andi t3, t3, ", $mask, "\n",
            "sub t6, t6, t5\n",
            "mul t3, t3, t6\n",
        )
    };
}

/// σ of t3, to `$to`.
#[rustfmt::skip]
macro_rules! sigmoid {
    ($to:literal) => {
        concat!(
            step!("7", "127"),
            "srai t3, t3, 7\n add t5, t5, a7\n add t3, t3, t5\n srai ", $to, ", t3, 1\n",
        )
    };
}

/// tanh of t3, to `$to`.
#[rustfmt::skip]
macro_rules! tanh {
    ($to:literal, $shift:literal, $mask:literal) => {
        concat!(step!($shift, $mask), "srai t3, t3, ", $shift, "\n add ", $to, ", t3, t5\n")
    };
}

/// `$value` without its 15 fraction bits.
#[rustfmt::skip]
macro_rules! from_q15 {
    ($value:literal) => {
        concat!("add ", $value, ", ", $value, ", a6\n srai ", $value, ", ", $value, ", 15\n")
    };
}

/// `$value` limited to 32 - `$spare` bits; `$most` is the greatest. t3 is scratch.
#[rustfmt::skip]
macro_rules! clamp {
    ($value:literal, $spare:literal, $most:literal) => {
        concat!(
            "slli t3, ", $value, ", ", $spare, "\n",
            "srai t3, t3, ", $spare, "\n",
            "beq t3, ", $value, ", 4f\n",
            "srai ", $value, ", ", $value, ", 31\n",
            "xor ", $value, ", ", $value, ", ", $most, "\n",
            "4:\n",
        )
    };
}

/// h' from n in t3, z in s2 and h at a1, to t4.
#[rustfmt::skip]
macro_rules! between {
    () => {
        concat!(
            "lh t4, 0(a1)\n",
            "addi a1, a1, 2\n",
            "sub t4, t4, t3\n",
            "mul t4, t4, s2\n",
            from_q15!("t4"),
            "add t4, t4, t3\n",
        )
    };
}

/// The loop over units, at least one, until a1 is a3. a4 is the middle of the table, a5 its number of steps, a6 half of 1,
/// a7 1 and a unit; t3 to t6 and s2 are scratch.
///
/// # Safety
/// The table is read at indices from 0 to 1024, which it has. The caller specifies everything else that a unit reads and
/// writes.
macro_rules! over {
    ($($unit:expr),*; $first:expr, $units:expr; $($operands:tt)*) => {
        asm!(
            "2:",
            $($unit,)*
            "bne a1, a3, 2b",
            inout("a1") $first => _,
            in("a3") $first.wrapping_add($units),
            in("a4") TANH_HALF.as_ptr().wrapping_add(TANH_HALF.len() / 2),
            in("a5") TANH_HALF.len() - 1,
            in("a6") ONE / 2,
            in("a7") ONE + 1,
            out("t3") _, out("t4") _, out("t5") _, out("t6") _, out("s2") _,
            $($operands)*
            options(nostack),
        )
    };
}

/// [`gates::lstm`](super::gates::lstm)
pub fn lstm(sums: &[[i32; 4]], cell: &mut [i16], m: &mut [i16], shifts: LstmShifts) {
    let units = sums.len().min(cell.len()).min(m.len());
    if units == 0 {
        return;
    }
    let first = cell.as_mut_ptr();
    // SAFETY: reads four sums and c, and writes c' and m, for `units` units, which every slice has. All are aligned to
    // their elements.
    unsafe {
        over!(
            "lw t3, 0(a0)", sigmoid!("s2"),
            "lw t3, 8(a0)", tanh!("t3", "6", "63"),
            "mul s2, s2, t3",
            "sra s2, s2, t0",
            "lw t3, 4(a0)", sigmoid!("t3"),
            "lh t4, 0(a1)",
            "mul t3, t3, t4",
            "add s2, s2, t3",
            from_q15!("s2"),
            clamp!("s2", "16", "t2"),
            "sh s2, 0(a1)",
            "addi a1, a1, 2",
            "sll t3, s2, t1", tanh!("s2", "9", "511"),
            "lw t3, 12(a0)", sigmoid!("t3"),
            "addi a0, a0, 16",
            "mul s2, s2, t3",
            from_q15!("s2"),
            "sh s2, 0(a2)",
            "addi a2, a2, 2";
            first, units;
            inout("a0") sums.as_ptr() => _,
            inout("a2") m.as_mut_ptr() => _,
            in("t0") shifts.candidate,
            in("t1") shifts.lift,
            in("t2") i32::from(i16::MAX),
        );
    }
}

/// [`gates::reset_update`](super::gates::reset_update) with σ and tanh.
pub fn reset_update(sums: &[[i32; 2]], hidden: &[i16], reset: &mut [i16], update: &mut [i16]) {
    let units = sums.len().min(hidden.len()).min(reset.len()).min(update.len());
    if units == 0 {
        return;
    }
    let first = hidden.as_ptr();
    // SAFETY: reads sums and h, and writes r ⊙ h and z, for `units` units, which every slice has. All are aligned to
    // their elements.
    unsafe {
        over!(
            "lw t3, 0(a0)", sigmoid!("s2"),
            "lh t4, 0(a1)",
            "addi a1, a1, 2",
            "mul s2, s2, t4",
            from_q15!("s2"),
            "sh s2, 0(a2)",
            "addi a2, a2, 2",
            "lw t3, 4(a0)", sigmoid!("t3"),
            "addi a0, a0, 8",
            "sh t3, 0(t0)",
            "addi t0, t0, 2";
            first, units;
            inout("a0") sums.as_ptr() => _,
            inout("a2") reset.as_mut_ptr() => _,
            inout("t0") update.as_mut_ptr() => _,
        );
    }
}

/// [`gates::interpolate`](super::gates::interpolate) with σ and tanh.
pub fn interpolate(sums: &[i32], update: &[i16], hidden: &mut [i16], new: &mut [i16]) {
    let units = sums.len().min(update.len()).min(hidden.len()).min(new.len());
    if units == 0 {
        return;
    }
    let first = hidden.as_mut_ptr();
    // SAFETY: reads sums, z and h, and writes h' to two slices, for `units` units, which every slice has. All are
    // aligned to their elements.
    unsafe {
        over!(
            "lw t3, 0(a0)", tanh!("t3", "6", "63"),
            "addi a0, a0, 4",
            "lhu s2, 0(t0)",
            "addi t0, t0, 2",
            between!(),
            "sh t4, -2(a1)",
            "sh t4, 0(a2)",
            "addi a2, a2, 2";
            first, units;
            inout("a0") sums.as_ptr() => _,
            inout("a2") new.as_mut_ptr() => _,
            inout("t0") update.as_ptr() => _,
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
    let first = hidden.as_ptr();
    // SAFETY: reads sums of each kind and h, and writes h', for `units` units, which every slice has. All are aligned
    // to their elements.
    unsafe {
        over!(
            "lw t3, 0(a0)", sigmoid!("s2"),
            "lw t4, 0(t1)",
            "addi t1, t1, 4",
            clamp!("t4", "15", "t2"),
            "mul s2, s2, t4",
            from_q15!("s2"),
            "lw t3, 0(t0)",
            "addi t0, t0, 4",
            "add t3, s2, t3", tanh!("s3", "6", "63"),
            "lw t3, 4(a0)", sigmoid!("s2"),
            "addi a0, a0, 8",
            "mv t3, s3",
            between!(),
            "sh t4, 0(a2)",
            "addi a2, a2, 2";
            first, units;
            inout("a0") gates.as_ptr() => _,
            inout("a2") new.as_mut_ptr() => _,
            inout("t0") of_input.as_ptr() => _,
            inout("t1") of_hidden.as_ptr() => _,
            in("t2") (1 << 16) - 1,
            out("s3") _,
        );
    }
}
