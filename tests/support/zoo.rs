//! The record of networks that people use, `tools/cli/zoo.json`.

use std::fs;
use std::path::Path;

use serde_json::Value;

/// All networks, in the order of the record.
///
/// # Panics
/// If the record cannot be read.
pub fn entries() -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/cli/zoo.json");
    let text = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_slice(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The network of this name.
///
/// # Panics
/// If there is none.
pub fn entry(name: &str) -> Value {
    let found = entries().into_iter().find(|entry| entry["name"] == name);
    found.unwrap_or_else(|| panic!("{name} is not in the zoo"))
}
