//! minLSTM in the integer numerics.
//!
//! ```text
//! a = ⌊(W x + b) · multiplier / 2^32⌋                  preact_bits fraction bits for i and f, hidden_bits for n
//! L(a) = -ln(1 - d) for d = 1 - σ(|a|)                 15 fraction bits
//! m = min(a_f, 0) - min(a_i, 0), limited to ±32        15 fraction bits
//! s = σ(m + L(a_i) - L(a_f))                           15 fraction bits
//! n = a + 0.5 for a ≥ 0, σ(a) below                    hidden_bits fraction bits, as in `min_gru`
//! h' = (s h + (1 - s) n) / 2^15
//! ```
//!
//! The quotient is rounded to nearest, halves up. The logarithm is interpolated linearly between -ln(1 - k / 128) for
//! k from 0 to 64, rounded to nearest; the interpolation rounds down. The scale of the output is 2^-hidden_bits.
//!
//! The argument of the last σ is ln f - ln i, as ln σ(a) = min(a, 0) - L(a). Logarithms stay accurate where both gates
//! are small. The gates themselves, with 15 fraction bits, would have hardly any digits left to divide.

use crate::cell::integer::{CHUNK, NO_SUMS, Single};
use crate::cell::min_gru::integer::positive;
use crate::cell::prelude::*;
use crate::curve::Curve;
use crate::gate::MIN_LSTM;
use crate::quant::{ONE, from_q15};

const NUMBERS: &[NumberSpec] = &[NumberSpec::PREACT_BITS, NumberSpec::up_to("hidden_bits", 15)];
const PREACT_BITS: usize = number(NUMBERS, "preact_bits");
const HIDDEN_BITS: usize = number(NUMBERS, "hidden_bits");

const TENSORS: &[&str] = &["input_weights", "rows"];
const INPUT_WEIGHTS: usize = index(TENSORS, "input_weights");
const ROWS: usize = index(TENSORS, "rows");

/// The unit of the sums of the gates.
const GATE: Unit = Unit::Bits(PREACT_BITS);

pub(super) const SPEC: IntegerSpec = IntegerSpec {
    options: 1 << OTHER | 1 << WIDE,
    numbers: NUMBERS,
    tensors: &[
        TensorSpec::matrix("input_weights", &["input_weights"], Dim::Hidden, Dim::Input).gates(&MIN_LSTM),
        TensorSpec::vector("rows", &["input_bias"], Dim::Hidden)
            .gates(&MIN_LSTM)
            .stored(Storage::rows(INPUT_WEIGHTS, &[GATE, GATE, Unit::Bits(HIDDEN_BITS)])),
    ],
    quantization: QUANTIZATION.on_host(),
    ..IntegerSpec::EMPTY
}
.with_tensors_named(TENSORS);

const QUANTIZATION: Quantization = Quantization {
    output: &[(0, OutputScale::PowerOfTwo)],
    // Biases of ±1e9 open the input gate and close the forget gate, so that s is 0.
    candidate: Some(Candidate {
        activation: None,
        alone: &[Alone::Bias(Gate::Input, 1e9), Alone::Bias(Gate::Forget, -1e9)],
    }),
    numbers: Numbers::OutputBits,
    ..Quantization::MOVE
};

/// Number of units whose sums are computed together. Four units have three blocks of rows.
const UNITS: usize = CHUNK;

/// One step. `x` is `[input]`, `state` (h) and `y` are `[hidden]`. The rows of a unit are i, f, n.
pub(crate) fn step<K: Kernel>(node: &Node<'_>, io: Io<'_, i16>) {
    let Io { x, state: hidden, y, .. } = io;
    let [gate_bits, bits] = [PREACT_BITS, HIDDEN_BITS].map(|at| node.number(at).unsigned_abs() & 15);
    let Some(hidden) = hidden.get_mut(..node.hidden_size) else { return };
    let mut sums = NO_SUMS;
    let (input, count) = ((x, node.input_size), 3 * node.hidden_size);
    let Some(mut rows) = Single::<K, true>::new(node, INPUT_WEIGHTS, ROWS, count, input) else { return };
    for hidden in hidden.chunks_mut(UNITS) {
        let mut sums = rows.next((3 * hidden.len()).div_ceil(4), &mut sums).as_flattened();
        for h in hidden {
            // `as_chunks` would divide the length by three, which is a call on a Cortex-M0.
            let Some((&[sum_i, sum_f, sum_n], others)) = sums.split_first_chunk() else { break };
            sums = others;
            let s = share(sum_i, sum_f, gate_bits);
            let entering = (ONE - s).wrapping_mul(positive(sum_n, bits));
            // The result lies between h and n, both within ±32768.
            *h = from_q15(s.wrapping_mul(i32::from(*h)).wrapping_add(entering)) as i16;
        }
    }
    copy(y, hidden);
}

