//! Layers without a state that every framework has, once their tensors are in canonical shapes.

use tidegate::cell::CellKind;

use super::description::Value;
use super::golden::Case;
use super::layer::Layer;
use super::network::{Network, Source};
use super::weights::Named;
use crate::canonical::Tensor;
use crate::error::ImportError;

/// A layer at every step.
pub(crate) fn simple(layer: Layer, network: &mut Network, x: &Value) -> Result<Value, ImportError> {
    fitting(&layer, &x.source)?;
    let (shape, order) = match layer.output_size == x.source.size() {
        true => (x.shape.clone(), x.order.clone()),
        false => (vec![layer.output_size], None),
    };
    let source = network.add(layer, &[&x.source]);
    Ok(Value { source, shape, order, ..x.clone() })
}

/// A layer must take what is there.
pub(crate) fn fitting(layer: &Layer, x: &Source) -> Result<(), ImportError> {
    if layer.input_size == x.size() {
        return Ok(());
    }
    Err(ImportError::Unsupported(format!("{} features where its tensors take {}", x.size(), layer.input_size)))
}

/// Features in the order in which the framework has them.
pub(crate) fn in_order(x: &Value) -> Result<(), ImportError> {
    match x.order {
        None => Ok(()),
        Some(_) => Err(ImportError::Unsupported("features that were flattened with channels_first".into())),
    }
}

/// `Concat`, `Add` or `Multiply` of several inputs.
pub(crate) fn several(case: &mut Case<'_>, network: &mut Network, inputs: &[Value]) -> Result<Value, ImportError> {
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
    if sources.iter().any(|source| source.size() != size) {
        return Err(ImportError::Unsupported("inputs of different sizes".into()));
    }
    let source = network.add(Layer::merge(how, sources.len(), size), &sources);
    Ok(Value { source, ..first.clone() })
}

/// Rows of a table. Input is the index; what is out of range, which frameworks refuse, is the nearest row.
pub(crate) fn embedding(weights: Named<'_>) -> Result<Layer, ImportError> {
    let (rows, size) = weights.matrix()?;
    let layer = Layer::new(CellKind::Embedding, 1, size).extent("vocabulary", rows);
    Ok(layer.tensor("weights", weights.tensor.clone()))
}

/// Normalization over all features of a step.
pub(crate) fn layer_norm(size: usize, epsilon: f32, gain: Option<Tensor>, bias: Option<Tensor>) -> Layer {
    let mut layer = Layer::new(CellKind::LayerNorm, size, size).param("epsilon", epsilon);
    if let Some(gain) = gain {
        layer = layer.option("gain").tensor("gain", gain);
    }
    match bias {
        Some(bias) => layer.tensor("bias", bias),
        None => layer,
    }
}

/// A batch normalization's vectors, each with a number for each channel.
pub(crate) struct BatchNorm {
    pub mean: Tensor,
    pub variance: Tensor,
    pub gain: Option<Tensor>,
    pub bias: Option<Tensor>,
    pub epsilon: f32,
}

impl BatchNorm {
    /// What is left of it at inference: `(x - mean) / √(var + ε) ⊙ gain + bias`.
    ///
    /// # Errors
    /// If the last dimension of `x` has other channels.
    pub fn add(self, network: &mut Network, x: &Value) -> Result<Value, ImportError> {
        in_order(x)?;
        let size = self.mean.data.len();
        // Channels are last: those of every pixel follow each other.
        if x.shape.last() != Some(&size) {
            let of = x.shape.last().copied().unwrap_or_default();
            return Err(ImportError::Unsupported(format!("{of} channels where its tensors have {size}")));
        }
        let affine = [&self.gain, &self.bias].map(|tensor| tensor.as_ref().map(|tensor| tensor.data.as_slice()));
        let statistics = [self.mean.data.as_slice(), &self.variance.data];
        simple(Layer::batch_norm(x.source.size(), statistics, affine, self.epsilon.into()), network, x)
    }
}
