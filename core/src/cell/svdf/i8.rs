//! The filters in the numeric `i8`: TFLite's `SVDF` of 8 bits, with weights over time and results of 16.
//!
//! ```text
//! s[f, t] = sat((feature_weights[f] · x(t)) · feature_factor · 2^(feature_shift - 31))
//! y[u] = clip((bias[u] + Σ_f Σ_k time_weights[f, k] s[f, t - memory + 1 + k]) · factor · 2^(shift - 31))
//! ```
//!
//! Each product is rounded twice, as in a [convolution](crate::cell::conv::i8), and `sat` saturates to 16 bits.

use super::{RESULTS, STEPS};
use crate::cell::i8::{Limits, factor, limit, multiplier, saturated, shift};
use crate::cell::prelude::*;

const NUMBERS: &[NumberSpec] = &[
    factor("feature_factor"),
    shift("feature_shift"),
    factor("factor"),
    shift("shift"),
    limit("least"),
    limit("most"),
];
const FEATURE_FACTOR: usize = number(NUMBERS, "feature_factor");
const FACTOR: usize = number(NUMBERS, "factor");
const LEAST: usize = number(NUMBERS, "least");

const TENSORS: &[&str] = &["feature_weights", "time_weights", "bias"];
const FEATURE_WEIGHTS: usize = index(TENSORS, "feature_weights");
const TIME_WEIGHTS: usize = index(TENSORS, "time_weights");
const BIAS: usize = index(TENSORS, "bias");

pub(super) const SPEC: IntegerSpec = IntegerSpec {
    numbers: NUMBERS,
    tensors: &[
        TensorSpec::matrix("feature_weights", &["feature_weights"], Dim::Hidden, Dim::Input),
        TensorSpec::vector("time_weights", &["time_weights"], RESULTS).stored(Storage::Values),
        TensorSpec::vector("bias", &["bias"], Dim::Output).stored(Storage::Addends),
    ],
    quantization: Quantization::LIMITS.on_host(),
    ..IntegerSpec::EMPTY
}
.with_tensors_named(TENSORS);

/// One step. `x` is `[input]`, `state` is `[hidden, memory]` (the oldest result of a filter first), `y` is `[output]`.
pub(crate) fn step<K: Kernel>(node: &Node<'_>, io: Io<'_, i16>) {
    let Io { x, state, y, .. } = io;
    let (feature, by) = (multiplier(node, FEATURE_FACTOR), multiplier(node, FACTOR));
    let (limits, memory) = (Limits::of(node, LEAST), node.extent(STEPS).max(1));
    let Some(blocks) = node.weights::<K>(FEATURE_WEIGHTS, node.input_size) else { return };
    let x = K::operand(x, node.input_size);
    let results = state.get_mut(..node.dim(&RESULTS)).unwrap_or_default();
    // The blocks extend past the end of the matrix, so the results limit the loop.
    for (results, block) in results.chunks_mut(memory.saturating_mul(4).max(1)).zip(blocks) {
        for (results, sum) in results.chunks_mut(memory).zip(K::dot([0; 4], block, x)) {
            // Each result moves to the place of the one before it.
            let mut moved = saturated(feature.of(sum));
            for result in results.iter_mut().rev() {
                core::mem::swap(result, &mut moved);
            }
        }
    }
    // The filters of a unit are side by side.
    let of_unit = node.dim(&RESULTS).checked_div(node.output_size).unwrap_or(0).max(1);
    let filters = node.integers(TIME_WEIGHTS).chunks(of_unit).zip(results.chunks(of_unit));
    for ((y, &bias), (weights, results)) in y.iter_mut().zip(node.words(BIAS)).zip(filters) {
        let mut sum = bias;
        for (&weight, &result) in weights.iter().zip(results) {
            sum = sum.wrapping_add(i32::from(weight) * i32::from(result));
        }
        *y = limits.hold(by.of(sum));
    }
}
