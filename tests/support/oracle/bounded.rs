//! A number with a bound on the error of f32 arithmetic: operations on single numbers. Sums are in
//! [`sums`](super::sums).
//!
//! The standard model of rounding (Higham, *Accuracy and Stability of Numerical Algorithms*, 2nd ed., 2.4 and 2.8),
//! where â is the computed a and |â - a| ≤ e_a:
//!
//! ```text
//! fl(â op b̂) = (â op b̂)(1 + δ),  |δ| ≤ u = 2^-24;  a product or a quotient may also underflow by 2^-150
//! ```
//!
//! So an operation propagates the inherited error, |â op b̂ - a op b|, and adds u times the largest number that may
//! have been rounded, |a op b| + inherited. If that number may exceed the range of f32, the error is infinite, which no
//! tolerance accepts.
//!
//! ```text
//! |(â + b̂) - (a + b)| ≤ e_a + e_b                              sums, differences
//! |â b̂ - a b|         ≤ |a| e_b + |b| e_a + e_a e_b            products
//! |â/b̂ - a/b|         ≤ (e_a + |a/b| e_b) / (|b| - e_b)        quotients: â/b̂ - a/b = ((â - a) - (a/b)(b̂ - b)) / b̂
//! |√â - √a|           ≤ min(e_a / √a, √e_a)                    as √â - √a = (â - a)/(√â + √a), and |√â - √a|² ≤ |â - a|
//! |e^â - e^a|         ≤ e^a (e^(e_a) - 1)
//! |f(â) - f(a)|       ≤ L e_a                                  L the Lipschitz constant of f
//! ```

use tidegate::internals::cell::softmax::EXP_MAX_RELATIVE_ERROR;

/// u of f32, with room for the oracle's own rounding in f64 (2^-53, some hundred times).
pub(super) const UNIT: f64 = (1.0 + 1e-6) / (1 << 24) as f64;
/// The smallest f32: twice what a product can lose to underflow.
pub(super) const TINY: f64 = 1.401298464324817e-45;
/// Largest relative error of e^x from -87 up.
pub(super) const EXP_ERROR: f64 = EXP_MAX_RELATIVE_ERROR as f64 * (1.0 + 1e-6);
/// Maximum error of e^x below -87, where it leaves the normal numbers.
pub(super) const EXP_FLUSHED: f64 = 2e-38;
/// Greatest x for which f32 represents e^x.
const EXP_LIMIT: f64 = 88.0;

/// γ_n = n u / (1 - n u), the effect of n successive roundings (Higham, 3.1).
pub(super) fn gamma(n: usize) -> f64 {
    let nu = n as f64 * UNIT;
    nu / (1.0 - nu)
}

/// An exact value and the maximum error of f32 arithmetic.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bounded {
    /// The exact value, in f64.
    pub value: f64,
    /// An upper bound of `|computed - value|`.
    pub error: f64,
}

impl Bounded {
    /// A number that f32 holds exactly.
    pub fn exact(value: f32) -> Self {
        Self { value: f64::from(value), error: 0.0 }
    }

    /// A value whose computed counterpart is off by at most `error` if nothing overflows.
    pub fn new(value: f64, error: f64) -> Self {
        // Written so that an error that is NaN (0 · ∞) is infinite too.
        let within = value.abs() + error <= f64::from(f32::MAX);
        Self { value, error: if within { error } else { f64::INFINITY } }
    }

    /// `value`, off by `inherited` before one rounding.
    fn rounded(value: f64, inherited: f64) -> Self {
        Self::new(value, inherited + UNIT * (value.abs() + inherited))
    }

    /// Adds the error of an underflow.
    fn underflowing(self) -> Self {
        Self { error: self.error + TINY, ..self }
    }

    /// The largest magnitude that the computed number can have.
    pub fn magnitude(self) -> f64 {
        self.value.abs() + self.error
    }

