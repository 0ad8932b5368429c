//! Sums of [`Bounded`] numbers in any order: dot products, means, layer normalization.
//!
//! ```text
//! |fl(b + Σ w x) - (b + Σ w x)| ≤ γ_{n+1} (|b| + Σ |w| |x|),  γ_n = n u / (1 - n u)     Higham, 3.1
//! ```
//!
//! for any order of the n terms: each takes part in one product and at most n additions. The magnitudes are the
//! computed ones; inherited errors propagate as in [`bounded`](super::bounded).

use super::bounded::{Bounded, TINY, UNIT, gamma};
use super::count;

/// Σ |w| |x|, the scale of a derived bound.
pub fn abs_dot(weights: &[f32], x: &[f32]) -> f64 {
    weights.iter().zip(x).map(|(&w, &x)| (f64::from(w) * f64::from(x)).abs()).sum()
}

/// `start + Σ w x` in any order of summation.
pub fn dot(start: Bounded, weights: &[f32], x: &[Bounded]) -> Bounded {
    assert_eq!(weights.len(), x.len(), "a row and its operand");
    count::macs(x.len());
    dot_of(start, weights.iter().map(|&w| Bounded::exact(w)).zip(x.iter().copied()))
}

/// `start + Σ a b` in any order of summation.
pub fn dot_of(start: Bounded, terms: impl IntoIterator<Item = (Bounded, Bounded)>) -> Bounded {
    let (mut value, mut inherited, mut scale, mut n) = (start.value, start.error, start.magnitude(), 0);
    for (a, b) in terms {
        value += a.value * b.value;
        inherited += a.value.abs() * b.error + b.value.abs() * a.error + a.error * b.error;
        scale += a.magnitude() * b.magnitude();
        n += 1;
    }
    Bounded::new(value, inherited + gamma(n + 1) * scale + n as f64 * TINY)
}

/// `Σ x` in any order of summation: n - 1 additions.
pub fn sum(x: &[Bounded]) -> Bounded {
    let value = x.iter().map(|x| x.value).sum();
    let inherited: f64 = x.iter().map(|x| x.error).sum();
    let scale: f64 = x.iter().map(|x| x.magnitude()).sum();
    Bounded::new(value, inherited + gamma(x.len().saturating_sub(1)) * scale)
}

/// `(Σ x) / n`, as a quotient or as a product with the rounded 1/n: two roundings at most.
pub fn mean(x: &[Bounded]) -> Bounded {
    let (n, sum) = (x.len() as f64, sum(x));
    let (value, inherited) = (sum.value / n, sum.error / n);
    Bounded::new(value, inherited + gamma(2) * (value.abs() + inherited) + TINY)
}

/// The mean, and the population variance `Σ (x - mean)² / n` by a second pass over the numbers.
pub fn mean_and_variance(x: &[Bounded]) -> (Bounded, Bounded) {
    let mean = mean(x);
    (mean, variance_about(mean, x))
}

fn variance_about(mean: Bounded, x: &[Bounded]) -> Bounded {
    let deviations: Vec<Bounded> = x.iter().map(|x| x.minus(mean)).collect();
    let squares = dot_of(Bounded::default(), deviations.iter().map(|&d| (d, d)));
    let n = x.len() as f64;
    let (value, inherited) = (squares.value / n, squares.error / n);
    Bounded::new(value, inherited + gamma(2) * (value + inherited) + TINY)
}

/// Layer normalization of one group by two passes. Without a gain it is 1, without a bias 0.
///
/// ```text
/// m = Σ x / n      v = Σ (x - m)² / n      r = 1 / √(v + ε)      y = ((x - m) r) g + b
/// ```
///
/// `(x - m) / √(v + ε)` has one rounding less, so it is within the bound too. A computed sum of squares is never below
/// 0, so v + ε is never below ε (1 - u), even if the bound of v allows less.
pub fn layer_norm(x: &[Bounded], epsilon: f32, gain: Option<&[f32]>, bias: Option<&[f32]>) -> Vec<Bounded> {
    normalized(x, mean_and_variance(x), epsilon, gain, bias)
}

/// [`layer_norm`] with m = 0.
pub fn rms_norm(x: &[Bounded], epsilon: f32, gain: Option<&[f32]>, bias: Option<&[f32]>) -> Vec<Bounded> {
    let mean = Bounded::default();
    normalized(x, (mean, variance_about(mean, x)), epsilon, gain, bias)
}

