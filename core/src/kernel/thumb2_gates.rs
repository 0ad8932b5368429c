//! The gates of a GRU on Thumb-2 and, with the DSP extension, of an LSTM, one unit at a time in registers. The results
//! equal those of [`gates`](super::gates) bit for bit.

use core::arch::asm;

use super::gates::GruSums;
#[cfg(feature = "dsp")]
use super::gates::LstmShifts;
use crate::curve::{PREACT_BITS, TANH_HALF};
use crate::quant::ONE;

/// Index of tanh(0) in the table.
const ZERO: usize = TANH_HALF.len() / 2;

const _: () = assert!(PREACT_BITS == 12 && TANH_HALF.len() == 1025);

/// Loads two adjacent values of the table to `$pair`, those around `$x`, with one load that may be unaligned. The
/// position of `$x` within the step stays in `$x`. r5 points to the table's middle.
#[rustfmt::skip]
macro_rules! step {
    ($x:literal, $pair:literal, $shift:literal) => {
        concat!(
            "ssat ", $pair, ", #10, ", $x, ", asr #", $shift, "\n",
            "ubfx ", $x, ", ", $x, ", #0, #", $shift, "\n",
            "ldr ", $pair, ", [r5, ", $pair, ", lsl #1]\n",
        )
    };
}

/// With the DSP extension one instruction multiplies both values by their distances.
#[cfg(feature = "dsp")]
mod curve {
    use super::ONE;

    /// r10: factor that turns a position of 7 bits, with 2^14 added, into both distances: 2^14 minus the position times
    /// 2^7, and the position times 2^7.
    pub const PLACE: i32 = 0xffff << 7;
    /// r11: constant of σ.
    pub const SIGMOID: i32 = (ONE + 1) << 14;

    /// σ of `$x` in place, with 30 fraction bits, of which 15 are valid; r9 is scratch.
    macro_rules! sigmoid {
        ($x:literal) => {
            concat!(step!($x, "r9", "7"), "mla ", $x, ", ", $x, ", r10, r12\n smlad ", $x, ", r9, ", $x, ", r11\n")
        };
    }

    /// Sets r7 to 2^13, for a position of 6 bits.
    macro_rules! first {
        () => {
            "mov r7, #0x2000\n"
        };
    }

    /// r from the next sum to r8.
    macro_rules! reset {
        () => {
            concat!("ldr r8, [r0], #4\n", sigmoid!("r8"), "asr r8, r8, #15\n")
        };
    }

    /// Stores z from the next sum.
    macro_rules! update {
        () => {
            concat!("ldr r6, [r0], #4\n", sigmoid!("r6"), "asr r6, r6, #15\n strh r6, [r2], #2\n")
        };
    }

    /// tanh of r8 in place.
    macro_rules! tanh {
        () => {
            concat!(step!("r8", "r9", "6"), "mla r8, r8, r10, r7\n smuad r8, r9, r8\n asr r8, r8, #13\n")
        };
    }

    /// n + z (h - n) to r8, which holds n, with z from the next sum, and the next h.
    macro_rules! between {
        () => {
            concat!(
                "ldr r6, [r0], #4\n",
                sigmoid!("r6"),
                "ldrsh r9, [r3], #2
                sub r9, r9, r8
                lsl r9, r9, #2
                bfc r6, #0, #15
                smmlar r8, r6, r9, r8\n"
            )
        };
    }

    pub(super) use {between, first, reset, sigmoid, tanh, update};
}

#[cfg(not(feature = "dsp"))]
mod curve {
    use super::ONE;

    /// r10, which is scratch.
    pub const PLACE: i32 = 0;
    /// r11: constant of σ.
    pub const SIGMOID: i32 = (ONE + 1) << 7;

    /// σ of `$x` in place; r9 and `$free` are scratch.
    macro_rules! sigmoid {
        ($x:literal, $free:literal) => {
            concat!(
                step!($x, "r9", "7"),
                "sxth ",
                $free,
                ", r9\n",
                "rsb r9, ",
                $free,
                ", r9, asr #16\n",
                "add ",
                $free,
                ", r11, ",
                $free,
                ", lsl #7\n",
                "mla ",
                $x,
                ", ",
                $x,
                ", r9, ",
                $free,
                "\n",
                "asr ",
                $x,
                ", ",
                $x,
                ", #8\n",
            )
        };
    }

    /// Expands to nothing: tanh needs no constant here.
    macro_rules! first {
        () => {
            ""
        };
    }

