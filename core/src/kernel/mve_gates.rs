//! The gates of four units at once, with the vector extension of Armv8.1-M. The results equal those of
//! [`gates`](super::gates) bit for bit.

use core::arch::asm;

use super::gates::{self, GruSums, LstmShifts};
use crate::curve::{PREACT_BITS, TANH_HALF, Usual};
use crate::quant::ONE;

/// Index of tanh(0) in the table.
const ZERO: usize = TANH_HALF.len() / 2;

/// tanh of half of a vector from the table, in place. Arguments beyond the table saturate to its ends, where the table
/// does not rise. `$index` shifts a value so that its step is in the first ten bits, `$part` so that the fraction
/// within the step starts the word. The upper word of the fraction times the rise of the table, which is never
/// negative, is then the increment. q4 to q6 are scratch, r3 and r4 point to the table's middle and to the element
/// after it.
#[rustfmt::skip]
macro_rules! tanh_half {
    ($x:literal, $index:literal, $part:literal) => {
        concat!(
            "vqshl.s32 q4, ", $x, ", #", $index,
            "\n vshr.s32 q4, q4, #22",
            "\n vldrh.s32 q5, [r3, q4, uxtw #1]\n vldrh.s32 q6, [r4, q4, uxtw #1]",
            "\n vshl.i32 ", $x, ", ", $x, ", #", $part,
            "\n vsub.i32 q6, q6, q5",
            "\n vmulh.u32 ", $x, ", ", $x, ", q6",
            "\n vadd.i32 ", $x, ", ", $x, ", q5\n"
        )
    };
}

/// σ of [`PREACT_BITS`] fraction bits in place; r5 is 1 + 2^15.
macro_rules! sigmoid {
    ($x:literal) => {
        concat!(tanh_half!($x, 15, 25), "vhadd.s32 ", $x, ", ", $x, ", r5")
    };
}

/// r and z of four units to q0 and q1, from the sums at r8, which is advanced. The low registers are left for loads
/// that widen 16 bits.
macro_rules! reset_update {
    () => {
        concat!("vld20.32 {{q0, q1}}, [r8]\n vld21.32 {{q0, q1}}, [r8]!\n", sigmoid!("q0"), "\n", sigmoid!("q1"))
    };
}

const _: () = assert!(PREACT_BITS == 12 && TANH_HALF.len() == 1025 && rises(&TANH_HALF));

/// Whether the values never decrease.
const fn rises(values: &[i16]) -> bool {
    let mut k = 1;
    while k < values.len() && values[k - 1] <= values[k] {
        k += 1;
    }
    k >= values.len()
}

/// A loop over groups of four units; it may use q0 to q6. r3 points to the table's middle, r4 to the next element; lr counts.
///
/// # Safety
/// The table must have 512 elements on either side of its middle: indices are saturated to ten bits. All other reads and
/// writes are those of the caller's loop.
macro_rules! fours {
    ($middle:expr, $turns:expr, $loop:expr, $($operands:tt)*) => {
        asm!(
            "add r4, r3, #2",
            "dls lr, lr",
            "2:",
            $loop,
            "le lr, 2b",
            $($operands)*
            in("r3") $middle.as_ptr(),
            out("r4") _,
            inout("lr") $turns => _,
            out("s0") _, out("s1") _, out("s2") _, out("s3") _, out("s4") _, out("s5") _, out("s6") _, out("s7") _,
            out("s8") _, out("s9") _, out("s10") _, out("s11") _, out("s12") _, out("s13") _, out("s14") _,
            out("s15") _, out("s16") _, out("s17") _, out("s18") _, out("s19") _, out("s20") _, out("s21") _,
            out("s22") _, out("s23") _, out("s24") _, out("s25") _, out("s26") _, out("s27") _,
            options(nostack),
        )
    };
}

