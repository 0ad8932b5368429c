//! RTNeural's JSON (<https://github.com/jatinchowdhury18/RTNeural>): a list of layers with their weights as in Keras,
//! or the state dict of a PyTorch module as text.
//!
//! Layers run as in RTNeural: one time step after the other, convolutions over the past frames with zeros before the
//! first. Anything that RTNeural silently ignores is refused: unknown types and activations, an activation of an LSTM
//! or a GRU that it does not apply, shapes that do not match the weights.

mod array;
mod layers;

use std::collections::BTreeMap;
use std::fmt::Display;

use serde::Deserialize;
use serde::de::IgnoredAny;

use self::array::Array;
use super::{Description, Imported, Options, refuse::unsupported_if, torch};
use crate::{budget::Budget, canonical::MAX_SIZE, data::one_line, error::ImportError, error::Result};

const FORMAT: &str = "RTNeural model";

/// Fields that other programs write beside the layers and that no layer reads.
const REMARKS: [&str; 6] = ["author", "esr", "metadata", "model", "name", "samplerate"];

#[derive(Deserialize)]
struct File {
    in_shape: Vec<Option<usize>>,
    layers: Vec<Layer>,
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

pub(super) fn import(bytes: &[u8], name: &str, options: &Options) -> Result<Imported> {
    Budget::of_file(bytes.len()).take_json(bytes)?;
    let fields: BTreeMap<String, IgnoredAny> = parsed(bytes)?;
    if fields.contains_key("class_name") || fields.contains_key("framework") {
        return Err(ImportError::Refused {
            found: "it is an architecture without weights".into(),
            advice: "give the file of the weights, and this one with --arch",
        });
    }
    if !fields.contains_key("layers") {
        let tensors: BTreeMap<String, Array> = parsed(bytes)?;
        let tensors = tensors.into_iter().map(|(name, array)| (name, array.0)).collect();
        return torch::import_tensors(tensors, name, options);
    }
    let known = |field: &str| matches!(field, "in_shape" | "layers") || REMARKS.contains(&field);
    if let Some(other) = fields.keys().find(|field| !known(field)) {
        return Err(ImportError::Unsupported(format!("field {:?} beside the layers", one_line(other))));
    }
    unsupported_if(options.description.is_some(), "--arch with a file that holds its architecture")?;
    unsupported_if(options.window.is_some(), "--window with a model that runs frame by frame")?;
    let file: File = parsed(bytes)?;
    let (inputs, layers, tensors) = layers::described(file.in_shape, file.layers)?;
    let description = Description { inputs: vec![inputs], layers, ..Description::default() };
    let imported = description.model("keras3", &tensors, None, &format!("{name}, RTNeural"))?;
    // RTNeural itself runs a model as one endless state.
    Ok(Imported { assumptions: Vec::new(), ..imported })
}

fn parsed<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T> {
    serde_json::from_slice(bytes).or_else(|error| malformed(error.to_string()))
}
