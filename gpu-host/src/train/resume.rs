//! Where a training is, in a file that is there whole or not at all: after a loss of power it goes on from the end of the
//! last epoch, to the same weights.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};
use serde::{Deserialize, Serialize};
use tidegate_tools::data::{DataError, read_bytes};
use tidegate_tools::output::write_atomically;

use super::adam::Adam;

const KEY: &str = "tidegate_training";

/// Where a training is, behind an epoch.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Progress {
    pub(super) params: Vec<f32>,
    /// Those of the best epoch.
    pub(super) best: Vec<f32>,
    pub(super) adam: Adam,
    /// Epochs that are done.
    pub(super) epochs: usize,
    pub(super) best_epoch: usize,
    /// Loss, and share of right decisions, of each step.
    pub(super) steps: Vec<[f32; 2]>,
    /// The same of what is held out, after each epoch.
    pub(super) held_out: Vec<[f32; 2]>,
    /// Spent so far.
    pub(super) seconds: f64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    /// Of settings, architecture and data: a training goes on only as it began.
    fingerprint: String,
    epochs: usize,
    best_epoch: usize,
    adam_steps: u32,
    seconds: f64,
}

impl Progress {
    /// Writes it.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub(super) fn save(&self, path: &Path, fingerprint: &str) -> Result<(), DataError> {
        let header = Header {
            fingerprint: fingerprint.to_owned(),
            epochs: self.epochs,
            best_epoch: self.best_epoch,
            adam_steps: self.adam.steps,
            seconds: self.seconds,
        };
        let invalid = |error: &dyn std::fmt::Display| DataError::new(path, format!("cannot be made: {error}"));
        let text = serde_json::to_string(&header).map_err(|error| invalid(&error))?;
        let bytes: BTreeMap<&str, Vec<u8>> = self
            .tensors()
            .into_iter()
            .map(|(name, data)| (name, data.iter().flat_map(|value| value.to_le_bytes()).collect()))
            .collect();
        let mut views = Vec::new();
        for (name, bytes) in &bytes {
            let view = TensorView::new(Dtype::F32, vec![bytes.len() / 4], bytes).map_err(|error| invalid(&error))?;
            views.push((*name, view));
        }
        let metadata = HashMap::from([(KEY.to_owned(), text)]);
        let file = safetensors::serialize(views, Some(metadata)).map_err(|error| invalid(&error))?;
        write_atomically(path, |out| out.write_all(&file))
    }

    fn tensors(&self) -> BTreeMap<&'static str, Vec<f32>> {
        let flat = |rows: &[[f32; 2]]| rows.iter().flatten().copied().collect();
        BTreeMap::from([
            ("params", self.params.clone()),
            ("best", self.best.clone()),
            ("first_moment", self.adam.first.clone()),
            ("second_moment", self.adam.second.clone()),
            ("steps", flat(&self.steps)),
            ("held_out", flat(&self.held_out)),
        ])
    }

    /// The bytes of a file; none if there is no such file.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(super) fn read(path: &Path) -> Result<Vec<u8>, DataError> {
        if !path.exists() {
            return Ok(Vec::new());
        }
        let bytes = read_bytes(path)?;
        match bytes.is_empty() {
            true => Err(damaged(path, &"it is empty")),
            false => Ok(bytes),
        }
    }

    /// What a file says, if there is one; `size` parameters are expected.
    ///
    /// # Errors
    /// If it is of another training, or damaged.
    pub(super) fn parse(bytes: &[u8], path: &Path, fingerprint: &str, size: usize) -> Result<Option<Self>, DataError> {
        if bytes.is_empty() {
            return Ok(None);
        }
        let damaged = |what: &dyn std::fmt::Display| damaged(path, what);
        let (_, metadata) = SafeTensors::read_metadata(bytes).map_err(|error| damaged(&error))?;
        let text = metadata.metadata().as_ref().and_then(|metadata| metadata.get(KEY));
        let text = text.ok_or_else(|| damaged(&"it says nothing of one"))?;
        let header: Header = serde_json::from_str(text).map_err(|error| damaged(&error))?;
        if header.fingerprint != fingerprint {
            let reason = "is the checkpoint of a training with other settings, architecture or data: go on with those, \
                          or delete it to begin anew";
            return Err(DataError::new(path, reason));
        }
        let file = SafeTensors::deserialize(bytes).map_err(|error| damaged(&error))?;
        let tensor = |name: &str| {
            let view = file.tensor(name).map_err(|error| damaged(&error))?;
            match view.dtype() {
                Dtype::F32 => {
                    let number = |bytes: &[u8; 4]| f32::from_le_bytes(*bytes);
                    Ok(view.data().as_chunks::<4>().0.iter().map(number).collect::<Vec<f32>>())
                }
                _ => Err(damaged(&name)),
            }
        };
        let sized =
            |name: &str| tensor(name).and_then(|data| if data.len() == size { Ok(data) } else { Err(damaged(&name)) });
        let pairs = |name: &str| tensor(name).map(|data| data.as_chunks::<2>().0.to_vec());
        let found = Self {
            params: sized("params")?,
            best: sized("best")?,
            adam: Adam { first: sized("first_moment")?, second: sized("second_moment")?, steps: header.adam_steps },
            epochs: header.epochs,
            best_epoch: header.best_epoch,
            steps: pairs("steps")?,
            held_out: pairs("held_out")?,
            seconds: header.seconds,
        };
        match found.epochs == found.held_out.len() && found.best_epoch < found.epochs.max(1) {
            true => Ok(Some(found)),
            false => Err(damaged(&"its epochs do not count up")),
        }
    }
}

fn damaged(path: &Path, what: &dyn std::fmt::Display) -> DataError {
    DataError::new(path, format!("is no checkpoint of a training ({what}): delete it to begin anew"))
}
