//! Inputs and outputs of models: tensors, audio, and indices of clips, in common file formats. Model files do not
//! belong here.
//!
//! Files are not trusted: a file may have at most 512 MiB, its decoded content must fit its [budget](crate::budget),
//! and any content results in a value or a [`DataError`].

mod audio;
pub(crate) mod element;
pub(crate) mod error;
mod examples;
mod index;
mod npy;
mod table;
pub(crate) mod tensors;
mod ts;

use std::{
    borrow::Cow,
    cell::Cell,
    collections::BTreeMap,
    fmt,
    fs::File,
    io::Read,
    panic::{self, AssertUnwindSafe, catch_unwind},
    path::Path,
};

pub use audio::{Audio, prepare_wav, read_audio, read_audio_at};
pub use error::DataError;
pub use error::{is_unseen, one_line};
pub use examples::Examples;
pub use index::{Clip, is_index, read_index, read_index_files, read_index_splits};
pub use ts::read_series;

use crate::{
    budget::{Budget, FIXED, TooCostly},
    canonical::Tensor,
    output::{Pending, prepare},
};
use element::{Element, Endian};

/// Maximum length of a file that is read, and maximum unpacked size of a compressed one.
pub const MAX_BYTES: u64 = 512 << 20;

/// Name of the only tensor of an `.npy` or `.csv` file, which has none.
pub const UNNAMED: &str = "";

/// File formats that hold tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Npy,
    Npz,
    SafeTensors,
    Csv,
}

impl Format {
    fn of_extension(path: &Path) -> Option<Self> {
        let extension = path.extension()?.to_str()?;
        let all = [Self::Npy, Self::Npz, Self::SafeTensors, Self::Csv];
        all.into_iter().find(|format| format.name()[1..].eq_ignore_ascii_case(extension))
    }

    fn of_content(bytes: &[u8]) -> Option<Self> {
        if bytes.starts_with(npy::MAGIC) {
            Some(Self::Npy)
        } else if bytes.starts_with(b"PK\x03\x04") {
            Some(Self::Npz)
        } else if bytes.get(8) == Some(&b'{') && bytes.get(4..8) == Some(&[0; 4]) {
            Some(Self::SafeTensors)
        } else {
            None
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Npy => ".npy",
            Self::Npz => ".npz",
            Self::SafeTensors => ".safetensors",
            Self::Csv => ".csv",
        }
    }
}

/// Whether the file name is one for [`read_audio`].
pub fn is_audio(path: &Path) -> bool {
    path.extension().is_some_and(|e| e.eq_ignore_ascii_case("wav") || e.eq_ignore_ascii_case("flac"))
}

/// A tensor of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Stored {
    /// The numbers of the tensor as `f32`.
    pub tensor: Tensor,
    /// Whether the file stores them as 8-bit signed integers.
    pub is_int8: bool,
}

impl Stored {
    /// A tensor that the file does not store as 8-bit signed integers.
    const fn other(tensor: Tensor) -> Self {
        Self { tensor, is_int8: false }
    }
}

/// Reads the tensors of an `.npy`, `.npz`, `.safetensors` or `.csv` file by name, as `f32`. Each number is rounded to
/// the nearest `f32`, and rejected if there is none. The only tensor of an `.npy` or `.csv` file is [`UNNAMED`]. The
/// format of a file with another extension follows from its first bytes.
///
/// # Errors
/// If the file cannot be read, is damaged, or holds anything but real numbers.
pub fn read_tensors(path: &Path) -> Result<BTreeMap<String, Tensor>, DataError> {
    let tensors = read_stored_tensors(path)?;
    Ok(tensors.into_iter().map(|(name, stored)| (name, stored.tensor)).collect())
}

