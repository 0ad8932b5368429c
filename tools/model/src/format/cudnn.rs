//! cuDNN's parameters, as in TensorFlow 1's `CudnnParamsFormatConverter` and in Keras 2's `CuDNNLSTM` and `CuDNNGRU`.
//! If a case also has the parameters in the framework's own form, both forms must give the same layer.

use tidegate::internals::cell::CellKind;

use super::{layer::Layer, refuse::unsupported_if};
use crate::canonical::Tensor;
use crate::error::ImportError;

/// Returns `layer` with the states of `native` if the two are the same.
///
/// # Errors
/// If they differ in a weight, or in the sum of their biases.
pub(crate) fn agreeing(layer: Layer, native: Layer) -> Result<Layer, ImportError> {
    unsupported_if(folded(&layer) != folded(&native), "a layer whose parameters differ between its two forms")?;
    Ok(Layer { states: native.states, ..layer })
}

/// Weights and biases. Input and recurrent biases are added if the cell only uses their sum.
fn folded(layer: &Layer) -> [Option<Tensor>; 4] {
    let tensor = |name| layer.tensors.get(name).cloned();
    let mut input = tensor("input_bias");
    let mut recurrent = tensor("recurrent_bias");
    if let (Some(input), Some(recurrent)) = (&mut input, &mut recurrent) {
        // The candidate of a GRU whose reset follows the product uses its recurrent bias separately.
        let apart = if layer.kind == CellKind::Gru { layer.hidden_size } else { 0 };
        let summed = input.data.len() - apart;
        for (input, recurrent) in input.data.iter_mut().zip(&mut recurrent.data).take(summed) {
            *input += std::mem::take(recurrent);
        }
    }
    let recurrent = recurrent.filter(|bias| bias.data.iter().any(|&value| value != 0.0));
    [tensor("input_weights"), tensor("recurrent_weights"), input, recurrent]
}
