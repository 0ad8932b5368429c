//! Layer normalization in the integer numerics.
//!
//! ```text
//! n = (x - m) / √(v + ε)                                       23 fraction bits, as in `integer_norm.rs`; m = 0 with `rms`
//! y = (mulh(n, multiplier) + addend + 2^7) >> 8
//! ```

use super::{GAIN, GROUP_SIZE, RMS};
use crate::cell::prelude::*;
use crate::integer_norm::{Epsilon, MAX_LEN, Moments};
use crate::quant::{mulh, saturate, whole};

const NUMBERS: &[NumberSpec] = &[
    NumberSpec::up_to("epsilon", i16::MAX as i32),
    NumberSpec { name: "epsilon_bits", least: -63, most: 63, usual: None },
];
const EPSILON: usize = number(NUMBERS, "epsilon");
const EPSILON_BITS: usize = number(NUMBERS, "epsilon_bits");

const MULTIPLIERS: usize = SPEC.tensor("multipliers");
const ADDENDS: usize = SPEC.tensor("addends");

pub(super) const SPEC: IntegerSpec = IntegerSpec {
    options: 1 << GAIN | 1 << RMS,
    rules: &[Rule::AtMost(GROUP_SIZE, Dim::Const(MAX_LEN))],
    numbers: NUMBERS,
    tensors: &[
        TensorSpec::vector("multipliers", &["gain"], Dim::Input).stored(Storage::Multipliers),
        TensorSpec::vector("addends", &["bias"], Dim::Input).stored(Storage::Addends),
    ],
    quantization: QUANTIZATION.on_host(),
    ..IntegerSpec::EMPTY
};

const QUANTIZATION: Quantization = Quantization {
    output: &[(0, OutputScale::Measured)],
    least_output: LeastScale::Normalized,
    numbers: Numbers::Normalized,
    ..Quantization::MOVE
};

/// One step. `x` and `y` have the same length.
pub(crate) fn step(node: &Node<'_>, io: Io<'_, i16>) {
    let epsilon =
        Epsilon { mantissa: node.number(EPSILON).unsigned_abs(), exponent: node.number(EPSILON_BITS).saturating_neg() };
    let size = node.dim(&GROUP_SIZE);
    let x = io.x.get(..node.input_size).unwrap_or_default();
    let mut affine = node.words(MULTIPLIERS).iter().zip(node.words(ADDENDS));
    for (y, x) in io.y.chunks_mut(size.max(1)).zip(x.chunks(size.max(1))) {
        let values = x.iter().map(|&x| x.into());
        let moments =
            if node.has(RMS) { Moments::root_mean_square(values, epsilon) } else { Moments::of(values, epsilon) };
        for ((y, &x), (&multiplier, &addend)) in y.iter_mut().zip(x).zip(affine.by_ref()) {
            *y = saturate(whole(mulh(moments.apply(x.into()), multiplier).wrapping_add(addend)));
        }
    }
}
