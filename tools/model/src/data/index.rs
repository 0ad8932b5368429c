//! An index of clips: a CSV file with the column `file`, the column `label` if the classes are needed, and the column
//! `split` for training. Other columns are ignored.

use std::path::{Path, PathBuf};

use super::{DataError, Reason, read_bytes, table::csv_reason};
use crate::budget::Budget;

/// Maximum number of characters of a path that an error shows.
const MOST_SHOWN: usize = 400;

/// A clip and its class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clip {
    /// Absolute path, or path relative to the working directory.
    pub path: PathBuf,
    /// Class of the clip.
    pub label: String,
}

/// Reads the clips of an index with the columns `file` and `label`. Its paths are absolute or relative to the CSV file.
///
/// # Errors
/// If the index cannot be read, lacks a column or has no rows, or a clip does not exist.
pub fn read_index(path: &Path) -> Result<Vec<Clip>, DataError> {
    read_columns(path, ["file", "label"])?
        .into_iter()
        .map(|(line, [file, label])| Ok(Clip { path: existing(path, line, &file)?, label }))
        .collect()
}

/// Like [`read_index`], for the files alone; only the column `file` is required.
pub fn read_index_files(path: &Path) -> Result<Vec<PathBuf>, DataError> {
    read_columns(path, ["file"])?.into_iter().map(|(line, [file])| existing(path, line, &file)).collect()
}

/// Like [`read_index`], with the value of each clip in the column `split`: `train` or another word.
pub fn read_index_splits(path: &Path) -> Result<Vec<(Clip, String)>, DataError> {
    read_columns(path, ["file", "label", "split"])?
        .into_iter()
        .map(|(line, [file, label, split])| Ok((Clip { path: existing(path, line, &file)?, label }, split)))
        .collect()
}

/// Whether a file is a CSV with the column `file`. Other CSV files hold numbers.
///
/// # Errors
/// If the file cannot be read.
pub fn is_index(path: &Path) -> Result<bool, DataError> {
    if !path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("csv")) {
        return Ok(false);
    }
    let text = read_bytes(path)?;
    let header = text.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let header = String::from_utf8_lossy(header);
    // Spreadsheets write a byte order mark.
    let header = header.trim_start_matches('\u{feff}');
    Ok(header.split(',').any(|column| column.trim().trim_matches('"') == "file"))
}

/// The named columns of every row, with the line number of the row. No field is empty.
fn read_columns<const N: usize>(path: &Path, names: [&str; N]) -> Result<Vec<(u64, [String; N])>, DataError> {
    let bytes = read_bytes(path)?;
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(bytes.as_slice());
    let header = reader.headers().map_err(|e| csv_reason(&e).of(path))?.clone();
    if header.is_empty() {
        return Err(DataError::new(path, format!("is empty, but needs a header with {}", names.join(" and "))));
    }
    let mut columns = [0; N];
    for (name, column) in names.iter().zip(&mut columns) {
        let mut found = header.iter().enumerate().filter(|(_, field)| field == name).map(|(i, _)| i);
        *column = match (found.next(), found.next()) {
            (Some(i), None) => i,
            (Some(_), Some(_)) => return Err(DataError::at_line(path, 1, format!("has two columns `{name}`"))),
            (None, _) => {
                let has = super::shortened(&header.iter().collect::<Vec<_>>().join(", ")).into_owned();
                return Err(DataError::at_line(path, 1, format!("the header has no column `{name}`; it has: {has}")));
            }
        };
    }
    let (mut rows, mut budget) = (Vec::new(), Budget::of_file(bytes.len()));
    for record in reader.records() {
        let record = record.map_err(|e| csv_reason(&e).of(path))?;
        let line = record.position().map_or(0, csv::Position::line);
        let mut row = [const { String::new() }; N];
        for ((name, &column), field) in names.iter().zip(&columns).zip(&mut row) {
            match record.get(column) {
                None | Some("") => return Err(DataError::at_line(path, line, format!("`{name}` is empty"))),
                Some(text) => text.clone_into(field),
            }
        }
        // The list grows by doubling.
        let texts: usize = row.iter().map(String::len).sum();
        budget.take(texts + 2 * size_of::<(u64, [String; N])>(), 1).map_err(|e| Reason::from(e).of(path))?;
        rows.push((line, row));
    }
    if rows.is_empty() {
        return Err(DataError::new(path, "lists no clips"));
    }
    Ok(rows)
}

/// The beginning of a path from a file, which may be of any length.
fn shown(path: &Path) -> String {
    let text = path.display().to_string();
    match text.char_indices().nth(MOST_SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

fn existing(index: &Path, line: u64, file: &str) -> Result<PathBuf, DataError> {
    let path = index.parent().unwrap_or(Path::new("")).join(file);
    match path.metadata() {
        Ok(found) if found.is_file() => Ok(path),
        Ok(_) => Err(DataError::at_line(index, line, format!("{} is not a file", shown(&path)))),
        Err(e) => {
            let reason = DataError::io(Path::new(&shown(&path)), "read", e);
            Err(DataError::at_line(index, line, format!("{reason}; paths are relative to the index")))
        }
    }
}
