//! Armv8.1-M with the vector extension (Cortex-M55, M85): eight products an instruction and one to load their weights,
//! 0.27 instructions a product. Elsewhere the same in plain Rust.

use super::{CortexM55, Kernel};
#[cfg(all(target_arch = "arm", feature = "mve"))]
use super::{Part, Written};
#[cfg(all(target_arch = "arm", feature = "mve"))]
use crate::quant::RowBlock;

impl Kernel for CortexM55 {
    type Unit = [[i8; 16]; 4];
    type Operand<'x> = &'x [[i16; 16]];

    const FAST: bool = cfg!(all(target_arch = "arm", feature = "mve"));

    fn block_len(cols: usize) -> usize {
        cols.div_ceil(16)
    }

    fn operand(x: &[i16], _: usize) -> &[[i16; 16]] {
        x.as_chunks().0
    }

    fn dot(start: [i32; 4], block: &[[[i8; 16]; 4]], x: &[[i16; 16]]) -> [i32; 4] {
        let mut sums = start;
        for (rows, x) in block.iter().zip(x) {
            for (sum, row) in sums.iter_mut().zip(rows) {
                let products = row.iter().zip(x).map(|(&w, &x)| i32::from(w) * i32::from(x));
                *sum = products.fold(*sum, i32::wrapping_add);
            }
        }
        sums
    }

    #[cfg(all(target_arch = "arm", feature = "mve"))]
    #[inline(always)]
    fn sum_two(rows: &[RowBlock], fine: &Part<'_, '_, Self>, coarse: &Part<'_, '_, Self>, sums: &mut Written<'_>) {
        imp::sum_two(rows, fine, coarse, sums);
    }

    #[cfg(all(target_arch = "arm", feature = "mve"))]
    #[inline(always)]
    fn sum_one(rows: &[RowBlock], part: &Part<'_, '_, Self>, sums: &mut Written<'_>) {
        imp::sum_one(rows, part, sums);
    }
}

/// The assembler refuses these instructions where the core that the build is for has none of them.
#[cfg(all(target_arch = "arm", feature = "mve"))]
#[expect(unsafe_code)]
mod imp {
    use core::arch::asm;

    use crate::kernel::{CortexM55, Part, Written};
    use crate::quant::RowBlock;

    /// Eight columns of two blocks: `x` in q2, weights through q3, those of the first block from r1 on, those of the
    /// second from r3 on, sums in r0, r2, r4, r6 and r8, r10, r12, lr. The first row of each is left to the caller.
    macro_rules! eight {
        ($one:literal, $two:literal, $three:literal) => {
            concat!(
                "\n vldrb.s16 q3, [r1, #",
                $one,
                "]\n vmlava.s16 r2, q2, q3",
                "\n vldrb.s16 q3, [r3, #",
                $one,
                "]\n vmlava.s16 r10, q2, q3",
                "\n vldrb.s16 q3, [r1, #",
                $two,
                "]\n vmlava.s16 r4, q2, q3",
                "\n vldrb.s16 q3, [r3, #",
                $two,
                "]\n vmlava.s16 r12, q2, q3",
                "\n vldrb.s16 q3, [r1, #",
                $three,
                "]\n vmlava.s16 r6, q2, q3",
                "\n vldrb.s16 q3, [r3, #",
                $three,
                "]\n vmlava.s16 lr, q2, q3\n"
            )
        };
    }

    /// A unit of two blocks, with the columns from r5 on.
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

    /// As many units as r9 says, two a turn.
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

    /// The sums from r0 on to the first, those from r8 on to the second.
    macro_rules! to_vectors {
        ($one:literal, $two:literal) => {
            concat!(
                "vmov ",
                $one,
                "[2], ",
                $one,
                "[0], r0, r4\n",
                "vmov ",
                $one,
                "[3], ",
                $one,
                "[1], r2, r6\n",
                "vmov ",
                $two,
                "[2], ",
                $two,
                "[0], r8, r12\n",
                "vmov ",
                $two,
                "[3], ",
                $two,
                "[1], r10, lr\n"
            )
        };
    }

