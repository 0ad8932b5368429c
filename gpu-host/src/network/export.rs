//! Conversion of trained parameters from and to PyTorch's names, and to a canonical model.

use std::collections::BTreeMap;

use tidegate_model::canonical::{Canonical, Tensor};

use super::{Kind, Layer, Network, NetworkError};
use crate::layout::Layout;
use crate::rnn::Rnn;
use crate::weights::{canonical_to_params, params_to_canonical, tensors};

impl Network {
    /// The parameters as tensors under PyTorch's names.
    ///
    /// # Panics
    /// If the number of parameters is not the network's.
    pub fn state_dict(&self, params: &[f32]) -> BTreeMap<String, Tensor> {
        assert_eq!(params.len(), self.size);
        let mut dict = BTreeMap::new();
        for layer in &self.layers {
            let params = &params[layer.params.clone()];
            match &layer.kind {
                Kind::Stack { stack, .. } => {
                    let layout = Layout::described(stack.rnn());
                    let weights = params_to_canonical(&layout, params).expect("the range has the size of the layout");
                    for (k, weights) in weights.into_iter().enumerate() {
                        let name = |name| layer.tensor_name(&torch_name(stack.rnn(), k, name));
                        dict.extend(weights.into_iter().map(|(own, tensor)| (name(own), tensor)));
                    }
                }
                Kind::Linear { input, output, bias } => {
                    let (weights, rest) = params.split_at(input * output);
                    let tensor = |shape: Vec<usize>, data: &[f32]| Tensor { shape, data: data.to_vec() };
                    dict.insert(layer.tensor_name("weight"), tensor(vec![*output, *input], weights));
                    if *bias {
                        dict.insert(layer.tensor_name("bias"), tensor(vec![*output], rest));
                    }
                }
                Kind::Activation(_) | Kind::Dropout(_) => {}
            }
        }
        dict
    }

    /// Parameters from tensors under PyTorch's names: the reverse of [`state_dict`](Self::state_dict).
    ///
    /// # Errors
    /// If a tensor is missing or has another shape.
    pub fn params(&self, dict: &BTreeMap<String, Tensor>) -> Result<Vec<f32>, NetworkError> {
        let mut params = vec![0.0; self.size];
        let needed = self.state_dict(&params);
        if let Some((name, needed)) = needed.iter().find(|(name, needed)| {
            dict.get(*name).is_none_or(|found| found.shape != needed.shape || found.data.len() != needed.data.len())
        }) {
            let (needed, found) = (&needed.shape, dict.get(name).map(|found| &found.shape));
            return Err(NetworkError::Whole(format!("needs a tensor {name} of shape {needed:?}, found {found:?}")));
        }
        for layer in &self.layers {
            let params = &mut params[layer.params.clone()];
            match &layer.kind {
                Kind::Stack { stack, .. } => {
                    let of = |k| {
                        let tensor = |name| dict[&layer.tensor_name(&torch_name(stack.rnn(), k, name))].clone();
                        tensors(stack.rnn(), k).map(|(name, ..)| (name, tensor(name))).collect()
                    };
                    let weights: Vec<_> = (0..stack.rnn().pseudo_layers()).map(of).collect();
                    canonical_to_params(&Layout::described(stack.rnn()), &weights, params)?;
                }
                Kind::Linear { input, output, .. } => {
                    let (weights, rest) = params.split_at_mut(input * output);
                    weights.copy_from_slice(&dict[&layer.tensor_name("weight")].data);
                    if !rest.is_empty() {
                        rest.copy_from_slice(&dict[&layer.tensor_name("bias")].data);
                    }
                }
                Kind::Activation(_) | Kind::Dropout(_) => {}
            }
        }
        Ok(params)
    }

    /// The canonical model. Its features were scaled in training; the scaling is folded into the weights of the first
    /// layer, so that the model reads unscaled features.
    ///
    /// # Errors
    /// If the first layer has no weights and bias to fold the scaling into, or the importer refuses the model.
    pub fn model(&self, params: &[f32], scaling: &Scaling, source: &str) -> Result<Canonical, NetworkError> {
        let mut dict = self.state_dict(params);
        self.take_in(&mut dict, scaling)?;
        Ok(self.description.model("torch", &dict, None, source)?.model)
    }

