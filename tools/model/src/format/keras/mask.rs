//! Keras's masks, which exclude steps of a sequence. `Masking` and `Embedding` create a mask, the following layers
//! propagate it, and a recurrent layer keeps its state and its output at masked steps.

use tidegate::internals::{activation::Activation, cell::CellKind};

use super::activation::{Function, add_function};
use crate::format::refuse::unsupported_if;
use crate::format::{case::Case, layer::Layer, network::Network, network::Source, signal::Signal};
use crate::{canonical::Tensor, error::Result};

/// Maps every number greater than 0, however small, to 1.
const ABOVE_ZERO: Activation = Activation::HardSigmoid { alpha: 1e38, beta: 0.0 };

/// `Masking`: a step is masked if all of its features equal the mask value. Its features become 0.
pub(super) fn masking(case: &mut Case<'_>, network: &mut Network, x: &Signal) -> Result<Signal> {
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
    Ok(Signal { source, mask: Some(mask), ..x.clone() })
}

/// `Embedding` with `mask_zero`: a step is masked if its index is 0.
pub(super) fn of_indices(network: &mut Network, x: &Signal) -> Result<Source> {
    let unit = Activation::HardSigmoid { alpha: 1.0, beta: 0.0 };
    Ok(add_function(network, x, Function::Activation(unit))?.source)
}

/// The mask of several inputs, which must all have the same mask if they have one.
pub(super) fn common(inputs: &[Signal]) -> Result<Option<Source>> {
    let mut masks = inputs.iter().filter_map(|input| input.mask.as_ref());
    let Some(first) = masks.next() else { return Ok(None) };
    unsupported_if(masks.any(|mask| !mask.is(first)), "inputs with different masks")?;
    Ok(Some(first.clone()))
}

/// The layer with the mask as one additional input feature.
pub(super) fn with_mask(mut layer: Layer) -> Result<Layer> {
    let masks = matches!(layer.kind, CellKind::Lstm | CellKind::Gru | CellKind::Elman);
    unsupported_if(!masks, "masking before this layer")?;
    let cols = layer.input_size;
    if let Some(weights) = layer.tensors.get_mut("input_weights") {
        // The weights of the mask feature are 0.
        let rows = weights.data.chunks(cols.max(1));
        weights.data = rows.flat_map(|row| row.iter().copied().chain([0.0])).collect();
        weights.shape = vec![weights.data.len() / (cols + 1), cols + 1];
    }
    layer.input_size += 1;
    Ok(layer.option("masked"))
}

/// Replaces `x` by zeros at masked steps.
pub(super) fn silenced(network: &mut Network, x: &Source, mask: &Source) -> Source {
    let size = x.size();
    let ones = Tensor { shape: vec![size, 1], data: vec![1.0; size] };
    let mask = network.add(Layer::dense(ones, None, Activation::Identity), &[mask]);
    let parts = [x, &mask];
    network.add(Layer::merge("multiply", parts.len(), size), &parts)
}
