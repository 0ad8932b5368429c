//! The state of an unfinished training, in a file that is written atomically: after a loss of power, training resumes
//! from the end of the last epoch and reaches the same weights. The file is in the format safetensors, followed by the
//! SHA-256 of these bytes.

use std::collections::HashMap;
use std::path::Path;

use safetensors::tensor::{Dtype, TensorView};
use safetensors::{SafeTensorError, SafeTensors};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tidegate_model::data::{DataError, read_bytes};
use tidegate_model::output::write_atomically;

use super::adam::Adam;

const KEY: &str = "tidegate_training";

/// State of a training after an epoch.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Progress {
    pub(super) params: Vec<f32>,
    pub(super) best: Vec<f32>,
    pub(super) adam: Adam,
    pub(super) epochs: usize,
    pub(super) best_epoch: usize,
    /// Loss and accuracy of each step.
    pub(super) steps: Vec<[f32; 2]>,
    /// Loss and accuracy on the held-out data after each epoch.
    pub(super) held_out: Vec<[f32; 2]>,
    pub(super) seconds: f64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    /// Digest of settings, architecture and data, which must be equal for a training to resume.
    fingerprint: String,
    epochs: usize,
    best_epoch: usize,
    adam_steps: u32,
    seconds: f64,
}

impl Progress {
    pub(super) fn save(&self, path: &Path, fingerprint: &str) -> Result<(), DataError> {
        let file =
            self.encode(fingerprint).map_err(|error| DataError::new(path, format!("cannot be encoded: {error}")))?;
        write_atomically(path, |out| out.write_all(&file))
    }

    /// The bytes of a checkpoint.
    pub(super) fn encode(&self, fingerprint: &str) -> Result<Vec<u8>, SafeTensorError> {
        let header = Header {
            fingerprint: fingerprint.to_owned(),
            epochs: self.epochs,
            best_epoch: self.best_epoch,
            adam_steps: self.adam.steps,
            seconds: self.seconds,
        };
        let text = serde_json::to_string(&header)?;
        let tensors: [(&str, &[f32]); 6] = [
            ("params", &self.params),
            ("best", &self.best),
            ("first_moment", &self.adam.first),
            ("second_moment", &self.adam.second),
            ("steps", self.steps.as_flattened()),
            ("held_out", self.held_out.as_flattened()),
        ];
        let bytes = tensors.map(|(_, data)| data.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>());
        let mut views = Vec::new();
        for ((name, data), bytes) in tensors.iter().zip(&bytes) {
            let view = TensorView::new(Dtype::F32, vec![data.len()], bytes)?;
            views.push((*name, view));
        }
        let metadata = HashMap::from([(KEY.to_owned(), text)]);
        let mut file = safetensors::serialize(views, Some(metadata))?;
        seal(&mut file);
        Ok(file)
    }

    /// Reads the bytes of a checkpoint; empty if the file does not exist.
    pub(super) fn read(path: &Path) -> Result<Vec<u8>, DataError> {
        if !path.exists() {
            return Ok(Vec::new());
        }
        let bytes = read_bytes(path)?;
        if bytes.is_empty() { Err(damaged(path, &"it is empty")) } else { Ok(bytes) }
    }

    /// Parses a checkpoint with `size` parameters. Returns `None` if `bytes` is empty.
    pub(super) fn parse(bytes: &[u8], path: &Path, fingerprint: &str, size: usize) -> Result<Option<Self>, DataError> {
        if bytes.is_empty() {
            return Ok(None);
        }
        let damaged = |what: &dyn std::fmt::Display| damaged(path, what);
        let whole = bytes.split_last_chunk::<32>().filter(|(bytes, sum)| Sha256::digest(bytes)[..] == sum[..]);
        let (bytes, _) = whole.ok_or_else(|| damaged(&"it was cut or changed, or an older version wrote it"))?;
        let (_, metadata) = SafeTensors::read_metadata(bytes).map_err(|error| damaged(&error))?;
        let text = metadata.metadata().as_ref().and_then(|metadata| metadata.get(KEY));
        let text = text.ok_or_else(|| damaged(&"it has no training state"))?;
        let header: Header = serde_json::from_str(text).map_err(|error| damaged(&error))?;
        if header.fingerprint != fingerprint {
            let reason = "is the checkpoint of a training with other settings, architecture or data: use \
                          the same ones, or delete it to start over";
            return Err(DataError::new(path, reason));
        }
        let file = SafeTensors::deserialize(bytes).map_err(|error| damaged(&error))?;
        let tensor = |name: &str| {
            let view = file.tensor(name).map_err(|error| damaged(&error))?;
            if view.dtype() != Dtype::F32 {
                return Err(damaged(&name));
            }
            Ok(view.data().as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect::<Vec<f32>>())
        };
        let sized =
            |name: &str| tensor(name).and_then(|data| if data.len() == size { Ok(data) } else { Err(damaged(&name)) });
        let pairs = |name: &str| {
            tensor(name).and_then(|data| match data.as_chunks() {
                (pairs, []) => Ok(pairs.to_vec()),
                _ => Err(damaged(&name)),
            })
        };
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
        let agree = found.epochs == found.held_out.len() && found.best_epoch < found.epochs.max(1);
        if agree { Ok(Some(found)) } else { Err(damaged(&"its epoch counts disagree")) }
    }
}

/// Appends the digest of these bytes.
pub(super) fn seal(bytes: &mut Vec<u8>) {
    bytes.extend(Sha256::digest(&bytes[..]));
}

fn damaged(path: &Path, what: &dyn std::fmt::Display) -> DataError {
    DataError::new(path, format!("is not a valid checkpoint ({what}): delete it to start over"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress() -> Progress {
        let adam = Adam { first: vec![0.5, 1.5], second: vec![0.25, 4.0], steps: 6 };
        Progress {
            params: vec![1.0, -2.0],
            best: vec![3.0, 4.0],
            adam,
            epochs: 2,
            best_epoch: 1,
            steps: vec![[0.5, 0.25]; 6],
            held_out: vec![[0.5, 0.75]; 2],
            seconds: 1.25,
        }
    }

    /// Covers every shorter length and every changed bit.
    #[test]
    fn a_cut_or_changed_checkpoint_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.checkpoint");
        progress().save(&path, "settings").unwrap();
        let bytes = Progress::read(&path).unwrap();
        let parse = |bytes: &[u8]| Progress::parse(bytes, &path, "settings", 2);
        assert_eq!(parse(&bytes).unwrap(), Some(progress()));
        let refused = |bytes: &[u8]| {
            let error = parse(bytes).unwrap_err().to_string();
            error.contains("is not a valid checkpoint") && error.ends_with("delete it to start over")
        };
        for len in 1..bytes.len() {
            assert!(refused(&bytes[..len]), "the first {len} bytes");
        }
        for bit in 0..8 * bytes.len() {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(refused(&changed), "bit {bit}");
        }
        assert!(refused(&[&bytes[..], &[0]].concat()));
    }
}
