//! What is made of the sums of a gated cell's units, where a core may have instructions for several units at once. Here
//! in plain Rust.

use crate::curve::{PREACT_BITS, sigmoid, tanh};
use crate::quant::from_q15;

/// How the numbers of an LSTM are brought together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LstmShifts {
    /// The fraction bits that a candidate has more than a cell state, at most 15.
    pub candidate: u32,
    /// The fraction bits that a cell state lacks to 15.
    pub lift: u32,
}

/// The units of an LSTM, c to c' and m, with the sums of i, f, g, o: σ for the gates, tanh for candidate and output.
#[inline(always)]
pub(crate) fn lstm(sums: &[[i32; 4]], cell: &mut [i16], m: &mut [i16], shifts: LstmShifts) {
    for (&[i, f, g, o], (c, m)) in sums.iter().zip(cell.iter_mut().zip(m)) {
        let entering = sigmoid(i, PREACT_BITS).wrapping_mul(tanh(g, PREACT_BITS)) >> shifts.candidate;
        let next = from_q15(sigmoid(f, PREACT_BITS).wrapping_mul(i32::from(*c)).wrapping_add(entering));
        let next = next.clamp(i16::MIN.into(), i16::MAX.into());
        *c = next as i16;
        // Neither factor leaves ±1, and tanh does not reach it.
        *m = from_q15(sigmoid(o, PREACT_BITS).wrapping_mul(tanh(next << shifts.lift, 15))) as i16;
    }
}
