//! The fixed-point arithmetic of the numeric `i8`: gemmlowp's (<https://github.com/google/gemmlowp>), as TFLite's
//! kernels use it. FORMAT.md defines the same rules in words.
//!
//! A value of `W` bits, 16 or 32, is held in an i32. With `m` integer bits it has `W - 1 - m` fraction bits.

/// The greatest value of `W` bits.
const fn most<const W: u32>() -> i32 {
    i32::MAX >> (i32::BITS - W)
}

/// Narrows a 32-bit constant to `W` bits.
pub const fn constant<const W: u32>(value: i32) -> i32 {
    halved(value, i32::BITS - W)
}

/// a · b / 2^(`W` - 1), rounded to nearest, halves up. At most one of the factors may be the least value.
pub(crate) const fn product<const W: u32>(a: i32, b: i32) -> i32 {
    if W == 16 { (a * b + (1 << 14)) >> 15 } else { ((a as i64 * b as i64 + (1 << (W - 2))) >> (W - 1)) as i32 }
}

/// [`product`]. For 16 bits it takes two instructions of the DSP extension, where compilers generate three.
#[inline(always)]
fn product_of<const W: u32>(a: i32, b: i32) -> i32 {
    debug_assert!(W == 32 || [a, b].map(|factor| factor as i16).map(i32::from) == [a, b]);
    #[cfg(all(target_arch = "arm", feature = "dsp"))]
    if W == 16 {
        return crate::kernel::of_halves(a, b, 1 << 14) >> 15;
    }
    product::<W>(a, b)
}

/// x / 2^by, rounded to nearest, halves away from zero. `by` is at most 31.
#[inline(always)]
pub(crate) const fn halved(x: i32, by: u32) -> i32 {
    if by == 0 {
        return x;
    }
    // The least value, whose predecessor does not exist, is divided without a remainder.
    let toward_zero = x.saturating_add(x >> 31);
    let twice = toward_zero >> (by.wrapping_sub(1) & 31);
    (twice >> 1) + (twice & 1)
}

/// x · 2^by, saturated to `W` bits. `by` is 1 or 2.
fn doubled<const W: u32>(x: i32, by: u32) -> i32 {
    let most = most::<W>();
    if W == 16 {
        return (x << by).clamp(!most, most);
    }
    let room = most >> by;
    if x > room {
        most
    } else if x < -room {
        !most
    } else {
        x << by
    }
}

/// The multiplier of a requantization: a factor below 1 with 31 fraction bits, and a power of two from -31 to 30.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Multiplier {
    /// The factor.
    pub factor: i32,
    /// The exponent of the power of two.
    pub shift: i32,
}

impl Multiplier {
    /// The least exponent of the power of two.
    pub const LEAST_SHIFT: i32 = -31;
    /// The greatest exponent of the power of two.
    pub const MOST_SHIFT: i32 = 30;

    /// Scales `x`. Rounds once, halves up.
    pub const fn once(self, x: i32) -> i32 {
        // From 1 to 62.
        let shift = ((Self::MOST_SHIFT + 1).wrapping_sub(self.shift) & 63).unsigned_abs();
        (((x as i64) * (self.factor as i64) + (1 << shift.wrapping_sub(1))) >> shift) as i32
    }

    /// Scales `x`. Rounds twice: after the product and after the division by a power of two.
    pub const fn of(self, x: i32) -> i32 {
        if self.shift > 0 {
            product::<32>(x.wrapping_shl(self.shift.unsigned_abs()), self.factor)
        } else {
            halved(product::<32>(x, self.factor), self.shift.unsigned_abs())
        }
    }
}

/// e^(-1/8)
pub const EIGHTH: i32 = 1_895_147_668;
/// 1/3
pub const THIRD: i32 = 715_827_883;
/// e^-2^k for k from -2.
pub const POWERS: [i32; 7] = [1_672_461_947, 1_302_514_674, 790_015_084, 290_630_308, 39_332_535, 720_401, 242];
/// The line 48/17 - 32/17 d, with two integer bits: the first approximation of 1 / d.
pub const LINE: [i32; 2] = [1_515_870_810, -1_010_580_540];

