//! The kernel of the vector extension. The assembler rejects these instructions unless the target of the build has them.

use core::arch::asm;

use super::{CortexM55, Kernel, Part, Written};
use crate::quant::RowBlock;

/// Eight columns of two blocks: `x` in q2, weights loaded into q3, from r1 for the first block and from r3 for the
/// second; sums in r0, r2, r4, r6 and r8, r10, r12, lr. The caller handles the first row of each block.
#[rustfmt::skip]
macro_rules! eight {
    ($one:literal, $two:literal, $three:literal) => {
        concat!(
            "\n vldrb.s16 q3, [r1, #", $one, "]\n vmlava.s16 r2, q2, q3",
            "\n vldrb.s16 q3, [r3, #", $one, "]\n vmlava.s16 r10, q2, q3",
            "\n vldrb.s16 q3, [r1, #", $two, "]\n vmlava.s16 r4, q2, q3",
            "\n vldrb.s16 q3, [r3, #", $two, "]\n vmlava.s16 r12, q2, q3",
            "\n vldrb.s16 q3, [r1, #", $three, "]\n vmlava.s16 r6, q2, q3",
            "\n vldrb.s16 q3, [r3, #", $three, "]\n vmlava.s16 lr, q2, q3\n"
        )
    };
}

/// A unit of two blocks, with the columns from r5.
macro_rules! unit {
    () => {
        concat!(
            "vldrh.u16 q2, [r5, #16]",
            "\n vldrb.s16 q3, [r1, #8]\n vmlava.s16 r0, q2, q3",
            "\n vldrb.s16 q3, [r3, #8]\n vmlava.s16 r8, q2, q3",
            eight!(24, 40, 56),
            "vldrh.u16 q2, [r5], #32",
            eight!(16, 32, 48),
            "vldrb.s16 q3, [r1], #64\n vmlava.s16 r0, q2, q3",
            "\n vldrb.s16 q3, [r3], #64\n vmlava.s16 r8, q2, q3\n"
        )
    };
}

/// The loop over the units, whose number is in r9, two per turn.
macro_rules! units {
    () => {
        concat!(
            "lsrs r9, r9, #1\n bcc 2f\n",
            unit!(),
            "cmp r9, #0\n beq 3f\n 2:\n",
            unit!(),
            unit!(),
            "subs r9, r9, #1\n bne 2b\n 3:"
        )
    };
}

/// Moves the sums from r0 on to the first vector, those from r8 on to the second.
#[rustfmt::skip]
macro_rules! to_vectors {
    ($one:literal, $two:literal) => {
        concat!(
            "vmov ", $one, "[2], ", $one, "[0], r0, r4\n",
            "vmov ", $one, "[3], ", $one, "[1], r2, r6\n",
            "vmov ", $two, "[2], ", $two, "[0], r8, r12\n",
            "vmov ", $two, "[3], ", $two, "[1], r10, lr\n"
        )
    };
}

/// The inverse of [`to_vectors`].
macro_rules! from_vectors {
    () => {
        "vmov r0, r4, q0[2], q0[0]
        vmov r2, r6, q0[3], q0[1]
        vmov r8, r12, q1[2], q1[0]
        vmov r10, lr, q1[3], q1[1]"
    };
}

/// The values that the loop over pairs of blocks keeps in memory, because a pair uses all registers.
#[repr(C)]
struct Frame {
    fine: Walk,
    coarse: Walk,
    rows: *const RowBlock,
    sums: *mut [i32; 4],
    pairs: usize,
}

/// The fields are in the order of the registers that LDM loads.
#[derive(Clone, Copy)]
#[repr(C)]
struct Walk {
    first: *const [[i8; 16]; 4],
    second: *const [[i8; 16]; 4],
    x: *const [i16; 16],
    units: usize,
}

impl Walk {
    /// Creates the walk over `blocks` blocks; `None` if they exceed a slice, or if a block is empty.
    fn new(part: &Part<'_, '_, CortexM55>, blocks: usize) -> Option<Self> {
        let units = part.blocks.block_len;
        let all = part.blocks.units;
        let whole = units > 0 && units <= part.operand.len() && all.len() >= units * blocks;
        let first = all.as_ptr();
        whole.then_some(Self { first, second: first.wrapping_add(units), x: part.operand.as_ptr(), units })
    }

    /// Moves back by one block.
    fn back(&mut self) {
        (self.first, self.second) = (self.first.wrapping_sub(self.units), self.first);
    }
}

impl Frame {
    /// Moves back by one block; one pair is left there.
    fn back(&mut self) {
        self.fine.back();
        self.coarse.back();
        (self.rows, self.sums, self.pairs) = (self.rows.wrapping_sub(1), self.sums.wrapping_sub(1), 1);
    }
}

