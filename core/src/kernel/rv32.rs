//! RV32IM (ESP32-C3 and C6, CH32V, Hazard3): a load, a product and an addition for each weight. Blocks of four rows are
//! summed four at a time, so that one load of x serves 16 rows: 3.11 instructions per product in long rows.

use super::frame::Frame;
use super::{Kernel, Part, Portable, Written};
use crate::quant::RowBlock;

/// The products of a column of a block: weights `$at` columns after the pointer, x in t3, four sums.
#[rustfmt::skip]
macro_rules! products {
    ($at:literal, $weights:literal, $a:literal, $b:literal, $c:literal, $d:literal) => {
        concat!(
            "lb t4, 4*", $at, "(", $weights, ")\n",
            "lb t5, 4*", $at, "+1(", $weights, ")\n",
            "mul t4, t4, t3\n",
            "mul t5, t5, t3\n",
            "add ", $a, ", ", $a, ", t4\n",
            "lb t4, 4*", $at, "+2(", $weights, ")\n",
            "add ", $b, ", ", $b, ", t5\n",
            "lb t5, 4*", $at, "+3(", $weights, ")\n",
            "mul t4, t4, t3\n",
            "mul t5, t5, t3\n",
            "add ", $c, ", ", $c, ", t4\n",
            "add ", $d, ", ", $d, ", t5\n",
        )
    };
}

/// A column of one block.
#[rustfmt::skip]
macro_rules! one {
    ($at:literal) => {
        concat!("lh t3, 2*", $at, "(t2)\n", products!($at, "s10", "a0", "a1", "a2", "a3"))
    };
}

/// A column of four blocks.
#[rustfmt::skip]
macro_rules! four {
    ($at:literal) => {
        concat!(
            one!($at),
            products!($at, "s11", "a4", "a5", "a6", "a7"),
            products!($at, "t0", "s2", "s3", "s4", "s5"),
            products!($at, "t1", "s6", "s7", "s8", "s9"),
        )
    };
}

/// A subroutine that adds the part at t3 to the sums and returns to ra. It processes the columns beyond whole turns first,
/// if there are any, then turns of `$columns` columns. `$next` advances the pointers to weights. At the end they point past
/// the blocks, the part is at t5, and the frame at t3.
#[rustfmt::skip]
macro_rules! part {
    ($start:expr, $column:ident, $next:ident, $columns:literal, $turn:expr) => {
        concat!(
            "sw t3, 4(sp)
            lw t5, 0(t3)
            lw s10, 4(t3)
            lw t2, 8(t3)
            slli t4, t5, 2\n",
            $start,
            "slli t6, t5, 1
            add t6, t6, t2
            andi t5, t5, ", $columns, "-1
            beqz t5, 5f
            slli t5, t5, 1
            add t6, t2, t5
            3:\n",
            $column!("0"),
            $next!("4"),
            "addi t2, t2, 2
            bne t2, t6, 3b
            lw t3, 4(sp)
            lw t4, 0(t3)
            lw t5, 8(t3)
            slli t4, t4, 1
            add t6, t5, t4
            beq t2, t6, 6f
            5:\n",
            $turn,
            $next!("4*", $columns),
            "addi t2, t2, 2*", $columns, "
            bne t2, t6, 5b
            6:
            lw t5, 4(sp)
            lw t3, 0(sp)\n",
        )
    };
}

#[rustfmt::skip]
macro_rules! next_one {
    ($($bytes:literal),*) => {
        concat!("addi s10, s10, ", $($bytes,)* "\n")
    };
}

#[rustfmt::skip]
macro_rules! next_four {
    ($($bytes:literal),*) => {
        concat!(
            next_one!($($bytes),*),
            "addi s11, s11, ", $($bytes,)* "\n addi t0, t0, ", $($bytes,)* "\n addi t1, t1, ", $($bytes,)* "\n",
        )
    };
}

/// Loads the initial values of a block's sums from the rows at t4.
#[rustfmt::skip]
macro_rules! start {
    ($at:literal, $a:literal, $b:literal, $c:literal, $d:literal) => {
        concat!(
            "lw ", $a, ", ", $at, "(t4)\n lw ", $b, ", ", $at, "+4(t4)\n",
            "lw ", $c, ", ", $at, "+8(t4)\n lw ", $d, ", ", $at, "+12(t4)\n",
        )
    };
}

/// Shifts the finer sums of a block by the shifts in the rows at t4.
#[rustfmt::skip]
macro_rules! shift {
    ($at:literal, $a:literal, $b:literal, $c:literal, $d:literal) => {
        concat!(
            "lw t5, ", $at, "+32(t4)\n",
            "sra ", $a, ", ", $a, ", t5\n srli t5, t5, 8\n",
            "sra ", $b, ", ", $b, ", t5\n srli t5, t5, 8\n",
            "sra ", $c, ", ", $c, ", t5\n srli t5, t5, 8\n",
            "sra ", $d, ", ", $d, ", t5\n",
        )
    };
}

/// Multiplies the sums of a block by the multipliers in the rows at t4, and stores the results `$to` bytes after t6.
#[rustfmt::skip]
macro_rules! scale {
    ($at:literal, $to:literal, $a:literal, $b:literal, $c:literal, $d:literal) => {
        concat!(
            "lw t0, ", $at, "+16(t4)\n lw t1, ", $at, "+20(t4)\n",
            "lw t2, ", $at, "+24(t4)\n lw t5, ", $at, "+28(t4)\n",
            "mulh ", $a, ", ", $a, ", t0\n mulh ", $b, ", ", $b, ", t1\n",
            "mulh ", $c, ", ", $c, ", t2\n mulh ", $d, ", ", $d, ", t5\n",
            "sw ", $a, ", ", $to, "(t6)\n sw ", $b, ", ", $to, "+4(t6)\n",
            "sw ", $c, ", ", $to, "+8(t6)\n sw ", $d, ", ", $to, "+12(t6)\n",
        )
    };
}

