//! JSON files, recognized by their fields: RTNeural's layers, GuitarML's settings with a state dict, Neural Amp
//! Modeler's files, and state dicts alone.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};

use super::fields::{Fields, parsed};
use super::{Imported, Options, array::Array, guitarml, nam, rtneural, torch};
use crate::canonical::Tensor;
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
        () if fields.has("model_data") && !fields.has("state_dict") && !fields.has("layers") => {
            Err(ImportError::Refused {
                found: "it has GuitarML's settings, but no weights: its field \"state_dict\" is absent".into(),
                advice: "give the file that training writes, such as model_best.json",
            })
        }
        () if fields.has("model_data") => guitarml::import(bytes, &fields, name, options),
        () if fields.has("layers") => rtneural::import(bytes, &fields, name, options),
        () => {
            let InOrder(tensors) = parsed(bytes, "state dict").map_err(|error| match error {
                ImportError::Malformed { reason, .. } => ImportError::Refused {
                    found: format!("its fields {} are no state dict: {reason}", fields.list()),
                    advice: "give a file of RTNeural, GuitarML or Neural Amp Modeler, or a state dict",
                },
                other => other,
            })?;
            torch::import_tensors(tensors, name, options)
        }
    }
}

/// The tensors of a state dict in the order of the file.
struct InOrder(Vec<(String, Tensor)>);

impl<'de> Deserialize<'de> for InOrder {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Entries)
    }
}

struct Entries;

impl<'de> Visitor<'de> for Entries {
    type Value = InOrder;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("an object of tensors")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<InOrder, A::Error> {
        let mut tensors = Vec::new();
        while let Some((name, Array(tensor))) = map.next_entry()? {
            tensors.push((name, tensor));
        }
        Ok(InOrder(tensors))
    }
}
