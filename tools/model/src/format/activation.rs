//! Activations by their names in each framework. The same name may mean different functions.

use tidegate::internals::activation::Activation;

/// The hard sigmoid of Keras 2.
pub const HARD_SIGMOID_KERAS2: Activation = Activation::HardSigmoid { alpha: 0.2, beta: 0.5 };

/// LeCun's tanh with the constants of ncps, whose backbones use it by default.
pub const LECUN_TANH: Activation = Activation::ScaledTanh { alpha: 1.7159, beta: 0.666 };

/// Framework whose names are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// Functions of PyTorch and ncps, without arguments or with default arguments.
    Functions,
    /// Functions of TensorFlow 1 (`tf.nn`), and the strings that its cells accept, which are those of Keras 2.
    Tensorflow1,
    /// `keras.activations` of tf_keras.
    Keras2,
    /// `keras.activations` of Keras 3, whose hard sigmoid has a different slope.
    Keras3,
    /// EdgeML.
    Edgeml,
}

impl Names {
    /// The names of a family of golden cases.
    pub fn of_family(family: &str) -> Self {
        match family {
            "tf1" => Self::Tensorflow1,
            "keras2" => Self::Keras2,
            "keras3" => Self::Keras3,
            "edgeml" => Self::Edgeml,
            _ => Self::Functions,
        }
    }

    /// The activation of this name, if the runtime has the same function.
    pub fn activation(self, name: &str) -> Option<Activation> {
        let known = match self {
            Self::Functions => functions(name),
            Self::Tensorflow1 | Self::Keras2 | Self::Keras3 => self.keras(name),
            Self::Edgeml => edgeml(name),
        };
        known.or_else(|| everywhere(name))
    }

    /// Whether the argument `None` means the identity; otherwise it means the default.
    pub fn none_is_linear(self) -> bool {
        matches!(self, Self::Keras2 | Self::Keras3)
    }

    fn keras(self, name: &str) -> Option<Activation> {
        Some(match name {
            "linear" => Activation::Identity,
            "hard_sigmoid" if self != Self::Keras3 => HARD_SIGMOID_KERAS2,
            "hard_sigmoid" => Activation::HardSigmoid { alpha: 1.0 / 6.0, beta: 0.5 },
            "hard_tanh" => Activation::HardTanh,
            "exponential" => Activation::Exp,
            "exp" if self == Self::Tensorflow1 => Activation::Exp,
            "leaky_relu" => Activation::LeakyRelu { alpha: 0.2 },
            "gelu" => Activation::Gelu,
            "celu" => Activation::Elu { alpha: 1.0 },
            _ => return None,
        })
    }
}

fn functions(name: &str) -> Option<Activation> {
    Some(match name {
        "gelu" => Activation::Gelu,
        "lecun_tanh" => LECUN_TANH,
        _ => return None,
    })
}

fn edgeml(name: &str) -> Option<Activation> {
    Some(match name {
        "quantTanh" => Activation::HardTanh,
        "quantSigm" => Activation::HardSigmoid { alpha: 0.5, beta: 0.5 },
        "quantSigm4" => Activation::HardSigmoid { alpha: 0.25, beta: 0.5 },
        _ => return None,
    })
}

/// Names with the same meaning in all frameworks that have them.
fn everywhere(name: &str) -> Option<Activation> {
    Some(match name {
        "identity" => Activation::Identity,
        "sigmoid" => Activation::Sigmoid,
        "tanh" => Activation::Tanh,
        "relu" => Activation::Relu,
        "relu6" => Activation::Relu6,
        "softsign" => Activation::Softsign,
        "softplus" => Activation::Softplus,
        "elu" => Activation::Elu { alpha: 1.0 },
        "selu" => Activation::Selu,
        "silu" | "swish" => Activation::Silu,
        "hard_silu" | "hard_swish" => Activation::HardSwish,
        "mish" => Activation::Mish,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_the_meaning_of_its_framework() {
        let of = |names: Names, x: f32| names.activation("hard_sigmoid").map(|activation| activation.apply(x));
        assert_eq!(of(Names::Keras2, 1.0), Some(0.7));
        assert!(of(Names::Keras3, 1.0).is_some_and(|y| (y - 4.0 / 6.0).abs() < 1e-7));
        assert_eq!(of(Names::Tensorflow1, 1.0), Some(0.7));
        assert_eq!(of(Names::Edgeml, 1.0), None);
        assert_eq!(
            Names::of_family("edgeml").activation("quantSigm4"),
            Some(Activation::HardSigmoid { alpha: 0.25, beta: 0.5 })
        );
    }

    #[test]
    fn unknown_names_have_no_activation() {
        assert_eq!(Names::Keras3.activation("tanh_shrink"), None);
        assert_eq!(Names::Functions.activation("linear"), None);
        assert_eq!(Names::Functions.activation("leaky_relu"), None);
    }
}
