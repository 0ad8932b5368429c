//! Records of what tests measure on data outside the repository: `tests/data/measured/<name>.json`. The documentation's
//! tables are made from these records, and the tests compare them with what they measure.
//!
//! The engine computes the same bits on every machine, so its counts are compared for equality. The kernels of hosts round
//! floats in different orders, so counts that depend on them are compared with a tolerance.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../data/measured").join(name).with_extension("json")
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

/// Like [`is_recorded`], for a list of objects whose counts of these names may differ from those of the record by the number
/// beside the name.
///
/// # Panics
/// If they differ by more.
#[track_caller]
pub fn are_near(name: &str, found: &Value, allowed: &[(&str, u64)]) {
    record(name, found);
    let recorded = recorded(name);
    assert!(
        near(found, &recorded, allowed),
        "measured {found:#}, but {} has {recorded:#}; allowed are {allowed:?}",
        path(name).display()
    );
}

/// Whether two lists of objects are equal, apart from these counts.
fn near(found: &Value, recorded: &Value, allowed: &[(&str, u64)]) -> bool {
    let rows = |list: &Value| list.as_array().map_or(0, Vec::len);
    let is_near = |found: &Value, recorded: &Value| {
        let fields = found.as_object().into_iter().flatten();
        fields.clone().count() == recorded.as_object().map_or(0, serde_json::Map::len)
            && fields.into_iter().all(|(field, value)| {
                let most = allowed.iter().find(|(name, _)| name == field).map(|(_, most)| *most);
                match (most, value.as_u64(), recorded[field].as_u64()) {
                    (Some(most), Some(value), Some(recorded)) => value.abs_diff(recorded) <= most,
                    _ => *value == recorded[field],
                }
            })
    };
    let all = found.as_array().into_iter().flatten().zip(recorded.as_array().into_iter().flatten());
    rows(found) == rows(recorded) && all.into_iter().all(|(found, recorded)| is_near(found, recorded))
}

#[test]
fn counts_are_near_within_the_allowance_and_everything_else_is_equal() {
    let rows = |right: u64, all: u64| serde_json::json!([{"model": "a", "right": right, "all": all}]);
    let (recorded, allowed) = (rows(100, 200), [("right", 3)]);
    assert!(near(&rows(97, 200), &recorded, &allowed) && near(&rows(103, 200), &recorded, &allowed));
    assert!(!near(&rows(96, 200), &recorded, &allowed) && !near(&rows(104, 200), &recorded, &allowed));
    assert!(!near(&rows(100, 201), &recorded, &allowed));
    let other = [serde_json::json!([]), serde_json::json!([{"model": "a", "right": 100}])];
    assert!(!other.iter().any(|other| near(other, &recorded, &allowed) || near(&recorded, other, &allowed)));
}
