//! `i4x16` with the DSP extension. A mask extracts two weights from a word. Weights are stored plus 8, so that they are
//! not negative; the excess is subtracted as 8 times the sum of x over each group. 1.27 instructions per product.

use core::mem::MaybeUninit;

use super::{Blocks, CortexM4I4, Kernel, Part, Written};
use crate::image::layout::GROUP;
use crate::image::layout::GROUP_WORDS;
use crate::quant::{RowBlock, scaled, shifted, start};

/// Number of groups whose sums of x are kept on the stack. A block with more groups is processed in parts.
const GROUPS: usize = 32;
/// Units of eight columns in a group.
const GROUP_UNITS: usize = GROUP / 8;

impl Kernel for CortexM4I4 {
    fn sum_two(rows: &[RowBlock], fine: &Part<'_, '_, Self>, coarse: &Part<'_, '_, Self>, sums: &mut Written<'_>) {
        sums.extend(rows.iter().map(start));
        let sums = sums.as_mut_slice();
        add(fine, sums);
        for (sums, rows) in sums.iter_mut().zip(rows) {
            *sums = shifted(rows, *sums);
        }
        add(coarse, sums);
        for (sums, rows) in sums.iter_mut().zip(rows) {
            *sums = scaled(rows, *sums);
        }
    }

    fn sum_one(rows: &[RowBlock], part: &Part<'_, '_, Self>, sums: &mut Written<'_>) {
        sums.extend(rows.iter().map(start));
        let sums = sums.as_mut_slice();
        add(part, sums);
        for (sums, rows) in sums.iter_mut().zip(rows) {
            *sums = scaled(rows, *sums);
        }
    }
}

/// Adds the products of one block to each of `sums`.
#[inline(never)]
fn add(part: &Part<'_, '_, CortexM4I4>, sums: &mut [[i32; 4]]) {
    let Part { blocks: Blocks { units: mut words, block_len }, operand } = *part;
    for x in operand.chunks(GROUPS * GROUP_UNITS) {
        let mut excess = [const { MaybeUninit::uninit() }; GROUPS];
        for (excess, x) in excess.iter_mut().zip(x.chunks(GROUP_UNITS)) {
            excess.write(-8 * sum(x.as_flattened()));
        }
        let len = 4 * x.len() + x.len().div_ceil(GROUP_UNITS);
        let Some(skip) = block_len.checked_sub(len) else { return };
        if sums.is_empty() || words.len() < block_len * (sums.len() - 1) + len {
            return;
        }
        let frame = Frame {
            sums: sums.as_mut_ptr(),
            blocks: sums.len(),
            x: x.as_ptr(),
            excess: excess.as_ptr().cast(),
            units: x.len(),
            skip: 4 * skip,
            words: words.as_ptr(),
        };
        // SAFETY: `words` extends to the end of the last block; there is a block for each sum, of `len` words followed
        // by `skip` bytes. Chunks are not empty, and `excess` has a value for each of their groups. All are aligned to
        // 4, as LDM and LDRD require.
        unsafe { add_blocks(&frame) };
        words = words.get(len..).unwrap_or_default();
    }
}

/// The sum of elements that are stored two per word. There are at most 32, so the sum fits 32 bits.
fn sum(x: &[u32]) -> i32 {
    x.iter().map(|&x| i32::from(x as i16) + (x.cast_signed() >> 16)).sum()
}

/// The fields are in the order of the registers that LDM loads.
#[repr(C)]
struct Frame {
    sums: *mut [i32; 4],
    blocks: usize,
    x: *const [u32; 4],
    /// Start value of the sums over each group.
    excess: *const i32,
    /// Units of a block.
    units: usize,
    /// Bytes between the blocks.
    skip: usize,
    words: *const u32,
}