    /// r from the next sum to r8, and the sum of z to r7.
    macro_rules! reset {
        () => {
            concat!("ldrd r8, r7, [r0], #8\n", sigmoid!("r8", "r6"))
        };
    }

    /// Stores z from the sum in r7.
    macro_rules! update {
        () => {
            concat!(sigmoid!("r7", "r6"), "strh r7, [r2], #2\n")
        };
    }

    /// tanh of r8 in place.
    macro_rules! tanh {
        () => {
            concat!(
                step!("r8", "r9", "6"),
                "sxth r6, r9
                rsb r9, r6, r9, asr #16
                mul r8, r8, r9
                add r8, r6, r8, asr #6\n"
            )
        };
    }

    /// n + z (h - n) to r8, which holds n, with z from the sum in r7, and the next h.
    macro_rules! between {
        () => {
            concat!(
                sigmoid!("r7", "r6"),
                "ldrsh r9, [r3], #2
                sub r9, r9, r8
                mla r9, r7, r9, r12
                add r8, r8, r9, asr #15\n"
            )
        };
    }

    pub(super) use {between, first, reset, sigmoid, tanh, update};
}

use curve::{between, first, reset, sigmoid, tanh, update};

/// h' of a unit with the reset after the product.
macro_rules! unit {
    () => {
        concat!(
            reset!(),
            // The sum over h is clamped to 17 bits.
            "ldr r6, [r2], #4
            ssat r6, #17, r6
            mla r8, r8, r6, r12
            ldr r6, [r1], #4
            add r8, r6, r8, asr #15\n",
            tanh!(),
            between!(),
            "strh r8, [r4], #2\n"
        )
    };
}

/// The loop over the units, whose number is in lr, two per turn. If the number is odd, the first turn has one unit.
macro_rules! units {
    ($unit:expr) => {
        concat!(
            "push {{r6, r7}}\n",
            first!(),
            "adds lr, lr, #1
            lsrs lr, lr, #1
            bcc 3f
            2:\n",
            $unit,
            "3:\n",
            $unit,
            "subs lr, lr, #1
            bne 2b
            pop {{r6, r7}}"
        )
    };
}

/// r ⊙ h and z of a unit.
macro_rules! open {
    () => {
        concat!(
            reset!(),
            "ldrsh r9, [r3], #2
            mla r8, r8, r9, r12
            asr r8, r8, #15
            strh r8, [r1], #2\n",
            update!()
        )
    };
}

/// h' of a unit with the reset before the product.
macro_rules! close {
    () => {
        concat!(
            "ldr r8, [r0], #4\n",
            tanh!(),
            "ldrsh r9, [r3]
            ldrh r6, [r1], #2
            sub r9, r9, r8
            mla r9, r6, r9, r12
            add r8, r8, r9, asr #15
            strh r8, [r3], #2
            strh r8, [r4], #2\n"
        )
    };
}

/// The loop over `$units`, at least one. r5 points to the table's middle.
///
/// # Safety
/// The table is read from -512 to 512 elements about its middle, where it has them: indices are saturated to ten bits.
/// r6, r7 and the stack pointer are restored. The caller specifies everything else that the loop reads and writes.
macro_rules! over {
    ($unit:expr, $units:expr, $($operands:tt)*) => {
        asm!(
            units!($unit),
            $($operands)*
            in("r5") TANH_HALF.get(ZERO..).unwrap_or_default().as_ptr(),
            out("r8") _,
            out("r9") _,
            in("r10") curve::PLACE,
            in("r11") curve::SIGMOID,
            in("r12") ONE / 2,
            inout("lr") $units => _,
        )
    };
}

/// [`gates::reset_update`](super::gates::reset_update) with σ and tanh.
pub fn reset_update(sums: &[[i32; 2]], hidden: &[i16], reset: &mut [i16], update: &mut [i16]) {
    let units = sums.len().min(hidden.len()).min(reset.len()).min(update.len());
    if units == 0 {
        return;
    }
    // SAFETY: reads sums and h, and writes r ⊙ h and z, for `units` units, which every slice has. All are aligned to
    // their elements.
    unsafe {
        over!(
            open!(),
            units,
            inout("r0") sums.as_ptr() => _,
            inout("r1") reset.as_mut_ptr() => _,
            inout("r2") update.as_mut_ptr() => _,
            inout("r3") hidden.as_ptr() => _,
        );
    }
}