    /// [`to_vectors`] the other way.
    macro_rules! from_vectors {
        () => {
            "vmov r0, r4, q0[2], q0[0]
            vmov r2, r6, q0[3], q0[1]
            vmov r8, r12, q1[2], q1[0]
            vmov r10, lr, q1[3], q1[1]"
        };
    }

    /// What the loop over pairs of blocks keeps in memory: all registers are in use within a pair.
    #[repr(C)]
    struct Frame {
        fine: Walk,
        coarse: Walk,
        rows: *const RowBlock,
        sums: *mut [i32; 4],
        pairs: usize,
    }

    /// In the order of the registers that LDM fills.
    #[derive(Clone, Copy)]
    #[repr(C)]
    struct Walk {
        first: *const [[i8; 16]; 4],
        second: *const [[i8; 16]; 4],
        x: *const [i16; 16],
        units: usize,
    }

    impl Walk {
        /// None if so many blocks go past a slice, or there is nothing to do.
        fn new(part: &Part<'_, '_, CortexM55>, blocks: usize) -> Option<Self> {
            let units = part.blocks.block_len;
            let all = part.blocks.units;
            let whole = units > 0 && units <= part.operand.len() && all.len() >= units * blocks;
            let first = all.as_ptr();
            whole.then_some(Self { first, second: first.wrapping_add(units), x: part.operand.as_ptr(), units })
        }

        /// One block further back.
        fn back(&mut self) {
            (self.first, self.second) = (self.first.wrapping_sub(self.units), self.first);
        }
    }

    impl Frame {
        /// One block further back, and the pair there left.
        fn back(&mut self) {
            self.fine.back();
            self.coarse.back();
            (self.rows, self.sums, self.pairs) = (self.rows.wrapping_sub(1), self.sums.wrapping_sub(1), 1);
        }
    }

    /// What the loop over pairs of short blocks begins with: those of the fine part first.
    #[repr(C)]
    struct Short {
        x: [*const [i16; 16]; 2],
        weights: [*const [[i8; 16]; 4]; 2],
        rows: *const RowBlock,
        sums: *mut [i32; 4],
        pairs: usize,
    }

    /// A block without another is summed twice, beside itself: this is what it has for rows and sums.
    struct Alone {
        rows: [RowBlock; 2],
        sums: [[i32; 4]; 2],
    }

    /// Start, sum of the fine part, shift, sum of the coarse part, multiplication, of every block.
    #[inline(always)]
    pub fn sum_two(
        rows: &[RowBlock],
        fine: &Part<'_, '_, CortexM55>,
        coarse: &Part<'_, '_, CortexM55>,
        sums: &mut Written<'_>,
    ) {
        sum(rows, fine, coarse, sums, true);
    }

    /// Start, sum, multiplication, of every block.
    #[inline(always)]
    pub fn sum_one(rows: &[RowBlock], part: &Part<'_, '_, CortexM55>, sums: &mut Written<'_>) {
        sum(rows, part, part, sums, false);
    }

