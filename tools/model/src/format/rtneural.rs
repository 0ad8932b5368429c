//! RTNeural's JSON (<https://github.com/jatinchowdhury18/RTNeural>): a list of layers with their weights as in Keras.
//!
//! Layers run as in RTNeural: one time step after the other, convolutions over the past frames with zeros before the
//! first. Anything that RTNeural silently ignores is refused: unknown types and activations, an activation of an LSTM
//! or a GRU that it does not apply, shapes that do not match the weights. Around the layers there may be AIDA-X's
//! gains, its sum of input and output, and its test.

mod layers;
mod levels;
mod self_test;

use std::collections::BTreeMap;
use std::fmt::Display;

use serde::Deserialize;

use self::{levels::Levels, self_test::SelfTest};
use super::description::{Input, LayerDescription};
use super::fields::{Fields, parsed};
use super::{Description, Imported, Options, array::Array, refuse::unsupported_if};
use crate::{canonical::MAX_SIZE, canonical::Tensor, data::one_line, error::ImportError, error::Result};

pub(super) const FORMAT: &str = "RTNeural model";

const FIELDS: [&str; 7] = ["in_gain", "in_shape", "in_skip", "input_batch", "layers", "out_gain", "output_batch"];

#[derive(Deserialize)]
struct File {
    in_shape: Vec<Option<usize>>,
    layers: Vec<Layer>,
    input_batch: Option<Array>,
    output_batch: Option<Array>,
}

/// A layer. A size is a number or a list with one number.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Layer {
    #[serde(rename = "type")]
    class: String,
    #[serde(default)]
    activation: String,
    shape: Vec<Option<usize>>,
    weights: Vec<Array>,
    kernel_size: Option<Size>,
    kernel_size_time: Option<Size>,
    kernel_size_feature: Option<Size>,
    dilation: Option<Size>,
    strides: Option<Size>,
    groups: Option<Size>,
    num_filters_in: Option<Size>,
    num_features_in: Option<Size>,
    num_filters_out: Option<Size>,
    padding: Option<String>,
    epsilon: Option<f64>,
}

impl Layer {
    /// The keys that the file gives and that only some types of layers have.
    fn keys(&self) -> Vec<&'static str> {
        let sizes = [
            ("kernel_size", &self.kernel_size),
            ("kernel_size_time", &self.kernel_size_time),
            ("kernel_size_feature", &self.kernel_size_feature),
            ("dilation", &self.dilation),
            ("strides", &self.strides),
            ("groups", &self.groups),
            ("num_filters_in", &self.num_filters_in),
            ("num_features_in", &self.num_features_in),
            ("num_filters_out", &self.num_filters_out),
        ];
        let sizes = sizes.into_iter().filter(|(_, size)| size.is_some()).map(|(key, _)| key);
        let others = [("padding", self.padding.is_some()), ("epsilon", self.epsilon.is_some())];
        sizes.chain(others.into_iter().filter(|(_, given)| *given).map(|(key, _)| key)).collect()
    }
}

#[derive(Deserialize)]
struct Size(Array);

impl Size {
    fn get(&self) -> Option<usize> {
        match *self.0.0.data.as_slice() {
            [size] if size.fract() == 0.0 && (1.0..=MAX_SIZE as f32).contains(&size) => Some(size as usize),
            _ => None,
        }
    }
}

fn malformed<T>(reason: impl Into<String>) -> Result<T> {
    Err(ImportError::Malformed { format: FORMAT, reason: one_line(&reason.into()) })
}

fn malformed_if(found: bool, reason: impl Display) -> Result<()> {
    if found { malformed(reason.to_string()) } else { Ok(()) }
}

pub(super) fn import(bytes: &[u8], fields: &Fields, name: &str, options: &Options) -> Result<Imported> {
    fields.only(&FIELDS, "the layers")?;
    unsupported_if(options.description.is_some(), "--arch with a file that holds its architecture")?;
    unsupported_if(options.window.is_some(), "--window with a model that runs frame by frame")?;
    let file: File = parsed(bytes, FORMAT)?;
    let mut described = layers::described(file.in_shape, file.layers)?;
    parsed::<Levels>(bytes, FORMAT)?.surround(&mut described)?;
    let Described { input, layers, tensors } = described;
    let description = Description { inputs: vec![input], layers, ..Description::default() };
    let mut imported = description.model("keras3", &tensors, None, &format!("{name}, RTNeural"))?;
    if let Some(test) = SelfTest::new(file.input_batch, file.output_batch)? {
        imported.notes.push(test.passed(&imported.model)?);
    }
    // RTNeural itself runs a model as one endless state.
    Ok(Imported { assumptions: Vec::new(), ..imported })
}

/// The input, the layers and the tensors of a model.
struct Described {
    input: Input,
    layers: Vec<LayerDescription>,
    tensors: BTreeMap<String, Tensor>,
}