/// [`gates::interpolate`](super::gates::interpolate) with σ and tanh.
pub fn interpolate(sums: &[i32], update: &[i16], hidden: &mut [i16], new: &mut [i16]) {
    let units = sums.len().min(update.len()).min(hidden.len()).min(new.len());
    if units == 0 {
        return;
    }
    // SAFETY: reads sums, z and h, and writes h' to two slices, for `units` units, which every slice has. All are
    // aligned to their elements.
    unsafe {
        over!(
            close!(),
            units,
            inout("r0") sums.as_ptr() => _,
            inout("r1") update.as_ptr() => _,
            inout("r3") hidden.as_mut_ptr() => _,
            inout("r4") new.as_mut_ptr() => _,
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
    // SAFETY: reads sums of each kind and h, and writes h', for `units` units, which every slice has. All are aligned
    // to their elements.
    unsafe {
        over!(
            unit!(),
            units,
            inout("r0") gates.as_ptr() => _,
            inout("r1") of_input.as_ptr() => _,
            inout("r2") of_hidden.as_ptr() => _,
            inout("r3") hidden.as_ptr() => _,
            inout("r4") new.as_mut_ptr() => _,
        );
    }
}

/// c' and m of a unit of an LSTM, in the registers of [`lstm`], and the flags of the number of units left. Positions become
/// distances by a factor of 2^5, so that one constant serves steps of 6, 7 and 9 bits. Independent operations alternate for
/// cores that issue two in a cycle.
#[cfg(feature = "dsp")]
macro_rules! lstm_unit {
    () => {
        "ldrd r6, r7, [r0], #8
        ssat r9, #10, r6, asr #7
        and r6, r6, #127
        ssat r8, #10, r7, asr #7
        and r7, r7, #127
        mla r6, r6, r10, r12
        ldr r9, [r5, r9, lsl #1]
        mla r7, r7, r10, r12
        ldr r8, [r5, r8, lsl #1]
        smlad r6, r9, r6, r11
        ldr r9, [r0], #4
        smlad r7, r8, r7, r11
        ssat r8, #10, r9, asr #6
        and r9, r9, #63
        lsl r9, r9, #1
        asr r6, r6, #13
        mla r9, r9, r10, r12
        ldr r8, [r5, r8, lsl #1]
        asr r7, r7, #13
        smuad r9, r8, r9
        ldrsh r8, [r1]
        mul r7, r7, r8
        ldr r8, [r0], #4
        asr r9, r9, #12
        mul r6, r6, r9
        ssat r9, #10, r8, asr #7
        and r8, r8, #127
        asr r6, r6, r3
        mla r8, r8, r10, r12
        add r6, r6, r7
        ldr r9, [r5, r9, lsl #1]
        add r6, r6, #0x4000
        smlad r7, r9, r8, r11
        ssat r6, #16, r6, asr #15
        mov r8, #0x4000
        strh r6, [r1], #2
        lsl r6, r6, r4
        asr r7, r7, #13
        ssat r9, #10, r6, asr #9
        ubfx r6, r6, #0, #9
        mla r6, r6, r10, r8
        ldr r9, [r5, r9, lsl #1]
        smuad r6, r9, r6
        subs lr, lr, #1
        asr r6, r6, #14
        mla r6, r7, r6, r8
        asr r6, r6, #15
        strh r6, [r2], #2"
    };
}

/// [`gates::lstm`](super::gates::lstm)
#[cfg(feature = "dsp")]
pub fn lstm(sums: &[[i32; 4]], cell: &mut [i16], m: &mut [i16], shifts: LstmShifts) {
    let units = sums.len().min(cell.len()).min(m.len());
    if units == 0 {
        return;
    }
    // SAFETY: reads sums and c, and writes c' and m, for `units` units, which every slice has. All are aligned to their
    // elements. The table is read from -512 to 512 elements about its middle, where it has them: indices are saturated to
    // ten bits. r6, r7 and the stack pointer are restored.
    unsafe {
        asm!(
            "push {{r6, r7}}",
            "2:",
            lstm_unit!(),
            "bne 2b",
            "pop {{r6, r7}}",
            inout("r0") sums.as_ptr() => _,
            inout("r1") cell.as_mut_ptr() => _,
            inout("r2") m.as_mut_ptr() => _,
            in("r3") shifts.candidate,
            in("r4") shifts.lift,
            in("r5") TANH_HALF.get(ZERO..).unwrap_or_default().as_ptr(),
            out("r8") _,
            out("r9") _,
            in("r10") 0xffff << 5,
            in("r11") (ONE + 1) << 12,
            in("r12") 1 << 12,
            inout("lr") units => _,
        );
    }
}
