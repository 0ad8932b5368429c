//! σ and tanh on a Cortex-M with a floating-point unit, four values at a time, so that no operation waits for the one before.
//! The bits are those of [`crate::tanh`].
//!
//! tanh x and σ(2x) have the same exponential. The code works with z, which is x for σ and 2x for tanh, and with coefficients
//! that are scaled by powers of two. Such a factor changes no rounding: only a subnormal number would lose bits, and such a
//! number is either the result itself or disappears in the next sum. σ(x) thus needs no product with 0.5 before the
//! exponential.
//!
//! A comparison of floats takes four instructions. Therefore the magnitudes of all four values are compared as integers.
//! If one of them is beyond the limit or NaN, each is limited on its own.

use core::arch::asm;

use crate::tanh::{DOUBLING, LIMIT, P, PER_DOUBLING, ROUND};

/// s16 to s27: the constants of the exponential of z, 1, 2, 0.5, and the greatest magnitude of z.
static CONSTANTS: [f32; 12] = {
    let [a, b, c, d, e] = P;
    let (per_doubling, doubling) = (PER_DOUBLING / 2.0, DOUBLING * 2.0);
    [per_doubling, ROUND, doubling, e / 64.0, d / 32.0, c / 16.0, b / 8.0, a / 4.0, 1.0, 2.0, 0.5, 2.0 * LIMIT]
};

/// The greatest magnitude of x for tanh and of z for σ, as bits without the sign, shifted by 1.
const MOST_OF_TANH: u32 = LIMIT.to_bits() << 1;
const MOST_OF_SIGMOID: u32 = (2.0 * LIMIT).to_bits() << 1;

/// 2^n to `$to`: `$shifted` holds n in its low bits. `$core` is scratch.
#[rustfmt::skip]
macro_rules! power {
    ($core:literal, $shifted:literal, $to:literal) => {
        concat!(
            "vmov ", $core, ", ", $shifted,
            "\n add ", $core, ", {one}, ", $core, ", lsl #23",
            "\n vmov ", $to, ", ", $core, "\n",
        )
    };
}

/// Adds a register to the sums in s8 to s11.
#[rustfmt::skip]
macro_rules! plus {
    ($with:literal) => {
        concat!(
            "vadd.f32 s8, s8, ", $with, "\n vadd.f32 s9, s9, ", $with,
            "\n vadd.f32 s10, s10, ", $with, "\n vadd.f32 s11, s11, ", $with, "\n",
        )
    };
}

/// Products of the sums in s8 to s11 and the lanes' r in s0 to s3.
macro_rules! times_r {
    () => {
        "vmul.f32 s8, s8, s0
        vmul.f32 s9, s9, s1
        vmul.f32 s10, s10, s2
        vmul.f32 s11, s11, s3\n"
    };
}

/// Limits the magnitude in a lane. NaN stays.
macro_rules! limited {
    ($lane:literal) => {
        concat!("vcmp.f32 ", $lane, ", s27\n vmrs apsr_nzcv, fpscr\n it gt\n vmovgt.f32 ", $lane, ", s27\n")
    };
}

/// The sign of a value in `$core` for the result in `$lane`.
macro_rules! signed {
    ($core:literal, $lane:literal) => {
        concat!("cmp ", $core, ", #0\n it mi\n vnegmi.f32 ", $lane, ", ", $lane, "\n")
    };
}

