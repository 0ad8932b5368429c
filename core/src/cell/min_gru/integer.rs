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
use crate::cell::{Dim, IntegerSpec, Io, NumberSpec, OTHER, Storage, TensorSpec, Unit, copy};
use crate::curve::Curve;
use crate::kernel::Kernel;
use crate::node::Node;
use crate::quant::{MAX, ONE, from_q15};

/// Numbers of the spec by name.
mod number {
    pub const PREACT_BITS: usize = 0;
    pub const HIDDEN_BITS: usize = 1;
}

/// Tensors of the spec by name.
mod tensor {
    pub const INPUT_WEIGHTS: usize = 0;
    pub const ROWS: usize = 1;
}

/// See the [module](self).
pub const SPEC: IntegerSpec = IntegerSpec {
    options: 1 << OTHER,
    rules: &[],
    numbers: &[NumberSpec::PREACT_BITS, NumberSpec::up_to("hidden_bits", 15)],
    work: &[],
    tensors: &[
        TensorSpec::matrix("input_weights", &["input_weights"], Dim::Hidden, Dim::Input).gates(BOTH),
        TensorSpec::vector("rows", &["input_bias"], Dim::Hidden).gates(BOTH).stored(Storage::Rows {
            input: tensor::INPUT_WEIGHTS,
            recurrent: None,
            to: &[Unit::Bits(number::PREACT_BITS), Unit::Bits(number::HIDDEN_BITS)],
        }),
    ],
};

/// One step. `x` is `[input]`, `state` (h) and `y` are `[hidden]`. A block of four rows holds z, n of two units.
pub(crate) fn step<K: Kernel>(node: &Node<'_>, io: Io<'_, i16>) {
    let Io { x, state: hidden, y, .. } = io;
    let [gate_bits, bits] = [number::PREACT_BITS, number::HIDDEN_BITS].map(|at| node.number(at).unsigned_abs() & 15);
    let Some(hidden) = hidden.get_mut(..node.hidden_size) else { return };
    let mut sums = NO_SUMS;
    let (input, count) = ((x, node.input_size), 2 * node.hidden_size);
    let Some(mut rows) = Single::<K>::new(node, tensor::INPUT_WEIGHTS, tensor::ROWS, count, input) else { return };
    for hidden in hidden.chunks_mut(2 * CHUNK) {
        let (sums, _) = rows.next(hidden.len().div_ceil(2), &mut sums).as_flattened().as_chunks();
        for (h, &[sum_z, sum_n]) in hidden.iter_mut().zip(sums) {
            let z = Curve::Sigmoid.apply(sum_z, gate_bits);
            let kept = (ONE - z).wrapping_mul(i32::from(*h));
            // Between h and n, neither of which leaves ±32768.
            *h = from_q15(kept.wrapping_add(z.wrapping_mul(positive(sum_n, bits)))) as i16;
        }
    }
    copy(y, hidden);
}

/// n of a sum with `bits` fraction bits, at most 15, with as many.
fn positive(sum: i32, bits: u32) -> i32 {
    if sum >= 0 {
        sum.saturating_add((1 << bits) >> 1).min(MAX)
    } else {
        let lost = 15_u32.saturating_sub(bits);
        (Curve::Sigmoid.apply(sum, bits) + ((1 << lost) >> 1)) >> lost
    }
}
