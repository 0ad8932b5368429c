//! Activation functions on f32: their codes in an image, and a bound on the error of each. `text.rs` has their text in a
//! canonical model.
//!
//! Every activation propagates NaN, returns its limit (or the rounded limit) at the infinities, and never panics.
//! `core/tests/activation.rs` holds each to [`Activation::max_error`] over the whole range of f32.

mod text;

pub use text::ParseActivationError;

use crate::{math, tanh};

/// An activation function of a cell or layer.
///
/// [`Display`](core::fmt::Display) writes, and [`FromStr`](core::str::FromStr) reads, the name followed by the
/// parameters: `tanh`, `hard_sigmoid(0.2,0.5)`.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Activation {
    /// x
    Identity,
    /// 1 / (1 + e^-x)
    Sigmoid,
    /// tanh(x)
    Tanh,
    /// max(x, 0)
    Relu,
    /// x / (1 + |x|)
    Softsign,
    /// αx + β, clamped to 0 to 1. α and β are 0.2 and 0.5 in ONNX and Keras 2, 1/6 and 0.5 in Keras 3 and PyTorch.
    HardSigmoid {
        /// α
        alpha: f32,
        /// β
        beta: f32,
    },
    /// x, clamped to ±1.
    HardTanh,
    /// x, or αx below 0. The default of α in ONNX is 0.01.
    LeakyRelu {
        /// α
        alpha: f32,
    },
    /// x where x is greater than α, otherwise 0. The default of α in ONNX is 1.
    ThresholdedRelu {
        /// α
        alpha: f32,
    },
    /// α tanh(βx). LeCun's tanh has α 1.7159 and β 2/3, which networks round to 0.666.
    ScaledTanh {
        /// α
        alpha: f32,
        /// β
        beta: f32,
    },
    /// αx + β
    Affine {
        /// α
        alpha: f32,
        /// β
        beta: f32,
    },
    /// x, or α (e^x - 1) below 0. The default of α in ONNX is 1.
    Elu {
        /// α
        alpha: f32,
    },
    /// 1.0507010 times [`Elu`](Self::Elu) with α 1.6732632 (Klambauer et al. 2017).
    Selu,
    /// ln(1 + e^x)
    Softplus,
    /// x / (1 + e^-x), also called swish.
    Silu,
    /// x Φ(x), where Φ is the distribution function of the normal distribution: the exact GELU, computed with erf.
    Gelu,
    /// x / (1 + e^-2u) with u = √(2/π) (x + 0.044715 x³): the authors' tanh approximation of GELU.
    GeluTanh,
    /// x, clamped to 0 to 6.
    Relu6,
    /// e^x
    Exp,
    /// √x, 0 below 0.
    Sqrt,
    /// ln(α max(x, 0) + β), where neither α nor β is negative; the argument is at least 2^-126. The logarithm itself has
    /// α 1 and β 0.
    Log {
        /// α
        alpha: f32,
        /// β
        beta: f32,
    },
    /// x times [`HardSigmoid`](Self::HardSigmoid) with α 1/6 and β 0.5 (Howard et al. 2019): 0 below -3, x above 3.
    HardSwish,
    /// x tanh(ln(1 + e^x)) (Misra 2019).
    Mish,
}

/// The bits of -0.0. Every negative number has greater bits.
const SIGN_BIT: u32 = 1 << 31;

impl Activation {
    /// One of each activation, in the order of codes. Parameters are ONNX's defaults where ONNX has any, LeCun's for
    /// the scaled tanh, those of the identity for [`Affine`](Self::Affine), and those of the logarithm itself.
    pub const ALL: [Self; 23] = [
        Self::Identity,
        Self::Sigmoid,
        Self::Tanh,
        Self::Relu,
        Self::Softsign,
        Self::HardSigmoid { alpha: 0.2, beta: 0.5 },
        Self::HardTanh,
        Self::LeakyRelu { alpha: 0.01 },
        Self::ThresholdedRelu { alpha: 1.0 },
        Self::ScaledTanh { alpha: 1.7159, beta: 0.666 },
        Self::Affine { alpha: 1.0, beta: 0.0 },
        Self::Elu { alpha: 1.0 },
        Self::Selu,
        Self::Softplus,
        Self::Silu,
        Self::Gelu,
        Self::GeluTanh,
        Self::Relu6,
        Self::Exp,
        Self::Sqrt,
        Self::Log { alpha: 1.0, beta: 0.0 },
        Self::HardSwish,
        Self::Mish,
    ];