/// e^x for x from -1/4 to below 0, without integer bits: a Taylor expansion around -1/8.
#[inline(always)]
fn exp_of_quarter<const W: u32>(x: i32) -> i32 {
    let eighth = const { constant::<W>(EIGHTH) };
    let third = const { constant::<W>(THIRD) };
    let x = x + (1 << (W - 4));
    let x2 = product_of::<W>(x, x);
    let x3 = product_of::<W>(x2, x);
    let x4 = product_of::<W>(x2, x2);
    let rest = halved(product_of::<W>(halved(x4, 2) + x3, third) + x2, 1);
    let sum = eighth.wrapping_add(product_of::<W>(eighth, x + rest));
    if W == 16 { sum.min(most::<W>()) } else { sum }
}

/// Multiplies by e^-2^(K - 2) if bit `K` of the count of quarters is set.
#[inline(always)]
fn times_power<const W: u32, const K: usize>(result: i32, quarters: i32) -> i32 {
    let power = const { constant::<W>(POWERS[K]) };
    if quarters & (1 << K) == 0 { result } else { product_of::<W>(result, power) }
}

/// e^x for x ≤ 0 with `integer_bits`, at least 1. The result has no integer bits and saturates at 1.
#[inline(always)]
pub(crate) fn exp<const W: u32>(x: i32, integer_bits: u32) -> i32 {
    if x == 0 {
        return most::<W>();
    }
    let fraction_bits = (W - 1).saturating_sub(integer_bits);
    let quarter_bits = fraction_bits.saturating_sub(2);
    let quarter = 1 << quarter_bits;
    let below = (x & (quarter - 1)) - quarter;
    let quarters = below.wrapping_sub(x) >> (quarter_bits & 31);
    // Unrolled by hand: compilers that optimize for size would keep a loop, which takes twice the instructions.
    let result = exp_of_quarter::<W>(below << (integer_bits & 31));
    let result = times_power::<W, 0>(result, quarters);
    let result = times_power::<W, 1>(result, quarters);
    let result = times_power::<W, 2>(result, quarters);
    let result = times_power::<W, 3>(result, quarters);
    let mut result = times_power::<W, 4>(result, quarters);
    if integer_bits > 3 && quarters >> 5 != 0 {
        result = times_power::<W, 6>(times_power::<W, 5>(result, quarters), quarters);
    }
    // The powers above cover arguments down to -32.
    if integer_bits > 5 && x < -(32 << fraction_bits) { 0 } else { result }
}

/// 2 / (1 + x) for x from 0 to 1 without integer bits; the result has two. Three Newton iterations.
fn reciprocal<const W: u32>(x: i32) -> i32 {
    let one = 1 << (W - 3);
    // Both are nonnegative.
    let half_denominator = (x.cast_unsigned().wrapping_add(1 << (W - 1)) >> 1).cast_signed();
    let mut y = const { constant::<W>(LINE[0]) } + product_of::<W>(half_denominator, const { constant::<W>(LINE[1]) });
    for _ in 0..3 {
        let rest = one - product_of::<W>(half_denominator, y);
        y = y.wrapping_add(doubled::<W>(product_of::<W>(y, rest), 2));
    }
    y
}

/// 1 / (1 + x) for x from 0 to 1, both without integer bits.
pub(crate) fn reciprocal_of_more<const W: u32>(x: i32) -> i32 {
    doubled::<W>(reciprocal::<W>(x), 1)
}

/// 1 / (1 + e^-x) for x with 3 integer bits; the result has none.
#[inline(never)]
pub(crate) fn sigmoid(x: i16) -> i16 {
    const ONE: i32 = most::<16>();
    let x = i32::from(x);
    let of_magnitude = reciprocal_of_more::<16>(exp::<16>(-x.abs(), 3));
    let y = match x {
        0 => 1 << 14,
        1.. => of_magnitude,
        _ => ONE - of_magnitude,
    };
    y as i16
}

