//! Activations by their canonical text, `tanh` or `hard_sigmoid(0.2,0.5)`.
//!
//! ```text
//! |fl f(â) - f(a)| ≤ L e_a + E     for an activation with Lipschitz constant L and stated error E
//! ```
//!
//! Lipschitz constants: σ' = σ (1 - σ) ≤ 1/4; tanh' = 1 - tanh² ≤ 1; identity, softsign ≤ 1. The stated errors are
//! those of `tidegate::activation`, which `activation.rs` proves over every f32, as it does the ranges: σ in 0 to 1,
//! tanh and softsign in ±1. What is only arithmetic has the bounds of [`Bounded`].

use tidegate::activation::{SIGMOID_MAX_ERROR, SOFTSIGN_MAX_ERROR, TANH_MAX_ERROR};

use super::bounded::Bounded;

/// An activation of `a`.
pub fn activate(text: &str, a: Bounded) -> Bounded {
    let x = a.value;
    let (name, parameters) = parts(text);
    match (name, parameters.as_slice()) {
        ("identity", []) => a,
        ("sigmoid", []) => a.through(1.0 / (1.0 + (-x).exp()), 0.25, SIGMOID_MAX_ERROR.into()).within(0.0, 1.0),
        ("tanh", []) => a.through(x.tanh(), 1.0, TANH_MAX_ERROR.into()).within(-1.0, 1.0),
        ("relu", []) => a.relu(),
        ("softsign", []) => a.through(x / (1.0 + x.abs()), 1.0, SOFTSIGN_MAX_ERROR.into()).within(-1.0, 1.0),
        ("hard_sigmoid", &[slope, shift]) => {
            a.scaled(slope).plus(Bounded::exact(shift)).max(Bounded::exact(0.0)).min(Bounded::exact(1.0))
        }
        _ => panic!("the oracle has no activation {text:?}"),
    }
}

/// `name(a,b)` as its name and its numbers.
fn parts(text: &str) -> (&str, Vec<f32>) {
    let Some((name, rest)) = text.split_once('(') else { return (text, Vec::new()) };
    let numbers = rest.strip_suffix(')').unwrap_or_else(|| panic!("{text:?} has no end"));
    let number = |number: &str| number.trim().parse().unwrap_or_else(|_| panic!("{text:?}: {number:?} is no number"));
    (name, numbers.split(',').map(number).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_activation_has_its_numbers_in_brackets() {
        assert_eq!(parts("tanh"), ("tanh", vec![]));
        assert_eq!(parts("hard_sigmoid(0.2,0.5)"), ("hard_sigmoid", vec![0.2, 0.5]));
        let y = activate("hard_sigmoid(0.25,0.5)", Bounded::exact(1.0));
        assert!(y.value == 0.75 && y.error < 1e-6);
        assert_eq!(activate("hard_sigmoid(0.25,0.5)", Bounded::exact(9.0)), Bounded::exact(1.0));
    }

    #[test]
    fn what_is_bounded_stays_so_however_wrong_its_operand() {
        let lost = Bounded { value: 3.0, error: f64::INFINITY };
        assert!(activate("sigmoid", lost).error < 1.0 && activate("tanh", lost).error < 2.0);
    }
}
