//! TFLite's quantization in the form that images of the numeric `i8` use: scales as a factor and a power of two, limits
//! in 8 bits.

use tidegate::internals::activation::Activation;

use crate::canonical::Integers;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Counts {
    /// Real value of one unit.
    pub scale: f32,
    /// Integer that represents 0.0.
    pub zero_point: i32,
}

/// A scale as a factor over 2^31, times a power of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Multiplier {
    pub factor: i32,
    pub shift: i32,
}

impl Multiplier {
    pub const ONE: Self = Self { factor: 1 << 30, shift: 1 };
    pub const NONE: Self = Self { factor: 0, shift: 0 };
    const SHIFTS: std::ops::RangeInclusive<i32> = -31..=30;

    /// TFLite's `QuantizeMultiplier`: the factor is at least 2^30, or 0 if the scale is too small. `None` if the scale
    /// is too large or not a positive number.
    pub fn of(scale: f64) -> Option<Self> {
        if !(scale > 0.0 && scale.is_finite()) {
            return None;
        }
        // scale = fraction · 2^shift with a fraction from 1/2 to below 1.
        let mut shift = (scale.log2().floor() as i32).saturating_add(1);
        let mut fraction = scale / f64::from(shift).exp2();
        // The logarithm may be off by one for a scale near a power of two.
        if fraction >= 1.0 {
            (fraction, shift) = (fraction / 2.0, shift + 1);
        } else if fraction < 0.5 {
            (fraction, shift) = (fraction * 2.0, shift - 1);
        }
        let mut factor = (fraction * f64::from(1_u32 << 31)).round() as i64;
        if factor == 1 << 31 {
            (factor, shift) = (factor / 2, shift + 1);
        }
        if shift < *Self::SHIFTS.start() {
            return Some(Self { factor: 0, shift: 0 });
        }
        Self::SHIFTS.contains(&shift).then_some(Self { factor: factor as i32, shift })
    }

    /// Scales `x` as TFLite's kernels do, which round twice: after the product and after the division by a power of two.
    pub fn apply(self, x: i32) -> i32 {
        let shifted = x.wrapping_shl(self.shift.max(0).unsigned_abs());
        let product = (i64::from(shifted) * i64::from(self.factor) + (1 << 30)) >> 31;
        let divisor = 1_i64 << (-self.shift).max(0);
        ((product.abs() + divisor / 2) / divisor * product.signum()) as i32
    }
}

/// Minimum and maximum of TFLite's integers.
pub const LIMITS: [i32; 2] = [-128, 127];

/// An activation's output for each of TFLite's integers, the least first, relative to the output's zero point; `None` if
/// TFLite's kernels have no table of the activation. They compute it in f32.
pub fn table(of: Activation, input: Counts, output: Counts) -> Option<Vec<i32>> {
    // The kernels call the C library's `expf` and `tanhf`. Rounding the f64 results gives the same table unless both
    // roundings fall on different sides of a half, which no scale in use does.
    let curve = |x: f32| -> Option<f32> {
        match of {
            Activation::Sigmoid => Some(1.0 / (1.0 + f64::from(-x).exp() as f32)),
            Activation::Tanh => Some(f64::from(x).tanh() as f32),
            Activation::Exp => Some(f64::from(x).exp() as f32),
            _ => None,
        }
    };
    let entry = |integer: i32| {
        let x = input.scale * (integer - input.zero_point) as f32;
        let y = (curve(x)? * (1.0 / output.scale)).round() as i32;
        Some(y.saturating_add(output.zero_point).clamp(LIMITS[0], LIMITS[1]) - output.zero_point)
    };
    (LIMITS[0]..=LIMITS[1]).map(entry).collect()
}

