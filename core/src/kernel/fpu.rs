//! Sums in f32 on a Cortex-M with a floating-point unit. Weights are loaded sixteen at a time, and the product is
//! rounded before it is added, as in the scalar code. VMUL and VADD take two cycles where VMLA takes three (Cortex-M4
//! Technical Reference Manual, table 7-1). A product takes 2.25 instructions, or 3.1 with f16, which the unit widens.
//! Sums are passed through memory, because stable Rust has no asm operands in registers of this unit.

use core::arch::asm;

use half::f16;

/// {n} columns of f32: weights from {w}, the operand from {x}; sums in s0 to s3.
macro_rules! columns {
    () => {
        "subs {n}, {n}, #4
        blo 3f
        2:
        vldmia {x}!, {{s4-s7}}
        vldmia {w}!, {{s16-s31}}
        vmul.f32 s16, s16, s4
        vmul.f32 s17, s17, s4
        vmul.f32 s18, s18, s4
        vmul.f32 s19, s19, s4
        vadd.f32 s0, s0, s16
        vadd.f32 s1, s1, s17
        vadd.f32 s2, s2, s18
        vadd.f32 s3, s3, s19
        vmul.f32 s20, s20, s5
        vmul.f32 s21, s21, s5
        vmul.f32 s22, s22, s5
        vmul.f32 s23, s23, s5
        vadd.f32 s0, s0, s20
        vadd.f32 s1, s1, s21
        vadd.f32 s2, s2, s22
        vadd.f32 s3, s3, s23
        vmul.f32 s24, s24, s6
        vmul.f32 s25, s25, s6
        vmul.f32 s26, s26, s6
        vmul.f32 s27, s27, s6
        vadd.f32 s0, s0, s24
        vadd.f32 s1, s1, s25
        vadd.f32 s2, s2, s26
        vadd.f32 s3, s3, s27
        vmul.f32 s28, s28, s7
        vmul.f32 s29, s29, s7
        vmul.f32 s30, s30, s7
        vmul.f32 s31, s31, s7
        vadd.f32 s0, s0, s28
        vadd.f32 s1, s1, s29
        vadd.f32 s2, s2, s30
        vadd.f32 s3, s3, s31
        subs {n}, {n}, #4
        bhs 2b
        3:
        adds {n}, {n}, #4
        beq 5f
        4:
        vldmia {x}!, {{s4}}
        vldmia {w}!, {{s16-s19}}
        vmul.f32 s16, s16, s4
        vmul.f32 s17, s17, s4
        vmul.f32 s18, s18, s4
        vmul.f32 s19, s19, s4
        vadd.f32 s0, s0, s16
        vadd.f32 s1, s1, s17
        vadd.f32 s2, s2, s18
        vadd.f32 s3, s3, s19
        subs {n}, {n}, #1
        bne 4b
        5:"
    };
}

