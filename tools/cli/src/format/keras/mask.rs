//! Keras's masks: steps of a sequence that do not count. `Masking` and `Embedding` make them, what is behind hands them on,
//! and a recurrent layer keeps its state and its output where a step does not count.

use tidegate::activation::Activation;
use tidegate::cell::CellKind;

use super::activation::{Function, add_function};
use crate::canonical::Tensor;
use crate::error::ImportError;
use crate::format::description::Value;
use crate::format::golden::Case;
use crate::format::layer::Layer;
use crate::format::network::{Network, Source};

/// Makes 1 of whatever is greater than 0, however little.
const ABOVE_ZERO: Activation = Activation::HardSigmoid { alpha: 1e38, beta: 0.0 };

/// `Masking`: a step does not count where all of its features have one value; they are 0 then.
pub(super) fn masking(case: &mut Case<'_>, network: &mut Network, x: &Value) -> Result<Value, ImportError> {
    let value = case.number("mask_value")?.unwrap_or(0.0);
    let size = x.source.size();
    let difference = match value {
        0.0 => x.clone(),
        value => add_function(network, x, Function::Activation(Activation::Affine { alpha: 1.0, beta: -value }))?,
    };
    let turned = Function::Activation(Activation::Affine { alpha: -1.0, beta: 0.0 });
    let turned = add_function(network, &difference, turned)?;
    let parts = [&difference.source, &turned.source];
    let distance = network.add(Layer::merge("maximum", parts.len(), size), &parts);
    let ones = Tensor { shape: vec![1, size], data: vec![1.0; size] };
    let mask = network.add(Layer::dense(ones, None, ABOVE_ZERO), &[&distance]);
    let source = if value == 0.0 { x.source.clone() } else { silenced(network, &x.source, &mask) };
    Ok(Value { source, mask: Some(mask), ..x.clone() })
}

/// `Embedding` with `mask_zero`: a step does not count where its index is 0.
pub(super) fn of_indices(network: &mut Network, x: &Value) -> Result<Source, ImportError> {
    let unit = Activation::HardSigmoid { alpha: 1.0, beta: 0.0 };
    Ok(add_function(network, x, Function::Activation(unit))?.source)
}

/// That of several inputs, which must have the same if any.
pub(super) fn common(inputs: &[Value]) -> Result<Option<Source>, ImportError> {
    let mut masks = inputs.iter().filter_map(|input| input.mask.as_ref());
    let Some(first) = masks.next() else { return Ok(None) };
    if masks.any(|mask| !mask.is(first)) {
        return Err(ImportError::Unsupported("inputs with different masks".into()));
    }
    Ok(Some(first.clone()))
}

/// The layer with one feature more, which is the mask.
pub(super) fn with_mask(mut layer: Layer) -> Result<Layer, ImportError> {
    if !matches!(layer.kind, CellKind::Lstm | CellKind::Gru | CellKind::Elman) {
        return Err(ImportError::Unsupported("masking before this layer".into()));
    }
    let cols = layer.input_size;
    if let Some(weights) = layer.tensors.get_mut("input_weights") {
        // The weights do not see it.
        let rows = weights.data.chunks(cols.max(1));
        weights.data = rows.flat_map(|row| row.iter().copied().chain([0.0])).collect();
        weights.shape = vec![weights.data.len() / (cols + 1), cols + 1];
    }
    layer.input_size += 1;
    Ok(layer.option("masked"))
}

/// Zeros where a step does not count.
pub(super) fn silenced(network: &mut Network, x: &Source, mask: &Source) -> Source {
    let size = x.size();
    let ones = Tensor { shape: vec![size, 1], data: vec![1.0; size] };
    let mask = network.add(Layer::dense(ones, None, Activation::Identity), &[mask]);
    let parts = [x, &mask];
    network.add(Layer::merge("multiply", parts.len(), size), &parts)
}
