//! Zip archives that frameworks save models in. No declared length is believed: all entries together unpack to a small
//! multiple of the file, or the archive is refused before anything is unpacked, and again while it is.

use std::io::{Cursor, Read};

use zip::ZipArchive;
use zip::read::{ArchiveOffset, Config};
use zip::result::ZipError;

use crate::data::{guarded, one_line, zip_damage};
use crate::error::ImportError;

/// Most bytes that an archive unpacks to, as a multiple of its own; frameworks store weights as they are.
const MAX_RATIO: u64 = 8;

/// Where most damage is seen first.
const DIRECTORY: &str = "the list of its contents, at its end, is missing or damaged: it may be cut off";

/// An archive in memory.
pub(crate) struct Archive<'a> {
    zip: ZipArchive<Cursor<&'a [u8]>>,
    /// Bytes that may still be unpacked.
    left: u64,
    names: Vec<String>,
}

impl<'a> Archive<'a> {
    /// Reads the directory.
    pub fn open(bytes: &'a [u8]) -> Result<Self, ImportError> {
        // Nothing is in front of a model's archive. Left to look for it, the reader takes the second entry of some of
        // PyTorch's for the first: they say their sizes in two ways, of which it reads the shorter.
        let config = Config { archive_offset: ArchiveOffset::Known(0) };
        let mut zip = guarded(|| ZipArchive::with_config(config, Cursor::new(bytes)))
            .map_err(|_| damaged(DIRECTORY.into()))?
            .map_err(|error| damaged(zip_damage(&error, DIRECTORY)))?;
        let limit = MAX_RATIO * bytes.len() as u64;
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
        if declared > limit {
            return Err(bomb(declared, bytes.len()));
        }
        Ok(Self { zip, left: limit, names })
    }

    /// Names of the entries, in the directory's order.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The content of an entry, if there is one of this name.
    pub fn read(&mut self, name: &str) -> Result<Option<Vec<u8>>, ImportError> {
        if !self.names.iter().any(|known| known == name) {
            return Ok(None);
        }
        let left = self.left;
        let zip = &mut self.zip;
        let content = guarded(|| -> Result<Vec<u8>, ZipError> {
            let entry = zip.by_name(name)?;
            let mut content = Vec::new();
            entry.take(left + 1).read_to_end(&mut content)?;
            Ok(content)
        })
        .map_err(|_| damaged(format!("its entry {name:?} is damaged")))?
        .map_err(|error| damaged(format!("its entry {name:?}: {}", zip_damage(&error, "it is damaged"))))?;
        let len = content.len() as u64;
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
        advice: "more than a model's weights do; save the model again",
    }
}