    /// The code stored in an image.
    pub const fn code(self) -> u8 {
        match self {
            Self::Identity => 0,
            Self::Sigmoid => 1,
            Self::Tanh => 2,
            Self::Relu => 3,
            Self::Softsign => 4,
            Self::HardSigmoid { .. } => 5,
            Self::HardTanh => 6,
            Self::LeakyRelu { .. } => 7,
            Self::ThresholdedRelu { .. } => 8,
            Self::ScaledTanh { .. } => 9,
            Self::Affine { .. } => 10,
            Self::Elu { .. } => 11,
            Self::Selu => 12,
            Self::Softplus => 13,
            Self::Silu => 14,
            Self::Gelu => 15,
            Self::GeluTanh => 16,
            Self::Relu6 => 17,
            Self::Exp => 18,
            Self::Sqrt => 19,
            Self::Log { .. } => 20,
            Self::HardSwish => 21,
            Self::Mish => 22,
        }
    }

    /// α and β, stored in an image beside the code; 0 for an activation without parameters.
    pub const fn parameters(self) -> [f32; 2] {
        match self {
            Self::HardSigmoid { alpha, beta }
            | Self::ScaledTanh { alpha, beta }
            | Self::Affine { alpha, beta }
            | Self::Log { alpha, beta } => [alpha, beta],
            Self::LeakyRelu { alpha } | Self::ThresholdedRelu { alpha } | Self::Elu { alpha } => [alpha, 0.0],
            _ => [0.0; 2],
        }
    }

    /// The number of parameters.
    const fn parameter_count(self) -> usize {
        match self {
            Self::HardSigmoid { .. } | Self::ScaledTanh { .. } | Self::Affine { .. } | Self::Log { .. } => 2,
            Self::LeakyRelu { .. } | Self::ThresholdedRelu { .. } | Self::Elu { .. } => 1,
            _ => 0,
        }
    }

    /// Decodes a code and its parameters as stored in an image. Returns `None` if the code is unknown, if a parameter
    /// is not finite, if one of a logarithm is negative, or if an unused parameter is not exactly 0.0 (-0.0 is refused
    /// too).
    pub const fn from_parts(code: u8, parameters: [f32; 2]) -> Option<Self> {
        let [alpha, beta] = parameters;
        let activation = match code {
            0 => Self::Identity,
            1 => Self::Sigmoid,
            2 => Self::Tanh,
            3 => Self::Relu,
            4 => Self::Softsign,
            5 => Self::HardSigmoid { alpha, beta },
            6 => Self::HardTanh,
            7 => Self::LeakyRelu { alpha },
            8 => Self::ThresholdedRelu { alpha },
            9 => Self::ScaledTanh { alpha, beta },
            10 => Self::Affine { alpha, beta },
            11 => Self::Elu { alpha },
            12 => Self::Selu,
            13 => Self::Softplus,
            14 => Self::Silu,
            15 => Self::Gelu,
            16 => Self::GeluTanh,
            17 => Self::Relu6,
            18 => Self::Exp,
            19 => Self::Sqrt,
            // Negative, by their bits: a comparison of floats would be a call on cores without an FPU.
            20 if alpha.to_bits() > SIGN_BIT || beta.to_bits() > SIGN_BIT => return None,
            20 => Self::Log { alpha, beta },
            21 => Self::HardSwish,
            22 => Self::Mish,
            _ => return None,
        };
        let [kept_alpha, kept_beta] = activation.parameters();
        let kept = kept_alpha.to_bits() == alpha.to_bits() && kept_beta.to_bits() == beta.to_bits();
        if kept && alpha.is_finite() && beta.is_finite() { Some(activation) } else { None }
    }