fn normalized(
    x: &[Bounded],
    (mean, variance): (Bounded, Bounded),
    epsilon: f32,
    gain: Option<&[f32]>,
    bias: Option<&[f32]>,
) -> Vec<Bounded> {
    let epsilon = Bounded::exact(epsilon);
    let scale = variance.plus(epsilon).rsqrt(epsilon.value * (1.0 - UNIT));
    let normalized = x.iter().enumerate().map(|(k, x)| {
        let y = x.minus(mean).times(scale);
        let y = gain.map_or(y, |gain| y.scaled(gain[k]));
        bias.map_or(y, |bias| y.plus(Bounded::exact(bias[k])))
    });
    normalized.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Rng;

    fn hold(got: f32, bounded: Bounded, what: &str) {
        let off = (f64::from(got) - bounded.value).abs();
        assert!(off <= bounded.error, "{what}: {got:e} is off by {off:e} from {bounded:?}");
    }

    /// Sums forwards, backwards, and in four lanes.
    fn in_several_orders(terms: &[f32]) -> [f32; 3] {
        let lanes = terms.chunks(4).fold([0.0_f32; 4], |mut lanes, chunk| {
            lanes.iter_mut().zip(chunk).for_each(|(lane, term)| *lane += term);
            lanes
        });
        let add = |sum: f32, term: &f32| sum + term;
        [terms.iter().fold(0.0, add), terms.iter().rev().fold(0.0, add), lanes.iter().rev().fold(0.0, add)]
    }

    #[test]
    fn the_bound_of_a_dot_product_is_that_of_higham() {
        let (w, x) = ([1.0_f32, -2.0, 3.0], [0.5_f32, 0.25, -4.0]);
        let bounded = dot(Bounded::exact(1.0), &w, &x.map(Bounded::exact));
        assert_eq!(bounded.value, 1.0 + 0.5 - 0.5 - 12.0);
        let bound = gamma(4) * (1.0 + abs_dot(&w, &x)) + 3.0 * TINY;
        assert!((bounded.error - bound).abs() <= 1e-12 * bound, "{} is not {bound}", bounded.error);
    }

    #[test]
    fn sums_in_every_order_stay_within_their_bounds() {
        let mut rng = Rng::new(41);
        for round in 0..5000 {
            let (len, limit) = (1 + rng.below(67), rng.pick(&[1.0, 1e-3, 100.0]));
            let (w, raw, shift) = (rng.numbers(len, 1.0), rng.numbers(len, limit), rng.number(50.0));
            // Numbers that have errors themselves, often far from 0 compared with their spread.
            let x: Vec<f32> = raw.iter().map(|x| x + shift).collect();
            let exact = raw.iter().map(|&x| Bounded::exact(x).plus(Bounded::exact(shift)));
            let exact: Vec<Bounded> = exact.collect();
            let products: Vec<f32> = w.iter().zip(&x).map(|(w, x)| w * x).collect();
            let n = len as f32;
            for product in in_several_orders(&products) {
                hold(product, dot(Bounded::default(), &w, &exact), "dot");
            }
            let (mean, variance) = mean_and_variance(&exact);
            let gain = rng.numbers(len, 2.0);
            let epsilon = rng.pick(&[1e-12, 1e-5, 1e-3]);
            let normal = layer_norm(&exact, epsilon, Some(&gain), Some(&w));
            for total in in_several_orders(&x) {
                hold(total, sum(&exact), "sum");
                hold(total / n, mean, "mean");
                hold(total * (1.0 / n), mean, "mean by a product");
                let deviations: Vec<f32> = x.iter().map(|x| x - total / n).collect();
                let squares: Vec<f32> = deviations.iter().map(|d| d * d).collect();
                for square in in_several_orders(&squares) {
                    hold(square / n, variance, "variance");
                    let root = (square / n + epsilon).sqrt();
                    for (k, d) in deviations.iter().enumerate() {
                        let what = format!("layer norm, round {round}, {len} numbers");
                        hold(d * (1.0 / root) * gain[k] + w[k], normal[k], &what);
                        hold(d / root * gain[k] + w[k], normal[k], &what);
                    }
                }
            }
        }
    }

    #[test]
    fn layer_norm_computes_mean_and_variance() {
        let y = layer_norm(&[1.0, 3.0, 5.0, 7.0].map(Bounded::exact), 0.0, None, Some(&[10.0; 4]));
        let expected = [-3.0, -1.0, 1.0, 3.0].map(|d: f64| d / 5.0_f64.sqrt() + 10.0);
        for (y, expected) in y.iter().zip(expected) {
            assert!((y.value - expected).abs() < 1e-14 && y.error < 1e-5, "{y:?} is not {expected}");
        }
        // A single number has a variance of 0, so only ε keeps the bound finite.
        assert!(layer_norm(&[Bounded::exact(3.0)], 1e-12, None, None)[0].error.is_finite());
        assert!(layer_norm(&[Bounded::exact(3.0)], 0.0, None, None)[0].error.is_infinite());
    }
}
