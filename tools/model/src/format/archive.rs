//! Zip archives of saved models. Declared lengths are not trusted: the total unpacked size is limited to a small
//! multiple of the file, and to the file's budget, which is checked before and during unpacking.

use std::io::{Cursor, Read};

use zip::ZipArchive;
use zip::read::{ArchiveOffset, Config};
use zip::result::ZipError;

use super::refuse::{err_if, limit_if};
use crate::budget::{self, Budget};
use crate::data::{MAX_ENTRIES, guarded, has_many_entries, one_line, zip_damage};
use crate::error::{ImportError, Result};

/// Maximum unpacked size of an archive, as a multiple of its own size; frameworks store weights uncompressed.
const MAX_RATIO: u64 = 8;

/// Message for a damaged directory, where most damage is detected first.
const DIRECTORY: &str = "the list of its contents, at its end, is missing or damaged: it may be cut off";

pub(crate) struct Archive<'a> {
    zip: ZipArchive<Cursor<&'a [u8]>>,
    /// Number of bytes that may still be unpacked.
    left: u64,
    names: Vec<String>,
    /// The budget of the whole file.
    pub budget: Budget,
}

impl<'a> Archive<'a> {
    pub fn open(bytes: &'a [u8]) -> Result<Self> {
        // A model's archive starts at the first byte. If the reader searched for the start, it would take the second
        // entry of some PyTorch archives for the first: their sizes are stored twice, and it reads the shorter one.
        limit_if(has_many_entries(bytes), MAX_ENTRIES, "entries")?;
        let config = Config { archive_offset: ArchiveOffset::Known(0) };
        let mut zip = guarded(|| ZipArchive::with_config(config, Cursor::new(bytes)))
            .map_err(|_| damaged(DIRECTORY.into()))?
            .map_err(|error| damaged(zip_damage(&error, DIRECTORY)))?;
        let limit = budget::or_allowed(MAX_RATIO * bytes.len() as u64);
        let (mut names, mut declared) = (Vec::new(), 0_u64);
        for index in 0..zip.len() {
            let (name, size) = guarded(|| -> Result<_, ZipError> {
                let entry = zip.by_index_raw(index)?;
                Ok((entry.name()?.into_owned(), entry.size()))
            })
            .map_err(|_| damaged(DIRECTORY.into()))?
            .map_err(|error| damaged(zip_damage(&error, DIRECTORY)))?;
            declared = declared.saturating_add(size);
            names.push(name);
        }
        err_if(declared > limit, || bomb(declared, bytes.len()))?;
        Ok(Self { zip, left: limit, names, budget: Budget::of_file(bytes.len()) })
    }

    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The content of an entry; `None` if there is no entry of this name.
    pub fn read(&mut self, name: &str) -> Result<Option<Vec<u8>>> {
        let Some(index) = self.zip.index_for_name(name) else { return Ok(None) };
        let left = self.left.min(self.budget.left() as u64);
        let zip = &mut self.zip;
        let content = guarded(|| -> Result<Vec<u8>, ZipError> {
            let entry = zip.by_index(index)?;
            let mut content = Vec::with_capacity(entry.size().min(left) as usize);
            entry.take(left + 1).read_to_end(&mut content)?;
            Ok(content)
        })
        .map_err(|_| damaged(format!("its entry {name:?} is damaged")))?
        .map_err(|error| damaged(format!("its entry {name:?}: {}", zip_damage(&error, "it is damaged"))))?;
        let len = content.len() as u64;
        self.budget.take(content.capacity(), 1)?;
        self.left = left.checked_sub(len).ok_or_else(|| bomb(len, (left / MAX_RATIO) as usize))?;
        Ok(Some(content))
    }
}

fn damaged(reason: String) -> ImportError {
    ImportError::Malformed { format: "zip archive", reason: one_line(&reason) }
}

fn bomb(unpacked: u64, packed: usize) -> ImportError {
    ImportError::Refused {
        found: format!("it is a zip archive of {packed} bytes that unpacks to {unpacked} or more"),
        advice: "more than a model's weights do; save the model again, or allow more with --memory MIB if you trust it",
    }
}
