//! TensorFlow 1's `CudnnParamsFormatConverter`: cuDNN's canonical parameters, one matrix and one bias for each gate and for
//! each of input and recurrent side, in the canonical gate order.

use serde_json::Map;
use tidegate::internals::{activation::Activation, cell::CellKind};

use super::{cells::Converted, cells::unsupported_if, classes};
use crate::error::Result;
use crate::format::{case::Case, cudnn::agreeing, layer::Layer, weights::Named, weights::stacked};

/// The layer with the parameters `w_<gate>` [units, input], `r_<gate>` [units, units], `b_w_<gate>` and `b_r_<gate>`
/// [units]. TensorFlow's own conversion of these parameters must give the same layer.
pub(super) fn layer(case: &mut Case<'_>) -> Converted {
    let (kind, names, cls): (_, &[&str], _) = match case.cls.trim_start_matches("CudnnParamsFormatConverter") {
        "LSTM" => (CellKind::Lstm, &["i", "f", "c", "o"], "CudnnCompatibleLSTMCell"),
        "GRU" => (CellKind::Gru, &["r", "u", "c"], "CudnnCompatibleGRUCell"),
        "Tanh" | "Relu" => (CellKind::Elman, &["h"], "BasicRNNCell"),
        _ => return case.unknown_class(),
    };
    let first = Named { name: "w", tensor: case.peek(&format!("cudnn/w_{}", names[0]))? };
    let (units, input) = first.matrix()?;
    let mut layer = Layer::new(kind, input, units);
    let sides: [(_, _, &[usize]); 4] = [
        ("input_weights", "w", &[units, input]),
        ("recurrent_weights", "r", &[units, units]),
        ("input_bias", "b_w", &[units]),
        ("recurrent_bias", "b_r", &[units]),
    ];
    for (canonical, side, shape) in sides {
        let block = |gate| case.named(&format!("cudnn/{side}_{gate}"))?.shaped(shape, units);
        layer = layer.tensor(canonical, stacked(&names.iter().map(block).collect::<Result<Vec<_>>>()?));
    }
    layer = match case.cls.as_str() {
        "CudnnParamsFormatConverterGRU" => layer.option("reset_after"),
        "CudnnParamsFormatConverterTanh" => layer.activation("activation", Activation::Tanh),
        "CudnnParamsFormatConverterRelu" => layer.activation("activation", Activation::Relu),
        _ => layer,
    };
    let layers = case.size("num_layers")?.unwrap_or(1);
    unsupported_if(layers != 1, "more than one layer of cuDNN's parameters")?;
    case.units("num_units", layer.hidden_size)?;
    case.units("input_size", layer.input_size)?;
    let native = case.scoped(cls.to_owned(), Map::new(), &["rnn"], classes::cell)?;
    agreeing(layer, native)
}
