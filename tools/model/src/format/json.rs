//! JSON files, recognized by their fields: RTNeural's layers, GuitarML's settings with a state dict, Neural Amp
//! Modeler's files, and state dicts alone.

use std::collections::BTreeMap;

use super::fields::{Fields, parsed};
use super::{Imported, Options, array::Array, guitarml, nam, rtneural, torch};
use crate::{budget::Budget, error::ImportError, error::Result};

pub(super) fn import(bytes: &[u8], name: &str, options: &Options) -> Result<Imported> {
    Budget::of_file(bytes.len()).take_json(bytes)?;
    let fields: Fields = parsed(bytes, rtneural::FORMAT)?;
    match () {
        () if fields.has("class_name") || fields.has("framework") => Err(ImportError::Refused {
            found: "it is an architecture without weights".into(),
            advice: "give the file of the weights, and this one with --arch",
        }),
        () if fields.has("architecture") => nam::import(bytes, &fields, name, options),
        () if fields.has("model_data") => guitarml::import(bytes, &fields, name, options),
        () if fields.has("layers") => rtneural::import(bytes, &fields, name, options),
        () => {
            let tensors: BTreeMap<String, Array> = parsed(bytes, rtneural::FORMAT)?;
            let tensors = tensors.into_iter().map(|(name, array)| (name, array.0)).collect();
            torch::import_tensors(tensors, name, options)
        }
    }
}
