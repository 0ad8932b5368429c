//! The kernel of the DSP extension.

use core::arch::asm;

use super::frame::Frame;
use super::{CortexM4, Kernel, Part, Written, thumb2};
use crate::quant::RowBlock;

/// Four columns. Weights are loaded from r12 into r4 to r7, x from lr into r8 and r9; r10 is scratch; sums in r0 to
/// r3. A product follows the next extension, so that a Cortex-M7 issues both in a cycle.
macro_rules! quad {
    () => {
        "ldm r12!, {{r4, r5, r6, r7}}
        ldrd r8, r9, [lr], #8
        sxtb16 r10, r4
        sxtb16 r4, r4, ror #8
        smlad r0, r10, r8, r0
        sxtb16 r10, r5
        smlad r0, r4, r9, r0
        sxtb16 r5, r5, ror #8
        smlad r1, r10, r8, r1
        sxtb16 r10, r6
        smlad r1, r5, r9, r1
        sxtb16 r6, r6, ror #8
        smlad r2, r10, r8, r2
        sxtb16 r10, r7
        smlad r2, r6, r9, r2
        sxtb16 r7, r7, ror #8
        smlad r3, r10, r8, r3
        smlad r3, r7, r9, r3"
    };
}

/// The loop over the quads, whose number is in r11, two per turn.
macro_rules! quads {
    () => {
        concat!(
            "lsrs r11, r11, #1\n bcc 2f\n",
            quad!(),
            "\n cmp r11, #0\n beq 3f\n 2:\n",
            quad!(),
            "\n",
            quad!(),
            "\n subs r11, r11, #1\n bne 2b\n 3:"
        )
    };
}

macro_rules! high {
    () => {
        "smmul r0, r0, r6
        smmul r1, r1, r7
        smmul r2, r2, r8
        smmul r3, r3, r9"
    };
}

/// Never inlined: it needs nearly all registers.
#[inline(never)]
pub fn dot(start: [i32; 4], block: &[[u32; 4]], x: &[[u32; 2]]) -> [i32; 4] {
    let (quads, [mut a, mut b, mut c, mut d]) = (block.len().min(x.len()), start);
    if quads == 0 {
        return start;
    }
    // SAFETY: reads `quads` times 16 bytes of weights and 8 of `x`, which the slices have, aligned to 4, as LDM and
    // LDRD require. r6, r7 and the stack pointer are restored.
    unsafe {
        asm!(
            "push {{r6, r7}}",
            quads!(),
            "pop {{r6, r7}}",
            inout("r0") a, inout("r1") b, inout("r2") c, inout("r3") d,
            inout("r12") block.as_ptr() => _,
            inout("lr") x.as_ptr() => _,
            inout("r11") quads => _,
            out("r4") _, out("r5") _, out("r8") _, out("r9") _, out("r10") _,
        );
    }
    [a, b, c, d]
}

impl Kernel for CortexM4 {
    fn sum_two(rows: &[RowBlock], fine: &Part<'_, '_, Self>, coarse: &Part<'_, '_, Self>, sums: &mut Written<'_>) {
        let coarse = Some((coarse.blocks, coarse.operand));
        let Some(frame) = Frame::new(rows, (fine.blocks, fine.operand), coarse, sums) else { return };
        let blocks = frame.blocks;
        // SAFETY: `Frame::new` has checked that both parts have all units, of 16 bytes each, of the blocks, that the
        // operands have all quads, of 8 bytes each, of a block, and that there are `rows` and places in `sums` for
        // every block. All are aligned to 4, as LDM and LDRD require. r6, r7 and the stack pointer are restored.
        unsafe {
            thumb2::sum_two!(frame, quads, high);
            sums.set_len(blocks);
        }
    }

    fn taps(sums: [i32; 4], taps: &[[u8; 4]], channels: &[u8], row_len: usize, first: i32) -> [i32; 4] {
        super::dsp_taps::taps(sums, taps, channels, row_len, first)
    }

    fn sum_one(rows: &[RowBlock], part: &Part<'_, '_, Self>, sums: &mut Written<'_>) {
        let Some(frame) = Frame::new(rows, (part.blocks, part.operand), None, sums) else { return };
        let blocks = frame.blocks;
        // SAFETY: as in `sum_two`.
        unsafe {
            thumb2::sum_one!(frame, quads, high);
            sums.set_len(blocks);
        }
    }
}
