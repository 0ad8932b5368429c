//! Thumb-2 (Cortex-M3 and up): the loop over blocks that its kernels share, and the portable layout, one product per
//! instruction: 2.31 instructions per product in total. Without the feature `thumb2` the same layout is read in plain
//! Rust.

use super::frame::Frame;
use super::{Kernel, Part, Portable, Written};
use crate::quant::RowBlock;

/// For every block: start, sums of the fine part, multiplication. `$part` adds a part to the sums in r0 to r3: r11
/// units from r12 and x from lr. It may use r4 to r10, and leaves r12 after the units. `$high` is the high word of r0
/// to r3 times r6 to r9. `$coarse` may add another part. `$end` is the offset of the last part's units in the frame, which is
/// on the stack.
macro_rules! blocks {
    ($frame:expr, $part:ident, $high:ident, $coarse:expr, $end:literal) => {
        core::arch::asm!(
            "push {{r6, r7}}",
            "ldm r0, {{r0, r1, r2, r3, r4, r5, r6, r7, r8}}",
            // The end of the sums in place of the number of blocks.
            "add r8, r7, r8, lsl #4",
            "push {{r0, r1, r2, r3, r4, r5, r6, r7, r8}}",
            "1:",
            "ldr r5, [sp, #24]",
            "ldr lr, [sp, #8]",
            "ldrd r11, r12, [sp]",
            "ldm r5, {{r0, r1, r2, r3}}",
            $part!(),
            $coarse,
            "ldrd r5, r11, [sp, #24]",
            concat!("str r12, [sp, #", $end, "]"),
            "ldrd r6, r7, [r5, #16]",
            "ldrd r8, r9, [r5, #24]",
            "add r5, r5, #36",
            $high!(),
            "ldr r6, [sp, #32]",
            "stm r11!, {{r0, r1, r2, r3}}",
            "strd r5, r11, [sp, #24]",
            "cmp r11, r6",
            "bne 1b",
            "add sp, sp, #36",
            "pop {{r6, r7}}",
            inout("r0") &raw const $frame => _,
            out("r1") _, out("r2") _, out("r3") _, out("r4") _, out("r5") _, out("r8") _, out("r9") _,
            out("r10") _, out("r11") _, out("r12") _, out("lr") _,
        )
    };
}

/// [`blocks`] with shifts and a coarse part.
macro_rules! sum_two {
    ($frame:expr, $part:ident, $high:ident) => {
        $crate::kernel::thumb2::blocks!(
            $frame,
            $part,
            $high,
            concat!(
                "ldr r5, [sp, #24]
                str r12, [sp, #4]
                ldrd r11, r12, [sp, #12]
                ldrb r4, [r5, #32]
                ldrb r6, [r5, #33]
                ldrb r7, [r5, #34]
                ldrb r9, [r5, #35]
                ldr lr, [sp, #20]
                asr r0, r0, r4
                asr r1, r1, r6
                asr r2, r2, r7
                asr r3, r3, r9\n",
                $part!()
            ),
            16
        )
    };
}

/// [`blocks`] without shifts and without a coarse part.
macro_rules! sum_one {
    ($frame:expr, $part:ident, $high:ident) => {
        $crate::kernel::thumb2::blocks!($frame, $part, $high, "", 4)
    };
}

pub(super) use {blocks, sum_one, sum_two};

/// The products of a column: x in r8, weights in r4 to r7.
macro_rules! products {
    () => {
        "mla r0, r4, r8, r0
        mla r1, r5, r8, r1
        mla r2, r6, r8, r2
        mla r3, r7, r8, r3"
    };
}

/// One column.
macro_rules! column {
    () => {
        concat!(
            "ldrsh r8, [lr], #2
            ldrsb r4, [r12], #4
            ldrsb r5, [r12, #-3]
            ldrsb r6, [r12, #-2]
            ldrsb r7, [r12, #-1]\n",
            products!()
        )
    };
}

/// Four columns.
macro_rules! quad {
    () => {
        concat!(
            "ldrsh r8, [lr], #8
            ldrsb r4, [r12], #16
            ldrsb r5, [r12, #-15]
            ldrsb r6, [r12, #-14]
            ldrsb r7, [r12, #-13]\n",
            products!(),
            "\n ldrsh r8, [lr, #-6]
            ldrsb r4, [r12, #-12]
            ldrsb r5, [r12, #-11]
            ldrsb r6, [r12, #-10]
            ldrsb r7, [r12, #-9]\n",
            products!(),
            "\n ldrsh r8, [lr, #-4]
            ldrsb r4, [r12, #-8]
            ldrsb r5, [r12, #-7]
            ldrsb r6, [r12, #-6]
            ldrsb r7, [r12, #-5]\n",
            products!(),
            "\n ldrsh r8, [lr, #-2]
            ldrsb r4, [r12, #-4]
            ldrsb r5, [r12, #-3]
            ldrsb r6, [r12, #-2]
            ldrsb r7, [r12, #-1]\n",
            products!()
        )
    };
}

/// The loop over the columns, whose number is in r11: those beyond whole quads, then an odd quad, then two quads per turn.
macro_rules! columns {
    () => {
        concat!(
            "ands r10, r11, #3\n beq 5f\n 4:\n",
            column!(),
            "\n subs r10, r10, #1\n bne 4b\n 5:\n lsrs r11, r11, #3\n bcc 6f\n",
            quad!(),
            "\n 6: cmp r11, #0\n beq 3f\n 2:\n",
            quad!(),
            "\n",
            quad!(),
            "\n subs r11, r11, #1\n bne 2b\n 3:"
        )
    };
}

macro_rules! high {
    () => {
        "smull r4, r0, r0, r6
        smull r4, r1, r1, r7
        smull r4, r2, r2, r8
        smull r4, r3, r3, r9"
    };
}

pub(super) use high;

impl Kernel for Portable {
    fn sum_two(rows: &[RowBlock], fine: &Part<'_, '_, Self>, coarse: &Part<'_, '_, Self>, sums: &mut Written<'_>) {
        let coarse = Some((coarse.blocks, coarse.operand));
        let Some(frame) = Frame::new(rows, (fine.blocks, fine.operand), coarse, sums) else { return };
        let blocks = frame.blocks;
        // SAFETY: `Frame::new` has checked that both parts have all units, of four bytes each, of the blocks, that the
        // operands have all elements, of two bytes each, of a block, and that there are `rows` and places in `sums` for
        // every block. They are aligned to 4, as LDM and LDRD require. r6, r7 and the stack pointer are restored.
        unsafe {
            sum_two!(frame, columns, high);
            sums.set_len(blocks);
        }
    }

    fn sum_one(rows: &[RowBlock], part: &Part<'_, '_, Self>, sums: &mut Written<'_>) {
        let Some(frame) = Frame::new(rows, (part.blocks, part.operand), None, sums) else { return };
        let blocks = frame.blocks;
        // SAFETY: as in `sum_two`.
        unsafe {
            sum_one!(frame, columns, high);
            sums.set_len(blocks);
        }
    }
}
