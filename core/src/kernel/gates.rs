//! The gates of several units, computed from their sums, in plain Rust. Cores with suitable instructions have their own
//! versions.

use crate::curve::Curves;
#[cfg(not(any(target_arch = "riscv32", all(target_arch = "arm", feature = "dsp", not(feature = "mve")))))]
use crate::curve::{PREACT_BITS, sigmoid, tanh};
use crate::quant::{CARRIED_BITS, from_q15};

/// The gates with σ and tanh, in the version for the target of the build.
pub(crate) mod usual {
    #[cfg(all(target_arch = "arm", feature = "mve"))]
    pub use super::super::mve_gates::{gru, interpolate, lstm, reset_update};
    #[cfg(target_arch = "riscv32")]
    pub use super::super::rv32_gates::{gru, interpolate, lstm, reset_update};
    #[cfg(all(target_arch = "arm", not(target_has_atomic = "32")))]
    pub use super::super::thumb1_gates::{gru, interpolate, reset_update};
    #[cfg(all(target_arch = "arm", feature = "dsp", not(feature = "mve")))]
    pub use super::super::thumb2_gates::lstm;
    #[cfg(all(target_arch = "arm", feature = "thumb2", not(feature = "mve")))]
    pub use super::super::thumb2_gates::{gru, interpolate, reset_update};
    #[cfg(not(any(target_arch = "riscv32", all(target_arch = "arm", feature = "dsp"))))]
    pub(crate) use super::lstm;
    #[cfg(not(any(
        target_arch = "riscv32",
        all(target_arch = "arm", any(feature = "thumb2", not(target_has_atomic = "32")))
    )))]
    pub use plain::{gru, interpolate, reset_update};

    #[cfg(not(any(
        target_arch = "riscv32",
        all(target_arch = "arm", any(feature = "thumb2", not(target_has_atomic = "32")))
    )))]
    mod plain {
        use super::super::{self as gates, GruSums};
        use crate::curve::Usual;

        pub fn gru(sums: GruSums<'_>, hidden: &[i16], new: &mut [i16]) {
            gates::gru(&Usual, sums, hidden, new);
        }

        pub fn reset_update(sums: &[[i32; 2]], hidden: &[i16], reset: &mut [i16], update: &mut [i16]) {
            gates::reset_update(&Usual, sums, hidden, reset, update);
        }

        pub fn interpolate(sums: &[i32], update: &[i16], hidden: &mut [i16], new: &mut [i16]) {
            gates::interpolate(&Usual, sums, update, hidden, new);
        }
    }
}

/// The shifts that align the fraction bits of an LSTM's values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LstmShifts {
    /// Fraction bits of the candidate minus those of the cell state, at most 15.
    pub candidate: u32,
    /// 15 minus the fraction bits of the cell state.
    pub lift: u32,
}

/// The sums of the units of a GRU with the reset after the product.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GruSums<'s> {
    /// r and z, over the input and h.
    pub gates: &'s [[i32; 2]],
    /// n, over the input.
    pub of_input: &'s [i32],
    /// n, over h.
    pub of_hidden: &'s [i32],
}

/// Replaces c by c' and writes m for each unit of an LSTM, from the sums of i, f, g, o. σ for the gates, tanh for candidate
/// and output.
#[cfg(not(any(target_arch = "riscv32", all(target_arch = "arm", feature = "dsp", not(feature = "mve")))))]
#[inline(always)]
pub(crate) fn lstm(sums: &[[i32; 4]], cell: &mut [i16], m: &mut [i16], shifts: LstmShifts) {
    for (&[i, f, g, o], (c, m)) in sums.iter().zip(cell.iter_mut().zip(m)) {
        let entering = sigmoid(i, PREACT_BITS).wrapping_mul(tanh(g, PREACT_BITS)) >> shifts.candidate;
        let next = from_q15(sigmoid(f, PREACT_BITS).wrapping_mul(i32::from(*c)).wrapping_add(entering));
        let next = next.clamp(i16::MIN.into(), i16::MAX.into());
        *c = next as i16;
        // Both factors are within ±1, and tanh stays below 1.
        *m = from_q15(sigmoid(o, PREACT_BITS).wrapping_mul(tanh(next << shifts.lift, 15))) as i16;
    }
}

/// Computes r ⊙ h and z of the units of a GRU with the reset before the product, from their sums and h. z is unsigned:
/// 1.0 needs 16 bits.
#[inline(always)]
pub(crate) fn reset_update(
    curves: &impl Curves,
    sums: &[[i32; 2]],
    hidden: &[i16],
    reset: &mut [i16],
    update: &mut [i16],
) {
    for ((&[r, z], &h), (reset, update)) in sums.iter().zip(hidden).zip(reset.iter_mut().zip(update)) {
        *reset = from_q15(curves.gate(r).wrapping_mul(i32::from(h))) as i16;
        *update = curves.gate(z) as u16 as i16;
    }
}

/// Computes h' of the units of a GRU with the reset after the product, from their sums and h.
#[inline(always)]
pub(crate) fn gru(curves: &impl Curves, sums: GruSums<'_>, hidden: &[i16], new: &mut [i16]) {
    let of_new = sums.of_input.iter().zip(sums.of_hidden);
    for ((&[r, z], (&a, &b)), (&h, new)) in sums.gates.iter().zip(of_new).zip(hidden.iter().zip(new)) {
        // Clamped to 17 bits, so that the product fits.
        let carried = from_q15(curves.gate(r).wrapping_mul(b.clamp(!MOST_CARRIED, MOST_CARRIED)));
        *new = between(curves.gate(z), h, curves.candidate(a.wrapping_add(carried)));
    }
}

/// Maximum of a sum over h before it is multiplied by r.
const MOST_CARRIED: i32 = (1 << CARRIED_BITS) - 1;

/// Computes h' of the units of a GRU with the reset before the product, from the sums of n, z and h. h' also replaces
/// h.
#[inline(always)]
pub(crate) fn interpolate(curves: &impl Curves, sums: &[i32], update: &[i16], hidden: &mut [i16], new: &mut [i16]) {
    for ((&sum, &z), (h, new)) in sums.iter().zip(update).zip(hidden.iter_mut().zip(new)) {
        *h = between(i32::from(z.cast_unsigned()), *h, curves.candidate(sum));
        *new = *h;
    }
}

/// z h + (1 - z) n. h and n are within ±32767, so z (h - n) fits 32 bits.
#[inline(always)]
fn between(z: i32, h: i16, n: i32) -> i16 {
    let apart = i32::from(h).wrapping_sub(n);
    n.wrapping_add(from_q15(z.wrapping_mul(apart))) as i16
}
