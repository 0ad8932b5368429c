//! minGRU in the integer numerics.
//!
//! ```text
//! a = ⌊(W x + b) · multiplier / 2^32⌋                  preact_bits fraction bits for z, hidden_bits for n
//! z = σ(a)                                             15 fraction bits
//! n = a + 0.5 for a ≥ 0, σ(a) / 2^(15 - hidden_bits) below, at most 32767          hidden_bits fraction bits
//! h' = ((1 - z) h + z n) / 2^15
//! ```
//!
//! Quotients are rounded to nearest, halves up; 0.5 with no fraction bits is 0. The scale of the output is
//! 2^-hidden_bits.

use super::BOTH;
use crate::cell::integer::{CHUNK, NO_SUMS, Single};
use crate::cell::prelude::*;
use crate::curve::Curve;
use crate::quant::{MAX, ONE, from_q15};

const NUMBERS: &[NumberSpec] = &[NumberSpec::PREACT_BITS, NumberSpec::up_to("hidden_bits", 15)];
const PREACT_BITS: usize = number(NUMBERS, "preact_bits");
const HIDDEN_BITS: usize = number(NUMBERS, "hidden_bits");

const TENSORS: &[&str] = &["input_weights", "rows"];
const INPUT_WEIGHTS: usize = index(TENSORS, "input_weights");
const ROWS: usize = index(TENSORS, "rows");

pub(super) const SPEC: IntegerSpec = IntegerSpec {
    options: 1 << OTHER | 1 << WIDE,
    numbers: NUMBERS,
    tensors: &[
        TensorSpec::matrix("input_weights", &["input_weights"], Dim::Hidden, Dim::Input).gates(BOTH),
        TensorSpec::vector("rows", &["input_bias"], Dim::Hidden)
            .gates(BOTH)
            .stored(Storage::rows(INPUT_WEIGHTS, &[Unit::Bits(PREACT_BITS), Unit::Bits(HIDDEN_BITS)])),
    ],
    quantization: QUANTIZATION.on_host(),
    ..IntegerSpec::EMPTY
}
.with_tensors_named(TENSORS);

const QUANTIZATION: Quantization = Quantization {
    output: &[(0, OutputScale::PowerOfTwo)],
    // A bias of 1e9 opens the gate.
    candidate: Some(Candidate { activation: None, alone: &[Alone::Bias(Gate::Update, 1e9)] }),
    numbers: Numbers::OutputBits,
    ..Quantization::MOVE
};

/// One step. `x` is `[input]`, `state` (h) and `y` are `[hidden]`. A block of four rows holds z, n of two units.
pub(crate) fn step<K: Kernel>(node: &Node<'_>, io: Io<'_, i16>) {
    let Io { x, state: hidden, y, .. } = io;
    let [gate_bits, bits] = [PREACT_BITS, HIDDEN_BITS].map(|at| node.number(at).unsigned_abs() & 15);
    let Some(hidden) = hidden.get_mut(..node.hidden_size) else { return };
    let mut sums = NO_SUMS;
    let (input, count) = ((x, node.input_size), 2 * node.hidden_size);
    let Some(mut rows) = Single::<K, true>::new(node, INPUT_WEIGHTS, ROWS, count, input) else { return };
    for hidden in hidden.chunks_mut(2 * CHUNK) {
        let (sums, _) = rows.next(hidden.len().div_ceil(2), &mut sums).as_flattened().as_chunks();
        for (h, &[sum_z, sum_n]) in hidden.iter_mut().zip(sums) {
            let z = Curve::Sigmoid.apply(sum_z, gate_bits);
            let kept = (ONE - z).wrapping_mul(i32::from(*h));
            // The result lies between h and n, both within ±32768.
            *h = from_q15(kept.wrapping_add(z.wrapping_mul(positive(sum_n, bits)))) as i16;
        }
    }
    copy(y, hidden);
}

/// n from a sum with `bits` fraction bits, at most 15. n has as many.
pub(crate) fn positive(sum: i32, bits: u32) -> i32 {
    if sum >= 0 {
        sum.saturating_add((1 << bits) >> 1).min(MAX)
    } else {
        let lost = 15_u32.saturating_sub(bits);
        (Curve::Sigmoid.apply(sum, bits) + ((1 << lost) >> 1)) >> lost
    }
}
