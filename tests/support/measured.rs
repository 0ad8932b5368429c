//! Records of what tests measure on data outside the repository: `tests/data/measured/<name>.json`. The documentation's
//! tables are made from these records, and the tests compare them with what they measure.
//!
//! The engine computes the same bits on every machine, so counts are compared for equality.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("data/measured").join(name).with_extension("json")
}

/// The record `name`.
///
/// # Panics
/// If there is none.
pub fn recorded(name: &str) -> Value {
    let path = path(name);
    let text = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_slice(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Writes a record with `TIDEGATE_OVERWRITE_DOCS`; otherwise does nothing.
///
/// # Panics
/// If the file cannot be written.
pub fn record(name: &str, found: &Value) {
    if std::env::var_os("TIDEGATE_OVERWRITE_DOCS").is_some() {
        let text = serde_json::to_string_pretty(found).expect("JSON can be written") + "\n";
        fs::write(path(name), text).unwrap_or_else(|error| panic!("{}: {error}", path(name).display()));
    }
}

/// Compares what was measured with its record, after [`record`].
///
/// # Panics
/// If they differ.
#[track_caller]
pub fn is_recorded(name: &str, found: &Value) {
    record(name, found);
    assert_eq!(*found, recorded(name), "measured on the left, {} on the right", path(name).display());
}
