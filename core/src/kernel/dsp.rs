//! Armv7E-M and Armv8-M with the DSP extension (Cortex-M4, M7, M33): two products an instruction, 1.19 instructions a
//! product. Elsewhere the same in plain Rust.

use super::{CortexM4, Kernel};
#[cfg(all(target_arch = "arm", feature = "dsp"))]
use crate::quant::RowBlock;

impl Kernel for CortexM4 {
    const COLUMNS: usize = 4;
    /// Four columns of four rows, a word a row: columns 0, 2, 1, 3.
    type Unit = [u32; 4];
    /// Four columns, two in a word.
    type Operand<'x> = &'x [[u32; 2]];

    fn operand(x: &[i16], _: usize) -> &[[u32; 2]] {
        // Slots and states begin on whole words.
        bytemuck::try_cast_slice(x.as_chunks::<4>().0).unwrap_or_default()
    }

    fn dot(block: &[[u32; 4]], x: &[[u32; 2]]) -> [i32; 4] {
        let mut sums = [0; 4];
        for (rows, &x) in block.iter().zip(x) {
            let x: [i16; 4] = bytemuck::must_cast(x);
            for (sum, &row) in sums.iter_mut().zip(rows) {
                let [w0, w2, w1, w3]: [i8; 4] = bytemuck::must_cast(row);
                let products = [w0, w1, w2, w3].into_iter().zip(x).map(|(w, x)| i32::from(w) * i32::from(x));
                *sum = products.fold(*sum, i32::wrapping_add);
            }
        }
        sums
    }

    #[cfg(all(target_arch = "arm", feature = "dsp"))]
    #[inline(always)]
    fn sum_two(rows: &RowBlock, fine: (&[[u32; 4]], &[[u32; 2]]), coarse: (&[[u32; 4]], &[[u32; 2]])) -> [i32; 4] {
        imp::sum_two(rows, fine, coarse)
    }

    #[cfg(all(target_arch = "arm", feature = "dsp"))]
    #[inline(always)]
    fn sum_one(rows: &RowBlock, block: &[[u32; 4]], x: &[[u32; 2]]) -> [i32; 4] {
        imp::sum_one(rows, block, x)
    }
}

#[cfg(all(target_arch = "arm", feature = "dsp"))]
#[expect(unsafe_code)]
mod imp {
    use core::arch::asm;

    use crate::quant::RowBlock;

    /// Four columns: weights from r12 on, r4 to r7 and r10 free; x from lr on, to r8 and r9; sums in r0 to r3.
    macro_rules! quad {
        () => {
            "ldm r12!, {{r4, r5, r6, r7}}
            ldrd r8, r9, [lr], #8
            sxtb16 r10, r4
            smlad r0, r10, r8, r0
            sxtb16 r4, r4, ror #8
            smlad r0, r4, r9, r0
            sxtb16 r10, r5
            smlad r1, r10, r8, r1
            sxtb16 r5, r5, ror #8
            smlad r1, r5, r9, r1
            sxtb16 r10, r6
            smlad r2, r10, r8, r2
            sxtb16 r6, r6, ror #8
            smlad r2, r6, r9, r2
            sxtb16 r10, r7
            smlad r3, r10, r8, r3
            sxtb16 r7, r7, ror #8
            smlad r3, r7, r9, r3"
        };
    }

    /// As many quads as r11 says, two a turn.
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

    /// Start, sum of the fine part, shift, sum of the coarse part, multiplication.
    #[inline(always)]
    pub fn sum_two(rows: &RowBlock, fine: (&[[u32; 4]], &[[u32; 2]]), coarse: (&[[u32; 4]], &[[u32; 2]])) -> [i32; 4] {
        let (fine_count, coarse_count) = (fine.0.len().min(fine.1.len()), coarse.0.len().min(coarse.1.len()));
        if fine_count == 0 || coarse_count == 0 {
            return [0; 4];
        }
        let (a, b, c, d);
        // SAFETY: the loops read as many units of 16 bytes and quads of 8 as both slices of a part have; these, and the
        // 36 bytes of `rows`, are aligned to 4, as LDM and LDRD need. r6, r7 and the stack pointer are restored.
        unsafe {
            asm!(
                "push {{r6, r7}}",
                "push {{r0, r1, r2, r3}}",
                "ldm r0, {{r0, r1, r2, r3}}",
                quads!(),
                "ldr r4, [sp]",
                "ldr r5, [r4, #32]",
                "asr r0, r0, r5",
                "lsr r5, r5, #8",
                "asr r1, r1, r5",
                "lsr r5, r5, #8",
                "asr r2, r2, r5",
                "lsr r5, r5, #8",
                "asr r3, r3, r5",
                "ldr r12, [sp, #4]",
                "ldr lr, [sp, #8]",
                "ldr r11, [sp, #12]",
                quads!(),
                "ldr r12, [sp], #16",
                "add r12, r12, #16",
                "ldm r12, {{r4, r5, r8, r9}}",
                "pop {{r6, r7}}",
                "smmul r0, r0, r4",
                "smmul r1, r1, r5",
                "smmul r2, r2, r8",
                "smmul r3, r3, r9",
                inout("r0") rows.as_ptr() => a,
                inout("r1") coarse.0.as_ptr() => b,
                inout("r2") coarse.1.as_ptr() => c,
                inout("r3") coarse_count => d,
                inout("r12") fine.0.as_ptr() => _,
                inout("lr") fine.1.as_ptr() => _,
                inout("r11") fine_count => _,
                out("r4") _, out("r5") _, out("r8") _, out("r9") _, out("r10") _,
                options(readonly),
            );
        }
        [a, b, c, d]
    }

    /// Start, sum, multiplication.
    #[inline(always)]
    pub fn sum_one(rows: &RowBlock, block: &[[u32; 4]], x: &[[u32; 2]]) -> [i32; 4] {
        let count = block.len().min(x.len());
        if count == 0 {
            return [0; 4];
        }
        let (a, b, c, d);
        // SAFETY: as in `sum_two`.
        unsafe {
            asm!(
                "push {{r0, r6, r7}}",
                "ldm r0, {{r0, r1, r2, r3}}",
                quads!(),
                "pop {{r4, r6, r7}}",
                "add r4, r4, #16",
                "ldm r4, {{r4, r5, r8, r9}}",
                "smmul r0, r0, r4",
                "smmul r1, r1, r5",
                "smmul r2, r2, r8",
                "smmul r3, r3, r9",
                inout("r0") rows.as_ptr() => a,
                out("r1") b,
                out("r2") c,
                out("r3") d,
                inout("r12") block.as_ptr() => _,
                inout("lr") x.as_ptr() => _,
                inout("r11") count => _,
                out("r4") _, out("r5") _, out("r8") _, out("r9") _, out("r10") _,
                options(readonly),
            );
        }
        [a, b, c, d]
    }
}
