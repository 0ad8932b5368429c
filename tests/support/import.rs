//! Helpers of the importer tests: sample files, checks of error lines, damaged files and archives.

use std::fs;
use std::io::{Cursor, Write};
use std::path::Path;

use tidegate_model::error::ImportError;
use tidegate_model::format::Options;
use tidegate_model::format::onnx::Given;

/// Options for a file that needs no description.
pub const ALONE: Options = Options { description: None, window: None, onnx: Given::NONE };

/// Options with this description, in JSON.
pub fn described(arch: &str) -> Options {
    Options { description: Some(serde_json::from_str(arch).expect("the description is valid JSON")), ..ALONE }
}

/// Reads a file that a framework wrote, by its path in `tests/frameworks`.
pub fn sample(path: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../frameworks").join(path);
    fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The error with its advice, checked to be one line of fewer than `most` bytes.
pub fn line(error: &ImportError, most: usize) -> String {
    let line = format!("{error}; {}", error.advice());
    assert!(!line.contains(char::is_control) && line.len() < most, "{line:?}");
    line
}

/// Flips bits of every `step`th byte and checks that the file is either imported or refused with a one-line error.
pub fn damaged<M>(name: &str, step: usize, whole: &[u8], import: impl Fn(&[u8]) -> Result<M, ImportError>) {
    for at in (0..whole.len()).step_by(step) {
        for bits in [0x01, 0x80, 0xff] {
            let mut bytes = whole.to_vec();
            bytes[at] ^= bits;
            if let Err(error) = import(&bytes) {
                assert!(!error.to_string().contains(char::is_control), "{name} {at}: {error:?}");
            }
        }
    }
}

/// A zip archive with these entries.
pub fn archive(entries: &[(&str, &[u8])], deflated: bool) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
    let method = if deflated { zip::CompressionMethod::Deflated } else { zip::CompressionMethod::Stored };
    let options = zip::write::SimpleFileOptions::default().compression_method(method);
    for (name, content) in entries {
        zip.start_file(*name, options).expect("the entry can be started");
        zip.write_all(content).expect("the archive is in memory");
    }
    zip.finish().expect("the archive is in memory").into_inner()
}
