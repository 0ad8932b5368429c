//! Activation functions on f32, and their codes in an image.

use crate::math;

/// An activation that a cell or a layer can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[repr(u8)]
pub enum Activation {
    /// x
    Identity = 0,
    /// 1 / (1 + e^-x)
    Sigmoid = 1,
    /// tanh(x)
    Tanh = 2,
    /// max(x, 0)
    Relu = 3,
    /// x / (1 + |x|)
    Softsign = 4,
}

impl Activation {
    /// Every activation, in the order of their codes.
    pub const ALL: [Self; 5] = [Self::Identity, Self::Sigmoid, Self::Tanh, Self::Relu, Self::Softsign];

    /// The code that an image stores.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The activation with this code.
    pub const fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            0 => Self::Identity,
            1 => Self::Sigmoid,
            2 => Self::Tanh,
            3 => Self::Relu,
            4 => Self::Softsign,
            _ => return None,
        })
    }

    /// The two numbers that an image stores beside the code.
    pub const fn parameters(self) -> [f32; 2] {
        [0.0; 2]
    }

    /// The activation of this code and these numbers.
    pub const fn from_parts(code: u8, parameters: [f32; 2]) -> Option<Self> {
        if parameters[0].to_bits() | parameters[1].to_bits() != 0 {
            return None;
        }
        Self::from_code(code)
    }

    /// Its name in a canonical model.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Identity => "identity",
            Self::Sigmoid => "sigmoid",
            Self::Tanh => "tanh",
            Self::Relu => "relu",
            Self::Softsign => "softsign",
        }
    }

    /// The activation with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|activation| activation.name() == name)
    }

    /// Its value at `x`.
    pub fn apply(self, x: f32) -> f32 {
        match self {
            Self::Identity => x,
            Self::Sigmoid => sigmoid(x),
            Self::Tanh => tanh(x),
            Self::Relu => relu(x),
            Self::Softsign => softsign(x),
        }
    }
}

/// Largest absolute error of [`sigmoid`].
///
/// With `libm`, whose `expf` is within an ulp: e^-x is off by (1 + 2^-23) at most, the sum and the quotient by
/// (1 + 2^-24) each; so σ(x) by 2^-23 · σ(x) · (2 - σ(x)), at most 2^-23. Measured over every f32: 8.93e-8.
/// Below -88.7 e^-x overflows and σ is 0, where the exact value is less than 3e-39.
///
/// With `micromath`, e^-x is four terms of a series: the bound is measured (5.3e-4).
pub const SIGMOID_MAX_ERROR: f32 = if cfg!(feature = "libm") { ULP_BELOW_2 } else { 6e-4 };
/// Largest absolute error of [`tanh`]: measured over every f32, 8.43e-8 with `libm` and 3.4e-4 with `micromath`.
pub const TANH_MAX_ERROR: f32 = if cfg!(feature = "libm") { ULP_BELOW_2 } else { 4e-4 };
/// Largest absolute error of [`softsign`]: two roundings of at most 2^-24 of a value below 1. Measured: 8.94e-8.
pub const SOFTSIGN_MAX_ERROR: f32 = ULP_BELOW_2;
/// Most that [`sigmoid`] falls from one f32 to the next greater: nothing with `libm`, it is monotone; 5.8e-6 measured
/// with `micromath`, at 1, where its exp has a case of its own.
pub const SIGMOID_MAX_DROP: f32 = if cfg!(feature = "libm") { 0.0 } else { 1e-5 };
/// Most that [`tanh`] falls from one f32 to the next greater: an ulp of 1/4 with `libm`; 7.0e-6 measured with
/// `micromath`.
pub const TANH_MAX_DROP: f32 = if cfg!(feature = "libm") { ULP_BELOW_2 / 4.0 } else { 1e-5 };
/// Most that [`softsign`] falls from one f32 to the next greater: where 1 + |x| begins to round.
pub const SOFTSIGN_MAX_DROP: f32 = ULP_BELOW_2;

/// 2^-23
const ULP_BELOW_2: f32 = f32::EPSILON;

/// The logistic function 1 / (1 + e^-x), in 0 to 1 and within [`SIGMOID_MAX_ERROR`].
pub fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + math::exp(-x))
}

/// The hyperbolic tangent: odd bit for bit, in -1 to 1 and within [`TANH_MAX_ERROR`].
pub fn tanh(x: f32) -> f32 {
    math::tanh(x)
}

/// max(x, 0); exact. `f32::max` would make 0 of not-a-number and hide it.
pub fn relu(x: f32) -> f32 {
    if x < 0.0 { 0.0 } else { x }
}

/// x / (1 + |x|), which is ±1 at the infinities: odd bit for bit, and within [`SOFTSIGN_MAX_ERROR`].
pub fn softsign(x: f32) -> f32 {
    let x = x.clamp(f32::MIN, f32::MAX);
    x / (1.0 + x.abs())
}
