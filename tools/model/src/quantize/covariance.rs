//! The covariance of the values that a node's rows multiply, and rounding of weights that accounts for it: the error of
//! each weight is compensated by the weights after it, so that the error of the sum becomes small. This is optimal brain
//! quantization in a fixed order (Frantar et al. 2023, "GPTQ", arXiv:2210.17323).

use super::distribution::STEPS_FOR_MEAN;
use super::matrix::{self, end, is_bounded};
use crate::canonical::{Canonical, Node};

/// Greatest number of values of a node.
const MOST_VALUES: usize = 1024;
/// Maximum number of steps of which each is used; then every second step is used, and so on. Many values lower it.
const STEPS: u64 = 8192;
/// Maximum number of products of values in that number of steps.
const PRODUCTS: u64 = 1_000_000_000;
/// The share of the mean variance that is added to each variance, for values that the calibration did not contain.
const DAMPING: f64 = 0.01;
/// Number of steps for each value at which the covariance between two values is halved. With few steps, most of an observed
/// covariance is chance.
const STEPS_FOR_EACH: f64 = 1.0;

/// Sums of products of the values, step by step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Covariance {
    /// Limit of each value's magnitude: a greater value only saturates activations.
    ends: Vec<f64>,
    seen: u64,
    count: f64,
    sums: Vec<f64>,
    /// The values of the step before, and the sums of products of each value with that of the step before.
    before: Vec<f64>,
    lagged: Vec<f64>,
    /// `[n, n]`; the part from the diagonal on is used.
    products: Vec<f64>,
}

impl Covariance {
    /// An empty covariance of a node's input and previous output; `None` if the node does not multiply them.
    pub fn of(node: &Node, model: &Canonical) -> Option<Self> {
        let matrices = [matrix::input_matrix(node, model), matrix::matrix("recurrent_weights", node, model)];
        let size = node.input_size + if matrices[1].is_some() { node.output_size } else { 0 };
        let mut ends = Vec::new();
        for (tensor, cols) in matrices.into_iter().flatten() {
            // A product of a column's usual weight beyond this only saturates activations.
            let rows = (tensor.data.len() / cols) as f64;
            ends.extend((0..cols).map(|col| {
                let squares = tensor.data.iter().skip(col).step_by(cols).map(|weight| f64::from(*weight).powi(2));
                end((squares.sum::<f64>() / rows).sqrt() as f32, is_bounded(node))
            }));
        }
        (node.unroll.is_none() && ends.len() == size && size <= MOST_VALUES).then(|| Self::new(ends))
    }

    /// Creates a covariance without steps. `ends` holds the limit of each value.
    fn new(ends: Vec<f64>) -> Self {
        let n = ends.len();
        let zeros = vec![0.0; n];
        Self {
            ends,
            sums: zeros.clone(),
            before: zeros.clone(),
            lagged: zeros,
            products: vec![0.0; n * n],
            ..Self::default()
        }
    }

    /// Adds the values of a step. Steps with other numbers of values are ignored.
    pub fn see(&mut self, values: impl Iterator<Item = f32>) {
        self.seen += 1;
        let steps = (PRODUCTS / (self.ends.len() as u64).pow(2).max(1)).clamp(128, STEPS);
        if !self.seen.is_multiple_of(1 + self.seen / steps) {
            return;
        }
        let values: Vec<f64> = values.zip(&self.ends).map(|(value, &end)| f64::from(value).clamp(-end, end)).collect();
        let n = self.ends.len();
        if values.len() != n || !values.iter().all(|value| value.is_finite()) {
            return;
        }
        self.count += 1.0;
        for (at, &value) in values.iter().enumerate() {
            self.sums[at] += value;
            self.lagged[at] += value * self.before[at];
            if value != 0.0 {
                let products = &mut self.products[at * n + at..(at + 1) * n];
                products.iter_mut().zip(&values[at..]).for_each(|(product, other)| *product += value * other);
            }
        }
        self.before = values;
    }

    /// The number of independent steps that would show the covariances as well as the observed steps, of which consecutive ones
    /// are alike. With the correlation ρ of consecutive values, products of values have the correlation ρ² (Bartlett 1935).
    fn independent(&self) -> f64 {
        let n = self.ends.len();
        let (mut variances, mut lagged) = (0.0, 0.0);
        for at in 0..n {
            let mean = self.sums[at] / self.count;
            let variance = self.products[at * n + at] / self.count - mean * mean;
            if variance > 0.0 {
                variances += 1.0;
                lagged += ((self.lagged[at] / self.count - mean * mean) / variance).clamp(0.0, 1.0);
            }
        }
        let square = if variances > 0.0 { (lagged / variances).powi(2) } else { 0.0 };
        self.count * (1.0 - square) / (1.0 + square)
    }

    /// The means of the values from index `first` on, shrunk toward 0 if there are few steps; `None` without steps.
    pub fn means(&self, first: usize) -> Option<Vec<f64>> {
        let sums = self.sums.get(first..).filter(|_| self.count > 0.0)?;
        Some(sums.iter().map(|sum| sum / (self.count + STEPS_FOR_MEAN)).collect())
    }