/// The sums of all blocks of the frame, at least one.
///
/// # Safety
/// The parts must have all units of the blocks, four bytes each, the operands all elements of a block, two bytes each, and
/// there must be rows and places for every block. A coarse part of length 0 is absent.
#[inline(never)]
#[rustfmt::skip]
unsafe fn sum(frame: &mut Frame<[i8; 4], i16>) {
    // SAFETY: reads and writes only the memory that the caller guarantees. The stack pointer is restored.
    unsafe {
        core::arch::asm!(
            "addi sp, sp, -16",
            "sw t3, 0(sp)",
            "j 8f",

            // Four blocks.
            "7:",
            "lw t4, 24(t3)",
            start!("0", "a0", "a1", "a2", "a3"), start!("36", "a4", "a5", "a6", "a7"),
            start!("72", "s2", "s3", "s4", "s5"), start!("108", "s6", "s7", "s8", "s9"),
            "jal ra, 20f",
            "lw t4, 12(t3)",
            "beqz t4, 9f",
            "lw t4, 24(t3)",
            shift!("0", "a0", "a1", "a2", "a3"), shift!("36", "a4", "a5", "a6", "a7"),
            shift!("72", "s2", "s3", "s4", "s5"), shift!("108", "s6", "s7", "s8", "s9"),
            "addi t3, t3, 12",
            "jal ra, 20f",
            "9:",
            "lw t4, 24(t3)",
            "lw t6, 28(t3)",
            scale!("0", "0", "a0", "a1", "a2", "a3"), scale!("36", "16", "a4", "a5", "a6", "a7"),
            scale!("72", "32", "s2", "s3", "s4", "s5"), scale!("108", "48", "s6", "s7", "s8", "s9"),
            "addi t4, t4, 4*36",
            "addi t6, t6, 4*16",
            "sw t4, 24(t3)",
            "sw t6, 28(t3)",
            "8:",
            "lw t5, 32(t3)",
            "addi t5, t5, -4",
            "sw t5, 32(t3)",
            "bgez t5, 7b",
            "addi t5, t5, 4",
            "beqz t5, 30f",

            // The blocks that are left, one at a time.
            "10:",
            "sw t5, 32(t3)",
            "lw t4, 24(t3)",
            start!("0", "a0", "a1", "a2", "a3"),
            "jal ra, 21f",
            "lw t4, 12(t3)",
            "beqz t4, 11f",
            "lw t4, 24(t3)",
            shift!("0", "a0", "a1", "a2", "a3"),
            "addi t3, t3, 12",
            "jal ra, 21f",
            "11:",
            "lw t4, 24(t3)",
            "lw t6, 28(t3)",
            scale!("0", "0", "a0", "a1", "a2", "a3"),
            "addi t4, t4, 36",
            "addi t6, t6, 16",
            "sw t4, 24(t3)",
            "sw t6, 28(t3)",
            "lw t5, 32(t3)",
            "addi t5, t5, -1",
            "bnez t5, 10b",
            "j 30f",

            "20:",
            part!(
                "add s11, s10, t4\n add t0, s11, t4\n add t1, t0, t4\n",
                four,
                next_four,
                "8",
                concat!(four!("0"), four!("1"), four!("2"), four!("3"), four!("4"), four!("5"), four!("6"), four!("7"))
            ),
            "sw t1, 4(t5)",
            "ret",
            "21:",
            part!("", one, next_one, "4", concat!(one!("0"), one!("1"), one!("2"), one!("3"))),
            "sw s10, 4(t5)",
            "ret",

            "30:",
            "addi sp, sp, 16",
            inout("t3") frame => _,
            out("a0") _, out("a1") _, out("a2") _, out("a3") _, out("a4") _, out("a5") _, out("a6") _, out("a7") _,
            out("s2") _, out("s3") _, out("s4") _, out("s5") _, out("s6") _, out("s7") _, out("s8") _, out("s9") _,
            out("s10") _, out("s11") _, out("t0") _, out("t1") _, out("t2") _, out("t4") _, out("t5") _, out("t6") _,
            out("ra") _,
        );
    }
}

impl Kernel for Portable {
    fn sum_two(rows: &[RowBlock], fine: &Part<'_, '_, Self>, coarse: &Part<'_, '_, Self>, sums: &mut Written<'_>) {
        let coarse = Some((coarse.blocks, coarse.operand));
        let Some(mut frame) = Frame::new(rows, (fine.blocks, fine.operand), coarse, sums) else { return };
        let blocks = frame.blocks;
        // SAFETY: `Frame::new` has checked what `sum` requires. It has written the sums of all blocks.
        unsafe {
            sum(&mut frame);
            sums.set_len(blocks);
        }
    }

    fn sum_one(rows: &[RowBlock], part: &Part<'_, '_, Self>, sums: &mut Written<'_>) {
        let Some(mut frame) = Frame::new(rows, (part.blocks, part.operand), None, sums) else { return };
        let blocks = frame.blocks;
        // SAFETY: as in `sum_two`.
        unsafe {
            sum(&mut frame);
            sums.set_len(blocks);
        }
    }
}