/// Number of whole groups of four units in the shortest of several slices.
fn turns<const N: usize>(units: [usize; N]) -> usize {
    units.iter().fold(usize::MAX, |least, &units| least.min(units)) / 4
}

/// The units that remain after the groups of four. They are computed first, so that nothing has to be kept while the
/// loop uses all registers.
fn rest<T>(all: &[T], turns: usize) -> &[T] {
    all.get(4 * turns..).unwrap_or_default()
}

/// [`rest`]
fn rest_mut<T>(all: &mut [T], turns: usize) -> &mut [T] {
    all.get_mut(4 * turns..).unwrap_or_default()
}

/// The middle of the table.
fn middle() -> &'static [i16] {
    TANH_HALF.get(ZERO..).unwrap_or_default()
}

/// [`gates::lstm`]
#[inline(never)]
pub fn lstm(sums: &[[i32; 4]], cell: &mut [i16], m: &mut [i16], shifts: LstmShifts) {
    let turns = turns([sums.len(), cell.len(), m.len()]);
    if 4 * turns != m.len() {
        gates::lstm(rest(sums, turns), rest_mut(cell, turns), rest_mut(m, turns), shifts);
    }
    if turns > 0 {
        // SAFETY: `turns` times, it reads 64 bytes of sums and 8 of c, and writes 8 of c and 8 of m. The slices have
        // them, aligned to their elements.
        unsafe {
            fours!(
                middle(),
                turns,
                concat!(
                    "vld40.32 {{q0, q1, q2, q3}}, [r0]
                    vld41.32 {{q0, q1, q2, q3}}, [r0]
                    vld42.32 {{q0, q1, q2, q3}}, [r0]
                    vld43.32 {{q0, q1, q2, q3}}, [r0]!\n",
                    sigmoid!("q0"), "\n",
                    sigmoid!("q1"), "\n",
                    tanh_half!("q2", 16, 26), "\n",
                    sigmoid!("q3"),
                    "\n vmul.i32 q0, q0, q2
                    vshl.s32 q0, r8
                    vldrh.s32 q2, [r1]
                    vmul.i32 q1, q1, q2
                    vadd.i32 q0, q0, q1
                    vrshr.s32 q0, q0, #15
                    vqmovnb.s32 q0, q0
                    vmovlb.s16 q0, q0
                    vstrh.32 q0, [r1], #8
                    vshl.s32 q0, r9\n",
                    tanh_half!("q0", 13, 23),
                    "\n vmul.i32 q0, q0, q3
                    vrshr.s32 q0, q0, #15
                    vstrh.32 q0, [r2], #8"
                ),
                inout("r0") sums.as_ptr() => _,
                inout("r1") cell.as_mut_ptr() => _,
                inout("r2") m.as_mut_ptr() => _,
                in("r5") ONE + 1,
                in("r8") -(shifts.candidate as i32),
                in("r9") shifts.lift,
            );
        }
    }
}

/// [`gates::reset_update`]
#[inline(never)]
pub fn reset_update(sums: &[[i32; 2]], hidden: &[i16], reset: &mut [i16], update: &mut [i16]) {
    let turns = turns([sums.len(), hidden.len(), reset.len(), update.len()]);
    if 4 * turns != update.len() {
        let (sums, hidden) = (rest(sums, turns), rest(hidden, turns));
        gates::reset_update(&Usual, sums, hidden, rest_mut(reset, turns), rest_mut(update, turns));
    }
    if turns > 0 {
        // SAFETY: `turns` times, it reads 32 bytes of sums and 8 of h, and writes 8 of r ⊙ h and 8 of z. The slices
        // have them, aligned to their elements.
        unsafe {
            fours!(
                middle(),
                turns,
                concat!(
                    reset_update!(),
                    "\n vldrh.s32 q2, [r0], #8
                    vmul.i32 q0, q0, q2
                    vrshr.s32 q0, q0, #15
                    vstrh.32 q0, [r1], #8
                    vstrh.32 q1, [r2], #8"
                ),
                inout("r0") hidden.as_ptr() => _,
                inout("r1") reset.as_mut_ptr() => _,
                inout("r2") update.as_mut_ptr() => _,
                in("r5") ONE + 1,
                inout("r8") sums.as_ptr() => _,
            );
        }
    }
}