/// [`table`] of a leaky ReLU, whose kernel has one scale for each sign; `None` if one of them is out of range.
pub fn leaky_relu(alpha: f32, input: Counts, output: Counts) -> Option<Vec<i32>> {
    let below = Multiplier::of((input.scale * alpha / output.scale).into())?;
    let above = Multiplier::of((input.scale / output.scale).into())?;
    let entry = |integer: i32| {
        let x = integer - input.zero_point;
        let y = if x >= 0 { above.apply(x) } else { below.apply(x) };
        y.saturating_add(output.zero_point).clamp(LIMITS[0], LIMITS[1]) - output.zero_point
    };
    Some((LIMITS[0]..=LIMITS[1]).map(entry).collect())
}

/// Minimum and maximum of an activation's output in TFLite's integers; `None` if the activation is not just a clamp.
pub fn limits(of: Activation, counts: Counts) -> Option<[i32; 2]> {
    let integer = |real: f32| counts.zero_point.saturating_add((real / counts.scale).round() as i32).clamp(-128, 127);
    match of {
        Activation::Identity => Some(LIMITS),
        Activation::Relu => Some([integer(0.0), 127]),
        Activation::HardTanh => Some([integer(-1.0), integer(1.0)]),
        Activation::Relu6 => Some([integer(0.0), integer(6.0)]),
        _ => None,
    }
}

/// Builds the [`Integers`] of a value and of the node that computes it.
#[derive(Clone, Debug)]
pub struct Counted(Integers);

impl Counted {
    /// The scale and zero point of a value, without numbers of a node.
    pub fn of(counts: Counts) -> Self {
        Self(Integers { scale: counts.scale, zero_point: counts.zero_point, ..Integers::default() })
    }

    #[must_use]
    pub fn number(mut self, name: &str, value: i32) -> Self {
        self.0.numbers.insert(name.to_owned(), value);
        self
    }

    /// Adds a requantization; `prefix` begins the names of its numbers.
    #[must_use]
    pub fn requantized(self, prefix: &str, by: Multiplier) -> Self {
        self.number(&format!("{prefix}factor"), by.factor).number(&format!("{prefix}shift"), by.shift)
    }

    /// Adds limits that are given in TFLite's integers.
    #[must_use]
    pub fn limited(self, counts: Counts, [least, most]: [i32; 2]) -> Self {
        self.number("least", least - counts.zero_point).number("most", most - counts.zero_point)
    }

    #[must_use]
    pub fn scaled(mut self, name: &str, scales: Vec<f32>) -> Self {
        self.0.scales.insert(name.to_owned(), scales);
        self
    }

    #[must_use]
    pub fn rows(mut self, name: &str, rows: Vec<i32>) -> Self {
        self.0.rows.insert(name.to_owned(), rows);
        self
    }

    pub fn integers(self) -> Integers {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::Multiplier;

    #[test]
    fn a_scale_is_a_fraction_from_one_half_and_a_power_of_two() {
        assert_eq!(Multiplier::of(1.0), Some(Multiplier::ONE));
        assert_eq!(Multiplier::of(0.75), Some(Multiplier { factor: 3 << 29, shift: 0 }));
        // Rounded up to the next power of two.
        let below_one = 1.0 - f64::EPSILON;
        assert_eq!(Multiplier::of(below_one), Some(Multiplier::ONE));
        assert_eq!(Multiplier::of(f64::from(-40_i32).exp2()), Some(Multiplier { factor: 0, shift: 0 }));
        assert_eq!(Multiplier::of(f64::from(-31_i32).exp2()), Some(Multiplier { factor: 1 << 30, shift: -30 }));
        // 1.5 is rounded up, and then the quotient by 2 again.
        assert_eq!(Multiplier { factor: 3 << 29, shift: -1 }.apply(2), 1);
        assert_eq!(Multiplier { factor: 1 << 30, shift: -1 }.apply(5), 2);
        assert_eq!(Multiplier { factor: 1 << 30, shift: -1 }.apply(-6), -2);
        assert_eq!(Multiplier::ONE.apply(-77), -77);
        for none in [0.0, -1.0, f64::NAN, f64::INFINITY, f64::from(40_i32).exp2()] {
            assert_eq!(Multiplier::of(none), None, "{none}");
        }
    }
}
