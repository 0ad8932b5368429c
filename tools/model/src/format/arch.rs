//! Files that describe an architecture (`--arch`): JSON of our own, or what Keras writes with `model.to_json()`.

use std::fmt::Display;
use std::path::Path;

use serde_json::Value as Json;

use super::{description::Description, keras};
use crate::budget::{Budget, FIXED, TooCostly};
use crate::data::DataError;

const MAX_BYTES: u64 = 1 << 20;

impl Description {
    /// Reads a description file.
    ///
    /// # Errors
    /// If the file cannot be read, or does not hold a description.
    pub fn read(path: &Path) -> Result<Self, DataError> {
        use std::io::Read;
        let mut text = Vec::new();
        let file = std::fs::File::open(path);
        file.and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut text))
            .map_err(|error| DataError::io(path, "read", error))?;
        if text.len() as u64 > MAX_BYTES {
            return Err(DataError::new(
                path,
                format!("is larger than {MAX_BYTES} bytes, {FIXED}: an architecture is JSON text"),
            ));
        }
        Self::parse(&text, path)
    }

    /// Parses the JSON of a description; `path` is its origin, for errors.
    ///
    /// # Errors
    /// If the text is not a description.
    pub fn parse(text: &[u8], path: &Path) -> Result<Self, DataError> {
        let invalid = |error: &dyn Display| {
            DataError::new(path, format!("is not an architecture: {error}; docs/architecture.md has examples"))
        };
        let mut budget = Budget::of_file(text.len());
        budget.take_json(text).map_err(|error| DataError::new(path, format!("{error}; {}", TooCostly::ADVICE)))?;
        let json: Json = serde_json::from_slice(text).map_err(|error| invalid(&error))?;
        // A Keras configuration has keys of its own.
        if json.get("class_name").is_some() {
            return keras::description(&json).map_err(|error| invalid(&error));
        }
        serde_json::from_slice(text).map_err(|error| invalid(&error))
    }
}
