//! Sequences with classes: tensors `x` `[n, steps, features]`, `y` `[n]` integers from 0 and `lengths` `[n]` for shorter
//! sequences, or a `.ts` file of the Time Series Classification archive.

use std::collections::BTreeMap;
use std::path::Path;

use super::DataError;
use crate::canonical::Tensor;

/// Largest number of classes: a score per class is kept for each sequence of a batch.
const MAX_CLASSES: usize = 65_535;

/// Sequences of the same features.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Examples {
    /// Number of features of a step.
    pub features: usize,
    /// Each sequence, `[steps, features]`.
    pub sequences: Vec<Vec<f32>>,
    /// Class of each sequence, from 0; empty if the file has none.
    pub classes: Vec<usize>,
    /// Names of the classes; empty if they have only numbers.
    pub labels: Vec<String>,
}

impl Examples {
    /// The sequences in tensors named `x`, `y` and `lengths`, each followed by `suffix`. Only `x` is required.
    ///
    /// # Errors
    /// If the tensors do not fit together, or hold numbers that are not allowed.
    pub fn tensors(path: &Path, tensors: &BTreeMap<String, Tensor>, suffix: &str) -> Result<Self, DataError> {
        let fail = |reason: String| DataError::new(path, reason);
        let tensor = |name: &str| tensors.get(&format!("{name}{suffix}"));
        let x = tensor("x").ok_or_else(|| fail(format!("has no tensor x{suffix}")))?;
        let &[count, steps, features] = x.shape.as_slice() else {
            return Err(fail(format!("x{suffix} must be [n, steps, features], but is {:?}", x.shape)));
        };
        if count == 0 || steps == 0 || features == 0 {
            return Err(fail(format!("x{suffix} is empty")));
        }
        let whole = |name: &str, tensor: &Tensor, least: usize, most: usize| {
            if tensor.data.len() != count {
                let found = tensor.data.len();
                return Err(fail(format!("{name}{suffix} has {found} numbers, but x{suffix} {count} sequences")));
            }
            let refuse =
                |value| format!("{name}{suffix} contains {value}, but must contain integers from {least} to {most}");
            let number = |&value: &f32| match value {
                _ if value.fract() == 0.0 && (least as f32..=most as f32).contains(&value) => Ok(value as usize),
                _ => Err(fail(refuse(value))),
            };
            tensor.data.iter().map(number).collect::<Result<Vec<usize>, _>>()
        };
        let classes = tensor("y").map_or(Ok(Vec::new()), |y| whole("y", y, 0, MAX_CLASSES - 1))?;
        let lengths = match tensor("lengths") {
            Some(lengths) => whole("lengths", lengths, 1, steps)?,
            None => vec![steps; count],
        };
        if let Some(value) = x.data.iter().find(|value| !value.is_finite()) {
            return Err(fail(format!("x{suffix} contains {value}")));
        }
        let all = x.data.chunks_exact(steps * features).zip(lengths);
        let sequences = all.map(|(rows, length)| rows[..length * features].to_vec()).collect();
        Ok(Self { features, sequences, classes, labels: Vec::new() })
    }
}