    /// The name without parameters.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Identity => "identity",
            Self::Sigmoid => "sigmoid",
            Self::Tanh => "tanh",
            Self::Relu => "relu",
            Self::Softsign => "softsign",
            Self::HardSigmoid { .. } => "hard_sigmoid",
            Self::HardTanh => "hard_tanh",
            Self::LeakyRelu { .. } => "leaky_relu",
            Self::ThresholdedRelu { .. } => "thresholded_relu",
            Self::ScaledTanh { .. } => "scaled_tanh",
            Self::Affine { .. } => "affine",
            Self::Elu { .. } => "elu",
            Self::Selu => "selu",
            Self::Softplus => "softplus",
            Self::Silu => "silu",
            Self::Gelu => "gelu",
            Self::GeluTanh => "gelu_tanh",
            Self::Relu6 => "relu6",
            Self::Exp => "exp",
            Self::Sqrt => "sqrt",
            Self::Log { .. } => "log",
            Self::HardSwish => "hard_swish",
            Self::Mish => "mish",
        }
    }

    /// Evaluates the activation at `x`.
    #[inline]
    pub fn apply(self, x: f32) -> f32 {
        match self {
            Self::Identity => x,
            Self::Sigmoid => sigmoid(x),
            Self::Tanh => tanh(x),
            Self::Relu => relu(x),
            Self::Softsign => softsign(x),
            Self::HardSigmoid { alpha, beta } => (times(alpha, x) + beta).clamp(0.0, 1.0),
            Self::HardTanh => x.clamp(-1.0, 1.0),
            Self::LeakyRelu { alpha } => {
                if x < 0.0 {
                    times(alpha, x)
                } else {
                    x
                }
            }
            Self::ThresholdedRelu { alpha } => {
                if x <= alpha {
                    0.0
                } else {
                    x
                }
            }
            Self::ScaledTanh { alpha, beta } => alpha * tanh(times(beta, x)),
            Self::Affine { alpha, beta } => times(alpha, x) + beta,
            Self::Elu { alpha } => elu(alpha, x),
            Self::Selu => SELU_SCALE * elu(SELU_ALPHA, x),
            Self::Softplus => softplus(x),
            Self::Silu => silu(x),
            Self::Gelu => gelu(x),
            Self::GeluTanh => gelu_tanh(x),
            Self::Relu6 => x.clamp(0.0, 6.0),
            Self::Exp => math::exp(x),
            Self::Sqrt => {
                if x <= 0.0 {
                    0.0
                } else {
                    math::sqrt(x)
                }
            }
            Self::Log { alpha, beta } => ln(times(alpha, relu(x)) + beta),
            Self::HardSwish => hard_swish(x),
            Self::Mish => mish(x),
        }
    }

    /// A bound on the error of [`apply`](Self::apply), as `(absolute, relative)`. For the stored parameters, the error is at
    /// most `absolute + relative * |exact value|`. An increasing function may decrease by at most the same amount from one
    /// f32 to the next.
    ///
    /// The bound does not cover αx or an exact value beyond the range of f32. The result is then infinite, or the limit
    /// at infinity.
    ///
    /// The derivations, where u = 2^-24 is the unit roundoff of f32 and v the exact value:
    ///
    /// - Clamping, comparing and the identity are exact. The error of αx is u|v|.
    /// - The error of αx + β is at most u|αx| + u|v|, and |αx| ≤ |v| + |β|. With |v| clamped to 1, the bound is u (2 +
    ///   |β|): beyond 1 the error grows more slowly than the distance of v from 1.
    /// - α tanh(βx): rounding y = βx moves tanh y by u |y| (1 - tanh² y) ≤ 0.45 u; the product adds u|v|.
    /// - The other derivations are given with their constants. [`FLUSHED`] is added wherever a result may be subnormal.
    pub const fn max_error(self) -> (f32, f32) {
        match self {
            Self::Identity | Self::Relu | Self::HardTanh | Self::ThresholdedRelu { .. } | Self::Relu6 => (0.0, 0.0),
            Self::Sigmoid => (SIGMOID_MAX_ERROR, 0.0),
            Self::Tanh => (TANH_MAX_ERROR, 0.0),
            Self::Softsign => (SOFTSIGN_MAX_ERROR, 0.0),
            Self::HardSigmoid { beta, .. } => ((2.0 + 2.0 * beta.abs()) * UNIT, 0.0),
            Self::LeakyRelu { .. } => (FLUSHED, UNIT),
            Self::ScaledTanh { alpha, .. } => (alpha.abs() * (TANH_MAX_ERROR + 0.5 * UNIT) + FLUSHED, 2.0 * UNIT),
            Self::Affine { beta, .. } => (2.0 * UNIT * beta.abs() + FLUSHED, 3.0 * UNIT),
            Self::Elu { alpha } => (alpha.abs() * EXP_M1_MAX_ERROR + FLUSHED, ELU_MAX_RELATIVE_ERROR),
            Self::Selu => (SELU_SLOPE * EXP_M1_MAX_ERROR + FLUSHED, SELU_MAX_RELATIVE_ERROR),
            Self::Softplus => (FLUSHED, SOFTPLUS_MAX_RELATIVE_ERROR),
            Self::Silu => (SILU_MAX_ERROR, SILU_MAX_RELATIVE_ERROR),
            Self::Gelu => (GELU_MAX_ERROR, UNIT),
            Self::GeluTanh => (GELU_TANH_MAX_ERROR, SILU_MAX_RELATIVE_ERROR),
            Self::Exp => (FLUSHED, EXP_MAX_RELATIVE_ERROR),
            Self::Sqrt => (SQRT_MAX_ERROR, SQRT_MAX_RELATIVE_ERROR),
            Self::Log { .. } => (LOG_MAX_ERROR, LOG_MAX_RELATIVE_ERROR),
            Self::HardSwish => (FLUSHED, HARD_SWISH_MAX_RELATIVE_ERROR),
            Self::Mish => (MISH_MAX_ERROR, MISH_MAX_RELATIVE_ERROR),
        }
    }

    /// The Lipschitz constant, rounded up: `|f(a) - f(b)| <= lipschitz * |a - b|`. It is infinite for
    /// [`Exp`](Self::Exp) and [`Sqrt`](Self::Sqrt), and for [`ThresholdedRelu`](Self::ThresholdedRelu), which jumps
    /// unless α is 0. The slope of a logarithm is at most α / β.
    ///
    /// ```text
    /// σ' = σ (1 - σ) ≤ 1/4
    /// silu' = σ + x σ (1 - σ), greatest (1.09984) where x = 2.3994
    /// gelu' = Φ + x φ, greatest (1.12891) where x = √2; by tanh 1.12900
    /// selu' → 1.0507010 · 1.6732632 = 1.75810 where x → 0 from below
    /// hard_swish' = (2x + 3) / 6 from -3 to 3, so it is from -1/2 to 3/2
    /// mish' = t + x σ (1 - t²) with t = tanh(ln(1 + e^x)), greatest (1.08850) where x = 1.4906
    /// ```
    pub const fn lipschitz(self) -> f32 {
        use Activation::{HardTanh, Identity, Relu, Relu6, Softplus, Softsign, Tanh};
        match self {
            Identity | Tanh | Relu | Softsign | HardTanh | Softplus | Relu6 => 1.0,
            Self::Sigmoid => 0.25,
            Self::HardSigmoid { alpha, .. } | Self::Affine { alpha, .. } => alpha.abs(),
            // The factor covers the rounding of the product.
            Self::ScaledTanh { alpha, beta } => (alpha * beta).abs() * (1.0 + f32::EPSILON) + f32::MIN_POSITIVE,
            Self::LeakyRelu { alpha } | Self::Elu { alpha } => alpha.abs().max(1.0),
            Self::ThresholdedRelu { alpha: 0.0 } => 1.0,
            Self::Selu => SELU_SLOPE,
            Self::Silu => 1.1,
            Self::Gelu | Self::GeluTanh => 1.13,
            Self::HardSwish => 1.5,
            Self::Mish => 1.09,
            // The factor covers the rounding of the quotient.
            Self::Log { alpha, beta } if beta > 0.0 => alpha / beta * (1.0 + f32::EPSILON) + f32::MIN_POSITIVE,
            Self::ThresholdedRelu { .. } | Self::Exp | Self::Sqrt | Self::Log { .. } => f32::INFINITY,
        }
    }
}

