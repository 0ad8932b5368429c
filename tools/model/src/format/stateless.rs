//! Stateless layers that every framework has, built from tensors in canonical shapes.

use tidegate::internals::cell::CellKind;

use super::refuse::unsupported_if;
use super::{
    case::Case, layer::Layer, network::Network, network::Source, signal::Signal, signal::in_order, weights::Named,
};
use crate::{canonical::Tensor, error::ImportError, error::Result};

pub(crate) fn simple(layer: Layer, network: &mut Network, x: &Signal) -> Result<Signal> {
    fitting(&layer, &x.source)?;
    let (shape, order) = match layer.output_size == x.source.size() {
        true => (x.shape.clone(), x.order.clone()),
        false => (vec![layer.output_size], None),
    };
    let source = network.add(layer, &[&x.source]);
    Ok(Signal { source, shape, order, ..x.clone() })
}

pub(crate) fn fitting(layer: &Layer, x: &Source) -> Result<()> {
    let (found, needed) = (x.size(), layer.input_size);
    unsupported_if(found != needed, format_args!("{found} features where its tensors take {needed}"))
}

/// `Concat`, `Add` or `Multiply` of several inputs.
pub(crate) fn several(case: &mut Case<'_>, network: &mut Network, inputs: &[Signal]) -> Result<Signal> {
    let sources: Vec<&Source> = inputs.iter().map(|input| &input.source).collect();
    inputs.iter().try_for_each(in_order)?;
    let (Some(first), Some(size)) = (inputs.first(), sources.first().map(|source| source.size())) else {
        return Err(ImportError::Unsupported("no input".into()));
    };
    let how = match case.cls.as_str() {
        "Concat" => {
            let sources: Vec<Source> = sources.into_iter().cloned().collect();
            return Ok(first.with(network.concat(&sources)));
        }
        "Add" => "add",
        _ => "multiply",
    };
    unsupported_if(sources.iter().any(|source| source.size() != size), "inputs of different sizes")?;
    let source = network.add(Layer::merge(how, sources.len(), size), &sources);
    Ok(Signal { source, ..first.clone() })
}

/// Rows of a table. The input is the index; an index out of range, which frameworks reject, selects the nearest row.
pub(crate) fn embedding(weights: Named<'_>) -> Result<Layer> {
    let (rows, size) = weights.matrix()?;
    let layer = Layer::new(CellKind::Embedding, 1, size).extent("vocabulary", rows);
    Ok(layer.tensor("weights", weights.tensor.clone()))
}

pub(crate) fn layer_norm(size: usize, epsilon: f32, gain: Option<Tensor>, bias: Option<Tensor>) -> Layer {
    let mut layer = Layer::new(CellKind::LayerNorm, size, size).param("epsilon", epsilon);
    if let Some(gain) = gain {
        layer = layer.option("gain").tensor("gain", gain);
    }
    layer.optional("bias", bias)
}

/// Normalizes by the root mean square.
pub(crate) fn rms_norm(size: usize, epsilon: f32, gain: Option<Tensor>) -> Layer {
    layer_norm(size, epsilon, gain, None).option("rms")
}

/// A batch normalization's vectors, each with one element for each channel.
pub(crate) struct BatchNorm {
    pub mean: Tensor,
    pub variance: Tensor,
    pub gain: Option<Tensor>,
    pub bias: Option<Tensor>,
    pub epsilon: f32,
}

impl BatchNorm {
    /// Adds the normalization at inference: `(x - mean) / √(var + ε) ⊙ gain + bias`.
    pub fn add(self, network: &mut Network, x: &Signal) -> Result<Signal> {
        in_order(x)?;
        let size = self.mean.data.len();
        // Channels are last, so those of each pixel are contiguous.
        let of = x.shape.last().copied();
        let found = of.unwrap_or_default();
        unsupported_if(of != Some(size), format_args!("{found} channels where its tensors have {size}"))?;
        let affine = [&self.gain, &self.bias].map(|tensor| tensor.as_ref().map(|tensor| tensor.data.as_slice()));
        let statistics = [self.mean.data.as_slice(), &self.variance.data];
        simple(Layer::batch_norm(x.source.size(), statistics, affine, self.epsilon.into()), network, x)
    }
}