/// The initial values of the loop over pairs of short blocks. Those of the fine part come first.
#[repr(C)]
struct Short {
    x: [*const [i16; 16]; 2],
    weights: [*const [[i8; 16]; 4]; 2],
    rows: *const RowBlock,
    sums: *mut [i32; 4],
    pairs: usize,
}

/// Rows and sums of a block without a partner, which is paired with itself.
struct Alone {
    rows: [RowBlock; 2],
    sums: [[i32; 4]; 2],
}

impl Kernel for CortexM55 {
    const FAST: bool = true;

    #[inline(always)]
    fn sum_two(rows: &[RowBlock], fine: &Part<'_, '_, Self>, coarse: &Part<'_, '_, Self>, sums: &mut Written<'_>) {
        sum(rows, fine, coarse, sums, true);
    }

    #[inline(always)]
    fn sum_one(rows: &[RowBlock], part: &Part<'_, '_, Self>, sums: &mut Written<'_>) {
        sum(rows, part, part, sums, false);
    }
}

/// Sums every block: over both parts if `both` is set, otherwise over the fine part. Blocks of one unit have their own loop.
#[inline(always)]
fn sum(
    rows: &[RowBlock],
    fine: &Part<'_, '_, CortexM55>,
    coarse: &Part<'_, '_, CortexM55>,
    sums: &mut Written<'_>,
    both: bool,
) {
    let blocks = rows.len().min(sums.room());
    let is_short = |part: &Part<'_, '_, CortexM55>| {
        part.blocks.block_len == 1 && part.blocks.units.len() >= blocks && !part.operand.is_empty()
    };
    if blocks == 0 {
        return;
    }
    if blocks.is_multiple_of(2) && is_short(fine) && is_short(coarse) {
        let short = Short {
            x: [fine.operand.as_ptr(), coarse.operand.as_ptr()],
            weights: [fine.blocks.units.as_ptr(), coarse.blocks.units.as_ptr()],
            rows: rows.as_ptr(),
            sums: sums.as_mut_ptr(),
            pairs: blocks / 2,
        };
        // SAFETY: both parts have `blocks` blocks of one unit each and an operand of one unit; there are `rows` and
        // places in `sums` for every block.
        unsafe { if both { short_two(&short) } else { short_one(&short) } }
    } else {
        let (Some(fine), Some(coarse)) = (Walk::new(fine, blocks), Walk::new(coarse, blocks)) else { return };
        let mut frame = Frame { fine, coarse, rows: rows.as_ptr(), sums: sums.as_mut_ptr(), pairs: blocks / 2 };
        // SAFETY: both walks cover `blocks` blocks, at least one; there are `rows` and places in `sums` for every
        // block.
        unsafe { if blocks % 2 == 1 { odd(&mut frame, both) } else { pairs(&mut frame, both) } }
    }
    // SAFETY: all have been written.
    unsafe { sums.set_len(blocks) };
}

/// An odd number of blocks. The last block is summed together with the one before it, whose sums are written again.
///
/// # Safety
/// As for [`two`], with one more block than the pairs.
#[inline(never)]
unsafe fn odd(frame: &mut Frame, both: bool) {
    // SAFETY: the caller guarantees what the calls require. After whole pairs, moving back by a block leaves exactly one pair.
    unsafe {
        if frame.pairs == 0 {
            return alone(frame, both);
        }
        pairs(frame, both);
        frame.back();
        pairs(frame, both);
    }
}

/// A single block, paired with itself. A function of its own because of the stack that it needs.
///
/// # Safety
/// As for [`two`], with one block.
#[cold]
#[inline(never)]
unsafe fn alone(frame: &mut Frame, both: bool) {
    // SAFETY: there is a block, so there is an element of `rows`.
    let row = unsafe { *frame.rows };
    let (mut alone, sums) = (Alone { rows: [row; 2], sums: [[0; 4]; 2] }, frame.sums);
    (frame.rows, frame.sums, frame.pairs) = (alone.rows.as_ptr(), alone.sums.as_mut_ptr(), 1);
    (frame.fine.second, frame.coarse.second) = (frame.fine.first, frame.coarse.first);
    // SAFETY: the walks cover one block, and `alone` has two elements of rows and of sums. There is a place for the
    // sums.
    unsafe {
        pairs(frame, both);
        *sums = alone.sums[0];
    }
}

/// # Safety
/// As for [`two`].
#[inline(always)]
unsafe fn pairs(frame: &mut Frame, both: bool) {
    // SAFETY: the caller guarantees what `two` and `one` require.
    unsafe { if both { two(frame) } else { one(frame) } }
}