/// Like [`read_tensors`]; also states how the file stores each tensor. The errors are the same.
pub fn read_stored_tensors(path: &Path) -> Result<BTreeMap<String, Stored>, DataError> {
    if is_audio(path) {
        return Err(DataError::new(path, "is sound, but a tensor (.npy, .npz, .safetensors or .csv) is needed here"));
    }
    let bytes = read_bytes(path)?;
    let content = Format::of_content(&bytes);
    let only = |stored| BTreeMap::from([(UNNAMED.to_owned(), stored)]);
    let tensors = match Format::of_extension(path).or(content) {
        Some(named) if content.is_some_and(|content| content != named) => {
            let is = content.map_or("", Format::name);
            Err(format!("is named {}, but begins like {is}: rename it", named.name()).into())
        }
        Some(Format::Npy) => npy::parse(&bytes, &mut Budget::of_file(bytes.len())).map(only),
        Some(Format::Npz) => npy::parse_npz(&bytes),
        Some(Format::SafeTensors) => tensors::parse(&bytes),
        Some(Format::Csv) => table::parse(&bytes).map(Stored::other).map(only),
        None => Err("is not an .npy, .npz, .safetensors or .csv file".into()),
    };
    tensors.map_err(|e| e.of(path))
}

/// Writes tensors atomically, in the format of the file extension. The same tensors give the same bytes.
///
/// # Errors
/// If the extension is unknown, the format cannot hold the tensors (`.npy` and `.csv` hold one tensor, `.csv` only a
/// matrix), or the file cannot be written.
pub fn write_tensors(path: &Path, tensors: &BTreeMap<String, Tensor>) -> Result<(), DataError> {
    prepare_tensors(path, tensors)?.keep()
}

/// Writes tensors as [`write_tensors`] does, but leaves the file [`Pending`], as
/// [`output::prepare`](crate::output::prepare) does. The errors are the same.
pub fn prepare_tensors(path: &Path, tensors: &BTreeMap<String, Tensor>) -> Result<Pending, DataError> {
    let refuse = |reason: &str| Err(DataError::new(path, reason));
    let only = || match tensors.values().next() {
        Some(tensor) if tensors.len() == 1 => Ok(tensor),
        _ => Err(DataError::new(path, format!("cannot hold {} tensors: write .npz or .safetensors", tensors.len()))),
    };
    match Format::of_extension(path) {
        Some(Format::Npy) => only().and_then(|tensor| prepare(path, |out| npy::write(tensor, out))),
        Some(Format::Csv) => match only()? {
            tensor if tensor.shape.len() == 2 && !tensor.data.is_empty() => {
                prepare(path, |out| table::write(tensor, out))
            }
            Tensor { shape, .. } => {
                refuse(&format!("cannot hold a tensor of shape {shape:?}, only rows and columns: write .npy"))
            }
        },
        Some(Format::Npz) if tensors.contains_key(UNNAMED) => refuse("cannot hold a tensor without a name: write .npy"),
        Some(Format::Npz) => prepare(path, |out| out.write_all(&npy::write_npz(tensors)?)),
        Some(Format::SafeTensors) => prepare(path, |out| out.write_all(&tensors::write(tensors)?)),
        None => refuse("has no supported extension: .npy, .npz, .safetensors or .csv"),
    }
}

/// Reads a whole file of at most [`MAX_BYTES`].
///
/// # Errors
/// If the file cannot be read, is a folder, or is longer.
pub fn read_bytes(path: &Path) -> Result<Vec<u8>, DataError> {
    let failed = |e| DataError::io(path, "read", e);
    let too_long = || DataError::new(path, format!("is longer than 512 MiB, {FIXED}"));
    let file = File::open(path).map_err(failed)?;
    let found = file.metadata().map_err(failed)?;
    if found.is_dir() {
        return Err(DataError::new(path, "is a folder, but a file is needed"));
    }
    if found.len() > MAX_BYTES {
        return Err(too_long());
    }
    let mut bytes = Vec::with_capacity(found.len() as usize);
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(too_long());
    }
    Ok(bytes)
}

