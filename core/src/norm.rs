//! Normalization of a vector to mean 0 and variance 1, shared by all layers and cells that normalize.
//!
//! ```text
//! m = Σ x / n      v = Σ (x - m)² / n      r = 1 / √(v + ε)      y = (x - m) r
//! ```
//!
//! Two passes keep the digits of a small variance far from zero. v is the population variance. For the root mean square, m is
//! 0. The caller applies gain and bias.

use crate::math;

/// The mean and reciprocal deviation of one vector.
#[derive(Clone, Copy, Debug)]
pub struct Moments {
    mean: f32,
    scale: f32,
}

impl Moments {
    /// Measures the elements. For an empty vector, or for zero variance and zero epsilon, normalized values are NaN.
    pub fn of(x: impl Iterator<Item = f32> + Clone, epsilon: f32) -> Self {
        let (count, sum) = x.clone().fold((0_u32, 0.0), |(count, sum), x| (count + 1, sum + x));
        let len = count as f32;
        Self::about(sum / len, x, len, epsilon)
    }

    /// Measures the root mean square instead of the deviation, and takes the mean as 0.
    pub fn root_mean_square(x: impl Iterator<Item = f32> + Clone, epsilon: f32) -> Self {
        let len = x.clone().fold(0_u32, |count, _| count + 1) as f32;
        Self::about(0.0, x, len, epsilon)
    }

    fn about(mean: f32, x: impl Iterator<Item = f32>, len: f32, epsilon: f32) -> Self {
        let squares = x.fold(0.0, |sum, x| sum + (x - mean) * (x - mean));
        Self { mean, scale: 1.0 / math::sqrt(squares / len + epsilon) }
    }

    /// Normalizes one element.
    pub fn apply(self, x: f32) -> f32 {
        (x - self.mean) * self.scale
    }
}

#[cfg(test)]
mod tests {
    use super::Moments;

    #[test]
    fn a_small_variance_far_from_zero_is_not_lost() {
        let x = [1000.0, 1000.5, 1001.0, 1000.5];
        let moments = Moments::of(x.iter().copied(), 1e-12);
        let y = x.map(|x| moments.apply(x));
        let expected = [-core::f32::consts::SQRT_2, 0.0, core::f32::consts::SQRT_2, 0.0];
        assert!(y.iter().zip(expected).all(|(y, expected)| (y - expected).abs() < 2e-3), "{y:?}");
    }
}
