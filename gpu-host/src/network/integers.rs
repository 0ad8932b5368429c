//! A network with integer weights and values: the weights that `tidegate pack` would store, and the scales of its
//! values.

use std::collections::BTreeMap;

use tidegate::Numeric;
use tidegate::internals::cell::CellKind;
use tidegate_model::canonical::Canonical;
use tidegate_model::quantize::{Kept, QuantizeError, Ranges};

use super::{Kind, Layer, Network, NetworkError, Scaling};
use crate::cpu::count::Units;

/// Largest count that f32 represents exactly.
const MOST_PARAMS: usize = 1 << f32::MANTISSA_DIGITS;

/// Positions of the weights of a network in its canonical model.
pub struct Integers {
    numeric: Numeric,
    scaling: Scaling,
    /// Origin of each weight of a tensor: the index of its parameter and the factor between the two.
    places: BTreeMap<String, Vec<(usize, f32)>>,
    /// Node names of each layer: one per pseudo-layer of a stack.
    nodes: Vec<Vec<String>>,
}

/// A network with rounded weights.
#[derive(Clone, Debug, PartialEq)]
pub struct Rounded {
    /// The values of the integer weights. Biases, which have 32 bits, are not rounded.
    pub params: Vec<f32>,
    /// Marks of saturated weights.
    pub cut: Vec<bool>,
    /// Scale of the unscaled input.
    pub input: f32,
    /// Scales of the values of each layer.
    pub units: Vec<Vec<Units>>,
}

/// Why a network cannot be rounded.
#[derive(Debug, thiserror::Error)]
pub enum RoundError {
    /// A node has no integer form.
    #[error(transparent)]
    Quantize(#[from] QuantizeError),
    /// The rounded network is not a valid model.
    #[error(transparent)]
    Network(#[from] NetworkError),
}

impl Integers {
    /// Locates the weights for `i8x16` or `i4x16`. `scaling` is the scaling of the network's features in training.
    ///
    /// # Errors
    /// If the network has more than 2^24 parameters or no canonical model.
    pub fn new(network: &Network, numeric: Numeric, scaling: &Scaling) -> Result<Self, NetworkError> {
        let size = network.size;
        if size > MOST_PARAMS {
            let reason = format!("has {size} parameters: at most {MOST_PARAMS} can be trained with integers");
            return Err(NetworkError::Whole(reason));
        }
        // The model is built once from the indices of the parameters, which shows where each parameter ends up.
        let numbers: Vec<f32> = (0..size).map(|number| number as f32).collect();
        let numbered = network.model(&numbers, &Scaling::none(network.features), "")?;
        let shares = network.model(&vec![1.0; size], scaling, "")?.tensors;
        let place = |(&number, &share): (&f32, &f32)| (number as usize, share);
        let places: BTreeMap<String, Vec<(usize, f32)>> = numbered
            .tensors
            .iter()
            .filter_map(|(name, tensor)| Some((name, tensor.data.iter().zip(&shares.get(name)?.data))))
            .map(|(name, both)| (name.clone(), both.map(place).collect()))
            .collect();
        let node = |kind: &str, param: usize| {
            let holds = |places: &[(usize, f32)]| places.iter().any(|(place, _)| *place == param);
            let mut matrices = places.iter().filter_map(|(name, places)| Some((name.strip_suffix(kind)?, places)));
            matrices.find(|(_, places)| holds(places)).map(|(name, _)| name.to_owned())
        };
        let nodes = &numbered.architecture.nodes;
        let activation = CellKind::Activation.spec().name;
        let mut activations = nodes.iter().filter(|node| node.cell == activation).map(|node| node.name.clone());
        let of = |Layer { kind, params, prefix }: &Layer| {
            let found = match kind {
                Kind::Stack { stack, .. } => {
                    let each = (0..stack.rnn().pseudo_layers()).map(|k| params.start + stack.recurrent(k).start);
                    each.map(|param| node(".recurrent_weights", param)).collect::<Option<_>>()
                }
                Kind::Linear { .. } => node(".weights", params.start).map(|node| vec![node]),
                Kind::Activation(_) => activations.next().map(|node| vec![node]),
                Kind::Dropout(_) => Some(Vec::new()),
            };
            let reason = "its values are not in the canonical model: remove --quantize-aware".to_owned();
            found.ok_or_else(|| NetworkError::Layer { layer: prefix.clone(), reason })
        };
        let nodes = network.layers.iter().map(of).collect::<Result<_, _>>()?;
        Ok(Self { numeric, scaling: scaling.clone(), places, nodes })
    }

    /// Rounds `params` as `tidegate pack` rounds `model`, which was made from them, for values within `ranges`.
    ///
    /// # Errors
    /// If a node has no integer form.
    pub fn rounded(
        &self,
        network: &Network,
        params: &[f32],
        model: &Canonical,
        ranges: &Ranges,
    ) -> Result<Rounded, RoundError> {
        let kept = Kept::new(model, ranges, self.numeric)?;
        let (mut rounded, mut cut) = (params.to_vec(), vec![false; params.len()]);
        for (name, weights) in &kept.weights {
            for (weight, &(param, share)) in weights.iter().zip(self.places.get(name).into_iter().flatten()) {
                rounded[param] = weight.value / share;
                cut[param] = weight.cut;
            }
        }
        // Biases of the model include means times unrounded weights. Correct them for the rounded weights.
        let again = network.model(&rounded, &self.scaling, "")?.tensors;
        for (name, now) in again.iter().filter(|(name, _)| !kept.weights.contains_key(*name)) {
            let (Some(before), Some(places)) = (model.tensors.get(name), self.places.get(name)) else { continue };
            for ((before, now), &(param, _)) in before.data.iter().zip(&now.data).zip(places) {
                rounded[param] += before - now;
            }
        }
        let unit = |name: &str| kept.units.get(name).map(|&unit| unit as f32);
        let units = |node: &String| {
            let hidden = unit(node).unwrap_or(1.0);
            let of = |part: &str| unit(&format!("{node}.{part}")).unwrap_or(hidden);
            Units { hidden, cell: of("cell_state"), memory: of("memory") }
        };
        let input = model.architecture.inputs.first().and_then(|input| unit(&input.name)).unwrap_or(1.0);
        let units = self.nodes.iter().map(|nodes| nodes.iter().map(units).collect()).collect();
        Ok(Rounded { params: rounded, cut, input, units })
    }
}
