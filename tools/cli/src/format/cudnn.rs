//! cuDNN's canonical parameters: one matrix and one bias for each gate and each side, as TensorFlow 1's
//! `CudnnParamsFormatConverter` and Keras 2's `CuDNNLSTM` and `CuDNNGRU` hold them. Its gate orders are the canonical
//! ones. Where a case has the same parameters in the framework's own form too, both must make the same layer.

use serde_json::Map;
use tidegate::activation::Activation;
use tidegate::cell::CellKind;

use super::golden::Case;
use super::layer::Layer;
use super::tf1;
use super::weights::{Named, stacked};
use crate::canonical::Tensor;
use crate::error::ImportError;

/// `CudnnParamsFormatConverterLSTM`
pub(crate) fn lstm(case: &mut Case<'_>) -> Result<Layer, ImportError> {
    let layer = gates(case, CellKind::Lstm, &["i", "f", "c", "o"])?;
    converted(case, layer, "CudnnCompatibleLSTMCell")
}

/// `CudnnParamsFormatConverterGRU`
pub(crate) fn gru(case: &mut Case<'_>) -> Result<Layer, ImportError> {
    let layer = gates(case, CellKind::Gru, &["r", "u", "c"])?.option("reset_after");
    converted(case, layer, "CudnnCompatibleGRUCell")
}

/// `CudnnParamsFormatConverterTanh` and `CudnnParamsFormatConverterRelu`
pub(crate) fn basic(case: &mut Case<'_>, activation: Activation) -> Result<Layer, ImportError> {
    let layer = gates(case, CellKind::Elman, &["h"])?.activation("activation", activation);
    converted(case, layer, "BasicRNNCell")
}

/// `w_<gate>` [units, input], `r_<gate>` [units, units], `b_w_<gate>`, `b_r_<gate>` [units].
fn gates(case: &mut Case<'_>, kind: CellKind, names: &[&str]) -> Result<Layer, ImportError> {
    let first = Named { name: "w", tensor: case.peek(&format!("cudnn/w_{}", names[0]))? };
    let (units, input) = first.matrix()?;
    let mut all = |side: &str, shape: &[usize]| -> Result<Tensor, ImportError> {
        let mut blocks = Vec::new();
        for gate in names {
            let name = format!("cudnn/{side}_{gate}");
            blocks.push(case.named(&name)?.shaped(shape, units)?);
        }
        Ok(stacked(&blocks))
    };
    Ok(Layer::new(kind, input, units)
        .tensor("input_weights", all("w", &[units, input])?)
        .tensor("recurrent_weights", all("r", &[units, units])?)
        .tensor("input_bias", all("b_w", &[units])?)
        .tensor("recurrent_bias", all("b_r", &[units])?))
}

/// The layer, if what TensorFlow converted its parameters to is the same.
fn converted(case: &mut Case<'_>, layer: Layer, cls: &str) -> Result<Layer, ImportError> {
    if case.size("num_layers")?.is_some_and(|layers| layers != 1) {
        return Err(ImportError::Unsupported("more than one layer of cuDNN's parameters".into()));
    }
    case.units("num_units", layer.hidden_size)?;
    case.units("input_size", layer.input_size)?;
    let native = case.scoped(cls.to_owned(), Map::new(), &["rnn"], tf1::golden::cell)?;
    agreeing(layer, native)
}

/// `layer` with the states of `native`, if the two are the same.
///
/// # Errors
/// If they differ in a weight, or in what the sum of their biases is.
pub(crate) fn agreeing(layer: Layer, native: Layer) -> Result<Layer, ImportError> {
    if folded(&layer) != folded(&native) {
        return Err(ImportError::Unsupported("a layer whose parameters differ between its two forms".into()));
    }
    Ok(Layer { states: native.states, ..layer })
}

/// Weights, and biases with those of the two sides added where the cell only sees their sum.
fn folded(layer: &Layer) -> [Option<Tensor>; 4] {
    let tensor = |name| layer.tensors.get(name).cloned();
    let mut input = tensor("input_bias");
    let mut recurrent = tensor("recurrent_bias");
    if let (Some(input), Some(recurrent)) = (&mut input, &mut recurrent) {
        // The candidate of a GRU with its reset behind the product sees its recurrent bias apart.
        let apart = if layer.kind == CellKind::Gru { layer.hidden_size } else { 0 };
        let summed = input.data.len() - apart;
        for (input, recurrent) in input.data.iter_mut().zip(&mut recurrent.data).take(summed) {
            *input += std::mem::take(recurrent);
        }
    }
    let recurrent = recurrent.filter(|bias| bias.data.iter().any(|&value| value != 0.0));
    [tensor("input_weights"), tensor("recurrent_weights"), input, recurrent]
}
