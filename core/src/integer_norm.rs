//! Normalization of a vector to mean 0 and variance 1 in integers. The caller applies gain and bias.
//!
//! ```text
//! b = a - a₀                                    keeps the digits of a small variance far from zero
//! q = ⌊b / 2^s⌋                                 s such that 2^14 ≤ max |q| ≤ 2^15
//! e = n q - Σ q      V = n Σ q² - (Σ q)²        exact: n times q minus its mean, n² times the variance
//! y = e / √(V + n² ε)                           [`FRACTION_BITS`] fraction bits
//! ```
//!
//! For the root mean square, a₀ and the Σ q of `e` and `V` are 0.
//!
//! A vector has at most [`MAX_LEN`] values, so that `e` fits 32 bits and `V` 64. There is no division. No input
//! overflows: a difference `b` has up to 33 bits, and is never kept in full.

use crate::quant::mulh;

/// Fraction bits of a normalized value.
pub const FRACTION_BITS: u32 = 23;

/// Binary logarithm of [`MAX_LEN`].
const MAX_LEN_BITS: u32 = 14;
/// Largest length of a normalized vector.
pub const MAX_LEN: usize = 1 << MAX_LEN_BITS;

/// Bits of the squared values `q`, without the sign.
const SQUARED_BITS: i32 = 15;
/// Bits of n² ε when V, which is at most 2^58, is added.
const ADDED_BITS: i32 = 62;

/// ε as `mantissa · 2^exponent`, in the squared unit of the values.
#[derive(Clone, Copy, Debug)]
pub struct Epsilon {
    /// At most 15 bits.
    pub mantissa: u32,
    /// May be negative.
    pub exponent: i32,
}

/// The mean and reciprocal deviation of one vector.
#[derive(Clone, Copy, Debug)]
pub struct Moments {
    /// a₀
    first: i32,
    /// s
    shift: i32,
    /// n
    len: i32,
    /// Σ q
    sum: i32,
    /// Left shift that brings `e` to 30 bits.
    lift: u32,
    /// 1 / √(V + n² ε) over a power of two; 0 if V is 0.
    root: i32,
    /// Exponent of that power of two, minus [`FRACTION_BITS`].
    place: i32,
}

impl Moments {
    /// Measures at most [`MAX_LEN`] values. Equal values all normalize to 0.
    pub fn of(values: impl Iterator<Item = i32> + Clone, epsilon: Epsilon) -> Self {
        Self::measured::<true>(values, epsilon)
    }

    /// Measures the root mean square of at most [`MAX_LEN`] values instead of the deviation, and takes the mean as 0.
    pub fn root_mean_square(values: impl Iterator<Item = i32> + Clone, epsilon: Epsilon) -> Self {
        Self::measured::<false>(values, epsilon)
    }

    fn measured<const HAS_MEAN: bool>(values: impl Iterator<Item = i32> + Clone, epsilon: Epsilon) -> Self {
        let first = if HAS_MEAN { values.clone().next().unwrap_or(0) } else { 0 };
        // The bitwise or has as many bits as the greatest magnitude.
        let (len, seen) =
            values.clone().fold((0_i32, 0), |(len, seen), value| (len + 1, seen | magnitude(value, first)));
        let shift = (32 - seen.leading_zeros()) as i32 - SQUARED_BITS;
        let shifted = values.map(|value| shifted_difference(value, first, shift));
        let (sum, squares) = shifted.fold((0_i32, 0_u64), |(sum, squares), q| {
            (sum.wrapping_add(q), squares.wrapping_add(u64::from(q.wrapping_mul(q).unsigned_abs())))
        });
        let sum = if HAS_MEAN { sum } else { 0 };
        let square = |value: i32| u64::from(value.unsigned_abs()) * u64::from(value.unsigned_abs());
        let variance = u64::from(len.unsigned_abs()).wrapping_mul(squares).wrapping_sub(square(sum));
        let added = (square(len).wrapping_mul(epsilon.mantissa.into()), epsilon.exponent.saturating_sub(2 * shift));
        let len_bits = 32 - len.saturating_sub(1).max(0).leading_zeros();
        let (root, power) = if variance == 0 { (0, 0) } else { inverse_root(variance, added) };
        let lift = MAX_LEN_BITS.saturating_sub(len_bits);
        Self { first, shift, len, sum, lift, root, place: (power - len_bits as i32).min(31) }
    }