/// u = 2^-24, the unit roundoff of f32.
const UNIT: f32 = f32::EPSILON / 2.0;
/// 2^-23
const ULP_BELOW_2: f32 = f32::EPSILON;

/// A bound on the error of rounding or flushing a subnormal result; e^-87 is 1.6e-38.
pub const FLUSHED: f32 = 2e-38;
pub use crate::math::EXP_MAX_RELATIVE_ERROR;
/// Largest relative error of [`Activation::Sqrt`]: one rounding with `libm`, two Newton steps with `micromath`.
pub const SQRT_MAX_RELATIVE_ERROR: f32 = if cfg!(feature = "libm") { UNIT } else { 2e-6 };
/// Absolute error of [`Activation::Sqrt`] for subnormal x: none with `libm`.
pub const SQRT_MAX_ERROR: f32 = if cfg!(feature = "libm") { 0.0 } else { 1.1e-19 };
/// Absolute error of [`Activation::Log`]: rounding the product and the sum, neither of which is negative, moves the
/// argument by at most 2.1 u of itself; a subnormal product adds u.
pub const LOG_MAX_ERROR: f32 = 4.0 * UNIT;
/// Largest relative error of [`Activation::Log`] in addition: 6 u for s and the polynomial. With an exponent other than 0,
/// the sum is at least half of its first term, whose error is 2 u, and of the second, which cancels it at most by half; the
/// last sum adds u. The fit adds 2e-9.
pub const LOG_MAX_RELATIVE_ERROR: f32 = 12.0 * UNIT;
/// Largest absolute error of [`sigmoid`]. Measured over every f32 from 2^-24 to 2^10 in magnitude: 7.46e-8.
pub const SIGMOID_MAX_ERROR: f32 = ULP_BELOW_2;
/// Largest absolute error of `tanh`. Measured over every f32 from 2^-24 to 2^10 in magnitude: 8.95e-8.
pub const TANH_MAX_ERROR: f32 = ULP_BELOW_2;
/// Largest absolute error of [`softsign`]: two roundings of at most 2^-24 of a value below 1. Measured: 8.94e-8.
pub const SOFTSIGN_MAX_ERROR: f32 = ULP_BELOW_2;
/// Largest decrease of [`sigmoid`] from one f32 to the next: one ulp below 1.
pub const SIGMOID_MAX_DROP: f32 = ULP_BELOW_2 / 2.0;
/// Largest decrease of `tanh` from one f32 to the next: two ulps below 1.
pub const TANH_MAX_DROP: f32 = ULP_BELOW_2;
/// Largest decrease of [`softsign`] from one f32 to the next, where 1 + |x| starts to round.
pub const SOFTSIGN_MAX_DROP: f32 = ULP_BELOW_2;
/// Largest relative error of [`Activation::Elu`], in addition to [`EXP_M1_MAX_ERROR`]: e^x - 1 within one ulp, and a
/// product.
pub const ELU_MAX_RELATIVE_ERROR: f32 = 4.0 * UNIT;
/// Absolute error of e^x - 1 for x below 0: none with `libm`, which provides the function; with `micromath`, which does
/// not, the full error of e^x.
pub const EXP_M1_MAX_ERROR: f32 = if cfg!(feature = "libm") { 0.0 } else { EXP_MAX_RELATIVE_ERROR };
/// Largest relative error of [`Activation::Selu`], in addition to [`EXP_M1_MAX_ERROR`]: [`ELU_MAX_RELATIVE_ERROR`], two
/// rounded constants and a second product.
pub const SELU_MAX_RELATIVE_ERROR: f32 = 7.0 * UNIT;
/// Largest relative error of [`softplus`]: the error of e^-|x|; about u each for the sum, the quotient, the polynomial
/// (only its last addition counts), its product and the last sum; and 4.5e-9 for the fit.
pub const SOFTPLUS_MAX_RELATIVE_ERROR: f32 = EXP_MAX_RELATIVE_ERROR + 8.0 * UNIT;
/// Largest relative error of [`silu`]: the error of e^-x is multiplied by 1 - σ, plus a second-order term where it is
/// not small; the sum, the quotient and the product add u each.
pub const SILU_MAX_RELATIVE_ERROR: f32 = 1.01 * EXP_MAX_RELATIVE_ERROR + 4.0 * UNIT;
/// Absolute error of [`silu`], in addition to the relative one: below -88.7 σ is 0, where the exact value is -2.7e-37.
pub const SILU_MAX_ERROR: f32 = 3e-37;
/// Absolute error of [`gelu`], in addition to a final rounding of u|v|: the tail |x| Q(|x|), at most 0.17, has the
/// error of e^(-x²/2), at most 14 u for the quotient, the polynomial and the products, and 3.4e-9 for the fit; rounding
/// x² moves it by u |x|³ Q(|x|) / 2, at most 0.12 u.
pub const GELU_MAX_ERROR: f32 = 0.18 * EXP_MAX_RELATIVE_ERROR + 4.0 * UNIT;
/// Absolute error of [`gelu_tanh`], in addition to the relative error of [`silu`]: five roundings of constants, sums
/// and products change 2u, which moves x σ(2u) by 5 u |x · 2u| σ (1 - σ), at most 5 u · 0.255.
pub const GELU_TANH_MAX_ERROR: f32 = 2.0 * UNIT;
/// Largest relative error of [`hard_swish`]: one u each for the sum, the constant and the two products.
pub const HARD_SWISH_MAX_RELATIVE_ERROR: f32 = 4.5 * UNIT;
/// Largest relative error of [`mish`]: the error of e moves the quotient by at most as much, relative to both; two sums,
/// two products and the quotient add u each.
pub const MISH_MAX_RELATIVE_ERROR: f32 = 1.01 * EXP_MAX_RELATIVE_ERROR + 6.0 * UNIT;
/// Absolute error of [`mish`], in addition to the relative one: below -87.3 e^x is subnormal and may be 0, where the exact
/// value is -1.03e-36.
pub const MISH_MAX_ERROR: f32 = 1.1e-36;