/// The loop over pairs of blocks. `$coarse` is the code between the sums over the fine part, in q0 and q1, and the
/// multiplication of the sums in q0 and q1.
macro_rules! pairs {
    ($frame:expr, $coarse:expr) => {
        asm!(
            "push {{r5, r6}}",
            "1:",
            "ldr r1, [r11, #32]",
            "ldm r1!, {{r0, r2, r4, r6}}",
            "adds r1, #20",
            "ldm r1, {{r8, r10, r12, lr}}",
            "ldm r11, {{r1, r3, r5, r9}}",
            units!(),
            // Advances to the next blocks; the second has the same length.
            "subs r1, r3, r1",
            "add r1, r3",
            "strd r3, r1, [r11]",
            to_vectors!("q0", "q1"),
            $coarse,
            "ldrd r1, r3, [r11, #32]",
            "vldrw.u32 q2, [r1, #16]",
            "vldrw.u32 q3, [r1, #52]",
            "vmulh.s32 q0, q0, q2",
            "vmulh.s32 q1, q1, q3",
            "vstrw.32 q0, [r3], #16",
            "vstrw.32 q1, [r3], #16",
            "adds r1, #72",
            "ldr r5, [r11, #40]",
            "strd r1, r3, [r11, #32]",
            "subs r5, r5, #1",
            "str r5, [r11, #40]",
            "bne 1b",
            "pop {{r5, r6}}",
            inout("r11") core::ptr::from_mut($frame) => _,
            out("r0") _, out("r1") _, out("r2") _, out("r3") _, out("r4") _, out("r5") _, out("r8") _, out("r9") _,
            out("r10") _, out("r12") _, out("lr") _,
            out("s0") _, out("s1") _, out("s2") _, out("s3") _, out("s4") _, out("s5") _, out("s6") _, out("s7") _,
            out("s8") _, out("s9") _, out("s10") _, out("s11") _, out("s12") _, out("s13") _, out("s14") _,
            out("s15") _,
        )
    };
}