    /// Of every block, over `both` parts or the fine one. Blocks of one unit take a way of their own.
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
            // SAFETY: both parts have as many blocks of a unit and a unit of columns; there are as many `rows`, and places
            // for `sums`.
            unsafe { if both { short_two(&short) } else { short_one(&short) } }
        } else {
            let (Some(fine), Some(coarse)) = (Walk::new(fine, blocks), Walk::new(coarse, blocks)) else { return };
            let mut frame = Frame { fine, coarse, rows: rows.as_ptr(), sums: sums.as_mut_ptr(), pairs: blocks / 2 };
            // SAFETY: both walks go over as many blocks, at least one; there are as many `rows`, and places for `sums`.
            unsafe { if blocks % 2 == 1 { odd(&mut frame, both) } else { pairs(&mut frame, both) } }
        }
        // SAFETY: all have been written.
        unsafe { sums.set_len(blocks) };
    }

    /// Of a block more than the pairs, which is summed with the one before it, whose sums are written again.
    ///
    /// # Safety
    /// As for [`two`], of a block more.
    #[inline(never)]
    unsafe fn odd(frame: &mut Frame, both: bool) {
        // SAFETY: the caller's promise. Behind whole pairs, one block further back there is one more.
        unsafe {
            if frame.pairs == 0 {
                return alone(frame, both);
            }
            pairs(frame, both);
            frame.back();
            pairs(frame, both);
        }
    }

    /// The only block, summed beside itself. By itself, for the stack that this takes.
    ///
    /// # Safety
    /// As for [`two`], of one block.
    #[cold]
    #[inline(never)]
    unsafe fn alone(frame: &mut Frame, both: bool) {
        // SAFETY: there is a block, and so are its rows.
        let row = unsafe { *frame.rows };
        let (mut alone, sums) = (Alone { rows: [row; 2], sums: [[0; 4]; 2] }, frame.sums);
        (frame.rows, frame.sums, frame.pairs) = (alone.rows.as_ptr(), alone.sums.as_mut_ptr(), 1);
        (frame.fine.second, frame.coarse.second) = (frame.fine.first, frame.coarse.first);
        // SAFETY: the walks go over a block, and `alone` has two of rows and sums. There is a place for the sums.
        unsafe {
            pairs(frame, both);
            *sums = alone.sums[0];
        }
    }

    /// # Safety
    /// As for [`two`].
    #[inline(always)]
    unsafe fn pairs(frame: &mut Frame, both: bool) {
        // SAFETY: the caller's promise.
        unsafe { if both { two(frame) } else { one(frame) } }
    }

    /// The loop over pairs of blocks. `$coarse` is what is between the sums over the fine part, in q0 and q1, and the
    /// multiplication of those in q0 and q1.
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
                // The blocks behind these: as long as the second.
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
    /// The walks' blocks, `rows` and `sums` have as many pairs, and at least one, as the frame says; the operands have as
    /// many units as a block, at least one.
    #[inline(never)]
    unsafe fn two(frame: &mut Frame) {
        // SAFETY: reads and writes what the caller promises. Elements are aligned to their size, as these loads need.
        // Offsets are those of `Frame`; a `RowBlock` has 36 bytes: start, multipliers from 16 on, shifts from 32 on. r6
        // and the stack pointer are restored.
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
    /// As for [`two`]; of the walks the second is not used.
    #[inline(never)]
    unsafe fn one(frame: &mut Frame) {
        // SAFETY: as in `two`.
        unsafe { pairs!(frame, "") };
    }

    /// The products of a unit of a block, whose columns are in `$x` and `$y`, from `$w` on, which is moved behind it. `$first`
    /// is what is done with the first product of a row.
    macro_rules! block {
        ($first:literal, $w:literal, $x:literal, $y:literal, $a:literal, $b:literal, $c:literal, $d:literal) => {
            concat!(
                row!($first, $w, 16, 24, $x, $y, $b),
                row!($first, $w, 32, 40, $x, $y, $c),
                row!($first, $w, 48, 56, $x, $y, $d),
                "vldrb.s16 q2, [",
                $w,
                ", #8]\n",
                $first,
                " ",
                $a,
                ", ",
                $y,
                ", q2\n",
                "vldrb.s16 q2, [",
                $w,
                "], #64\nvmlava.s16 ",
                $a,
                ", ",
                $x,
                ", q2\n"
            )
        };
    }

    /// A row of it.
    macro_rules! row {
        ($first:literal, $w:literal, $one:literal, $two:literal, $x:literal, $y:literal, $sum:literal) => {
            concat!(
                "vldrb.s16 q2, [",
                $w,
                ", #",
                $one,
                "]\n",
                $first,
                " ",
                $sum,
                ", ",
                $x,
                ", q2\n",
                "vldrb.s16 q2, [",
                $w,
                ", #",
                $two,
                "]\nvmlava.s16 ",
                $sum,
                ", ",
                $y,
                ", q2\n"
            )
        };
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
        // SAFETY: reads and writes what the caller promises, as in `two`; the first block of a pair has its multipliers 20 bytes
        // and its shifts 4 bytes before the second's rows.
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
}
