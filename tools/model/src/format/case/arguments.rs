//! The arguments of a case's class. Each is consumed when it is read; a reader of an optional one returns `None` if it is
//! not given.

use serde::Deserialize;
use serde_json::{Map, Value};
use tidegate::internals::activation::Activation;

use super::{Case, InnerLayer, given};
use crate::error::{ImportError, Result};
use crate::format::refuse::unsupported_if;

impl Case<'_> {
    /// Reads a flag; `default` if it is not given.
    pub fn flag(&mut self, name: &str, default: bool) -> Result<bool> {
        Ok(self.given_flag(name)?.unwrap_or(default))
    }

    /// Whether an argument is `True`; it is not consumed.
    pub fn has_flag(&self, name: &str) -> bool {
        self.args.get(name) == Some(&Value::Bool(true))
    }

    /// Whether an argument is this text; it is not consumed.
    pub fn has_text(&self, name: &str, text: &str) -> bool {
        self.args.get(name).and_then(Value::as_str) == Some(text)
    }

    /// Reads an argument with `read`, if given.
    fn taken<T>(&mut self, name: &str, read: impl FnOnce(&Value) -> Option<T>) -> Result<Option<T>> {
        let value = self.args.remove(name);
        value.map(|value| read(&value).ok_or_else(|| unsupported(name, &value))).transpose()
    }

    pub fn size(&mut self, name: &str) -> Result<Option<usize>> {
        self.taken(name, |value| usize::try_from(value.as_u64()?).ok())
    }

    pub fn needed_size(&mut self, name: &str) -> Result<usize> {
        self.size(name)?.ok_or_else(|| ImportError::Unsupported(format!("{} without {name}", self.cls)))
    }

    pub fn sizes(&mut self, name: &str) -> Result<Option<Vec<usize>>> {
        self.taken(name, |value| Vec::deserialize(value).ok())
    }

    pub fn integers(&mut self, name: &str) -> Result<Option<Vec<i64>>> {
        self.taken(name, |value| Vec::deserialize(value).ok())
    }

    pub fn given_flag(&mut self, name: &str) -> Result<Option<bool>> {
        self.taken(name, Value::as_bool)
    }

    pub fn is_text(&self, name: &str) -> bool {
        self.args.get(name).is_some_and(Value::is_string)
    }

    pub fn is_object(&self, name: &str) -> bool {
        self.args.get(name).is_some_and(Value::is_object)
    }

    /// Reads a list of sizes or a single size, if given.
    pub fn size_or_sizes(&mut self, name: &str) -> Result<Option<Vec<usize>>> {
        match self.args.get(name).is_some_and(Value::is_number) {
            true => Ok(self.size(name)?.map(|size| vec![size])),
            false => self.sizes(name),
        }
    }

    pub fn integer(&mut self, name: &str) -> Result<Option<i64>> {
        self.taken(name, Value::as_i64)
    }

    /// Reads a size for each axis, or one for all axes, if given.
    pub fn per_axis(&mut self, name: &str, axes: usize) -> Result<Option<Vec<usize>>> {
        if self.args.get(name).is_some_and(Value::is_number) {
            return Ok(self.size(name)?.map(|size| vec![size; axes]));
        }
        match self.sizes(name)? {
            Some(sizes) if sizes.len() != axes => Err(unsupported(name, &sizes.into())),
            sizes => Ok(sizes),
        }
    }

    pub fn number(&mut self, name: &str) -> Result<Option<f32>> {
        self.taken(name, |value| Some(value.as_f64()? as f32))
    }

    /// Reads a number greater than 0, if given.
    pub fn positive(&mut self, name: &str) -> Result<Option<f32>> {
        match self.number(name)? {
            Some(number) if !(number > 0.0) => Err(unsupported(name, &number.into())),
            number => Ok(number),
        }
    }

    pub fn text(&mut self, name: &str) -> Result<Option<String>> {
        self.taken(name, |value| value.as_str().map(str::to_owned))
    }

    pub fn texts(&mut self, name: &str) -> Result<Option<Vec<String>>> {
        self.taken(name, |value| Vec::deserialize(value).ok())
    }

    /// Reads an activation; `default` if it is not given.
    pub fn activation(&mut self, name: &str, default: Activation) -> Result<Activation> {
        let names = self.names;
        Ok(self.taken(name, |value| names.activation(value.as_str()?))?.unwrap_or(default))
    }

    /// Reads an object: its members become arguments named `name.member`.
    pub fn spread(&mut self, name: &str) -> Result<()> {
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

    /// Consumes an argument and returns whether it is given; the rest follows from the tensors.
    pub fn given(&mut self, name: &str) -> bool {
        self.args.remove(name).is_some()
    }

    pub fn value(&mut self, name: &str) -> Option<Value> {
        self.args.remove(name)
    }

    /// Reads an argument that is a layer: `{"class_name": ..., "config": {...}}`.
    pub fn inner_layer(&mut self, name: &str) -> Result<Option<InnerLayer>> {
        let names = self.names;
        self.taken(name, |value| {
            let class = value.get("class_name")?.as_str()?.to_owned();
            Some((class, given(value.get("config")?.as_object()?.clone(), names).0))
        })
    }

    /// A flag among the arguments of an inner layer; it is not consumed.
    pub fn inner_flag(&self, layer: &str, name: &str) -> Result<Option<bool>> {
        let value = self.args.get(layer).and_then(|layer| layer.get("config")?.get(name));
        value.map(|value| value.as_bool().ok_or_else(|| unsupported(name, value))).transpose()
    }

    pub fn ignore_where(&mut self, such: impl Fn(&str) -> bool) {
        self.args.retain(|name, _| !such(name));
    }

    /// Whether this argument is None.
    pub fn is_null(&self, name: &str) -> bool {
        self.nulls.contains(name)
    }

    /// Consumes and returns all remaining arguments.
    pub fn remaining(&mut self) -> Map<String, Value> {
        std::mem::take(&mut self.args)
    }

    /// Consumes an argument that has no effect after training.
    pub fn ignore(&mut self, name: &str) {
        self.args.remove(name);
    }

    /// Consumes arguments that have no effect after training.
    pub fn ignore_all(&mut self, names: &[&str]) {
        names.iter().for_each(|name| self.ignore(name));
    }

    /// Consumes an argument that must have its default.
    pub fn must_be(&mut self, name: &str, default: bool) -> Result<()> {
        match self.flag(name, default)? {
            value if value == default => Ok(()),
            value => Err(unsupported(name, &value.into())),
        }
    }

    /// Consumes a size that must agree with the one of the tensors: the number of units.
    pub fn units(&mut self, name: &str, found: usize) -> Result<()> {
        self.size(name)?.map_or(Ok(()), |given| agree(name, given, found))
    }
}

pub(in super::super) fn unsupported(name: &str, value: &Value) -> ImportError {
    ImportError::Unsupported(format!("argument {} = {value}", name.escape_debug()))
}

pub(in super::super) fn agree(name: &str, given: usize, found: usize) -> Result<()> {
    unsupported_if(given != found, format_args!("argument {name} = {given} with tensors of {found}"))
}