    fn take_in(&self, dict: &mut BTreeMap<String, Tensor>, scaling: &Scaling) -> Result<(), NetworkError> {
        if *scaling == Scaling::none(self.features) {
            return Ok(());
        }
        let first = self.layers.iter().find(|layer| !matches!(layer.kind, Kind::Dropout(_)));
        let Some(first) = first else { return Ok(()) };
        let pairs: &[[&str; 2]] = match &first.kind {
            Kind::Stack { .. } => &[["weight_ih_l0", "bias_ih_l0"], ["weight_ih_l0_reverse", "bias_ih_l0_reverse"]],
            Kind::Linear { .. } => &[["weight", "bias"]],
            Kind::Activation(_) | Kind::Dropout(_) => &[],
        };
        let mut done = false;
        for [weight, bias] in pairs {
            let Some(mut weights) = dict.remove(&first.tensor_name(weight)) else { continue };
            let Some(bias) = dict.get_mut(&first.tensor_name(bias)) else { break };
            for (row, bias) in weights.data.chunks_exact_mut(self.features).zip(&mut bias.data) {
                let mut moved = f64::from(*bias);
                for ((weight, mean), deviation) in row.iter_mut().zip(&scaling.mean).zip(&scaling.deviation) {
                    let scaled = f64::from(*weight) / f64::from(*deviation);
                    moved -= scaled * f64::from(*mean);
                    *weight = scaled as f32;
                }
                *bias = moved as f32;
            }
            dict.insert(first.tensor_name(weight), weights);
            done = true;
        }
        if done {
            return Ok(());
        }
        let reason =
            "it must have weights and a bias to fold the feature scaling into: add a bias, or train with --no-scale";
        Err(NetworkError::Layer { layer: first.prefix.clone(), reason: reason.to_owned() })
    }
}

impl Layer {
    /// Full name of a tensor of this layer in a state dict.
    fn tensor_name(&self, name: &str) -> String {
        if self.prefix.is_empty() { name.to_owned() } else { format!("{}.{name}", self.prefix) }
    }
}

/// Scaling of features for training: `(x - mean) / deviation`.
#[derive(Clone, Debug, PartialEq)]
pub struct Scaling {
    /// Mean of each feature.
    pub mean: Vec<f32>,
    /// Standard deviation of each feature; never 0.
    pub deviation: Vec<f32>,
}

impl Scaling {
    /// The identity.
    pub fn none(features: usize) -> Self {
        Self { mean: vec![0.0; features], deviation: vec![1.0; features] }
    }

    /// Computes the mean and the standard deviation of each feature over all rows. The deviation is at least a
    /// hundredth of the largest one, so that nearly constant features are not amplified.
    pub fn of<'a>(features: usize, rows: impl Iterator<Item = &'a [f32]>) -> Self {
        let (mut count, mut sum, mut squares) = (0.0_f64, vec![0.0_f64; features], vec![0.0_f64; features]);
        for row in rows {
            count += 1.0;
            for ((&x, sum), squares) in row.iter().zip(&mut sum).zip(&mut squares) {
                *sum += f64::from(x);
                *squares += f64::from(x) * f64::from(x);
            }
        }
        let count = count.max(1.0);
        let deviation = |(sum, squares): (&f64, &f64)| (squares / count - (sum / count).powi(2)).max(0.0).sqrt();
        let deviations: Vec<f64> = sum.iter().zip(&squares).map(deviation).collect();
        let widest = deviations.iter().copied().fold(0.0, f64::max);
        let least = if widest > 0.0 { widest / 100.0 } else { 1.0 };
        Self {
            mean: sum.iter().map(|sum| (sum / count) as f32).collect(),
            deviation: deviations.iter().map(|deviation| deviation.max(least) as f32).collect(),
        }
    }

    /// Scales a row in place.
    pub fn apply(&self, row: &mut [f32]) {
        for ((x, mean), deviation) in row.iter_mut().zip(&self.mean).zip(&self.deviation) {
            *x = (*x - mean) / deviation;
        }
    }

    /// The reverse of [`apply`](Self::apply).
    pub fn undo(&self, row: &mut [f32]) {
        for ((x, mean), deviation) in row.iter_mut().zip(&self.mean).zip(&self.deviation) {
            *x = *x * deviation + mean;
        }
    }
}

fn torch_name(rnn: &Rnn, pseudo_layer: usize, canonical: &str) -> String {
    let name = match canonical {
        "input_weights" => "weight_ih",
        "recurrent_weights" => "weight_hh",
        "input_bias" => "bias_ih",
        "recurrent_bias" => "bias_hh",
        _ => "weight_hr",
    };
    let directions = rnn.settings().direction.count();
    let reverse = if pseudo_layer % directions == 1 { "_reverse" } else { "" };
    format!("{name}_l{}{reverse}", pseudo_layer / directions)
}
