//! Activations as text in a canonical model: the name, then the parameters in brackets.

use core::fmt;
use core::str::FromStr;

use super::Activation;

impl fmt::Display for Activation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [alpha, beta] = self.parameters();
        f.write_str(self.name())?;
        match self.parameter_count() {
            0 => Ok(()),
            1 => write!(f, "({alpha})"),
            _ => write!(f, "({alpha},{beta})"),
        }
    }
}

/// Why a text could not be parsed as an activation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum ParseActivationError {
    /// No activation has this name.
    UnknownName,
    /// A parameter is not finite, a required parameter is missing, or there are too many parameters.
    BadParameters,
}

impl fmt::Display for ParseActivationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::UnknownName => "there is no activation of this name",
            Self::BadParameters => "an activation needs all of its parameters, as finite numbers: affine(1,0)",
        })
    }
}

impl core::error::Error for ParseActivationError {}

impl FromStr for Activation {
    type Err = ParseActivationError;

    /// Parses a name and its parameters. Spaces around names and numbers are ignored. Missing trailing parameters take
    /// ONNX's defaults; [`Affine`](Self::Affine) and [`ScaledTanh`](Self::ScaledTanh) have no defaults.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        use ParseActivationError::{BadParameters, UnknownName};
        let (name, arguments) = match text.trim().split_once('(') {
            Some((name, rest)) => (name.trim(), Some(rest.strip_suffix(')').ok_or(BadParameters)?)),
            None => (text.trim(), None),
        };
        let known = Self::ALL.into_iter().find(|activation| activation.name() == name).ok_or(UnknownName)?;
        let mut parameters = known.parameters();
        let mut missing = known.parameter_count();
        for argument in arguments.into_iter().flat_map(|arguments| arguments.split(',')) {
            let index = known.parameter_count() - missing;
            missing = missing.checked_sub(1).ok_or(BadParameters)?;
            let parameter = parameters.get_mut(index).ok_or(BadParameters)?;
            *parameter = argument.trim().parse().map_err(|_| BadParameters)?;
        }
        if missing > 0 && matches!(known, Self::Affine { .. } | Self::ScaledTanh { .. }) {
            return Err(BadParameters);
        }
        Self::from_parts(known.code(), parameters).ok_or(BadParameters)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::string::ToString;

    use super::{Activation, ParseActivationError};

    #[test]
    fn texts_round_trip_bit_for_bit() {
        assert_eq!(Activation::Tanh.to_string(), "tanh");
        assert_eq!(Activation::HardSigmoid { alpha: 0.2, beta: 0.5 }.to_string(), "hard_sigmoid(0.2,0.5)");
        assert_eq!(Activation::Elu { alpha: 1.0 }.to_string(), "elu(1)");
        for activation in Activation::ALL {
            assert_eq!(activation.to_string().parse(), Ok(activation));
        }
        // Every exponent, both signs, many mantissas.
        for alpha in (0..=u32::MAX).step_by(65_537).map(f32::from_bits).filter(|alpha| alpha.is_finite()) {
            let activation = Activation::Affine { alpha, beta: -alpha };
            let back: Activation = activation.to_string().parse().expect("an activation's own text is valid");
            assert_eq!(back.parameters().map(f32::to_bits), [alpha, -alpha].map(f32::to_bits), "{activation}");
        }
    }

    #[test]
    fn texts_may_have_spaces_and_omit_the_defaults_of_onnx() {
        let hard = |alpha, beta| Ok(Activation::HardSigmoid { alpha, beta });
        for (text, activation) in [
            (" tanh ", Ok(Activation::Tanh)),
            ("hard_sigmoid", hard(0.2, 0.5)),
            ("hard_sigmoid(0.25)", hard(0.25, 0.5)),
            (" hard_sigmoid ( 1e-1 , .75 ) ", hard(0.1, 0.75)),
            ("leaky_relu", Ok(Activation::LeakyRelu { alpha: 0.01 })),
            ("thresholded_relu", Ok(Activation::ThresholdedRelu { alpha: 1.0 })),
            ("elu", Ok(Activation::Elu { alpha: 1.0 })),
            ("", Err(ParseActivationError::UnknownName)),
            ("Tanh", Err(ParseActivationError::UnknownName)),
            ("swish", Err(ParseActivationError::UnknownName)),
            ("(1)", Err(ParseActivationError::UnknownName)),
            ("tanh()", Err(ParseActivationError::BadParameters)),
            ("tanh(1)", Err(ParseActivationError::BadParameters)),
            ("elu()", Err(ParseActivationError::BadParameters)),
            ("elu(1,0)", Err(ParseActivationError::BadParameters)),
            ("elu(1", Err(ParseActivationError::BadParameters)),
            ("elu(1))", Err(ParseActivationError::BadParameters)),
            ("elu(nan)", Err(ParseActivationError::BadParameters)),
            ("elu(1e39)", Err(ParseActivationError::BadParameters)),
            ("affine", Err(ParseActivationError::BadParameters)),
            ("affine(1)", Err(ParseActivationError::BadParameters)),
            ("affine(1,2,3)", Err(ParseActivationError::BadParameters)),
            ("scaled_tanh(1.7159)", Err(ParseActivationError::BadParameters)),
        ] {
            assert_eq!(text.parse::<Activation>(), activation, "{text:?}");
        }
    }
}