/// λ of Klambauer et al., *Self-Normalizing Neural Networks*, 2017.
const SELU_SCALE: f32 = 1.050_701;
/// α from the same paper.
const SELU_ALPHA: f32 = 1.673_263_2;
/// An upper bound of λα, which is 1.7580993.
const SELU_SLOPE: f32 = 1.7581;

/// The logistic function 1 / (1 + e^-x): between 0 and 1, within [`SIGMOID_MAX_ERROR`].
pub fn sigmoid(x: f32) -> f32 {
    tanh::sigmoid(x)
}

/// The hyperbolic tangent: odd bit for bit, between -1 and 1, within [`TANH_MAX_ERROR`].
pub fn tanh(x: f32) -> f32 {
    tanh::tanh(x)
}

/// max(x, 0), exact. Propagates NaN, which `f32::max` would replace by 0.
pub fn relu(x: f32) -> f32 {
    if x < 0.0 { 0.0 } else { x }
}

/// x / (1 + |x|), ±1 at the infinities: odd bit for bit, within [`SOFTSIGN_MAX_ERROR`].
pub fn softsign(x: f32) -> f32 {
    let x = finite(x);
    x / (1.0 + x.abs())
}

/// ln(1 + e^x), within [`SOFTPLUS_MAX_RELATIVE_ERROR`].
///
/// Computed as max(x, 0) + ln(1 + e) with e = e^-|x|, where ln(1 + e) = 2 artanh(s) and s = e / (2 + e). The series is
/// odd in s.
pub fn softplus(x: f32) -> f32 {
    let e = math::exp(-x.abs());
    let s = e / (2.0 + e);
    // 2 artanh(s) / s as a polynomial in s² for s up to 1/3, fitted by linear programming for the least relative error,
    // 4.5e-9.
    relu(x) + s * polynomial(&[2.0, 0.666_664_2, 0.400_215_27, 0.280_018_06, 0.280_119_85], s * s)
}

