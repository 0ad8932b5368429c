//! Errors of reading and writing files. Each is one line that starts with the file.

use std::{
    fmt::{self, Display},
    io,
    path::{Path, PathBuf},
};

/// Why a file could not be read or written. The message is one line: the file, the line in it if there is one, the
/// reason, and advice if there is any.
#[derive(Debug, thiserror::Error)]
pub struct DataError {
    path: PathBuf,
    line: Option<u64>,
    reason: String,
    source: Option<io::Error>,
}

impl DataError {
    /// The content of the file is not valid.
    pub fn new(path: &Path, reason: impl Display) -> Self {
        Self { path: path.to_owned(), line: None, reason: reason.to_string(), source: None }
    }

    /// Like [`new`](Self::new), for a line, counted from 1.
    pub fn at_line(path: &Path, line: u64, reason: impl Display) -> Self {
        Self { line: Some(line), ..Self::new(path, reason) }
    }

    /// An error of the operating system; `doing` is "read" or "written".
    pub fn io(path: &Path, doing: &str, source: io::Error) -> Self {
        let reason = match source.kind() {
            io::ErrorKind::NotFound if doing == "read" => "there is no such file: check the path".to_owned(),
            io::ErrorKind::IsADirectory => "is a folder, but a file is needed".to_owned(),
            io::ErrorKind::PermissionDenied => format!("cannot be {doing}: permission denied"),
            _ => format!("cannot be {doing}: {source}"),
        };
        Self { source: Some(source), ..Self::new(path, reason) }
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

/// Whether a character controls how a text is shown: a control character, or one that changes the direction of the text.
pub fn is_unseen(c: char) -> bool {
    const DIRECTION: [std::ops::RangeInclusive<char>; 4] =
        ['\u{61c}'..='\u{61c}', '\u{200e}'..='\u{200f}', '\u{202a}'..='\u{202e}', '\u{2066}'..='\u{2069}'];
    c.is_control() || DIRECTION.iter().any(|range| range.contains(&c))
}

/// Replaces every [unseen](is_unseen) character in `text`, since names from a file are printed to terminals and SVG.
pub fn one_line(text: &str) -> String {
    text.chars().map(|c| if is_unseen(c) { '\u{fffd}' } else { c }).collect()
}
