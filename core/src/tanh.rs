//! The hyperbolic tangent and the logistic function in f32 without a library: the same bits on every target and with
//! every feature, in about forty instructions each. `core/tests/activation.rs` checks the stated errors from 2^-24
//! to 2^10 in magnitude, for one block of f32 in 61, or for every f32 in a soak. Outside of this range, both functions are
//! a line or a constant.

/// From here on tanh rounds to 1.
pub const LIMIT: f32 = 9.1;
/// 1.5 · 2^23: adding and subtracting it rounds to a whole number, which the sum holds in its low bits.
pub const ROUND: f32 = 12_582_912.0;
/// 2 / ln 2
pub const PER_DOUBLING: f32 = core::f32::consts::LOG2_E * 2.0;
/// ln 2 / 2. The rounding of the constant and of its product matters only where tanh is near 1.
pub const DOUBLING: f32 = core::f32::consts::LN_2 / 2.0;
/// P in e^2r - 1 = 2r + r² P(r) for |r| ≤ ln 2 / 4, relative error 1.4e-8; fitted by `tests/fit/tanh.py`.
pub const P: [f32; 5] = [1.999_999_9, 1.333_323_7, 0.666_678_97, 0.267_720_7, 0.088_772_43];

/// tanh x = E / (E + 2) with the sign of x, where E = e^2|x| - 1. With e^2|x| = 2^n e^2r, E is 2^n (e^2r - 1) + (2^n -
/// 1), where nothing cancels.
#[cfg_attr(feature = "dsp", inline(always))]
pub fn tanh(x: f32) -> f32 {
    let size = x.abs();
    // NaN is propagated.
    let size = if size > LIMIT { LIMIT } else { size };
    let shifted = size * PER_DOUBLING + ROUND;
    let r = size - (shifted - ROUND) * DOUBLING;
    let [a, b, c, d, e] = P;
    let grown = (((((e * r + d) * r + c) * r + b) * r + a) * r + 2.0) * r;
    // 2^n, between 1 and 2^26.
    let power = f32::from_bits((shifted.to_bits() << 23).wrapping_add(1.0_f32.to_bits()));
    let expm1 = grown * power + (power - 1.0);
    (expm1 / (expm1 + 2.0)).copysign(x)
}

/// (1 + tanh(x / 2)) / 2
#[cfg_attr(feature = "dsp", inline(always))]
pub fn sigmoid(x: f32) -> f32 {
    0.5 * tanh(0.5 * x) + 0.5
}