/// # Safety
/// The walks, `rows` and `sums` must cover the pairs of blocks that the frame states, at least one. The operands must
/// have all units of a block, at least one.
#[inline(never)]
unsafe fn two(frame: &mut Frame) {
    // SAFETY: reads and writes only the memory that the caller guarantees. Elements are aligned to their size, as these
    // loads require. Offsets are those of `Frame`; a `RowBlock` has 36 bytes: start, multipliers from 16 on, shifts
    // from 32 on. r6 and the stack pointer are restored.
    unsafe {
        pairs!(
            frame,
            concat!(
                "ldr r1, [r11, #32]
                vldrb.s32 q2, [r1, #32]
                vldrb.s32 q3, [r1, #68]
                vneg.s32 q2, q2
                vneg.s32 q3, q3
                vshl.s32 q0, q0, q2
                vshl.s32 q1, q1, q3\n",
                from_vectors!(),
                "\n add r9, r11, #16
                ldm r9, {{r1, r3, r5, r9}}\n",
                units!(),
                "\n subs r1, r3, r1
                add r1, r3
                strd r3, r1, [r11, #16]\n",
                to_vectors!("q0", "q1")
            )
        );
    }
}

/// # Safety
/// As for [`two`]; the second walk is not used.
#[inline(never)]
unsafe fn one(frame: &mut Frame) {
    // SAFETY: as in `two`.
    unsafe { pairs!(frame, "") };
}

/// The products of a unit of a block, with its columns in `$x` and `$y` and its weights from `$w`, which is
/// advanced. `$first` is the operation for the first product of a row.
#[rustfmt::skip]
macro_rules! block {
    ($first:literal, $w:literal, $x:literal, $y:literal, $a:literal, $b:literal, $c:literal, $d:literal) => {
        concat!(
            row!($first, $w, 16, 24, $x, $y, $b),
            row!($first, $w, 32, 40, $x, $y, $c),
            row!($first, $w, 48, 56, $x, $y, $d),
            "vldrb.s16 q2, [", $w, ", #8]\n", $first, " ", $a, ", ", $y, ", q2\n",
            "vldrb.s16 q2, [", $w, "], #64\nvmlava.s16 ", $a, ", ", $x, ", q2\n"
        )
    };
}

/// One row of the block.
#[rustfmt::skip]
macro_rules! row {
    ($first:literal, $w:literal, $one:literal, $two:literal, $x:literal, $y:literal, $sum:literal) => {
        concat!(
            "vldrb.s16 q2, [", $w, ", #", $one, "]\n", $first, " ", $sum, ", ", $x, ", q2\n",
            "vldrb.s16 q2, [", $w, ", #", $two, "]\nvmlava.s16 ", $sum, ", ", $y, ", q2\n"
        )
    };
}

/// The sums of one block, for cells that requantize by themselves.
#[inline(never)]
pub fn dot(start: [i32; 4], block: &[[[i8; 16]; 4]], x: &[[i16; 16]]) -> [i32; 4] {
    let (units, [mut a, mut b, mut c, mut d]) = (block.len().min(x.len()), start);
    if units == 0 {
        return start;
    }
    // SAFETY: reads `units` times 64 bytes of weights and 32 of `x`, which the slices have. Elements are aligned to their
    // size, as these loads require.
    unsafe {
        asm!(
            "1:",
            "vldrh.u16 q0, [r3], #32",
            "vldrh.u16 q1, [r3, #-16]",
            block!("vmlava.s16", "r1", "q0", "q1", "r0", "r2", "r4", "r8"),
            "subs r5, r5, #1",
            "bne 1b",
            inout("r0") a, inout("r2") b, inout("r4") c, inout("r8") d,
            inout("r1") block.as_ptr() => _,
            inout("r3") x.as_ptr() => _,
            inout("r5") units => _,
            out("d0") _, out("d1") _, out("d2") _, out("d3") _, out("d4") _, out("d5") _,
            options(readonly, nostack),
        );
    }
    [a, b, c, d]
}

/// The loop over pairs of blocks of one unit: the operands stay in q4 to q7. `$coarse` is as in `pairs!`.
macro_rules! short {
    ($short:expr, $coarse:expr) => {
        asm!(
            "push {{r5, r6}}",
            "vldrh.u16 q4, [r0]",
            "vldrh.u16 q5, [r0, #16]",
            "vldrh.u16 q6, [r2]",
            "vldrh.u16 q7, [r2, #16]",
            "1:",
            "ldm r5!, {{r0, r2, r4, r6}}",
            "adds r5, #20",
            "ldm r5, {{r8, r10, r12, lr}}",
            block!("vmlava.s16", "r1", "q4", "q5", "r0", "r2", "r4", "r6"),
            block!("vmlava.s16", "r1", "q4", "q5", "r8", "r10", "r12", "lr"),
            to_vectors!("q0", "q1"),
            $coarse,
            "vldrw.u32 q2, [r5, #-20]",
            "vldrw.u32 q3, [r5, #16]",
            "vmulh.s32 q0, q0, q2",
            "vmulh.s32 q1, q1, q3",
            "vstrw.32 q0, [r9], #16",
            "vstrw.32 q1, [r9], #16",
            "adds r5, #36",
            "subs r11, r11, #1",
            "bne 1b",
            "pop {{r5, r6}}",
            inout("r0") $short.x[0] => _,
            inout("r1") $short.weights[0] => _,
            inout("r2") $short.x[1] => _,
            inout("r3") $short.weights[1] => _,
            inout("r5") $short.rows => _,
            inout("r9") $short.sums => _,
            inout("r11") $short.pairs => _,
            out("r4") _, out("r8") _, out("r10") _, out("r12") _, out("lr") _,
            out("d0") _, out("d1") _, out("d2") _, out("d3") _, out("d4") _, out("d5") _, out("d6") _, out("d7") _,
            out("d8") _, out("d9") _, out("d10") _, out("d11") _, out("d12") _, out("d13") _, out("d14") _,
            out("d15") _,
        )
    };
}

/// # Safety
/// As for [`two`]; blocks and operands have one unit.
#[inline(never)]
unsafe fn short_two(short: &Short) {
    // SAFETY: reads and writes only the memory that the caller guarantees, as in `two`. The multipliers of the first
    // block of a pair are 20 bytes, and its shifts 4 bytes, before the rows of the second.
    unsafe {
        short!(
            short,
            concat!(
                "vldrb.s32 q2, [r5, #-4]
                vldrb.s32 q3, [r5, #32]
                vneg.s32 q2, q2
                vneg.s32 q3, q3
                vshl.s32 q0, q0, q2
                vshl.s32 q1, q1, q3\n",
                block!("vmlav.s16", "r3", "q6", "q7", "r0", "r2", "r4", "r6"),
                block!("vmlav.s16", "r3", "q6", "q7", "r8", "r10", "r12", "lr"),
                to_vectors!("q2", "q3"),
                "\n vadd.i32 q0, q0, q2
                vadd.i32 q1, q1, q3"
            )
        );
    }
}

/// # Safety
/// As for [`two`]; blocks and operands have one unit. The coarse part is not used.
#[inline(never)]
unsafe fn short_one(short: &Short) {
    // SAFETY: as in `two`.
    unsafe { short!(short, "") };
}
