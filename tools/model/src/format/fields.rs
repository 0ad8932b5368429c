//! The fields of a JSON file of RTNeural, GuitarML or Neural Amp Modeler, before it is known which of them wrote it.

use std::collections::{BTreeSet, HashMap};

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::{data::one_line, error::ImportError, error::Result};

/// Fields that other programs write beside a model and that no layer reads.
const REMARKS: [&str; 6] = ["author", "esr", "metadata", "model", "name", "samplerate"];

/// Number of names in a list of fields.
const LISTED: usize = 4;

/// The names of a file's fields.
#[derive(Deserialize)]
pub(super) struct Fields(HashMap<String, IgnoredAny>);

impl Fields {
    pub fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// The first names, for an error.
    pub fn list(&self) -> String {
        let names: BTreeSet<&str> = self.0.keys().map(String::as_str).collect();
        let names: Vec<String> = names.into_iter().take(LISTED).map(|name| format!("{:?}", one_line(name))).collect();
        names.join(", ") + if self.0.len() > LISTED { ", and more" } else { "" }
    }

    /// Refuses fields that are neither `read` nor remarks.
    pub fn only(&self, read: &[&str], beside: &str) -> Result<()> {
        let other = |field: &&String| !read.contains(&field.as_str()) && !REMARKS.contains(&field.as_str());
        match self.0.keys().filter(other).min() {
            Some(other) => Err(ImportError::Unsupported(format!("field {:?} beside {beside}", one_line(other)))),
            None => Ok(()),
        }
    }
}

/// The file as a value of this type. `format` is its name in errors.
pub(super) fn parsed<'a, T: Deserialize<'a>>(bytes: &'a [u8], format: &'static str) -> Result<T> {
    let wrong = |error: serde_json::Error| ImportError::Malformed { format, reason: one_line(&error.to_string()) };
    serde_json::from_slice(bytes).map_err(wrong)
}