/// x σ(x), within [`SILU_MAX_RELATIVE_ERROR`].
pub fn silu(x: f32) -> f32 {
    gated(x, x)
}

/// x Φ(x), within [`GELU_MAX_ERROR`].
///
/// Computed as max(x, 0) - a Q(a) with a = |x|, where Q(a) = 1 - Φ(a) is the tail of the normal distribution. Q(a) is
/// e^(-a²/2) times a polynomial in t = 1 / (1 + 0.28 a), the form of Abramowitz and Stegun 7.1.26.
pub fn gelu(x: f32) -> f32 {
    // Q(15) is below the smallest f32. The clamp keeps the product 0 times a finite number at the infinities.
    let a = if x.abs() > 15.0 { 15.0 } else { x.abs() };
    let t = 1.0 / (1.0 + GELU_T * a);
    relu(x) - a * t * polynomial(&GELU_TAIL, t) * math::exp(-0.5 * a * a)
}

const GELU_T: f32 = 0.28;
/// Fitted by linear programming for the least error of a Q(a), 3.4e-9; [`GELU_T`] was found by trial.
const GELU_TAIL: [f32; 6] = [0.117_109_01, 0.063_791_4, 0.278_182_47, -0.248_518_1, 0.396_990_1, -0.107_554_92];