/// [`gates::gru`]
#[inline(never)]
pub fn gru(sums: GruSums<'_>, hidden: &[i16], new: &mut [i16]) {
    let GruSums { gates, of_input, of_hidden } = sums;
    let turns = turns([gates.len(), of_input.len(), of_hidden.len(), hidden.len(), new.len()]);
    if 4 * turns != new.len() {
        let sums =
            GruSums { gates: rest(gates, turns), of_input: rest(of_input, turns), of_hidden: rest(of_hidden, turns) };
        gates::gru(&Usual, sums, rest(hidden, turns), rest_mut(new, turns));
    }
    if turns > 0 {
        // SAFETY: `turns` times, it reads 32 bytes of the sums of gates, 16 of each other slice of sums and 8 of h, and
        // writes 8 of h'. The slices have them, aligned to their elements.
        unsafe {
            fours!(
                middle(),
                turns,
                concat!(
                    reset_update!(),
                    // The sum over h is clamped to 17 bits.
                    "\n vldrw.u32 q2, [r9], #16
                    vqshl.s32 q2, q2, #15
                    vshr.s32 q2, q2, #15
                    vmul.i32 q0, q0, q2
                    vldrw.u32 q2, [r0], #16
                    vrshr.s32 q0, q0, #15
                    vadd.i32 q0, q0, q2\n",
                    tanh_half!("q0", 16, 26),
                    "\n vldrh.s32 q2, [r1], #8
                    vsub.i32 q2, q2, q0
                    vmul.i32 q2, q2, q1
                    vrshr.s32 q2, q2, #15
                    vadd.i32 q0, q0, q2
                    vstrh.32 q0, [r2], #8"
                ),
                inout("r0") of_input.as_ptr() => _,
                inout("r1") hidden.as_ptr() => _,
                inout("r2") new.as_mut_ptr() => _,
                in("r5") ONE + 1,
                inout("r8") gates.as_ptr() => _,
                inout("r9") of_hidden.as_ptr() => _,
            );
        }
    }
}

/// [`gates::interpolate`]
#[inline(never)]
pub fn interpolate(sums: &[i32], update: &[i16], hidden: &mut [i16], new: &mut [i16]) {
    let turns = turns([sums.len(), update.len(), hidden.len(), new.len()]);
    if 4 * turns != new.len() {
        let (sums, update) = (rest(sums, turns), rest(update, turns));
        gates::interpolate(&Usual, sums, update, rest_mut(hidden, turns), rest_mut(new, turns));
    }
    if turns > 0 {
        // SAFETY: `turns` times, it reads 16 bytes of sums, 8 of z and 8 of h, and writes 8 of h' to each of two
        // slices. The slices have them, aligned to their elements.
        unsafe {
            fours!(
                middle(),
                turns,
                concat!(
                    "vldrw.u32 q0, [r8], #16\n",
                    tanh_half!("q0", 16, 26),
                    "\n vldrh.s32 q2, [r2]
                    vsub.i32 q2, q2, q0
                    vldrh.u32 q1, [r1], #8
                    vmul.i32 q2, q2, q1
                    vrshr.s32 q2, q2, #15
                    vadd.i32 q0, q0, q2
                    vstrh.32 q0, [r2], #8
                    vstrh.32 q0, [r0], #8"
                ),
                inout("r0") new.as_mut_ptr() => _,
                inout("r1") update.as_ptr() => _,
                inout("r2") hidden.as_mut_ptr() => _,
                inout("r8") sums.as_ptr() => _,
            );
        }
    }
}
