//! e^(x - M) / Σ e^(x - M). The exact value is the same for every M, so let M be the computed maximum, which is within
//! `e` of the exact one, where `e` is the largest inherited error. The computed exponent x - M has the error
//! Δ ≤ ex + u (|x - M| + ...), so e^(x - M) is off by the factor e^Δ (1 + ε), where ε is the stated error of exp. Below
//! -87 it is off by 2e-38 instead. The sum of n positive terms adds (1 + γ_n), the quotient (1 + u). An error in M itself
//! is the same for every element and cancels.

use super::bounded::{EXP_ERROR, EXP_FLUSHED, UNIT, gamma};
use super::{Bounded, Cell, count};

pub fn step(_: &Cell<'_>, x: &[Bounded], _: &mut [Bounded]) -> Vec<Bounded> {
    softmax(x)
}

/// Softmax of a slice, also for cells with a softmax inside.
pub fn softmax(x: &[Bounded]) -> Vec<Bounded> {
    count::curves(x.len());
    let max = x.iter().fold(f64::NEG_INFINITY, |max, x| max.max(x.value));
    let spread = x.iter().fold(0.0_f64, |spread, x| spread.max(x.error));
    let exps: Vec<f64> = x.iter().map(|x| (x.value - max).exp()).collect();
    let sum: f64 = exps.iter().sum();
    let factor = |x: &Bounded| {
        let delta = x.error + UNIT * ((x.value - max).abs() + x.error + spread);
        delta.exp() * (1.0 + EXP_ERROR)
    };
    // The error of the sum is the errors of its terms, weighted by the terms: terms far below the maximum hardly count.
    let sum_error: f64 = x.iter().zip(&exps).map(|(x, e)| e * (factor(x) - 1.0) + EXP_FLUSHED).sum();
    let sum_factor = (1.0 + sum_error / sum) * (1.0 + gamma(x.len() + 1));
    let value = |(x, e): (&Bounded, &f64)| {
        let value = e / sum;
        // 1/(1 - t) <= (1 + t)² for the small t here, hence twice the factor of the sum.
        let error = value * (factor(x) * sum_factor * sum_factor * (1.0 + UNIT) - 1.0) + 2.0 * EXP_FLUSHED;
        Bounded::new(value, error)
    };
    x.iter().zip(&exps).map(value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_softmax_sums_to_one_and_finds_the_largest() {
        let y = softmax(&[1.0, 2.0, -200.0].map(Bounded::exact));
        assert!((y.iter().map(|y| y.value).sum::<f64>() - 1.0).abs() < 1e-15);
        assert!((y[1].value - 1.0 / (1.0 + (-1.0_f64).exp())).abs() < 1e-15);
        assert!(y[2].value < 1e-80 && y[2].error < 1e-37 && y[0].error < 1e-6);
    }
}
