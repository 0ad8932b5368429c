//! Conversion between named parameters and cuDNN's weight space, through a [`Layout`].

use std::collections::BTreeMap;

use tidegate_model::canonical::Tensor;
use tidegate_model::error::Shape;

use crate::layout::{Kind, Layout, Region, Side};
use crate::rnn::{Bias, Rnn};

/// Tensors of one pseudo-layer by their canonical names. The blocks of the gates are stacked as rows in the order of
/// [`gate`](tidegate::internals::gate), which is also cuDNN's.
///
/// | name | shape | present |
/// |---|---|---|
/// | `input_weights` | `[gates * hidden, input]` | not in a first layer without input weights |
/// | `recurrent_weights` | `[gates * hidden, output]` | always |
/// | `input_bias` | `[gates * hidden]` | depends on [`Bias`] |
/// | `recurrent_bias` | `[gates * hidden]` | depends on [`Bias`] |
/// | `projection_weights` | `[output, hidden]` | with a projection |
pub type LayerWeights = BTreeMap<&'static str, Tensor>;

/// Why weights do not fit a stack or a weight space.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the error texts explain the variants and their fields")]
pub enum WeightsError {
    #[error("{found} pseudo-layers given, but the stack has {needed}")]
    Layers { found: usize, needed: usize },
    #[error("{tensor} of pseudo-layer {pseudo_layer} is {found}, but must be {needed}")]
    Tensor { pseudo_layer: usize, tensor: String, found: String, needed: String },
    #[error("a weight space of {found} elements given, but the layout has {needed}")]
    Params { found: usize, needed: usize },
}

/// A shape in words, or the absence of a tensor.
fn words(shape: Option<&Vec<usize>>) -> String {
    shape.map_or_else(|| "absent".to_owned(), |shape| Shape(shape.clone()).to_string())
}

/// Tensors of a pseudo-layer: name, side and kind in the weight space, shape.
pub fn tensors(rnn: &Rnn, pseudo_layer: usize) -> impl Iterator<Item = (&'static str, Side, Kind, Vec<usize>)> {
    let settings = rnn.settings();
    let rows = settings.cell.blocks() * settings.hidden_size;
    let (input, output) = (rnn.input_size(pseudo_layer), rnn.output_size());
    let has = |wanted: [Bias; 2]| wanted.contains(&settings.bias).then(|| vec![rows]);
    let linear = rnn.has_input_weights(pseudo_layer);
    let projection = settings.projected_size.map(|size| vec![size, settings.hidden_size]);
    let all = [
        ("input_weights", Side::Input, Kind::Matrix, linear.then(|| vec![rows, input])),
        ("recurrent_weights", Side::Recurrent, Kind::Matrix, Some(vec![rows, output])),
        ("input_bias", Side::Input, Kind::Bias, has([Bias::Input, Bias::Both])),
        ("recurrent_bias", Side::Recurrent, Kind::Bias, has([Bias::Recurrent, Bias::Both])),
        ("projection_weights", Side::Projection, Kind::Matrix, projection),
    ];
    all.into_iter().filter_map(|(name, side, kind, shape)| Some((name, side, kind, shape?)))
}

/// Checks that weights fit a stack.
///
/// # Errors
/// If a pseudo-layer or tensor is missing, is not one of the stack's, or has another shape.
pub fn check(rnn: &Rnn, layers: &[LayerWeights]) -> Result<(), WeightsError> {
    let (found, needed) = (layers.len(), rnn.pseudo_layers());
    if found != needed {
        return Err(WeightsError::Layers { found, needed });
    }
    for (pseudo_layer, layer) in layers.iter().enumerate() {
        let refuse = |tensor: &str, found: Option<&Tensor>, needed: Option<&Vec<usize>>| WeightsError::Tensor {
            pseudo_layer,
            tensor: tensor.to_owned(),
            found: words(found.map(|found| &found.shape)),
            needed: words(needed),
        };
        for (name, _, _, needed) in tensors(rnn, pseudo_layer) {
            let found = layer.get(name);
            let whole = found.is_some_and(|found| found.data.len() == needed.iter().product::<usize>());
            if found.is_none_or(|found| found.shape != needed) || !whole {
                return Err(refuse(name, found, Some(&needed)));
            }
        }
        let known = |name: &str| tensors(rnn, pseudo_layer).any(|(known, ..)| known == name);
        if let Some((name, left)) = layer.iter().find(|(name, _)| !known(name)) {
            return Err(refuse(name, Some(left), None));
        }
    }
    Ok(())
}

/// Writes weights into a weight space. Padding is not written.
///
/// # Errors
/// If the weights do not fit the stack, or the size of `params` is not the layout's.
pub fn canonical_to_params(layout: &Layout, layers: &[LayerWeights], params: &mut [f32]) -> Result<(), WeightsError> {
    check(layout.rnn(), layers)?;
    check_size(layout, params.len())?;
    for (pseudo_layer, layer) in layers.iter().enumerate() {
        for (name, side, kind, _) in tensors(layout.rnn(), pseudo_layer) {
            let places = layout.side(pseudo_layer, side, kind).into_iter().flat_map(Region::places);
            for (place, &value) in places.zip(layer.get(name).into_iter().flat_map(|tensor| &tensor.data)) {
                params[place] = value;
            }
        }
    }
    Ok(())
}

/// Reads weights from a weight space.
///
/// # Errors
/// If the size of `params` is not the layout's.
pub fn params_to_canonical(layout: &Layout, params: &[f32]) -> Result<Vec<LayerWeights>, WeightsError> {
    check_size(layout, params.len())?;
    let layer = |pseudo_layer| {
        let read = |(name, side, kind, shape)| {
            let regions = layout.side(pseudo_layer, side, kind).into_iter();
            (name, Tensor { shape, data: regions.flat_map(Region::places).map(|place| params[place]).collect() })
        };
        tensors(layout.rnn(), pseudo_layer).map(read).collect()
    };
    Ok((0..layout.rnn().pseudo_layers()).map(layer).collect())
}

fn check_size(layout: &Layout, found: usize) -> Result<(), WeightsError> {
    let needed = layout.params_size();
    if found == needed { Ok(()) } else { Err(WeightsError::Params { found, needed }) }
}
