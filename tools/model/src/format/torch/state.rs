//! A state dict in memory: tensors as f32, in the order of the file, and notes about rounding.

use std::collections::BTreeMap;
use std::fmt::Display;

use crate::{canonical::Tensor, data::one_line, error::ImportError, error::Result};

#[derive(Debug, Default)]
pub(super) struct State {
    pub tensors: BTreeMap<String, Tensor>,
    /// Names of the tensors in the order of the file.
    pub order: Vec<String>,
    pub notes: Vec<String>,
}

/// Maximum number of tensors: far more than the layers of a model have.
pub(super) const MAX_TENSORS: usize = 1 << 14;

pub(super) const FORMAT: &str = "PyTorch file";

pub(super) fn malformed<T>(reason: impl Into<String>) -> Result<T> {
    Err(ImportError::Malformed { format: FORMAT, reason: one_line(&reason.into()) })
}

pub(super) fn malformed_if(found: bool, reason: impl Display) -> Result<()> {
    if found { malformed(reason.to_string()) } else { Ok(()) }
}

impl State {
    pub fn insert(&mut self, name: String, tensor: Tensor, lost: usize) -> Result<()> {
        if lost > 0 {
            let of = tensor.data.len();
            self.notes.push(format!("{name}: {lost} of {of} numbers are rounded from f64 to f32"));
        }
        self.order.push(name.clone());
        match self.tensors.insert(name, tensor) {
            None => Ok(()),
            Some(_) => malformed(format!("two tensors are named {:?}", self.order.last())),
        }
    }
}
