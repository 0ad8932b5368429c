//! The arguments of a case's class, which are taken one by one.

use serde_json::{Map, Value};
use tidegate::activation::Activation;

use super::{Case, InnerLayer, given};
use crate::error::ImportError;

impl Case<'_> {
    /// Takes an argument, `default` where it is not given.
    pub fn flag(&mut self, name: &str, default: bool) -> Result<bool, ImportError> {
        let value = self.args.remove(name);
        value.map_or(Ok(default), |value| value.as_bool().ok_or_else(|| unsupported(name, &value)))
    }

    /// Whether an argument is `True`; it is not taken.
    pub fn has_flag(&self, name: &str) -> bool {
        self.args.get(name) == Some(&Value::Bool(true))
    }

    /// Whether an argument is this text; it is not taken.
    pub fn has_text(&self, name: &str, text: &str) -> bool {
        self.args.get(name).and_then(Value::as_str) == Some(text)
    }

    /// Takes an argument, if given.
    pub fn size(&mut self, name: &str) -> Result<Option<usize>, ImportError> {
        let Some(value) = self.args.remove(name) else { return Ok(None) };
        let size = value.as_u64().and_then(|size| usize::try_from(size).ok());
        size.map(Some).ok_or_else(|| unsupported(name, &value))
    }

    /// Takes an argument that the class cannot do without.
    pub fn needed_size(&mut self, name: &str) -> Result<usize, ImportError> {
        self.size(name)?.ok_or_else(|| ImportError::Unsupported(format!("{} without {name}", self.cls)))
    }

    /// Takes an argument that is a list, if given.
    pub fn sizes(&mut self, name: &str) -> Result<Option<Vec<usize>>, ImportError> {
        let Some(value) = self.args.remove(name) else { return Ok(None) };
        serde_json::from_value(value.clone()).map(Some).map_err(|_| unsupported(name, &value))
    }

    /// Takes an argument that is a list of numbers that may be less than zero, if given.
    pub fn integers(&mut self, name: &str) -> Result<Option<Vec<i64>>, ImportError> {
        let Some(value) = self.args.remove(name) else { return Ok(None) };
        serde_json::from_value(value.clone()).map(Some).map_err(|_| unsupported(name, &value))
    }

    /// Takes an argument, if given.
    pub fn given_flag(&mut self, name: &str) -> Result<Option<bool>, ImportError> {
        let Some(value) = self.args.remove(name) else { return Ok(None) };
        value.as_bool().map(Some).ok_or_else(|| unsupported(name, &value))
    }

    /// Whether an argument is a text; it is not taken.
    pub fn is_text(&self, name: &str) -> bool {
        self.args.get(name).is_some_and(Value::is_string)
    }

    /// Whether an argument is an object; it is not taken.
    pub fn is_object(&self, name: &str) -> bool {
        self.args.get(name).is_some_and(Value::is_object)
    }

    /// Takes an argument that is a list or one number, if given.
    pub fn size_or_sizes(&mut self, name: &str) -> Result<Option<Vec<usize>>, ImportError> {
        match self.args.get(name).is_some_and(Value::is_number) {
            true => Ok(self.size(name)?.map(|size| vec![size])),
            false => self.sizes(name),
        }
    }

    /// Takes an argument, if given, that may be less than zero.
    pub fn integer(&mut self, name: &str) -> Result<Option<i64>, ImportError> {
        let Some(value) = self.args.remove(name) else { return Ok(None) };
        value.as_i64().map(Some).ok_or_else(|| unsupported(name, &value))
    }

    /// Takes an argument, if given, that is a number for each axis, or one for all.
    pub fn per_axis(&mut self, name: &str, axes: usize) -> Result<Option<Vec<usize>>, ImportError> {
        if self.args.get(name).is_some_and(Value::is_number) {
            return Ok(self.size(name)?.map(|size| vec![size; axes]));
        }
        match self.sizes(name)? {
            Some(sizes) if sizes.len() != axes => Err(unsupported(name, &sizes.into())),
            sizes => Ok(sizes),
        }
    }

    /// Takes an argument, if given.
    pub fn number(&mut self, name: &str) -> Result<Option<f32>, ImportError> {
        let Some(value) = self.args.remove(name) else { return Ok(None) };
        value.as_f64().map(|number| Some(number as f32)).ok_or_else(|| unsupported(name, &value))
    }

    /// Takes an argument, if given, that is above 0.
    pub fn positive(&mut self, name: &str) -> Result<Option<f32>, ImportError> {
        match self.number(name)? {
            Some(number) if !(number > 0.0) => Err(unsupported(name, &number.into())),
            number => Ok(number),
        }
    }

    /// Takes an argument, if given.
    pub fn text(&mut self, name: &str) -> Result<Option<String>, ImportError> {
        let Some(value) = self.args.remove(name) else { return Ok(None) };
        value.as_str().map(|text| Some(text.to_owned())).ok_or_else(|| unsupported(name, &value))
    }

    /// Takes an argument that is a list, if given.
    pub fn texts(&mut self, name: &str) -> Result<Option<Vec<String>>, ImportError> {
        let Some(value) = self.args.remove(name) else { return Ok(None) };
        serde_json::from_value(value.clone()).map(Some).map_err(|_| unsupported(name, &value))
    }

    /// Takes an argument, `default` where it is not given.
    pub fn activation(&mut self, name: &str, default: Activation) -> Result<Activation, ImportError> {
        let Some(value) = self.args.remove(name) else { return Ok(default) };
        let known = match value.as_str() {
            Some(text) => self.names.activation(text),
            None => None,
        };
        known.ok_or_else(|| unsupported(name, &value))
    }

    /// Takes an argument that is an object: what it holds are arguments named `name.member` from then on.
    pub fn spread(&mut self, name: &str) -> Result<(), ImportError> {
        match self.args.remove(name) {
            None => Ok(()),
            Some(Value::Object(object)) => {
                let given = object.into_iter().filter(|(_, value)| !value.is_null());
                self.args.extend(given.map(|(member, value)| (format!("{name}.{member}"), value)));
                Ok(())
            }
            Some(value) => Err(unsupported(name, &value)),
        }
    }

    /// Takes an argument of which only matters whether it is given: the tensors tell the rest.
    pub fn given(&mut self, name: &str) -> bool {
        self.args.remove(name).is_some()
    }

    /// Takes an argument as it is, if given.
    pub fn value(&mut self, name: &str) -> Option<Value> {
        self.args.remove(name)
    }

    /// Takes an argument that is a layer: `{"class_name": ..., "config": {...}}`.
    pub fn inner_layer(&mut self, name: &str) -> Result<Option<InnerLayer>, ImportError> {
        let Some(value) = self.args.remove(name) else { return Ok(None) };
        let class = value.get("class_name").and_then(Value::as_str).map(str::to_owned);
        let config = value.get("config").and_then(Value::as_object).cloned();
        match (class, config) {
            (Some(class), Some(args)) => Ok(Some((class, given(args, self.names).0))),
            _ => Err(unsupported(name, &value)),
        }
    }

    /// Takes all arguments whose names are such.
    pub fn ignore_where(&mut self, such: impl Fn(&str) -> bool) {
        self.args.retain(|name, _| !such(name));
    }

    /// Whether None is given for this argument.
    pub fn is_null(&self, name: &str) -> bool {
        self.nulls.contains(name)
    }

    /// Takes all arguments that have not been taken.
    pub fn remaining(&mut self) -> Map<String, Value> {
        std::mem::take(&mut self.args)
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

    /// Takes a size that something else says too: the number of units, which the tensors have.
    pub fn units(&mut self, name: &str, found: usize) -> Result<(), ImportError> {
        match self.size(name)? {
            Some(given) => agree(name, given, found),
            None => Ok(()),
        }
    }
}

pub(in super::super) fn unsupported(name: &str, value: &Value) -> ImportError {
    ImportError::Unsupported(format!("argument {} = {value}", name.escape_debug()))
}

/// Refuses a size that differs from what the tensors have.
pub(in super::super) fn agree(name: &str, given: usize, found: usize) -> Result<(), ImportError> {
    if given == found {
        return Ok(());
    }
    Err(ImportError::Unsupported(format!("argument {name} = {given} with tensors of {found}")))
}
