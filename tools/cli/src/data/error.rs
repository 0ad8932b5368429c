//! Why a file could not be read or written: always one line, the file first.

use std::{
    fmt::{self, Display},
    io,
    path::{Path, PathBuf},
};

/// Why a file could not be read or written. Its message is one line: the file, the line in it where there is
/// one, the reason, and what to do where that helps.
#[derive(Debug, thiserror::Error)]
pub struct DataError {
    path: PathBuf,
    line: Option<u64>,
    reason: String,
    source: Option<io::Error>,
}

impl DataError {
    /// The file is not what it should be.
    pub fn new(path: &Path, reason: impl Display) -> Self {
        Self { path: path.to_owned(), line: None, reason: reason.to_string(), source: None }
    }

    /// As [`new`](Self::new), at a line that counts from 1.
    pub fn at_line(path: &Path, line: u64, reason: impl Display) -> Self {
        Self { line: Some(line), ..Self::new(path, reason) }
    }

    /// The system refused; `doing` is "read" or "written".
    pub fn io(path: &Path, doing: &str, source: io::Error) -> Self {
        let reason = match source.kind() {
            io::ErrorKind::NotFound => "there is no such file".to_owned(),
            io::ErrorKind::PermissionDenied => format!("cannot be {doing}: permission denied"),
            _ => format!("cannot be {doing}: {source}"),
        };
        Self { source: Some(source), ..Self::new(path, reason) }
    }

    /// The file that it is about.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The line that it is about, from 1.
    pub fn line(&self) -> Option<u64> {
        self.line
    }
}

impl Display for DataError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", one_line(&self.path.to_string_lossy()))?;
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        f.write_str(&one_line(&self.reason))
    }
}

/// `text` with every control character replaced: names from a file reach terminals and SVG.
pub(crate) fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}
