//! Sums in f32 on a Cortex-M with a floating-point unit: weights come sixteen at a time, and VMLA rounds the product
//! before it adds, as the scalar code does, so that the bits are the same. 1.25 instructions a product; with f16, which
//! the unit widens, 2.1. Sums go through memory, since stable Rust has no operands in this unit's registers.

use core::arch::asm;

use half::f16;

/// Four columns of f32: weights from {w} on, operand from {x} on, sums in s0 to s3.
macro_rules! four_columns {
    () => {
        "vldmia {x}!, {{s4-s7}}
        vldmia {w}!, {{s16-s31}}
        vmla.f32 s0, s16, s4
        vmla.f32 s1, s17, s4
        vmla.f32 s2, s18, s4
        vmla.f32 s3, s19, s4
        vmla.f32 s0, s20, s5
        vmla.f32 s1, s21, s5
        vmla.f32 s2, s22, s5
        vmla.f32 s3, s23, s5
        vmla.f32 s0, s24, s6
        vmla.f32 s1, s25, s6
        vmla.f32 s2, s26, s6
        vmla.f32 s3, s27, s6
        vmla.f32 s0, s28, s7
        vmla.f32 s1, s29, s7
        vmla.f32 s2, s30, s7
        vmla.f32 s3, s31, s7"
    };
}

/// A column of f16 in two registers with an operand's element in a third.
macro_rules! half_column {
    ($low:literal, $high:literal, $x:literal) => {
        concat!(
            "vcvtb.f32.f16 s14, ",
            $low,
            "\n vcvtt.f32.f16 s15, ",
            $low,
            "\n vmla.f32 s0, s14, ",
            $x,
            "\n vmla.f32 s1, s15, ",
            $x,
            "\n vcvtb.f32.f16 s14, ",
            $high,
            "\n vcvtt.f32.f16 s15, ",
            $high,
            "\n vmla.f32 s2, s14, ",
            $x,
            "\n vmla.f32 s3, s15, ",
            $x,
            "\n"
        )
    };
}

/// Eight columns of f16.
macro_rules! eight_half_columns {
    () => {
        concat!(
            "vldmia {x}!, {{s4-s11}}\n vldmia {w}!, {{s16-s31}}\n",
            half_column!("s16", "s17", "s4"),
            half_column!("s18", "s19", "s5"),
            half_column!("s20", "s21", "s6"),
            half_column!("s22", "s23", "s7"),
            half_column!("s24", "s25", "s8"),
            half_column!("s26", "s27", "s9"),
            half_column!("s28", "s29", "s10"),
            half_column!("s30", "s31", "s11")
        )
    };
}

/// [`scalar::accumulate`](super::scalar::accumulate)
pub fn accumulate(mut acc: [f32; 4], block: &[[f32; 4]], x: &[f32]) -> [f32; 4] {
    let columns = block.len().min(x.len());
    // SAFETY: reads `columns` times 16 bytes of weights and 4 of `x`, which both slices have, aligned to f32; and writes
    // `acc`.
    unsafe {
        asm!(
            "vldmia {acc}, {{s0-s3}}",
            "cmp {fours}, #0",
            "beq 3f",
            "2:",
            four_columns!(),
            "subs {fours}, {fours}, #1",
            "bne 2b",
            "3:",
            "cmp {ones}, #0",
            "beq 5f",
            "4:",
            "vldmia {x}!, {{s4}}",
            "vldmia {w}!, {{s16-s19}}",
            "vmla.f32 s0, s16, s4",
            "vmla.f32 s1, s17, s4",
            "vmla.f32 s2, s18, s4",
            "vmla.f32 s3, s19, s4",
            "subs {ones}, {ones}, #1",
            "bne 4b",
            "5:",
            "vstmia {acc}, {{s0-s3}}",
            acc = in(reg) &raw mut acc,
            w = inout(reg) block.as_ptr() => _,
            x = inout(reg) x.as_ptr() => _,
            fours = inout(reg) columns / 4 => _,
            ones = inout(reg) columns % 4 => _,
            out("s0") _, out("s1") _, out("s2") _, out("s3") _, out("s4") _, out("s5") _, out("s6") _, out("s7") _,
            out("s16") _, out("s17") _, out("s18") _, out("s19") _, out("s20") _, out("s21") _, out("s22") _,
            out("s23") _, out("s24") _, out("s25") _, out("s26") _, out("s27") _, out("s28") _, out("s29") _,
            out("s30") _, out("s31") _,
            options(nostack),
        );
    }
    acc
}

/// [`scalar::accumulate`](super::scalar::accumulate)
pub fn accumulate_half(mut acc: [f32; 4], block: &[[f16; 4]], x: &[f32]) -> [f32; 4] {
    let columns = block.len().min(x.len());
    // Tensors are aligned to more than that.
    let Ok(words) = bytemuck::try_cast_slice::<_, [u32; 2]>(block) else {
        return super::scalar::accumulate(acc, block, x);
    };
    // SAFETY: reads `columns` times 8 bytes of weights and 4 of `x`, which both slices have, aligned to words; and
    // writes `acc`.
    unsafe {
        asm!(
            "vldmia {acc}, {{s0-s3}}",
            // Two eights a turn; an odd number of them begins with the second.
            "adds {eights}, {eights}, #1",
            "lsrs {eights}, {eights}, #1",
            "beq 3f",
            "bcc 6f",
            "2:",
            eight_half_columns!(),
            "6:",
            eight_half_columns!(),
            "subs {eights}, {eights}, #1",
            "bne 2b",
            "3:",
            "cmp {ones}, #0",
            "beq 5f",
            "4:",
            "vldmia {x}!, {{s4}}",
            "vldmia {w}!, {{s16-s17}}",
            half_column!("s16", "s17", "s4"),
            "subs {ones}, {ones}, #1",
            "bne 4b",
            "5:",
            "vstmia {acc}, {{s0-s3}}",
            acc = in(reg) &raw mut acc,
            w = inout(reg) words.as_ptr() => _,
            x = inout(reg) x.as_ptr() => _,
            eights = inout(reg) columns / 8 => _,
            ones = inout(reg) columns % 8 => _,
            out("s0") _, out("s1") _, out("s2") _, out("s3") _, out("s4") _, out("s5") _, out("s6") _, out("s7") _, out("s8") _, out("s9") _, out("s10") _,
            out("s11") _, out("s14") _, out("s15") _,
            out("s16") _, out("s17") _, out("s18") _, out("s19") _, out("s20") _, out("s21") _, out("s22") _,
            out("s23") _, out("s24") _, out("s25") _, out("s26") _, out("s27") _, out("s28") _, out("s29") _,
            out("s30") _, out("s31") _,
            options(nostack),
        );
    }
    acc
}
