//! Body of the fuzz target of the readers of sound and arrays.

use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use tidegate_model::data::{DataError, read_audio, read_index, read_tensors};

/// The kinds of files that the first byte of the data chooses from.
pub const KINDS: [&str; 8] = ["wav", "flac", "npy", "npz", "csv", "safetensors", "ts", "index.csv"];

/// A folder in memory where there is one, so that a run does not wait for a disk.
static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
    let memory = PathBuf::from("/dev/shm");
    let parent = if memory.is_dir() { memory } else { std::env::temp_dir() };
    let folder = parent.join(format!("tidegate-fuzz-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("the folder can be created");
    folder
});

/// A byte that chooses the kind, then the file. Returns whether it can be read. An error is one line that names the file.
pub fn read_data(data: &[u8]) -> bool {
    let Some((&kind, file)) = data.split_first() else { return false };
    let kind = KINDS[usize::from(kind) % KINDS.len()];
    let path = FOLDER.join(format!("file.{kind}"));
    fs::write(&path, file).expect("the file can be written");
    let read: Result<(), DataError> = match kind {
        "wav" | "flac" => read_audio(&path).map(drop),
        "index.csv" => read_index(&path).map(drop),
        _ => read_tensors(&path).map(drop),
    };
    if let Err(error) = &read {
        let line = error.to_string();
        assert!(!line.contains(char::is_control) && line.len() < 2000 && line.contains("file."), "{line:?}");
    }
    read.is_ok()
}
