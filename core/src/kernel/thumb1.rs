//! Armv6-M (Cortex-M0, M0+): eight low registers, products of 32 bits, and no signed byte load with an immediate
//! offset. 3.63 instructions per product.

use super::frame::Frame;
use super::{CortexM0, Kernel, Part, Written};
use crate::quant::RowBlock;

/// A frame, and the excess of the sums of each part.
#[repr(C)]
struct Excess {
    frame: Frame<[u8; 4], i16>,
    fine: i32,
    coarse: i32,
}

/// One column, `$at` columns after the weights at r4 and the x at r5.
#[rustfmt::skip]
macro_rules! one_column {
    ($at:literal) => {
        concat!(
            "ldrh r7, [r5, #2*", $at, "]\n sxth r7, r7\n",
            "ldrb r6, [r4, #4*", $at, "]\n muls r6, r7, r6\n adds r0, r0, r6\n",
            "ldrb r6, [r4, #4*", $at, "+1]\n muls r6, r7, r6\n adds r1, r1, r6\n",
            "ldrb r6, [r4, #4*", $at, "+2]\n muls r6, r7, r6\n adds r2, r2, r6\n",
            "ldrb r6, [r4, #4*", $at, "+3]\n muls r6, r7, r6\n adds r3, r3, r6\n",
        )
    };
}

/// The part whose length is `$at` bytes into the frame at r7, and its excess at `$excess`: eight columns per turn, then
/// single columns. Leaves the frame in r7.
#[rustfmt::skip]
macro_rules! part {
    ($at:literal, $excess:literal) => {
        concat!(
            "ldr r6, [r7, #", $excess, "]
            subs r0, r0, r6
            subs r1, r1, r6
            subs r2, r2, r6
            subs r3, r3, r6
            ldr r6, [r7, #", $at, "]
            ldr r4, [r7, #", $at, "+4]
            ldr r5, [r7, #", $at, "+8]
            lsls r7, r6, #1
            adds r7, r7, r5
            mov r9, r7
            lsrs r6, r6, #3
            beq 3f
            lsls r6, r6, #4
            adds r6, r6, r5
            mov r8, r6
            2:\n",
            one_column!(0), one_column!(1), one_column!(2), one_column!(3), one_column!(4), one_column!(5), one_column!(6), one_column!(7),
            "adds r4, r4, #32
            adds r5, r5, #16
            cmp r5, r8
            bne 2b
            3:
            cmp r5, r9
            beq 5f
            4:\n",
            one_column!(0),
            "adds r4, r4, #4
            adds r5, r5, #2
            cmp r5, r9
            bne 4b
            5:
            ldr r7, [sp]
            str r4, [r7, #", $at, "+4]"
        )
    };
}

/// The high word of `$sum` times the multiplier `$at` bytes into the row block at r8, computed in halves.
#[rustfmt::skip]
macro_rules! high {
    ($sum:literal, $at:literal) => {
        concat!(
            "mov r4, r8
            ldr r4, [r4, #", $at, "]
            asrs r5, r4, #16
            uxth r4, r4
            asrs r6, ", $sum, ", #16
            uxth ", $sum, ", ", $sum, "
            mov r7, ", $sum, "
            muls r7, r4, r7
            lsrs r7, r7, #16
            muls ", $sum, ", r5, ", $sum, "
            muls r4, r6, r4
            muls r5, r6, r5
            adds r4, r4, r7
            asrs r6, r4, #16
            uxth r4, r4
            adds ", $sum, ", ", $sum, ", r4
            asrs ", $sum, ", ", $sum, ", #16
            adds r5, r5, r6
            adds ", $sum, ", ", $sum, ", r5\n"
        )
    };
}

/// Saves the registers that are not operands, with the frame at the top of the stack.
#[rustfmt::skip]
macro_rules! enter {
    () => {
        "push {{r0, r6, r7}}
        mov r4, r8
        mov r5, r9
        push {{r0, r4, r5}}
        1:
        ldr r7, [sp]
        ldr r6, [r7, #24]
        ldm r6!, {{r0, r1, r2, r3}}"
    };
}

/// Multiplies, stores, and advances to the next block.
#[rustfmt::skip]
macro_rules! leave {
    () => {
        concat!(
            "ldr r6, [r7, #24]
            mov r8, r6
            adds r6, r6, #36
            str r6, [r7, #24]\n",
            high!("r0", 16), high!("r1", 20), high!("r2", 24), high!("r3", 28),
            "ldr r7, [sp]
            ldr r6, [r7, #28]
            stm r6!, {{r0, r1, r2, r3}}
            str r6, [r7, #28]
            ldr r6, [r7, #32]
            subs r6, r6, #1
            str r6, [r7, #32]
            beq 6f
            b 1b
            6:
            pop {{r0, r4, r5}}
            mov r8, r4
            mov r9, r5
            pop {{r0, r6, r7}}"
        )
    };
}

pub(super) use {enter, high, leave};

impl Kernel for CortexM0 {
    fn sum_two(rows: &[RowBlock], fine: &Part<'_, '_, Self>, coarse: &Part<'_, '_, Self>, sums: &mut Written<'_>) {
        let ((fine_x, fine_excess), (coarse_x, coarse_excess)) = (fine.operand, coarse.operand);
        let Some(frame) = Frame::new(rows, (fine.blocks, fine_x), Some((coarse.blocks, coarse_x)), sums) else {
            return;
        };
        let mut frame = Excess { frame, fine: fine_excess, coarse: coarse_excess };
        let blocks = frame.frame.blocks;
        // SAFETY: `Frame::new` has checked that both parts have all units, of four bytes each, of the blocks, that the
        // operands have all elements, of two bytes each, of a block, and that there are `rows` and places in `sums` for
        // every block. They are aligned to 4, as LDM and STM require. r6 to r9 and the stack pointer are restored.
        unsafe {
            core::arch::asm!(
                enter!(),
                part!("0", "36"),
                "ldr r6, [r7, #24]",
                "ldr r6, [r6, #32]",
                "asrs r0, r6",
                "lsrs r6, r6, #8",
                "asrs r1, r6",
                "lsrs r6, r6, #8",
                "asrs r2, r6",
                "lsrs r6, r6, #8",
                "asrs r3, r6",
                part!("12", "40"),
                leave!(),
                inout("r0") &raw mut frame => _,
                out("r1") _, out("r2") _, out("r3") _, out("r4") _, out("r5") _,
            );
            sums.set_len(blocks);
        }
    }

    fn sum_one(rows: &[RowBlock], part: &Part<'_, '_, Self>, sums: &mut Written<'_>) {
        let (x, excess) = part.operand;
        let Some(frame) = Frame::new(rows, (part.blocks, x), None, sums) else { return };
        let mut frame = Excess { frame, fine: excess, coarse: 0 };
        let blocks = frame.frame.blocks;
        // SAFETY: as in `sum_two`.
        unsafe {
            core::arch::asm!(
                enter!(),
                part!("0", "36"),
                leave!(),
                inout("r0") &raw mut frame => _,
                out("r1") _, out("r2") _, out("r3") _, out("r4") _, out("r5") _,
            );
            sums.set_len(blocks);
        }
    }
}