/// The columns of x in r8 and r9. Weights are in r4 to r7; the shifts bring the right ones under the mask in r11. Sums
/// in r0 to r3, r10 is scratch.
#[rustfmt::skip]
macro_rules! four_columns {
    ($even:literal, $odd:literal) => {
        concat!(
            "and r10, r11, r4, lsr #", $even, "\n smlad r0, r10, r8, r0\n",
            "and r10, r11, r4, lsr #", $odd, "\n smlad r0, r10, r9, r0\n",
            "and r10, r11, r5, lsr #", $even, "\n smlad r1, r10, r8, r1\n",
            "and r10, r11, r5, lsr #", $odd, "\n smlad r1, r10, r9, r1\n",
            "and r10, r11, r6, lsr #", $even, "\n smlad r2, r10, r8, r2\n",
            "and r10, r11, r6, lsr #", $odd, "\n smlad r2, r10, r9, r2\n",
            "and r10, r11, r7, lsr #", $even, "\n smlad r3, r10, r8, r3\n",
            "and r10, r11, r7, lsr #", $odd, "\n smlad r3, r10, r9, r3\n",
        )
    };
}

/// Eight columns: weights from r12, x from lr.
macro_rules! unit {
    () => {
        concat!(
            "ldm r12!, {{r4, r5, r6, r7}}\n ldrd r8, r9, [lr], #8\n",
            four_columns!(0, 4),
            "ldrd r8, r9, [lr], #8\n",
            four_columns!(8, 12),
        )
    };
}

/// # Safety
/// The frame must describe valid memory: at least one block, a sum for each block, at least one unit of x, a value of
/// `excess` for each group, and the words of all blocks.
unsafe fn add_blocks(frame: &Frame) {
    const { assert!(GROUP_UNITS == 4 && GROUP_WORDS == 17) };
    // SAFETY: reads and writes only the memory that the caller guarantees. The stack holds the position in `excess`,
    // the units left, sums, blocks left, x, `excess`, units and skip. r6, r7 and the stack pointer are restored.
    unsafe {
        core::arch::asm!(
            "push {{r6, r7}}",
            "sub sp, sp, #32",
            "ldm r0, {{r1, r2, r3, r4, r5, r8, r12}}",
            "add r9, sp, #8",
            "stm r9, {{r1, r2, r3, r4, r5, r8}}",
            "mov r11, #0x000f000f",
            // One block.
            "1:",
            "ldrd lr, r4, [sp, #16]",
            "ldr r5, [sp, #24]",
            // One group.
            "2:",
            "ldr r0, [r4], #4",
            "subs r5, r5, #4",
            "strd r4, r5, [sp]",
            "mov r1, r0",
            "mov r2, r0",
            "mov r3, r0",
            "blt 6f",
            unit!(),
            "3:",
            unit!(),
            "4:",
            unit!(),
            "5:",
            unit!(),
            "ldr r5, [sp, #8]",
            "ldm r5, {{r6, r7, r8, r9}}",
            "ldrb r4, [r12], #1",
            "ldrb r10, [r12], #1",
            "mla r6, r0, r4, r6",
            "mla r7, r1, r10, r7",
            "ldrb r4, [r12], #1",
            "ldrb r10, [r12], #1",
            "mla r8, r2, r4, r8",
            "mla r9, r3, r10, r9",
            "stm r5, {{r6, r7, r8, r9}}",
            "ldrd r4, r5, [sp]",
            "cmp r5, #0",
            "bgt 2b",
            "ldrd r4, r5, [sp, #8]",
            "ldr r6, [sp, #28]",
            "add r4, r4, #16",
            "add r12, r12, r6",
            "subs r5, r5, #1",
            "strd r4, r5, [sp, #8]",
            "bne 1b",
            "b 7f",
            // The last group of a block may have only one to three units: jumps to the last ones of the four.
            "6:",
            "adds r5, r5, #2",
            "bgt 3b",
            "beq 4b",
            "b 5b",
            "7:",
            "add sp, sp, #32",
            "pop {{r6, r7}}",
            inout("r0") frame => _,
            out("r1") _, out("r2") _, out("r3") _, out("r4") _, out("r5") _, out("r8") _, out("r9") _,
            out("r10") _, out("r11") _, out("r12") _, out("lr") _,
        );
    }
}
