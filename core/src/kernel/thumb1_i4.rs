//! `i4x16` in the portable layout on Armv6-M: two shifts extract a weight from its word. 5.5 instructions per product.

use super::frame::Frame;
use super::thumb1::{enter, high, leave};
use super::{Kernel, Part, PortableI4, Written};
use crate::image::layout::GROUP;
use crate::quant::RowBlock;

/// The product of a weight of the word in r4, `$left` bits from its end, and the x in r5.
#[rustfmt::skip]
macro_rules! product {
    ($sum:literal, $left:literal) => {
        concat!(
            "lsls r6, r4, #", $left, "
            asrs r6, r6, #28
            muls r6, r5, r6
            adds ", $sum, ", ", $sum, ", r6\n",
        )
    };
}

/// The part whose length in pairs of columns is `$at` bytes into the frame at r7: words from r8, x from r7, up to 16
/// pairs per group. Leaves the frame in r7.
#[rustfmt::skip]
macro_rules! part {
    ($at:literal) => {
        concat!(
            "ldr r6, [r7, #", $at, "]
            ldr r4, [r7, #", $at, "+4]
            ldr r5, [r7, #", $at, "+8]
            mov r8, r4
            mov r7, r5
            lsls r6, r6, #2
            adds r6, r6, r5
            mov r9, r6
            mov r4, r10
            push {{r4}}
            2:
            push {{r0, r1, r2, r3}}
            mov r6, r9
            subs r6, r6, r7
            cmp r6, #64
            bls 3f
            movs r6, #64
            3:
            adds r6, r6, r7
            mov r10, r6
            movs r0, #0
            movs r1, #0
            movs r2, #0
            movs r3, #0
            4:
            mov r6, r8
            ldm r6!, {{r4}}
            mov r8, r6
            ldrh r5, [r7]
            sxth r5, r5\n",
            product!("r0", 28), product!("r1", 24), product!("r2", 20), product!("r3", 16),
            "ldrh r5, [r7, #2]
            sxth r5, r5\n",
            product!("r0", 12), product!("r1", 8), product!("r2", 4),
            "asrs r6, r4, #28
            muls r6, r5, r6
            adds r3, r3, r6
            adds r7, r7, #4
            cmp r7, r10
            bne 4b
            mov r6, r8
            ldm r6!, {{r4}}
            mov r8, r6
            uxtb r5, r4
            muls r0, r5, r0
            lsrs r4, r4, #8
            uxtb r5, r4
            muls r1, r5, r1
            lsrs r4, r4, #8
            uxtb r5, r4
            muls r2, r5, r2
            lsrs r4, r4, #8
            muls r3, r4, r3
            pop {{r4, r5, r6}}
            adds r0, r0, r4
            adds r1, r1, r5
            adds r2, r2, r6
            pop {{r4}}
            adds r3, r3, r4
            cmp r7, r9
            bne 2b
            pop {{r4}}
            mov r10, r4
            ldr r7, [sp]
            mov r4, r8
            str r4, [r7, #", $at, "+4]"
        )
    };
}

const _: () = assert!(GROUP == 32);

impl Kernel for PortableI4 {
    fn sum_two(rows: &[RowBlock], fine: &Part<'_, '_, Self>, coarse: &Part<'_, '_, Self>, sums: &mut Written<'_>) {
        let coarse = Some((coarse.blocks, coarse.operand));
        let Some(mut frame) = Frame::of_i4(rows, (fine.blocks, fine.operand), coarse, sums) else { return };
        let blocks = frame.blocks;
        // SAFETY: `Frame::of_i4` has checked that both parts have all words of the blocks, the factors after each group
        // included, that the operands have all pairs of a block, and that there are `rows` and places in `sums` for
        // every block. All are aligned to 4, as LDM and STM require. r6 to r10 and the stack pointer are restored.
        unsafe {
            core::arch::asm!(
                enter!(),
                part!("0"),
                "ldr r6, [r7, #24]",
                "ldr r6, [r6, #32]",
                "asrs r0, r6",
                "lsrs r6, r6, #8",
                "asrs r1, r6",
                "lsrs r6, r6, #8",
                "asrs r2, r6",
                "lsrs r6, r6, #8",
                "asrs r3, r6",
                part!("12"),
                leave!(),
                inout("r0") &raw mut frame => _,
                out("r1") _, out("r2") _, out("r3") _, out("r4") _, out("r5") _,
            );
            sums.set_len(blocks);
        }
    }

    fn sum_one(rows: &[RowBlock], part: &Part<'_, '_, Self>, sums: &mut Written<'_>) {
        let Some(mut frame) = Frame::of_i4(rows, (part.blocks, part.operand), None, sums) else { return };
        let blocks = frame.blocks;
        // SAFETY: as in `sum_two`.
        unsafe {
            core::arch::asm!(
                enter!(),
                part!("0"),
                leave!(),
                inout("r0") &raw mut frame => _,
                out("r1") _, out("r2") _, out("r3") _, out("r4") _, out("r5") _,
            );
            sums.set_len(blocks);
        }
    }
}
