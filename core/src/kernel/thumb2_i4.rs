//! `i4x16` in the portable layout on Thumb-2: SBFX extracts a weight from its word. 2.7 instructions per product.

use super::frame::Frame;
use super::thumb2::{high, sum_one, sum_two};
use super::{Kernel, Part, PortableI4, Written};
use crate::image::layout::GROUP;
use crate::quant::RowBlock;

/// Two columns: a word of weights from r12, x from lr; sums in r0 to r3.
macro_rules! pair {
    () => {
        "ldr r8, [r12], #4
        ldrsh r9, [lr], #4
        ldrsh r7, [lr, #-2]
        sbfx r4, r8, #0, #4
        sbfx r5, r8, #4, #4
        sbfx r6, r8, #8, #4
        mla r0, r4, r9, r0
        sbfx r4, r8, #12, #4
        mla r1, r5, r9, r1
        sbfx r5, r8, #16, #4
        mla r2, r6, r9, r2
        sbfx r6, r8, #20, #4
        mla r3, r4, r9, r3
        sbfx r4, r8, #24, #4
        mla r0, r5, r7, r0
        asr r5, r8, #28
        mla r1, r6, r7, r1
        mla r2, r4, r7, r2
        mla r3, r5, r7, r3"
    };
}

/// The loop over the pairs of columns, whose number is in r11, two per turn. Up to 16 pairs form a group, whose sums start
/// at 0 and are multiplied by the factors of the group.
macro_rules! groups {
    () => {
        concat!(
            "4:
            push {{r0, r1, r2, r3}}
            mov r10, r11
            cmp r11, #16
            it hi
            movhi r10, #16
            subs r11, r11, r10
            movs r0, #0
            movs r1, #0
            movs r2, #0
            movs r3, #0
            lsrs r10, r10, #1\n bcc 2f\n",
            pair!(),
            "\n cmp r10, #0\n beq 3f\n 2:\n",
            pair!(),
            "\n",
            pair!(),
            "\n subs r10, r10, #1
            bne 2b
            3:
            pop {{r4, r5, r6, r7}}
            ldrb r8, [r12], #1
            ldrb r9, [r12], #1
            mla r0, r0, r8, r4
            mla r1, r1, r9, r5
            ldrb r8, [r12], #1
            ldrb r9, [r12], #1
            mla r2, r2, r8, r6
            mla r3, r3, r9, r7
            cmp r11, #0
            bne 4b"
        )
    };
}

const _: () = assert!(GROUP == 32);

impl Kernel for PortableI4 {
    fn sum_two(rows: &[RowBlock], fine: &Part<'_, '_, Self>, coarse: &Part<'_, '_, Self>, sums: &mut Written<'_>) {
        let coarse = Some((coarse.blocks, coarse.operand));
        let Some(frame) = Frame::of_i4(rows, (fine.blocks, fine.operand), coarse, sums) else { return };
        let blocks = frame.blocks;
        // SAFETY: `Frame::of_i4` has checked that both parts have all words of the blocks, the factors after each group
        // included, that the operands have all pairs of a block, and that there are `rows` and places in `sums` for
        // every block. All are aligned to 4, as LDM and LDRD require. r6, r7 and the stack pointer are restored.
        unsafe {
            sum_two!(frame, groups, high);
            sums.set_len(blocks);
        }
    }

    fn sum_one(rows: &[RowBlock], part: &Part<'_, '_, Self>, sums: &mut Written<'_>) {
        let Some(frame) = Frame::of_i4(rows, (part.blocks, part.operand), None, sums) else { return };
        let blocks = frame.blocks;
        // SAFETY: as in `sum_two`.
        unsafe {
            sum_one!(frame, groups, high);
            sums.set_len(blocks);
        }
    }
}