    /// a + b
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self::rounded(self.value + other.value, self.error + other.error)
    }

    /// a - b
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        self.plus(other.negated())
    }

    /// 1 - a
    #[must_use]
    pub fn one_minus(self) -> Self {
        Self::exact(1.0).minus(self)
    }

    /// a b
    #[must_use]
    pub fn times(self, other: Self) -> Self {
        let inherited = self.value.abs() * other.error + other.value.abs() * self.error + self.error * other.error;
        Self::rounded(self.value * other.value, inherited).underflowing()
    }

    /// a times a number that f32 holds exactly.
    #[must_use]
    pub fn scaled(self, by: f32) -> Self {
        self.times(Self::exact(by))
    }

    /// a / b. Where b may have been computed as 0, the error is infinite.
    #[must_use]
    pub fn over(self, divisor: Self) -> Self {
        self.over_at_least(divisor, 0.0)
    }

    /// a / b where the computed |b| is never below `least`, even if its bound allows less.
    #[must_use]
    pub fn over_at_least(self, divisor: Self, least: f64) -> Self {
        let least = (divisor.value.abs() - divisor.error).max(least);
        let value = if divisor.value == 0.0 { 0.0 } else { self.value / divisor.value };
        if !(least > 0.0) {
            return Self { value, error: f64::INFINITY };
        }
        Self::rounded(value, (self.error + value.abs() * divisor.error) / least).underflowing()
    }

    /// -a, exact.
    #[must_use]
    pub fn negated(self) -> Self {
        Self { value: -self.value, ..self }
    }

    /// |a|, exact.
    #[must_use]
    pub fn abs(self) -> Self {
        Self { value: self.value.abs(), ..self }
    }

    /// The maximum. It is exact and at most as far off as the worse operand. If one operand is always greater, the result is
    /// that operand.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        let (greater, less) = if self.value >= other.value { (self, other) } else { (other, self) };
        let apart = greater.value - greater.error >= less.value + less.error;
        Self { value: greater.value, error: if apart { greater.error } else { greater.error.max(less.error) } }
    }

    /// The minimum: see [`Bounded::max`].
    #[must_use]
    pub fn min(self, other: Self) -> Self {
        self.negated().max(other.negated()).negated()
    }

    /// max(a, 0). Exact; Lipschitz constant 1.
    #[must_use]
    pub fn relu(self) -> Self {
        self.max(Self::exact(0.0))
    }

    /// Clamps to ±limit; a limit of 0 means none. Exact; Lipschitz constant 1, and off by at most the distance to the
    /// far limit.
    #[must_use]
    pub fn clipped(self, limit: f64) -> Self {
        if limit > 0.0 {
            let value = self.value.clamp(-limit, limit);
            Self { value, error: self.error.min(value.abs() + limit) }
        } else {
            self
        }
    }

    /// f(a), where `value` is f of the exact a, f has this Lipschitz constant, and the computed f is within `stated` of
    /// f.
    #[must_use]
    pub fn through(self, value: f64, lipschitz: f64, stated: f64) -> Self {
        Self::new(value, lipschitz * self.error + stated)
    }

    /// The same number, whose computed counterpart is known to be in `low` to `high` for any inherited error.
    #[must_use]
    pub fn within(self, low: f64, high: f64) -> Self {
        Self { error: self.error.min((self.value - low).max(high - self.value)), ..self }
    }

    /// e^a, by an `exp` with the stated relative error.
    #[must_use]
    pub fn exp(self) -> Self {
        let value = self.value.exp();
        if !(self.value + self.error <= EXP_LIMIT) {
            return Self { value, error: f64::INFINITY };
        }
        // e^(e_a) (1 + ε) - 1
        let factor = self.error.exp_m1() * (1.0 + EXP_ERROR) + EXP_ERROR;
        Self::new(value, value * factor + EXP_FLUSHED)
    }

    /// √a, correctly rounded, where the computed a is never negative, such as a sum of squares.
    #[must_use]
    pub fn sqrt(self) -> Self {
        let value = self.value.sqrt();
        let inherited = if self.error == 0.0 { 0.0 } else { (self.error / value).min(self.error.sqrt()) };
        Self::rounded(value, inherited)
    }

    /// 1/√a as a square root and a reciprocal, two roundings, where the computed a is never below `least`. If it may be
    /// 0, the error is infinite.
    ///
    /// 1/√ decreases, so the computed value is between 1/√(a + e_a) and 1/√(max(a - e_a, least)).
    /// The two roundings: (1 + u) / (1 - u) ≤ 1 + γ_2.
    #[must_use]
    pub fn rsqrt(self, least: f64) -> Self {
        let lowest = (self.value - self.error).max(least);
        if !(lowest > 0.0 && self.value > 0.0) {
            return Self { value: 0.0, error: f64::INFINITY };
        }
        let root = |a: f64| 1.0 / a.sqrt();
        let value = root(self.value);
        let inherited = (root(lowest) - value).max(value - root(self.value + self.error)).max(0.0);
        Self::new(value, inherited + gamma(2) * (value + inherited))
    }

    /// a - ⌊a/b⌋ b for b > 0, in 0 to b: computed by the remainder of IEEE 754 (`%`), which is exact, and `+ b` if that
    /// is negative.
    ///
    /// If ⌊a/b⌋ = k for the computed numbers too, the result inherits e_a + |k| e_b, and the sum is rounded. If this
    /// could move the result past 0 or b, k may differ, and only the range 0 to b is known.
    #[must_use]
    pub fn floor_mod(self, divisor: Self) -> Self {
        if !(divisor.value - divisor.error > 0.0) {
            return Self { value: 0.0, error: f64::INFINITY };
        }
        let value = self.value.rem_euclid(divisor.value);
        let turns = ((self.value - value) / divisor.value).abs();
        let sum = if self.value - self.error < 0.0 { UNIT * divisor.magnitude() } else { 0.0 };
        let error = self.error + turns * divisor.error + sum;
        let same_turn = error == 0.0 || (value - error >= 0.0 && value + error < divisor.value - divisor.error);
        Self::new(value, if same_turn { error } else { divisor.magnitude() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Rng;

    /// Checks that a value computed in f32 is within its bound.
    fn hold(got: f32, bounded: Bounded) {
        let off = (f64::from(got) - bounded.value).abs();
        assert!(off <= bounded.error, "{got:e} is off by {off:e} from {bounded:?}");
    }

    /// A number of random magnitude, and its result after two roundings.
    fn operand(rng: &mut Rng) -> (f32, Bounded) {
        let limits = [1.0, 0.1, 30.0, 1e-20, 1e4];
        let [a, b, c] = [0; 3].map(|_| rng.pick(&limits)).map(|limit| rng.number(limit));
        let bounded = Bounded::exact(a).times(Bounded::exact(b)).plus(Bounded::exact(c));
        (a * b + c, bounded)
    }

    #[test]
    fn the_unit_is_half_the_epsilon_of_f32() {
        assert!(UNIT >= f64::from(f32::EPSILON) / 2.0 && UNIT < f64::from(f32::EPSILON) / 1.99);
        assert_eq!(TINY, f64::from(f32::from_bits(1)));
    }

    #[test]
    fn every_operation_in_f32_stays_within_its_bound() {
        let mut rng = Rng::new(31);
        for _ in 0..100_000 {
            let ((x, a), (y, b)) = (operand(&mut rng), operand(&mut rng));
            let scale = rng.number(3.0);
            hold(x, a);
            hold(x + y, a.plus(b));
            hold(x - y, a.minus(b));
            hold(1.0 - x, a.one_minus());
            hold(x * y, a.times(b));
            hold(x * scale, a.scaled(scale));
            hold(x.abs(), a.abs());
            hold(x.max(y), a.max(b));
            hold(x.min(y), a.min(b));
            hold((x * y).max(0.0), a.times(b).relu());
            hold(x.clamp(-0.5, 0.5), a.clipped(0.5));
            hold((x * x).sqrt(), a.times(a).sqrt());
            if x.abs() < 80.0 {
                // The C library's, which is within an ulp as ours is.
                hold(x.exp(), a.exp());
            }
            let positive = a.times(a).plus(Bounded::exact(1e-3));
            let root = 1.0 / (x * x + 1e-3).sqrt();
            if root.is_finite() {
                hold(root, positive.rsqrt(0.9e-3));
            }
            hold(x / (y * y + 0.5), a.over_at_least(b.times(b).plus(Bounded::exact(0.5)), 0.5));
            if (x / y).is_finite() {
                hold(x / y, a.over(b));
            }
            let period = 0.25 + scale.abs();
            hold(x.rem_euclid(period), a.floor_mod(Bounded::exact(period)));
            hold(scale.rem_euclid(y.abs() + 1.0), Bounded::exact(scale).floor_mod(b.abs().plus(Bounded::exact(1.0))));
        }
    }

    #[test]
    fn a_bound_is_not_much_larger_than_necessary() {
        let [third, seven] = [1.0 / 3.0, 7.0].map(Bounded::exact);
        for result in [third.plus(seven), third.times(seven), third.over(seven), seven.sqrt(), seven.rsqrt(1.0)] {
            assert!(result.error <= 2.1 * UNIT * result.value, "{result:?}");
        }
        assert!(third.exp().error <= 1.1 * EXP_ERROR * third.exp().value);
        assert_eq!(Bounded::exact(5.5).floor_mod(Bounded::exact(2.0)), Bounded::exact(1.5));
        assert_eq!(third.max(seven), seven);
        assert_eq!(third.min(seven), third);
    }

    #[test]
    fn operands_without_limits_have_an_infinite_error() {
        let [one, zero, large] = [1.0, 0.0, 1e30].map(Bounded::exact);
        let near_zero = Bounded { value: 1e-9, error: 1e-8 };
        let results =
            [one.over(zero), one.over(near_zero), near_zero.rsqrt(0.0), one.floor_mod(near_zero), large.times(large)];
        for result in [results.as_slice(), &[large.exp(), zero.times(large.exp())]].concat() {
            assert_eq!(result.error, f64::INFINITY, "{result:?}");
        }
        assert!(near_zero.rsqrt(1e-10).error.is_finite());
        assert!(one.over_at_least(near_zero, 1e-10).error.is_finite());
        assert_eq!(one.over(zero).through(0.5, 0.25, 1e-7).within(0.0, 1.0).error, 0.5);
    }
}
