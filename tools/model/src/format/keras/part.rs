//! Layers and models as Keras lists them in its JSON, and the generations of Keras that write it.

use std::fmt::Display;

use serde_json::{Map, Value as Json};

use crate::format::refuse::in_layer;
use crate::{data::one_line, error::ImportError, error::Result};

/// The generation of Keras that wrote a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Generation {
    /// Keras 1, which has its own names.
    First,
    /// Standalone Keras 2.0 to 2.3, and its copies in TensorFlow up to 1.12.
    Alone,
    /// Keras 2 as part of TensorFlow 1.13 and later.
    Second,
    /// Keras 3.
    Third,
}

impl Generation {
    /// The generation of a version in Keras's notation, such as `2.2.4-tf`.
    pub fn of(version: &str) -> Self {
        let mut parts = version.split('.');
        match (parts.next(), parts.next()) {
            (Some("0" | "1"), _) => Self::First,
            (Some("2"), Some("0" | "1")) => Self::Alone,
            (Some("2"), Some("2" | "3")) if !version.contains("tf") => Self::Alone,
            (Some("2"), _) => Self::Second,
            _ => Self::Third,
        }
    }

    /// The framework whose names of activations apply.
    pub fn framework(self) -> &'static str {
        match self {
            Self::First | Self::Alone | Self::Second => "keras2",
            Self::Third => "keras3",
        }
    }
}

pub(super) fn wrong<T>(reason: impl AsRef<str>) -> Result<T> {
    Err(ImportError::Malformed { format: "Keras model", reason: one_line(reason.as_ref()) })
}

pub(super) fn wrong_if(found: bool, reason: impl Display) -> Result<()> {
    if found { wrong(reason.to_string()) } else { Ok(()) }
}

/// A layer or nested model in a model's list.
pub(super) struct Part<'a> {
    pub name: &'a str,
    pub class: &'a str,
    pub config: &'a Json,
    /// The inbound nodes, one for each call.
    pub calls: &'a [Json],
}

pub(super) fn is_model(class: &str) -> bool {
    matches!(class, "Sequential" | "Functional" | "Model")
}

pub(super) fn text<'a>(json: &'a Map<String, Json>, key: &str) -> Option<&'a str> {
    json.get(key).and_then(Json::as_str)
}

pub(super) fn part(json: &Json) -> Result<Part<'_>> {
    let parts = json.as_object().and_then(|layer| Some((layer, text(layer, "class_name")?, layer.get("config")?)));
    let Some((layer, class, config)) = parts else { return wrong("a layer has no class or no arguments") };
    let name = text(layer, "name").or_else(|| config.get("name")?.as_str()).unwrap_or_default();
    known_keys(layer, class, name, PART_KEYS)?;
    if let Some(custom) = text(layer, "registered_name").filter(|name| name.contains('>')) {
        return Err(custom_object(name, custom));
    }
    let calls = layer.get("inbound_nodes").and_then(Json::as_array).map(Vec::as_slice).unwrap_or_default();
    Ok(Part { name, class, config, calls })
}

/// The keys that Keras writes beside the arguments of a layer or model.
pub(super) const PART_KEYS: &[&str] = &[
    "class_name",
    "config",
    "name",
    "inbound_nodes",
    "module",
    "registered_name",
    "build_config",
    "compile_config",
    "shared_object_id",
    "keras_version",
    "backend",
];

/// The arguments of a model.
pub(super) const MODEL_KEYS: &[&str] =
    &["name", "layers", "trainable", "input_layers", "output_layers", "dtype", "build_input_shape"];

/// Refuses a key that may change what a layer or model computes. Null and false leave a key at its default.
pub(super) fn known_keys(found: &Map<String, Json>, class: &str, name: &str, known: &[&str]) -> Result<()> {
    let unset = |value: &Json| value.is_null() || *value == Json::Bool(false);
    match found.iter().find(|(key, value)| !known.contains(&key.as_str()) && !unset(value)) {
        None => Ok(()),
        Some((key, value)) => {
            Err(ImportError::Unsupported(one_line(&format!("{class} {name:?} with {key} = {value}"))))
        }
    }
}

pub(super) fn custom_object(layer: &str, class: &str) -> ImportError {
    let refused = ImportError::Refused {
        found: "its class is custom code that the file does not contain".into(),
        advice: "rebuild the network from Keras's own layers, load the weights into it, and save it",
    };
    in_layer(layer, class, refused)
}