/// x σ(2u) with u = √(2/π) (x + 0.044715 x³), which equals 0.5 x (1 + tanh u), within [`GELU_TANH_MAX_ERROR`].
pub fn gelu_tanh(x: f32) -> f32 {
    // √(8/π), and its product with 0.044715.
    gated(x, x * polynomial(&[1.595_769, 0.071_354_816], x * x))
}

/// x (x + 3) / 6 from -3 to 3, 0 below, x above, within [`HARD_SWISH_MAX_RELATIVE_ERROR`].
pub fn hard_swish(x: f32) -> f32 {
    if x >= 3.0 {
        x
    } else if x <= -3.0 {
        0.0
    } else {
        x * ((x + 3.0) * (1.0 / 6.0))
    }
}

/// x tanh(ln(1 + e^x)), within [`MISH_MAX_RELATIVE_ERROR`].
///
/// Computed from e = e^-|x| and tanh(ln y) = (y² - 1) / (y² + 1) for y = 1 + e^x: x (e² + 2e) / (e² + 2e + 2) below 0, and
/// otherwise x (1 + 2e) / (1 + 2e + 2e²).
pub fn mish(x: f32) -> f32 {
    let e = math::exp(-x.abs());
    let (part, rest) = if x < 0.0 { (e * (e + 2.0), 2.0) } else { (1.0 + 2.0 * e, 2.0 * e * e) };
    // Below -89, e is 0; the clamp keeps the product 0 at the infinity.
    let x = if x < -89.0 { -89.0 } else { x };
    x * (part / (part + rest))
}

/// x σ(y). Below -89, where σ is 0, x is replaced by -89 so that the product stays 0 at the infinities.
fn gated(x: f32, y: f32) -> f32 {
    let x = if x < -89.0 { -89.0 } else { x };
    // σ with full relative precision, also where it is small.
    x * (1.0 / (1.0 + math::exp(-y)))
}

/// ln x, where an x below 2^-126 counts as 2^-126. The same bits with either library.
///
/// Computed as e ln 2 + ln m, where x = 2^e m with m from √½ to √2, and ln m = 2 artanh(s) with s = (m - 1) / (m + 1).
fn ln(x: f32) -> f32 {
    /// The bits of √½.
    const ROOT_HALF: u32 = 0x3F35_04F3;
    const MANTISSA: u32 = (1 << 23) - 1;
    if x < f32::INFINITY {
        let bits = (if x < f32::MIN_POSITIVE { f32::MIN_POSITIVE } else { x }).to_bits().wrapping_sub(ROOT_HALF);
        let m = f32::from_bits((bits & MANTISSA).wrapping_add(ROOT_HALF));
        let s = (m - 1.0) / (m + 1.0);
        // The series of 2 artanh(s) / s in s², which is at most 0.03.
        let series = polynomial(&[2.0, 2.0 / 3.0, 2.0 / 5.0, 2.0 / 7.0, 2.0 / 9.0], s * s);
        (bits.cast_signed() >> 23) as f32 * core::f32::consts::LN_2 + s * series
    } else {
        x
    }
}

fn elu(alpha: f32, x: f32) -> f32 {
    if x < 0.0 { alpha * math::exp_m1(x) } else { x }
}

/// αx; 0 for α = 0, even where x is infinite.
fn times(alpha: f32, x: f32) -> f32 {
    alpha * if alpha == 0.0 { finite(x) } else { x }
}

/// Replaces an infinity by the greatest finite number of its sign; propagates NaN.
fn finite(x: f32) -> f32 {
    x.clamp(f32::MIN, f32::MAX)
}

/// Σ c[k] x^k by Horner's method.
fn polynomial(coefficients: &[f32], x: f32) -> f32 {
    coefficients.iter().copied().rev().reduce(|sum, c| sum * x + c).unwrap_or(0.0)
}