/// The curves of four values from {v} on: `$double` doubles the lanes of tanh, `$halve` completes those of σ. `$third` is
/// the limit of the third lane.
macro_rules! four {
    ($double:expr, $third:literal, $halve:expr) => {
        concat!(
            "ldrd {a}, {b}, [{v}]
            ldrd {c}, {d}, [{v}, #8]
            vldmia {v}, {{s0-s3}}
            cmp {most}, {a}, lsl #1
            ittt hs
            cmphs {most}, {b}, lsl #1
            cmphs ",
            $third,
            ", {c}, lsl #1
            cmphs {most}, {d}, lsl #1\n",
            $double,
            "vabs.f32 s0, s0
            vabs.f32 s1, s1
            vabs.f32 s2, s2
            vabs.f32 s3, s3
            blo 8f
            7:
            vmul.f32 s4, s0, s16
            vmul.f32 s5, s1, s16
            vmul.f32 s6, s2, s16
            vmul.f32 s7, s3, s16
            vadd.f32 s4, s4, s17
            vadd.f32 s5, s5, s17
            vadd.f32 s6, s6, s17
            vadd.f32 s7, s7, s17\n",
            power!("{t}", "s4", "s12"),
            power!("{u}", "s5", "s13"),
            power!("{t}", "s6", "s14"),
            power!("{u}", "s7", "s15"),
            "vsub.f32 s4, s4, s17
            vsub.f32 s5, s5, s17
            vsub.f32 s6, s6, s17
            vsub.f32 s7, s7, s17
            vmul.f32 s4, s4, s18
            vmul.f32 s5, s5, s18
            vmul.f32 s6, s6, s18
            vmul.f32 s7, s7, s18
            vsub.f32 s0, s0, s4
            vsub.f32 s1, s1, s5
            vsub.f32 s2, s2, s6
            vsub.f32 s3, s3, s7
            vmul.f32 s8, s0, s19
            vmul.f32 s9, s1, s19
            vmul.f32 s10, s2, s19
            vmul.f32 s11, s3, s19\n",
            plus!("s20"),
            times_r!(),
            plus!("s21"),
            times_r!(),
            plus!("s22"),
            times_r!(),
            plus!("s23"),
            times_r!(),
            plus!("s24"),
            times_r!(),
            "vsub.f32 s4, s12, s24
            vsub.f32 s5, s13, s24
            vsub.f32 s6, s14, s24
            vsub.f32 s7, s15, s24
            vmul.f32 s8, s8, s12
            vmul.f32 s9, s9, s13
            vmul.f32 s10, s10, s14
            vmul.f32 s11, s11, s15
            vadd.f32 s8, s8, s4
            vadd.f32 s9, s9, s5
            vadd.f32 s10, s10, s6
            vadd.f32 s11, s11, s7
            vadd.f32 s4, s8, s25
            vadd.f32 s5, s9, s25
            vadd.f32 s6, s10, s25
            vadd.f32 s7, s11, s25
            vdiv.f32 s8, s8, s4
            vdiv.f32 s9, s9, s5
            vdiv.f32 s10, s10, s6
            vdiv.f32 s11, s11, s7\n",
            signed!("{a}", "s8"),
            signed!("{b}", "s9"),
            signed!("{c}", "s10"),
            signed!("{d}", "s11"),
            $halve,
            "vstmia {v}!, {{s8-s11}}\n"
        )
    };
}

/// The loop over `$count` groups of four values, at least one, from `$values` on.
///
/// # Safety
/// `$values` must point to `$count` groups of four values, aligned to f32.
macro_rules! over {
    ($values:expr, $count:expr, $four:expr $(, $third:ident = $limit:expr)?; $most:expr) => {
        asm!(
            "vldmia {t}, {{s16-s27}}",
            "1:",
            $four,
            "subs {n}, {n}, #1",
            "bne 1b",
            "b 9f",
            "8:",
            limited!("s0"),
            limited!("s1"),
            limited!("s2"),
            limited!("s3"),
            "b 7b",
            "9:",
            v = inout(reg) $values => _,
            n = inout(reg) $count => _,
            t = inout(reg) CONSTANTS.as_ptr() => _,
            a = out(reg) _, b = out(reg) _, c = out(reg) _, d = out(reg) _, u = out(reg) _,
            most = in(reg) $most,
            one = in(reg) 1.0_f32.to_bits(),
            $($third = in(reg) $limit,)?
            out("s0") _, out("s1") _, out("s2") _, out("s3") _, out("s4") _, out("s5") _, out("s6") _, out("s7") _,
            out("s8") _, out("s9") _, out("s10") _, out("s11") _, out("s12") _, out("s13") _, out("s14") _,
            out("s15") _, out("s16") _, out("s17") _, out("s18") _, out("s19") _, out("s20") _, out("s21") _,
            out("s22") _, out("s23") _, out("s24") _, out("s25") _, out("s26") _, out("s27") _,
            options(nostack),
        )
    };
}

/// The first operation from tanh(z / 2) to σ(z) = (1 + tanh(z / 2)) / 2, with 0.5 in s26.
macro_rules! halved {
    ($lane:literal) => {
        concat!("vmul.f32 ", $lane, ", ", $lane, ", s26\n")
    };
}

/// The second operation.
macro_rules! lifted {
    ($lane:literal) => {
        concat!("vadd.f32 ", $lane, ", ", $lane, ", s26\n")
    };
}

/// Doubles all lanes, of tanh.
macro_rules! doubled {
    () => {
        "vadd.f32 s0, s0, s0
        vadd.f32 s1, s1, s1
        vadd.f32 s2, s2, s2
        vadd.f32 s3, s3, s3\n"
    };
}

/// The gates of the units of an LSTM from their sums i, f, g, o: tanh for g, σ for the others.
pub fn lstm_gates(sums: &mut [[f32; 4]]) {
    if sums.is_empty() {
        return;
    }
    // SAFETY: reads and writes the values of all `sums`, of which there is at least one.
    unsafe {
        over!(
            sums.as_mut_ptr(),
            sums.len(),
            four!(
                "vadd.f32 s2, s2, s2\n",
                "{third}",
                concat!(halved!("s8"), halved!("s9"), halved!("s11"), lifted!("s8"), lifted!("s9"), lifted!("s11"))
            ),
            third = MOST_OF_TANH;
            MOST_OF_SIGMOID
        );
    }
}

/// σ of each value.
pub fn sigmoid_all(values: &mut [[f32; 4]]) {
    if values.is_empty() {
        return;
    }
    // SAFETY: reads and writes all `values`, of which there is at least one group.
    unsafe {
        over!(
            values.as_mut_ptr(),
            values.len(),
            four!(
                "",
                "{most}",
                concat!(
                    halved!("s8"), halved!("s9"), halved!("s10"), halved!("s11"),
                    lifted!("s8"), lifted!("s9"), lifted!("s10"), lifted!("s11")
                )
            );
            MOST_OF_SIGMOID
        );
    }
}

/// tanh of each value.
pub fn tanh_all(values: &mut [[f32; 4]]) {
    if values.is_empty() {
        return;
    }
    // SAFETY: reads and writes all `values`, of which there is at least one group.
    unsafe {
        over!(values.as_mut_ptr(), values.len(), four!(doubled!(), "{most}", ""); MOST_OF_TANH);
    }
}