    /// Normalizes one value to [`FRACTION_BITS`] fraction bits.
    pub fn apply(&self, value: i32) -> i32 {
        let q = shifted_difference(value, self.first, self.shift);
        let e = self.len.wrapping_mul(q).wrapping_sub(self.sum);
        shifted(mulh(e << (self.lift & 15), self.root), self.place)
    }
}

/// b = a - first, or -b - 1 if b is negative: 32 bits without the sign.
const fn magnitude(a: i32, first: i32) -> u32 {
    let b = a.wrapping_sub(first).cast_unsigned();
    if a < first { !b } else { b }
}

/// `⌊(a - first) / 2^by⌋`; a left shift if `by` is negative, for differences of 31 bits.
const fn shifted_difference(a: i32, first: i32, by: i32) -> i32 {
    let b = a.wrapping_sub(first);
    if by <= 0 {
        return b << (by.unsigned_abs() & 31);
    }
    // Half of the difference has 32 bits again. The comparison gives the sign, which a wrapped difference has lost.
    let half = (b.cast_unsigned() >> 1 | ((a < first) as u32) << 31).cast_signed();
    half >> ((by - 1) & 31)
}

/// `⌊value / 2^by⌋`; a left shift if `by` is negative.
const fn shifted(value: i32, by: i32) -> i32 {
    if by < 0 { value << (by.unsigned_abs() & 31) } else { value >> (by & 31) }
}

/// 1 / √(variance + added · 2^by) as `(r, p)`, meaning `r / 2^(41 + p)`. Uses the first 24 bits of the sum, or 23 so
/// that the number of dropped bits is even. `r` has at least 23 bits.
fn inverse_root(variance: u64, (added, by): (u64, i32)) -> (i32, i32) {
    let excess = (64 - added.leading_zeros() as i32).saturating_add(by) - ADDED_BITS;
    // If the addend needs more bits, both terms lose the same even number of bits.
    let coarser = if added > 0 && excess > 0 { excess / 2 + excess % 2 } else { 0 };
    let value =
        shifted_right(variance, 2 * coarser).wrapping_add(shifted_right(added, (2 * coarser).saturating_sub(by)));
    let power = (64 - value.leading_zeros()).saturating_sub(23) / 2;
    (inverse_root_of_mantissa((value >> (2 * power)) as i32), (power as i32).saturating_add(coarser))
}

/// `⌊value / 2^by⌋`; a left shift if `by` is negative.
const fn shifted_right(value: u64, by: i32) -> u64 {
    match (by < 0, by.unsigned_abs()) {
        (true, by) => value << (by & 63),
        (false, by) if by < 64 => value >> by,
        _ => 0,
    }
}

/// Largest relative error of [`inverse_root_of_mantissa`].
pub const ROOT_MAX_ERROR: f64 = 1.0 / 16_777_216.0;

/// 2^41 / √m for m from 2^22 to 2^24 - 1; the result is below 2^30. Starts from the line 2.132 - 1.218 x with x = m /
/// 2^24, whose error is at most a twelfth, and takes three Newton steps, r (3 - x r²) / 2.
pub fn inverse_root_of_mantissa(m: i32) -> i32 {
    // x has 31 fraction bits, r 29, the intermediate values 28.
    const START: i32 = 1_144_608_784;
    const SLOPE: i32 = 1_307_817_541;
    let x = m.wrapping_shl(7);
    let mut r = START - mulh(x, SLOPE);
    for _ in 0..3 {
        let square = mulh(r << 1, r << 1);
        let left = (3 << 28) - mulh(square << 1, x);
        r = mulh(r << 1, left << 1) << 1;
    }
    r
}
