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
            Self::Relu => x.max(0.0),
            Self::Softsign => x / (1.0 + x.abs()),
        }
    }
}

/// The logistic function 1 / (1 + e^-x).
pub fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + math::exp(-x))
}

/// The hyperbolic tangent.
pub fn tanh(x: f32) -> f32 {
    math::tanh(x)
}