/// Largest error of s, in units of 2^-15, for exact sums.
///
/// In units of 2^-15, d is within 1.4 (`SIGMOID_MAX_ERROR`), and -ln(1 - d) has a slope of at most 2, which gives 2.8.
/// A table value is within 0.5. The chord is too high by at most 1 (h² / 8 · 4 for h = 1/128), and the interpolation
/// rounds down by less than 1, so that together they are within 1. Hence L is within 4.3, and the difference of two
/// within 8.6. The last σ has a slope of at most 1/4 and an error of 1.4: 2.15 + 1.4.
pub const SHARE_MAX_ERROR: f64 = 3.6;

/// Limit of the difference m. σ saturates well before it.
const REACH: i32 = 32;

/// f / (f + i) from the sums of the gates, which have `bits` fraction bits, at most 15.
fn share(sum_i: i32, sum_f: i32, bits: u32) -> i32 {
    let most = REACH << bits;
    // `clamp` would panic if the bounds were the wrong way round.
    let difference = sum_f.min(0).wrapping_sub(sum_i.min(0)).min(most).max(-most) << 15_u32.saturating_sub(bits);
    Curve::Sigmoid.apply(difference + minus_ln_sigmoid(sum_i, bits) - minus_ln_sigmoid(sum_f, bits), 15)
}

/// Number of [`MINUS_LN`] steps.
const STEPS: i32 = 64;
/// Binary logarithm of a step: the steps cover 0 to 1/2.
const STEP_BITS: u32 = 8;

/// -ln(1 - k / 128) · 2^15 for k from 0 to [`STEPS`], rounded to nearest. Computed in integers so that it is the same on
/// every host.
static MINUS_LN: [i16; STEPS as usize + 1] = {
    const BITS: u32 = 48;
    let (mut table, mut k) = ([0; STEPS as usize + 1], 0);
    while k < table.len() {
        // Σ d^j / j for d = k / 128. Powers of at most 1/2 vanish after 48 terms.
        let (mut power, mut sum, mut j) = (1_u64 << BITS, 0, 1);
        while power > 0 {
            power = power * k as u64 / (2 * STEPS as u64);
            sum += power / j;
            j += 1;
        }
        table[k] = ((sum + (1 << (BITS - 16))) >> (BITS - 15)) as i16;
        k += 1;
    }
    table
};

/// -ln σ(|sum|), between 0 and ln 2, where the sum has `bits` fraction bits.
fn minus_ln_sigmoid(sum: i32, bits: u32) -> i32 {
    let below = ONE - Curve::Sigmoid.apply(sum.saturating_abs(), bits);
    // At d = 1/2 the part is a whole step. The compiler can prove that both indices are in range.
    let index = (below >> STEP_BITS).clamp(0, STEPS - 1);
    let part = below - (index << STEP_BITS);
    let (from, to) = (i32::from(MINUS_LN[index as usize]), i32::from(MINUS_LN[index as usize + 1]));
    from + (((to - from) * part) >> STEP_BITS)
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;

    fn ln_sigmoid(a: f64) -> f64 {
        a.min(0.0) - (-a.abs()).exp().ln_1p()
    }

    #[test]
    fn shares_keep_their_stated_error() {
        for bits in 0..=15 {
            let unit = f64::from(1 << bits);
            let sums = || (-1000..=1000_i32).map(|k| (f64::from(k * k * k.signum()) * 40.0 / 1e6 * unit) as i32);
            let mut worst = 0.0_f64;
            for (i, f) in sums().step_by(3).flat_map(|i| sums().step_by(7).map(move |f| (i, f))) {
                let exact = ln_sigmoid(f64::from(f) / unit) - ln_sigmoid(f64::from(i) / unit);
                let error = f64::from(share(i, f, bits)) - f64::from(ONE) / (1.0 + (-exact).exp());
                worst = worst.max(error.abs());
            }
            std::println!("{bits} bits: within {worst:.3} of 2^-15");
            assert!(worst <= SHARE_MAX_ERROR);
            // Sums of any size neither wrap nor panic.
            let (most, least) = (i32::MAX, i32::MIN / 2);
            assert_eq!([share(0, least, bits), share(least, 0, bits)], [1, ONE]);
            assert!([share(most, most, bits), share(least, least, bits)].iter().all(|s| (s - ONE / 2).abs() <= 1));
        }
    }
}
