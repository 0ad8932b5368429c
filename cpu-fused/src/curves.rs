//! Activations on vectors. Sigmoid and tanh are those of `tidegate` with fused multiply-adds, within the same bounds,
//! [`SIGMOID_MAX_ERROR`](tidegate::activation::SIGMOID_MAX_ERROR) and
//! [`TANH_MAX_ERROR`](tidegate::activation::TANH_MAX_ERROR); the others are `tidegate`'s own, lane by lane.

use core::f32::consts::{LN_2, LOG2_E};

use tidegate::activation::Activation;

use crate::simd::Simd;

/// Where tanh rounds to 1.
const LIMIT: f32 = 9.1;
/// Added and taken away again, it rounds to a whole number, which is then in the low bits: 1.5 · 2^23.
const ROUND: f32 = 12_582_912.0;
/// P of e^2r - 1 = 2r + r² P(r) where |r| ≤ ln 2 / 4: from `tests/fit/tanh.py`.
const P: [f32; 5] = [1.999_999_9, 1.333_323_7, 0.666_678_97, 0.267_720_7, 0.088_772_43];

/// E / (E + 2), E = e^2|x| - 1, with the sign of x. Not-a-number stays what it is.
#[inline(always)]
pub fn tanh<S: Simd>(s: S, x: S::F32) -> S::F32 {
    let size = s.min(s.splat(LIMIT), s.abs(x));
    let shifted = s.fma(size, s.splat(2.0 * LOG2_E), s.splat(ROUND));
    let r = s.fnma(s.sub(shifted, s.splat(ROUND)), s.splat(LN_2 / 2.0), size);
    let [a, b, c, d, e] = P.map(|p| s.splat(p));
    let two = s.splat(2.0);
    let p = s.fma(s.fma(s.fma(s.fma(s.fma(e, r, d), r, c), r, b), r, a), r, two);
    let power = s.power(shifted);
    let expm1 = s.fma(s.mul(p, r), power, s.sub(power, s.splat(1.0)));
    s.signed(s.div(expm1, s.add(expm1, two)), x)
}

/// (1 + tanh(x / 2)) / 2
#[inline(always)]
pub fn sigmoid<S: Simd>(s: S, x: S::F32) -> S::F32 {
    let half = s.splat(0.5);
    s.fma(half, tanh(s, s.mul(half, x)), half)
}

/// Any activation.
#[inline(always)]
pub fn apply<S: Simd>(s: S, activation: Activation, x: S::F32) -> S::F32 {
    match activation {
        Activation::Sigmoid => sigmoid(s, x),
        Activation::Tanh => tanh(s, x),
        Activation::Identity => x,
        other => {
            let mut memory: S::Lanes = bytemuck::Zeroable::zeroed();
            s.store(x, &mut memory);
            lanes(other, bytemuck::cast_slice_mut(core::slice::from_mut(&mut memory)));
            s.load(&memory)
        }
    }
}

/// Out of line, so without the instructions: in memory.
#[inline(never)]
fn lanes(activation: Activation, lanes: &mut [f32]) {
    for lane in lanes {
        *lane = activation.apply(*lane);
    }
}