/// A column of f16 in two registers, and an element of the operand in a third.
#[rustfmt::skip]
macro_rules! half_column {
    ($low:literal, $high:literal, $x:literal) => {
        concat!(
            "vcvtb.f32.f16 s14, ", $low, "\n vcvtt.f32.f16 s15, ", $low,
            "\n vmul.f32 s14, s14, ", $x, "\n vmul.f32 s15, s15, ", $x,
            "\n vadd.f32 s0, s0, s14\n vadd.f32 s1, s1, s15",
            "\n vcvtb.f32.f16 s14, ", $high, "\n vcvtt.f32.f16 s15, ", $high,
            "\n vmul.f32 s14, s14, ", $x, "\n vmul.f32 s15, s15, ", $x,
            "\n vadd.f32 s2, s2, s14\n vadd.f32 s3, s3, s15\n"
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
    // SAFETY: reads `columns` times 16 bytes of weights and 4 of `x`, which the slices have, aligned to f32, and writes
    // `acc`.
    unsafe {
        asm!(
            "vldmia {acc}, {{s0-s3}}",
            columns!(),
            "vstmia {acc}, {{s0-s3}}",
            acc = in(reg) &raw mut acc,
            w = inout(reg) block.as_ptr() => _,
            x = inout(reg) x.as_ptr() => _,
            n = inout(reg) columns => _,
            out("s0") _, out("s1") _, out("s2") _, out("s3") _, out("s4") _, out("s5") _, out("s6") _, out("s7") _,
            out("s16") _, out("s17") _, out("s18") _, out("s19") _, out("s20") _, out("s21") _, out("s22") _,
            out("s23") _, out("s24") _, out("s25") _, out("s26") _, out("s27") _, out("s28") _, out("s29") _,
            out("s30") _, out("s31") _,
            options(nostack),
        );
    }
    acc
}

/// The fields are in the order of the registers that LDRD loads.
#[repr(C)]
struct Operand {
    x: *const f32,
    len: usize,
}

/// [`Weight::sum_two`](super::Weight::sum_two)
#[inline(always)]
pub fn sum_two(
    bias: &[[f32; 4]],
    (input, x): (&[[f32; 4]], &[f32]),
    (recurrent, h): (&[[f32; 4]], &[f32]),
    sums: &mut [[f32; 4]],
) {
    let blocks = bias.len().min(sums.len());
    if blocks == 0 || input.len() < blocks * x.len() || recurrent.len() < blocks * h.len() {
        return;
    }
    let parts = [Operand { x: x.as_ptr(), len: x.len() }, Operand { x: h.as_ptr(), len: h.len() }];
    // SAFETY: for each of `blocks` blocks it reads 16 bytes of biases and, for each element of `x` and `h`, 16 bytes of
    // weights and the element, and writes 16 bytes of sums. The slices have them all, aligned to f32.
    unsafe {
        asm!(
            "1:",
            "vldmia {bias}!, {{s0-s3}}",
            "ldrd {x}, {n}, [{parts}]",
            columns!(),
            "ldrd {x}, {n}, [{parts}, #8]",
            "mov {spare}, {w}",
            "mov {w}, {r}",
            columns!(),
            "mov {r}, {w}",
            "mov {w}, {spare}",
            "vstmia {sums}!, {{s0-s3}}",
            "subs {blocks}, {blocks}, #1",
            "bne 1b",
            parts = in(reg) &raw const parts,
            bias = inout(reg) bias.as_ptr() => _,
            w = inout(reg) input.as_ptr() => _,
            r = inout(reg) recurrent.as_ptr() => _,
            sums = inout(reg) sums.as_mut_ptr() => _,
            blocks = inout(reg) blocks => _,
            x = out(reg) _,
            n = out(reg) _,
            spare = out(reg) _,
            out("s0") _, out("s1") _, out("s2") _, out("s3") _, out("s4") _, out("s5") _, out("s6") _, out("s7") _,
            out("s16") _, out("s17") _, out("s18") _, out("s19") _, out("s20") _, out("s21") _, out("s22") _,
            out("s23") _, out("s24") _, out("s25") _, out("s26") _, out("s27") _, out("s28") _, out("s29") _,
            out("s30") _, out("s31") _,
            options(nostack),
        );
    }
}

/// [`scalar::accumulate`](super::scalar::accumulate)
pub fn accumulate_half(mut acc: [f32; 4], block: &[[f16; 4]], x: &[f32]) -> [f32; 4] {
    let columns = block.len().min(x.len());
    // Always succeeds: tensors have a greater alignment.
    let Ok(words) = bytemuck::try_cast_slice::<_, [u32; 2]>(block) else {
        return super::scalar::accumulate(acc, block, x);
    };
    // SAFETY: reads `columns` times 8 bytes of weights and 4 of `x`, which the slices have, aligned to words, and
    // writes `acc`.
    unsafe {
        asm!(
            "vldmia {acc}, {{s0-s3}}",
            // Two groups of eight columns per turn; an odd number of groups starts with the second.
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
