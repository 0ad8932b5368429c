//! Networks from a framework's own tensors and constructor arguments, as golden cases hold them: the metadata say
//! `family`, `cls`, `constructor_args`, `param_names` and `input_names`. What is not known is refused by name, so
//! that no case passes because something was ignored. States, batches and lengths are the business of who runs it.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Map, Value};
use tidegate::activation::Activation;

use super::{chain, keras, tf1, torch};
use crate::canonical::{Canonical, Tensor};
use crate::error::ImportError;

/// The canonical model of a case: input port `input`, output port `output`, nodes `lstm`, `gru`, `gru_2`, ...
///
/// # Errors
/// [`ImportError::Unsupported`] for a class, argument, input or tensor that is not read; other errors for tensors
/// that do not fit the class.
pub fn from_case(
    metadata: &HashMap<String, String>,
    tensors: &BTreeMap<String, Tensor>,
) -> Result<Canonical, ImportError> {
    let family = metadata.get("family").map_or("", String::as_str);
    let mut case = Case::new(metadata, tensors)?;
    let layers = match family {
        "tf1" => tf1::golden::layers(&mut case)?,
        "torch" => torch::layers(&mut case)?,
        "keras2" | "keras3" => keras::layers(&mut case)?,
        _ => return Err(ImportError::Unsupported(format!("family {family:?}"))),
    };
    case.finish()?;
    chain(format!("{family} {}", case.cls), "input", layers, "output")
}

/// A case of which every argument and parameter must be taken.
pub(crate) struct Case<'a> {
    /// Class, without its module.
    pub cls: String,
    /// Names of the inputs.
    pub inputs: Vec<String>,
    args: Map<String, Value>,
    params: BTreeMap<String, &'a Tensor>,
}

impl<'a> Case<'a> {
    fn new(metadata: &HashMap<String, String>, tensors: &'a BTreeMap<String, Tensor>) -> Result<Self, ImportError> {
        let json = |key: &str| {
            let text = metadata.get(key).map_or("null", String::as_str);
            serde_json::from_str(text).map_err(|error| malformed(format!("{key} is not JSON: {error}")))
        };
        let names = |key: &str| -> Result<Vec<String>, ImportError> {
            serde_json::from_value(json(key)?).map_err(|error| malformed(format!("{key}: {error}")))
        };
        let mut params = BTreeMap::new();
        for name in names("param_names")? {
            let tensor = tensors.get(&name).ok_or_else(|| ImportError::MissingTensor { tensor: name.clone() })?;
            params.insert(name, tensor);
        }
        let cls = metadata.get("cls").map_or("", String::as_str);
        let Value::Object(mut args) = json("constructor_args")? else {
            return Err(malformed("constructor_args is not an object".into()));
        };
        // None means "as if it were not given" in every class that is read.
        args.retain(|_, value| !value.is_null());
        Ok(Self { cls: cls.rsplit('.').next().unwrap_or(cls).to_owned(), inputs: names("input_names")?, args, params })
    }

    /// Takes an argument, `default` where it is not given.
    pub fn flag(&mut self, name: &str, default: bool) -> Result<bool, ImportError> {
        let value = self.args.remove(name);
        value.map_or(Ok(default), |value| value.as_bool().ok_or_else(|| unsupported(name, &value)))
    }

    /// Takes an argument, if given.
    pub fn size(&mut self, name: &str) -> Result<Option<usize>, ImportError> {
        let Some(value) = self.args.remove(name) else { return Ok(None) };
        let size = value.as_u64().and_then(|size| usize::try_from(size).ok());
        size.map(Some).ok_or_else(|| unsupported(name, &value))
    }

    /// Takes an argument, if given.
    pub fn number(&mut self, name: &str) -> Result<Option<f32>, ImportError> {
        let Some(value) = self.args.remove(name) else { return Ok(None) };
        value.as_f64().map(|number| Some(number as f32)).ok_or_else(|| unsupported(name, &value))
    }

    /// Takes an argument, `default` where it is not given. `linear` is Keras's name for the identity.
    pub fn activation(&mut self, name: &str, default: Activation) -> Result<Activation, ImportError> {
        let Some(value) = self.args.remove(name) else { return Ok(default) };
        let known = match value.as_str() {
            Some("linear") => Some(Activation::Identity),
            Some(text) => Activation::from_name(text),
            None => None,
        };
        known.ok_or_else(|| unsupported(name, &value))
    }

    /// Takes an argument that changes nothing once a network is trained.
    pub fn ignore(&mut self, name: &str) {
        self.args.remove(name);
    }

    /// Takes an argument that must have its default.
    pub fn must_be(&mut self, name: &str, default: bool) -> Result<(), ImportError> {
        match self.flag(name, default)? {
            value if value == default => Ok(()),
            value => Err(unsupported(name, &Value::Bool(value))),
        }
    }

    /// Takes the parameter whose name is `path` or ends in `/path`.
    pub fn tensor(&mut self, path: &str) -> Result<&'a Tensor, ImportError> {
        self.optional(path).ok_or_else(|| ImportError::MissingTensor { tensor: path.to_owned() })
    }

    /// As [`Case::tensor`], if it is there.
    pub fn optional(&mut self, path: &str) -> Option<&'a Tensor> {
        let ends = |name: &str| name.strip_suffix(path).is_some_and(|scope| scope.is_empty() || scope.ends_with('/'));
        let name = self.params.keys().find(|name| ends(name))?.clone();
        self.params.remove(&name)
    }

    /// Refuses a case with an input that is neither `input` nor an initial state nor one of `also`.
    pub fn check_inputs(&self, also: &[&str]) -> Result<(), ImportError> {
        let known = |name: &str| name == "input" || name.starts_with("initial_") || also.contains(&name);
        match self.inputs.iter().find(|name| !known(name)) {
            Some(name) => Err(ImportError::Unsupported(format!("{} with an input {name:?}", self.cls))),
            None => Ok(()),
        }
    }

    /// The class is not read.
    pub fn unknown_class<T>(&self) -> Result<T, ImportError> {
        Err(ImportError::Unsupported(format!("class {:?}", self.cls)))
    }

    fn finish(&self) -> Result<(), ImportError> {
        if let Some((name, value)) = self.args.iter().next() {
            return Err(unsupported(name, value));
        }
        match self.params.keys().next() {
            Some(name) => Err(ImportError::Unsupported(format!("tensor {name:?} of {}", self.cls))),
            None => Ok(()),
        }
    }
}

fn unsupported(name: &str, value: &Value) -> ImportError {
    ImportError::Unsupported(format!("argument {} = {value}", name.escape_debug()))
}

fn malformed(reason: String) -> ImportError {
    ImportError::Malformed { format: "golden case", reason }
}
