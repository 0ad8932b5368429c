//! Keras's elementwise functions: activations given by name or as layers with arguments, and the softmax, which is a
//! cell of its own in the canonical model.

use tidegate::internals::{activation::Activation, cell::CellKind};

use crate::error::{ImportError, Result};
use crate::format::{case::Case, layer::Layer, network::Network, refuse::unsupported_if, signal::Signal};

/// A function that is applied to each step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Function {
    /// An activation, applied to each number.
    Activation(Activation),
    /// Each number, clamped between 0 and this maximum.
    UpTo(f32),
    /// The softmax over all numbers of the step.
    Softmax,
}

impl Function {
    /// The activation of a cell that computes this function, if there is one.
    pub fn as_activation(self) -> Option<Activation> {
        match self {
            Self::Activation(activation) => Some(activation),
            Self::UpTo(_) | Self::Softmax => None,
        }
    }
}

/// Takes an argument that is the name of a function or a layer that is one. A missing argument is the identity.
pub(super) fn take_function(case: &mut Case<'_>, name: &str) -> Result<Function> {
    if case.has_text(name, "softmax") {
        case.ignore(name);
        return Ok(Function::Softmax);
    }
    if case.is_object(name)
        && let Some((class, args)) = case.inner_layer(name)?
    {
        let shown = format!("argument {name} of class {class:?}");
        // The inner layer has no weights.
        return case.scoped(class, args, &["no weights"], |inner| {
            inner.ignore_where(super::arguments::is_of_training);
            inner.ignore("trainable");
            function_of_layer(inner)?.ok_or(ImportError::Unsupported(shown))
        });
    }
    Ok(Function::Activation(case.activation(name, Activation::Identity)?))
}

/// The function of an activation layer with its arguments, or `None` for any other layer.
pub(super) fn function_of_layer(case: &mut Case<'_>) -> Result<Option<Function>> {
    let number = |case: &mut Case<'_>, name, default| case.number(name).map(|given| given.unwrap_or(default));
    let activation = match case.cls.as_str() {
        "Softmax" => return Ok(Some(Function::Softmax)),
        "ReLU" => {
            let slope = number(case, "negative_slope", 0.0)?;
            let threshold = number(case, "threshold", 0.0)?;
            unsupported_if(threshold != 0.0, format_args!("argument threshold = {threshold}"))?;
            match (case.number("max_value")?, slope) {
                (None, 0.0) => Activation::Relu,
                (None, alpha) => Activation::LeakyRelu { alpha },
                (Some(6.0), 0.0) => Activation::Relu6,
                (Some(max), 0.0) if max > 0.0 => return Ok(Some(Function::UpTo(max))),
                (Some(max), slope) => {
                    return Err(ImportError::Unsupported(format!("max_value = {max} with negative_slope = {slope}")));
                }
            }
        }
        "LeakyReLU" => {
            let alpha = number(case, "alpha", 0.3)?;
            Activation::LeakyRelu { alpha: number(case, "negative_slope", alpha)? }
        }
        "ELU" => Activation::Elu { alpha: number(case, "alpha", 1.0)? },
        "ThresholdedReLU" => Activation::ThresholdedRelu { alpha: number(case, "theta", 1.0)? },
        _ => return Ok(None),
    };
    Ok(Some(Function::Activation(activation)))
}

pub(super) fn add_function(network: &mut Network, x: &Signal, function: Function) -> Result<Signal> {
    let size = x.source.size();
    let mut of = |x: &Signal, layer: Layer| Signal { source: network.add(layer, &[&x.source]), ..x.clone() };
    let activation = |activation| Layer::new(CellKind::Activation, size, size).activation("activation", activation);
    Ok(match function {
        Function::Activation(Activation::Identity) => x.clone(),
        Function::Activation(given) => of(x, activation(given)),
        Function::UpTo(max) => {
            let unit = of(x, activation(Activation::HardSigmoid { alpha: 1.0 / max, beta: 0.0 }));
            of(&unit, activation(Activation::Affine { alpha: max, beta: 0.0 }))
        }
        Function::Softmax if x.shape.len() > 1 => {
            return Err(ImportError::Unsupported("a softmax over one of several dimensions".into()));
        }
        Function::Softmax => of(x, Layer::new(CellKind::Softmax, size, size)),
    })
}