/// Decodes numbers of a declared shape; an error unless `bytes` has exactly the required length.
fn tensor(
    shape: Vec<usize>,
    bytes: &[u8],
    element: Element,
    endian: Endian,
    budget: &mut Budget,
) -> Result<Stored, Reason> {
    let needed = shape.iter().try_fold(element.bytes(), |len, &n| len.checked_mul(n));
    if needed != Some(bytes.len()) {
        return Err(format!("has {} bytes of numbers, which is not what shape {shape:?} needs", bytes.len()).into());
    }
    budget.take(bytes.len() / element.bytes(), size_of::<f32>())?;
    let tensor = Tensor { shape, data: element.decode(bytes, endian)? };
    Ok(Stored { tensor, is_int8: element == Element::I8 })
}

/// Runs a third-party decoder. A panic in it, such as an overflow that only debug builds detect, is reported as a
/// damaged file instead of ending the program.
pub(crate) fn guarded<T>(decode: impl FnOnce() -> T) -> Result<T, Reason> {
    GUARDED.set(true);
    // After a panic, only the input bytes, which are unchanged, and an archive, which is dropped, remain.
    let decoded = catch_unwind(AssertUnwindSafe(decode));
    GUARDED.set(false);
    decoded.map_err(|_| "is damaged: the decoder failed".into())
}

/// Maximum number of entries of a zip archive. An entry of 50 bytes in the file takes ten times as much memory.
pub(crate) const MAX_ENTRIES: usize = 1 << 16;

/// Whether a zip archive lists more entries than any model or set of arrays has, before its list is read.
pub(crate) fn has_many_entries(bytes: &[u8]) -> bool {
    bytes.windows(4).filter(|four| four == b"PK\x01\x02").count() > MAX_ENTRIES
}

/// Describes the damage of a zip archive for users who do not know the format. `damage` describes most errors.
pub(crate) fn zip_damage(error: &zip::result::ZipError, damage: &str) -> String {
    use zip::result::ZipError as E;
    match error {
        E::UnsupportedArchive(_) | E::CompressionMethodNotSupported(_) => {
            format!("it is an unsupported kind of zip archive ({error})")
        }
        _ => damage.to_owned(),
    }
}

thread_local! {
    /// Whether this thread is inside a third-party decoder.
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Hides panics that become a [`DataError`] from standard error; all others are reported as before. Only programs call
/// this: a library does not set the panic hook.
pub fn hide_guarded_panics() {
    let report = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        if !GUARDED.get() {
            report(info);
        }
    }));
}

/// Why bytes are rejected; [`of`](Self::of) adds the file.
#[derive(Debug)]
pub(crate) struct Reason {
    line: Option<u64>,
    text: String,
}

impl Reason {
    fn at_line(line: u64, text: impl fmt::Display) -> Self {
        Self { line: Some(line), text: text.to_string() }
    }

    fn inside(self, name: &str) -> Self {
        Self { text: format!("`{}` {}", shortened(name), self.text), ..self }
    }

    fn of(self, path: &Path) -> DataError {
        match self.line {
            Some(line) => DataError::at_line(path, line, self.text),
            None => DataError::new(path, self.text),
        }
    }
}

impl From<TooCostly> for Reason {
    fn from(error: TooCostly) -> Self {
        Self { line: None, text: format!("cannot be read: {error}; {}", TooCostly::ADVICE) }
    }
}

impl<T: Into<String>> From<T> for Reason {
    fn from(text: T) -> Self {
        Self { line: None, text: text.into() }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        f.write_str(&self.text)
    }
}

/// A file's text, shortened to at most 40 characters.
fn shortened(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(40) {
        Some((end, _)) => format!("{}...", &text[..end]).into(),
        None => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_of_a_decoder_is_a_damaged_file_and_prints_nothing() {
        thread_local!(static HEARD: Cell<u32> = const { Cell::new(0) });
        let report = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            HEARD.set(HEARD.get() + 1);
            if info.payload_as_str() != Some("on purpose") {
                report(info);
            }
        }));
        hide_guarded_panics();
        let damaged = guarded(|| -> () { panic!("on purpose") });
        assert!(damaged.unwrap_err().to_string().contains("is damaged"));
        assert_eq!(HEARD.get(), 0);
        let _ = catch_unwind(|| panic!("on purpose"));
        assert_eq!(HEARD.get(), 1, "other panics are reported as before");
    }
}
