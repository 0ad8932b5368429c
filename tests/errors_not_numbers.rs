//! No test takes the greatest error with `f32::max`, which drops NaN: the greatest of NaN and 0 is 0, and the test passes.
//! Tests take the greatest error with `tolerance::worst` and `tolerance::worse`.

use std::fs;
use std::path::{Path, PathBuf};

/// The folders of tests. The file that defines `worst` and `worse`, and the oracle, whose values have bounds, are exempt.
const FOLDERS: [&str; 8] = [
    "tests",
    "core/tests",
    "cpu-fused/tests",
    "gpu-host/tests",
    "gpu-host/src/train",
    "gpu-host/measure",
    "gpu-host/stand-in",
    "tools/cli/tests",
];
const HOME: &str = "tests/support/tolerance.rs";
const ORACLE: &str = "oracle";

/// Whether a line takes the greatest of errors in a way that drops NaN.
fn drops(line: &str) -> bool {
    let line = line.trim_start();
    let is_fold = line.contains("fold(") && line.contains(".max(");
    let is_error = ["worst.max(", "most.max(", ".max((", "f32::max)", "f64::max)"].iter().any(|of| line.contains(of));
    !line.starts_with("//") && (is_fold || is_error)
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for path in entries.map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn no_test_drops_an_error_that_is_not_a_number() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = Vec::new();
    FOLDERS.iter().for_each(|folder| sources(&root.join(folder), &mut files));
    assert!(files.len() > 100, "{} files", files.len());
    let mut found = Vec::new();
    let is_read = |path: &&PathBuf| {
        !path.ends_with(HOME)
            && !path.ends_with("errors_not_numbers.rs")
            && !path.components().any(|part| part.as_os_str() == ORACLE)
    };
    for path in files.iter().filter(is_read) {
        let text = fs::read_to_string(path).unwrap();
        let lines = text.lines().enumerate().filter(|(_, line)| drops(line));
        found.extend(lines.map(|(at, line)| format!("{}:{}: {}", path.display(), at + 1, line.trim())));
    }
    assert!(found.is_empty(), "take the greatest error with tolerance::worst or worse:\n{}", found.join("\n"));
}

#[test]
fn the_pattern_is_found_where_it_is_planted() {
    for planted in [
        "let off = a.zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);",
        "a.iter().zip(b).fold(0.0, |most: f32, (a, b)| most.max((a - b).abs()))",
        "worst = worst.max((got - expected).abs());",
        "self.worst = self.worst.max(error.abs());",
    ] {
        assert!(drops(planted), "{planted}");
    }
    for allowed in ["let x = x.max(0.0);", "// fold(0.0, f32::max)", "let longest = lengths.iter().max();"] {
        assert!(!drops(allowed), "{allowed}");
    }
    for error in [f32::NAN, -f32::NAN] {
        let worst = || tidegate_tests::tolerance::worst([0.5, error, 0.1]);
        assert!(std::panic::catch_unwind(worst).is_err());
    }
    assert_eq!(tidegate_tests::tolerance::worst([0.5_f32, 2.0, 0.1]), 2.0);
}
