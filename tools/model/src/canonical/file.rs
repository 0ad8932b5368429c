//! Canonical model files. The same model gives the same bytes; only valid models are written or read.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use safetensors::tensor::{Dtype, SafeTensorError, SafeTensors, serialize};

use super::{Architecture, Canonical, Tensor};
use crate::budget::{Budget, WEIGHT};
use crate::data::{DataError, tensors::damage, tensors::take_header};
use crate::error::ModelError;
use crate::output::write_atomically;

/// Maximum size of a model file in bytes: far more than the flash of any microcontroller.
pub const MAX_FILE_BYTES: u64 = 64 << 20;

/// Metadata key of the architecture.
const KEY: &str = "tidegate";

/// Reads a file of at most [`MAX_FILE_BYTES`]; `Ok(None)` if it is larger.
///
/// # Errors
/// If the file cannot be read.
pub fn read_bounded(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 <= MAX_FILE_BYTES).then_some(bytes))
}

impl Canonical {
    /// Reads and checks a canonical model.
    ///
    /// # Errors
    /// If the file cannot be read or holds no valid canonical model.
    pub fn load(path: &Path) -> Result<Self, ModelError> {
        let bytes = read_bounded(path)?.ok_or(ModelError::TooLarge { limit: MAX_FILE_BYTES })?;
        Self::from_bytes(&bytes)
    }

    /// Validates the model and writes it atomically.
    ///
    /// # Errors
    /// If the model is not valid or the file cannot be written.
    pub fn save(&self, path: &Path) -> Result<(), DataError> {
        let bytes = self.to_bytes().map_err(|error| DataError::new(path, error))?;
        write_atomically(path, |out| out.write_all(&bytes))
    }

    /// Decodes the bytes of a canonical file.
    ///
    /// # Errors
    /// If the bytes do not hold a valid canonical model.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ModelError> {
        if bytes.len() as u64 > MAX_FILE_BYTES {
            return Err(ModelError::TooLarge { limit: MAX_FILE_BYTES });
        }
        let container = |error: &SafeTensorError| ModelError::Container(damage(error));
        let mut budget = Budget::of_file(bytes.len());
        take_header(bytes, &mut budget)?;
        let (_, header) = SafeTensors::read_metadata(bytes).map_err(|error| container(&error))?;
        let json = header.metadata().as_ref().and_then(|metadata| metadata.get(KEY)).ok_or(ModelError::NotCanonical)?;
        budget.take_json(json.as_bytes())?;
        let architecture: Architecture = serde_json::from_slice(json.as_bytes())
            .map_err(|error| ModelError::Architecture(error.to_string().escape_debug().to_string()))?;
        let file = SafeTensors::deserialize(bytes).map_err(|error| container(&error))?;
        let mut tensors = BTreeMap::new();
        for (name, view) in file.iter() {
            if view.dtype() != Dtype::F32 {
                return Err(ModelError::DType { tensor: name.into(), found: view.dtype().to_string() });
            }
            budget.take(view.data().len() / 4, WEIGHT)?;
            let (values, _) = view.data().as_chunks::<4>();
            let data = values.iter().map(|&value| f32::from_le_bytes(value)).collect();
            tensors.insert(name.to_owned(), Tensor { shape: view.shape().to_vec(), data });
        }
        let model = Self { architecture, tensors };
        model.validate()?;
        Ok(model)
    }

    /// Encodes the model as a canonical file. The same model gives the same bytes.
    ///
    /// # Errors
    /// If the model is not valid.
    pub fn to_bytes(&self) -> Result<Vec<u8>, ModelError> {
        self.validate()?;
        let json =
            serde_json::to_string(&self.architecture).map_err(|error| ModelError::Architecture(error.to_string()))?;
        serialize(&self.tensors, Some(HashMap::from([(KEY.to_owned(), json)])))
            .map_err(|error| ModelError::Container(error.to_string()))
    }
}
