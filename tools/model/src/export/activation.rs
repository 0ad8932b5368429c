//! Activations in ONNX: operators, and names within recurrent operators.

use tidegate::internals::activation::Activation;

use super::graph::{Graph, Name, float};

/// Applies an activation; `None` if no operator computes it.
pub fn apply(graph: &mut Graph, layer: &str, activation: Activation, x: &str) -> Option<Name> {
    let mut op = |op: &str, attributes| Some(graph.op(layer, op, &[x], attributes));
    match activation {
        Activation::Identity => Some(x.to_owned()),
        Activation::Sigmoid => op("Sigmoid", vec![]),
        Activation::Tanh => op("Tanh", vec![]),
        Activation::Relu => op("Relu", vec![]),
        Activation::Softsign => op("Softsign", vec![]),
        Activation::HardSigmoid { alpha, beta } => op("HardSigmoid", vec![float("alpha", alpha), float("beta", beta)]),
        Activation::LeakyRelu { alpha } => op("LeakyRelu", vec![float("alpha", alpha)]),
        Activation::ThresholdedRelu { alpha } => op("ThresholdedRelu", vec![float("alpha", alpha)]),
        Activation::Elu { alpha } => op("Elu", vec![float("alpha", alpha)]),
        Activation::Selu => op("Selu", vec![]),
        Activation::Softplus => op("Softplus", vec![]),
        Activation::Exp => op("Exp", vec![]),
        Activation::HardTanh => Some(clip(graph, layer, x, [-1.0, 1.0])),
        Activation::Relu6 => Some(clip(graph, layer, x, [0.0, 6.0])),
        Activation::Silu => {
            let share = graph.op(layer, "Sigmoid", &[x], vec![]);
            Some(graph.op(layer, "Mul", &[x, &share], vec![]))
        }
        Activation::HardSwish => {
            let share = graph.op(layer, "HardSigmoid", &[x], vec![float("alpha", 1.0 / 6.0), float("beta", 0.5)]);
            Some(graph.op(layer, "Mul", &[x, &share], vec![]))
        }
        Activation::Mish => {
            let sum = graph.op(layer, "Softplus", &[x], vec![]);
            let share = graph.op(layer, "Tanh", &[&sum], vec![]);
            Some(graph.op(layer, "Mul", &[x, &share], vec![]))
        }
        _ => None,
    }
}

fn clip(graph: &mut Graph, layer: &str, x: &str, [least, most]: [f32; 2]) -> Name {
    let least = graph.floats(&format!("{layer}/least"), &[], &[least]);
    let most = graph.floats(&format!("{layer}/most"), &[], &[most]);
    graph.op(layer, "Clip", &[x, &least, &most], vec![])
}

/// An activation of a recurrent operator: its name, α and β, where it has them; `None` if ONNX has none.
pub fn recurrent(activation: Activation) -> Option<(&'static str, Option<f32>, Option<f32>)> {
    Some(match activation {
        Activation::Identity => ("Affine", Some(1.0), Some(0.0)),
        Activation::Sigmoid => ("Sigmoid", None, None),
        Activation::Tanh => ("Tanh", None, None),
        Activation::Relu => ("Relu", None, None),
        Activation::Softsign => ("Softsign", None, None),
        Activation::Softplus => ("Softplus", None, None),
        Activation::HardSigmoid { alpha, beta } => ("HardSigmoid", Some(alpha), Some(beta)),
        Activation::LeakyRelu { alpha } => ("LeakyRelu", Some(alpha), None),
        Activation::ThresholdedRelu { alpha } => ("ThresholdedRelu", Some(alpha), None),
        Activation::ScaledTanh { alpha, beta } => ("ScaledTanh", Some(alpha), Some(beta)),
        Activation::Affine { alpha, beta } => ("Affine", Some(alpha), Some(beta)),
        Activation::Elu { alpha } => ("Elu", Some(alpha), None),
        _ => return None,
    })
}