/// tanh(x) for x with `integer_bits`, at most 6; the result has none.
#[inline(never)]
pub(crate) fn tanh(x: i16, integer_bits: u32) -> i16 {
    tanh_of(x, integer_bits)
}

/// [`tanh`] for x with 3 integer bits, the format of a gate, in fewer instructions.
#[inline(never)]
pub(crate) fn tanh_of_gate(x: i16) -> i16 {
    tanh_of(x, 3)
}

#[inline(always)]
fn tanh_of(x: i16, integer_bits: u32) -> i16 {
    let x = i32::from(x);
    if x == 0 {
        return 0;
    }
    // (1 - e^-2x) / (1 + e^-2x). 2x has one integer bit more than x.
    let e = exp::<16>(-x.abs(), integer_bits + 1);
    let y = doubled::<16>(reciprocal::<16>(e) - (1 << 13), 2);
    (if x < 0 { -y } else { y }) as i16
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::{Multiplier, exp, halved, product, sigmoid, tanh};

    #[test]
    fn products_and_quotients_round_as_they_say() {
        for (a, b) in [(3, 1 << 14), (-3, 1 << 14), (5, 1 << 13), (-5, 1 << 13), (-32768, 32767), (32767, 32767)] {
            let exact = f64::from(a) * f64::from(b) / 32768.0;
            assert_eq!(f64::from(product::<16>(a, b)), (exact + 0.5).floor(), "{a} {b}");
            let whole = (exact * 65_536.0 + 0.5).floor();
            assert_eq!(f64::from(product::<32>(a << 16, b << 16)), whole, "{a} {b}");
        }
        for (x, by) in
            [(3, 1), (-3, 1), (5, 2), (-5, 2), (6, 2), (-6, 2), (7, 0), (-7, 0), (i32::MIN, 31), (i32::MAX, 31)]
        {
            assert_eq!(f64::from(halved(x, by)), (f64::from(x) / f64::from(by).exp2()).round(), "{x} {by}");
        }
        assert_eq!(Multiplier { factor: 1 << 30, shift: 1 }.of(-77), -77);
        assert_eq!(Multiplier { factor: 1 << 30, shift: -1 }.of(6), 2);
        for (factor, shift) in [(1 << 30, 1), (1_500_000_001, -4), (2_147_483_647, -31), (1_100_000_007, 30)] {
            for x in [0, 1, -1, 77, -77, 12_345_678, -12_345_678, 1 << 30] {
                let exact = f64::from(x) * f64::from(factor) * f64::from(shift - 31).exp2();
                if exact.abs() < 1e9 {
                    assert_eq!(
                        f64::from(Multiplier { factor, shift }.once(x)),
                        (exact + 0.5).floor(),
                        "{x} {factor} {shift}"
                    );
                }
            }
        }
    }

    /// The tolerance is small enough to detect a wrong constant, bit or power.
    #[test]
    fn curves_are_near_the_exact_ones_over_their_whole_range() {
        let unit = 32768.0;
        for x in i16::MIN..=i16::MAX {
            let real = f64::from(x) / 4096.0;
            let far = f64::from(sigmoid(x)) / unit - 1.0 / (1.0 + (-real).exp());
            assert!(far.abs() < 1e-3, "sigmoid {x}: {far}");
            for bits in 0..=6 {
                let real = f64::from(x) / f64::from(15 - bits).exp2();
                let far = f64::from(tanh(x, bits)) / unit - real.tanh();
                assert!(far.abs() < 2e-3, "tanh {x} {bits}: {far}");
            }
        }
        for k in 0..10_000 {
            let x = -k * 214_748;
            let far = f64::from(exp::<32>(x, 5)) / 2_147_483_648.0 - (f64::from(x) / 67_108_864.0).exp();
            assert!(far.abs() < 1e-6, "exp {x}: {far}");
        }
    }
}
