//! tanh and sigmoid, each from one exponential and one division, in fewer operations than the portable tanh; a sigmoid from
//! that tanh would take two more. Their product takes one division too, because divisions limit the update of an LSTM.

use core::arch::x86_64::*;
use core::f32::consts::{LN_2, LOG2_E};

use super::Avx2;
use crate::simd::Simd;

/// Above this, tanh rounds to 1; above twice this, so does sigmoid.
const LIMIT: f32 = 9.1;
/// Adding and subtracting 1.5 · 2^23 rounds to an integer; after the addition its bits are the low bits of the sum.
const ROUND: f32 = 12_582_912.0;
/// Coefficients of r to r⁵ in e^2r for |r| ≤ ln 2 / 4, from `tests/fit/exp.py`.
const P: [f32; 5] = [1.999_999_4, 1.999_965_8, 1.333_411_9, 0.670_378_7, 0.265_273_75];

/// The coefficients of e^(2 · scale · r), from those of e^2r.
const fn scaled(scale: f32) -> [f32; 5] {
    let [a, b, c, d, e] = P;
    let squared = scale * scale;
    [a * scale, b * squared, c * squared * scale, d * squared * squared, e * squared * squared * scale]
}

/// e^(2 · `scale` · x) in two factors: a polynomial with the coefficients that [`scaled`] returns, and a power of two.
#[inline(always)]
fn exp(s: Avx2, x: __m256, scale: f32, [a, b, c, d, e]: [f32; 5]) -> [__m256; 2] {
    let shifted = s.fma(x, s.splat(2.0 * LOG2_E * scale), s.splat(ROUND));
    let r = s.fnma(s.sub(shifted, s.splat(ROUND)), s.splat(LN_2 / 2.0 / scale), x);
    let p = s.fma(s.splat(e), r, s.splat(d));
    let p = s.fma(s.fma(s.fma(p, r, s.splat(c)), r, s.splat(b)), r, s.splat(a));
    [s.fma(p, r, s.splat(1.0)), s.power(shifted)]
}

/// (1 - E) / (1 + E), E = e^(-2 |x|), with the sign of x: neither sum rounds more coarsely than the result.
#[inline(always)]
pub fn tanh(s: Avx2, x: __m256, scale: f32) -> __m256 {
    let (one, x) = (s.splat(1.0), if scale == 1.0 { x } else { s.mul(s.splat(scale), x) });
    let size = s.min(s.splat(LIMIT), s.abs(x));
    let [p, power] = exp(s, size, -1.0, const { scaled(-1.0) });
    s.signed(s.div(s.fnma(p, power, one), s.fma(p, power, one)), x)
}

/// 1 - 1 / (1 + e^x), which is exactly 0 and 1 at the limits.
#[inline(always)]
pub fn sigmoid(s: Avx2, x: __m256) -> __m256 {
    let one = s.splat(1.0);
    let clipped = s.max(s.splat(-2.0 * LIMIT), s.min(s.splat(2.0 * LIMIT), x));
    let [p, power] = exp(s, clipped, 0.5, const { scaled(0.5) });
    s.sub(one, s.div(one, s.fma(p, power, one)))
}

/// σ(`gate`) · tanh(x) = (1 - E) / ((1 + e^-gate) (1 + E)), E = e^(-2 |x|), with the sign of x.
#[inline(always)]
pub fn gated_tanh(s: Avx2, gate: __m256, x: __m256) -> __m256 {
    let one = s.splat(1.0);
    let clipped = s.max(s.splat(-2.0 * LIMIT), s.min(s.splat(2.0 * LIMIT), gate));
    let [p, power] = exp(s, clipped, -0.5, const { scaled(-0.5) });
    let of_gate = s.fma(p, power, one);
    let size = s.min(s.splat(LIMIT), s.abs(x));
    let [p, power] = exp(s, size, -1.0, const { scaled(-1.0) });
    let of_x = s.fma(p, power, one);
    s.signed(s.div(s.fnma(p, power, one), s.mul(of_gate, of_x)), x)
}

impl Avx2 {
    /// The larger of both; `b` if either is NaN.
    #[inline(always)]
    fn max(self, a: __m256, b: __m256) -> __m256 {
        // SAFETY: `self` proves AVX; the instruction touches no memory.
        unsafe { _mm256_max_ps(a, b) }
    }
}
