//! The [taps](super::taps) of the DSP extension: 16 instructions for the products of a row with four filters.

use core::arch::asm;

use super::taps::along;

/// [`Kernel::taps`](super::Kernel::taps)
#[inline(never)]
pub fn taps(sums: [i32; 4], taps: &[[u8; 4]], channels: &[u8], row_len: usize, first: i32) -> [i32; 4] {
    let rows = taps.len();
    let needed = rows.wrapping_sub(1).saturating_mul(row_len).saturating_add(4);
    if rows == 0 || channels.len() < needed || !(-255..=0).contains(&first) {
        return along(sums, taps, channels, row_len, first);
    }
    let [mut a, mut b, mut c, mut d] = sums;
    let low = u32::from(first as u8) * 0x0101_0101;
    let halves = u32::from(first as u16) * 0x0001_0001;
    // SAFETY: reads `rows` words of weights, which the slice has, and as many words of `channels`, `row_len` bytes apart; the
    // last one ends at `needed`, within the slice. LDR needs no alignment. r6 and r7 are restored.
    unsafe {
        asm!(
            "push {{r6, r7}}
            2:
            ldr r4, [r12], #4
            ldr r5, [lr]
            add lr, lr, r8
            usub8 r5, r5, r10
            uxtb16 r6, r5
            uxtb16 r5, r5, ror #8
            sadd16 r6, r6, r9
            sadd16 r5, r5, r9
            sxtb16 r7, r4
            sxtb16 r4, r4, ror #8
            smlabb r0, r7, r6, r0
            smlabb r1, r4, r5, r1
            smlatt r2, r7, r6, r2
            smlatt r3, r4, r5, r3
            subs r11, r11, #1
            bne 2b
            pop {{r6, r7}}",
            inout("r0") a, inout("r1") b, inout("r2") c, inout("r3") d,
            inout("r12") taps.as_ptr() => _,
            inout("lr") channels.as_ptr() => _,
            inout("r11") rows => _,
            in("r8") row_len, in("r9") halves, in("r10") low,
            out("r4") _, out("r5") _,
        );
    }
    [a, b, c, d]
}
