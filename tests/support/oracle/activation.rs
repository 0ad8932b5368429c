//! Activations by their canonical text, `tanh` or `hard_sigmoid(0.2,0.5)`.
//!
//! ```text
//! |fl f(â) - f(a)| ≤ L e_a + A + R (|f(a)| + L e_a)     L the Lipschitz constant, A and R the stated error of f
//! ```
//!
//! The constants are those of `tidegate::internals::activation`. `core/tests/activation.rs` checks them and the ranges
//! from 2^-24 to 2^10 in magnitude at one block of f32 in 61, at every f32 in a soak, and at a sample of those beyond.
//! e^x, √x, ln x and thresholds have no Lipschitz constant: e^x uses [`Bounded::exp`], the root and the logarithm are
//! bounded by their values at the ends of the operand's interval, and a threshold that rounding may cross is off by at
//! most its whole operand.

use tidegate::internals::activation::Activation;

use super::bounded::Bounded;
use super::count;

/// An activation of `a`.
pub fn activate(text: &str, a: Bounded) -> Bounded {
    count::curves(1);
    let activation: Activation = text.parse().unwrap_or_else(|error| panic!("{text:?}: {error}"));
    let [alpha, beta] = activation.parameters().map(f64::from);
    let x = a.value;
    let lipschitz = |value: f64| {
        let slope = f64::from(activation.lipschitz());
        let (absolute, relative) = activation.max_error();
        a.through(value, slope, f64::from(absolute) + f64::from(relative) * (value.abs() + slope * a.error))
    };
    // The values at both ends of the operand's interval, for functions that are steepest where they begin.
    let rising = |of: fn(f64, [f64; 2]) -> f64| {
        let [least, value, most] = [x - a.error, x, x + a.error].map(|x| of(x, [alpha, beta]));
        let (absolute, relative) = activation.max_error();
        let own = f64::from(absolute) + f64::from(relative) * least.abs().max(most.abs());
        Bounded::new(value, (value - least).max(most - value) + own)
    };
    match activation {
        Activation::Identity => a,
        Activation::Sigmoid => lipschitz(sigmoid(x)).within(0.0, 1.0),
        Activation::Tanh => lipschitz(x.tanh()).within(-1.0, 1.0),
        Activation::Relu => a.relu(),
        Activation::Softsign => lipschitz(x / (1.0 + x.abs())).within(-1.0, 1.0),
        Activation::HardSigmoid { .. } => lipschitz((alpha * x + beta).clamp(0.0, 1.0)).within(0.0, 1.0),
        Activation::HardTanh => lipschitz(x.clamp(-1.0, 1.0)).within(-1.0, 1.0),
        Activation::LeakyRelu { .. } => lipschitz(if x < 0.0 { alpha * x } else { x }),
        Activation::ThresholdedRelu { .. } if (x - alpha).abs() <= a.error => Bounded::new(x, a.magnitude()),
        Activation::ThresholdedRelu { .. } => {
            if x > alpha {
                a
            } else {
                Bounded::exact(0.0)
            }
        }
        Activation::ScaledTanh { .. } => lipschitz(alpha * (beta * x).tanh()),
        Activation::Affine { .. } => lipschitz(alpha * x + beta),
        Activation::Elu { .. } => lipschitz(elu(alpha, x)),
        Activation::Selu => lipschitz(SELU_SCALE * elu(SELU_ALPHA, x)),
        Activation::Softplus => lipschitz(x.max(0.0) + (-x.abs()).exp().ln_1p()),
        Activation::Silu => lipschitz(x * sigmoid(x)),
        Activation::Gelu => lipschitz(0.5 * x * libm::erfc(-x * std::f64::consts::FRAC_1_SQRT_2)),
        Activation::GeluTanh => {
            lipschitz(x * sigmoid((8.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3))))
        }
        Activation::Relu6 => lipschitz(x.clamp(0.0, 6.0)).within(0.0, 6.0),
        Activation::Exp => a.exp(),
        Activation::Sqrt => rising(|x, _| x.max(0.0).sqrt()),
        Activation::Log { .. } => rising(|x, [alpha, beta]| (alpha * x.max(0.0) + beta).max(2.0_f64.powi(-126)).ln()),
        Activation::HardSwish => lipschitz(x * ((x + 3.0) / 6.0).clamp(0.0, 1.0)),
        Activation::Mish => lipschitz(x * (x.max(0.0) + (-x.abs()).exp().ln_1p()).tanh()),
        _ => panic!("the oracle does not know {activation}"),
    }
}

/// Klambauer et al. 2017 give these digits.
const SELU_SCALE: f64 = 1.050_700_987_355_480_5;
const SELU_ALPHA: f64 = 1.673_263_242_354_377_2;

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

fn elu(alpha: f64, x: f64) -> f64 {
    if x < 0.0 { alpha * x.exp_m1() } else { x }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_activation_has_its_numbers_in_brackets() {
        let y = activate("hard_sigmoid(0.25,0.5)", Bounded::exact(1.0));
        assert!(y.value == 0.75 && y.error < 1e-6);
        assert_eq!(activate("hard_sigmoid(0.25,0.5)", Bounded::exact(9.0)).value, 1.0);
    }

    #[test]
    fn bounded_functions_stay_bounded_for_any_operand() {
        let lost = Bounded { value: 3.0, error: f64::INFINITY };
        assert!(activate("sigmoid", lost).error < 1.0 && activate("tanh", lost).error < 2.0);
    }

    #[test]
    fn a_threshold_that_rounding_may_cross_is_off_by_its_operand() {
        let near = activate("thresholded_relu(1)", Bounded { value: 1.0 + 1e-7, error: 1e-6 });
        assert!(near.error > 1.0);
        assert_eq!(activate("thresholded_relu(1)", Bounded::exact(0.5)), Bounded::exact(0.0));
    }
}