    /// The factor for rounding with some of the values: those of `parts`, ranges of values with their scales.
    pub fn factor(&self, parts: &[(std::ops::Range<usize>, f64)]) -> Option<Factor> {
        let n = self.ends.len();
        let used: Vec<(usize, f64)> =
            parts.iter().flat_map(|(range, scale)| range.clone().map(|at| (at, *scale))).collect();
        if self.count < 2.0 || used.iter().any(|&(at, _)| at >= n) {
            return None;
        }
        let covariance = |(a, a_scale): (usize, f64), (b, b_scale): (usize, f64)| {
            let product = self.products[a.min(b) * n + a.max(b)] / self.count;
            (product - self.sums[a] * self.sums[b] / (self.count * self.count)) / (a_scale * b_scale)
        };
        let size = used.len();
        let steps = self.independent();
        let believed = steps / (steps + STEPS_FOR_EACH * size as f64);
        let damping = DAMPING * used.iter().map(|&of| covariance(of, of)).sum::<f64>() / size.max(1) as f64;
        let mut matrix = vec![0.0; size * size];
        for (row, &a) in used.iter().enumerate() {
            for (col, &b) in used.iter().enumerate() {
                // Rounding to integers adds a twelfth to each variance.
                matrix[row * size + col] = if row == col {
                    covariance(a, b) + damping.max(0.0) + 1.0 / 12.0
                } else {
                    believed * covariance(a, b)
                };
            }
        }
        Factor::new(matrix, size)
    }
}

/// The upper triangular U with Uᵀ U = H⁻¹, where H is the covariance: row j says how the weights after j compensate the
/// error of weight j.
#[derive(Clone, Debug)]
pub struct Factor {
    size: usize,
    upper: Vec<f64>,
}

impl Factor {
    fn new(matrix: Vec<f64>, size: usize) -> Option<Self> {
        // H = V Vᵀ with V upper triangular, from the last column on; then U is the inverse of V.
        let mut v = matrix;
        for col in (0..size).rev() {
            let rest =
                |v: &[f64], row: usize| -> f64 { (col + 1..size).map(|k| v[row * size + k] * v[col * size + k]).sum() };
            let pivot = v[col * size + col] - rest(&v, col);
            if !(pivot > 0.0) {
                return None;
            }
            let root = pivot.sqrt();
            for row in 0..col {
                v[row * size + col] = (v[row * size + col] - rest(&v, row)) / root;
            }
            v[col * size + col] = root;
        }
        let mut upper = vec![0.0; size * size];
        for row in (0..size).rev() {
            let pivot = v[row * size + row];
            upper[row * size + row] = 1.0 / pivot;
            for k in row + 1..size {
                let share = v[row * size + k] / pivot;
                let (above, below) = upper.split_at_mut(k * size);
                let (to, from) = (&mut above[row * size..(row + 1) * size], &below[..size]);
                to[k..].iter_mut().zip(&from[k..]).for_each(|(to, from)| *to -= share * from);
            }
        }
        Some(Self { size, upper })
    }

    /// Rounds weights one after the other. `round(j, weight)` returns the rounded weight j.
    pub fn round(&self, weights: &[f64], mut round: impl FnMut(usize, f64) -> f64) {
        let mut weights = weights.to_vec();
        for at in 0..self.size.min(weights.len()) {
            let row = &self.upper[at * self.size..(at + 1) * self.size];
            let error = (weights[at] - round(at, weights[at])) / row[at];
            weights[at + 1..].iter_mut().zip(&row[at + 1..]).for_each(|(weight, by)| *weight -= error * by);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two values that are nearly equal: the error of one weight is compensated by the other.
    #[test]
    fn weights_of_values_that_move_together_compensate_each_other() {
        let mut covariance = Covariance::new(vec![f64::INFINITY; 3]);
        for step in 0..1000 {
            let value = ((step * 37) % 101) as f32 - 50.0;
            covariance.see([value, value + ((step * 13) % 7) as f32 * 0.01, ((step * 71) % 89) as f32].into_iter());
        }
        let factor = covariance.factor(&[(0..3, 1.0)]).unwrap();
        let (weights, mut rounded) = ([0.4, 0.4, 0.3], [0.0; 3]);
        factor.round(&weights, |at, weight| {
            rounded[at] = weight.round();
            rounded[at]
        });
        assert_eq!(rounded[0] + rounded[1], 1.0, "{rounded:?}");
        assert_eq!(rounded[2], 0.0);
    }

    #[test]
    fn the_factor_is_that_of_the_inverse() {
        let factor = Factor::new(vec![4.0, 2.0, 0.6, 2.0, 3.0, 0.4, 0.6, 0.4, 2.0], 3).unwrap();
        let h = [[4.0, 2.0, 0.6], [2.0, 3.0, 0.4], [0.6, 0.4, 2.0]];
        let u = |row: usize, col: usize| factor.upper[row * 3 + col];
        for row in 0..3 {
            for col in 0..3 {
                // (Uᵀ U) H is the identity.
                let inverse = |a: usize, b: usize| (0..3).map(|k| u(k, a) * u(k, b)).sum::<f64>();
                let product: f64 = h.iter().enumerate().map(|(k, of)| inverse(row, k) * of[col]).sum();
                assert!((product - f64::from(u8::from(row == col))).abs() < 1e-12, "{row} {col}: {product}");
            }
        }
        assert!(Factor::new(vec![1.0, 2.0, 2.0, 1.0], 2).is_none());
    }
}
