//! The class, arguments and parameters of a golden case: its metadata are `family`, `cls`, `constructor_args`,
//! `param_names`, `input_names` and others that say how the framework ran it.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::{Map, Value};
use tidegate_model::canonical::Tensor;
use tidegate_model::error::ImportError;
use tidegate_model::format::Conversion;
use tidegate_model::format::case::Definition;
use tidegate_model::format::families::convert_definition;

/// Converts a case to its model, and maps the case's tensors to the model's ports and states.
///
/// # Errors
/// [`ImportError::Unsupported`] for a class, argument, input or tensor that is not read; other errors for tensors
/// that do not fit the class.
pub fn from_case(
    metadata: &HashMap<String, String>,
    tensors: &BTreeMap<String, Tensor>,
) -> Result<Conversion, ImportError> {
    convert_definition(definition(metadata, tensors)?)
}

pub(super) fn definition<'a>(
    metadata: &HashMap<String, String>,
    tensors: &'a BTreeMap<String, Tensor>,
) -> Result<Definition<'a>, ImportError> {
    let text = |key: &str| metadata.get(key).map_or("", String::as_str);
    let json = |key: &str| {
        let text = metadata.get(key).map_or("null", String::as_str);
        serde_json::from_str(text).map_err(|error| malformed(format!("{key} is not JSON: {error}")))
    };
    let names = |key: &str| -> Result<BTreeSet<String>, ImportError> {
        let names: Option<BTreeSet<String>> =
            serde_json::from_value(json(key)?).map_err(|error| malformed(format!("{key}: {error}")))?;
        Ok(names.unwrap_or_default())
    };
    let object = |key: &str| match json(key)? {
        Value::Object(object) => Ok(object),
        Value::Null => Ok(Map::new()),
        _ => Err(malformed(format!("{key} is not an object"))),
    };
    let prefix = text("variable_prefix");
    let unused = names("unused_params")?;
    let mut params = HashMap::new();
    for name in names("param_names")? {
        let tensor = tensors.get(&name).ok_or_else(|| ImportError::MissingTensor { tensor: name.clone() })?;
        // Unused parameters may be named without the prefix that the case's variables share.
        let path = name.strip_prefix(prefix).unwrap_or(&name);
        if !unused.contains(path) && !unused.contains(&name) {
            params.insert(name, tensor);
        }
    }
    let inputs = names("input_names")?;
    Ok(Definition {
        family: text("family").to_owned(),
        // The words after the class say how the framework ran it.
        cls: text("cls").split_whitespace().next().unwrap_or_default().to_owned(),
        args: object("constructor_args")?,
        params,
        // Batch and time are the first two dimensions, in either order.
        input_shape: tensors
            .get("input")
            .or_else(|| tensors.get("input_0"))
            .and_then(|input| input.shape.get(2..).map(<[usize]>::to_vec)),
        sizes: object("sizes")?,
        rests: inputs.iter().filter(|name| tensors.contains_key(&format!("{name}_rest"))).cloned().collect(),
        inputs,
        outputs: names("output_names")?,
        notes: text("notes").to_owned(),
        gate_order: text("gate_order").to_owned(),
    })
}

fn malformed(reason: String) -> ImportError {
    ImportError::Malformed { format: "golden case", reason }
}
