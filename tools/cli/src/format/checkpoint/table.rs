//! LevelDB's sorted table, in which TensorFlow keeps a checkpoint's index: blocks of keys and values, the keys
//! compressed by their common prefix, a block compressed by snappy or not and checked by a masked CRC-32C; then an
//! index block with where the others lie, and a footer with where that lies. (tensorflow/core/lib/io: `format.cc`,
//! `block.cc`)
//!
//! Blocks are read one after the other: what is in memory beside the file is one block and one key.

use std::borrow::Cow;

use super::malformed;
use crate::error::ImportError;

/// The last bytes of a table.
pub const MAGIC: [u8; 8] = 0xdb47_7524_8b80_fb57_u64.to_le_bytes();
/// Two handles of at most 20 bytes, then the magic number.
pub const FOOTER_BYTES: usize = 48;
/// How a block is compressed, and its checksum.
const TRAILER_BYTES: usize = 5;
/// Most bytes of a block; TensorFlow begins a new one at 256 KiB.
const MAX_BLOCK_BYTES: usize = 4 << 20;
/// Most bytes of a key: the name of a variable, or of a slice of one.
const MAX_KEY_BYTES: usize = 4096;
/// Snappy's densest element makes 64 bytes of three; some is left for the length in front.
const MAX_SNAPPY_RATIO: usize = 22;

/// Whether these bytes end as a table does.
pub fn is_table(bytes: &[u8]) -> bool {
    bytes.len() >= FOOTER_BYTES && bytes.ends_with(&MAGIC)
}

/// The checksum that LevelDB and TensorFlow store: a CRC-32C of data that hold their own CRC-32C would be weak.
pub fn masked(crc: u32) -> u32 {
    crc.rotate_right(15).wrapping_add(0xa282_ead8)
}

/// Gives every key with its value to `each`, in the order of the keys.
///
/// # Errors
/// If the bytes are no table, and those of `each`.
pub fn read(bytes: &[u8], mut each: impl FnMut(&[u8], &[u8]) -> Result<(), ImportError>) -> Result<(), ImportError> {
    if !is_table(bytes) {
        return malformed("its index is cut off, or no index: it does not end as one does");
    }
    let (blocks, footer) = bytes.split_at(bytes.len() - FOOTER_BYTES);
    let mut footer = Bytes(footer);
    // The meta index, which TensorFlow leaves empty.
    let _ = handle(&mut footer)?;
    let index = handle(&mut footer)?;
    let mut last_key: Option<Vec<u8>> = None;
    let mut free = 0;
    entries(&block(blocks, index)?, |_, value| {
        let place = handle(&mut Bytes(value))?;
        // In order and apart from each other, so that no block counts twice.
        if place.offset < free {
            return malformed(format!("its index names a block at byte {} twice", place.offset));
        }
        free = place.offset.saturating_add(place.len);
        entries(&block(blocks, place)?, |key, value| {
            if last_key.as_ref().is_some_and(|last| last.as_slice() >= key) {
                return malformed("the keys of its index are not in order");
            }
            each(key, value)?;
            let last = last_key.get_or_insert_default();
            last.clear();
            last.extend_from_slice(key);
            Ok(())
        })
    })
}

/// Where a block lies, without its trailer.
#[derive(Clone, Copy)]
struct Handle {
    offset: u64,
    len: u64,
}

fn handle(bytes: &mut Bytes<'_>) -> Result<Handle, ImportError> {
    Ok(Handle { offset: bytes.varint()?, len: bytes.varint()? })
}

/// A block, checked and unpacked.
fn block(bytes: &[u8], Handle { offset, len }: Handle) -> Result<Cow<'_, [u8]>, ImportError> {
    let from = usize::try_from(offset).ok();
    let to = from.zip(usize::try_from(len).ok()).and_then(|(from, len)| from.checked_add(len));
    let found = from.zip(to).and_then(|(from, to)| {
        let (content, rest) = bytes.get(from..)?.split_at_checked(to - from)?;
        Some((content, rest.first_chunk::<TRAILER_BYTES>()?))
    });
    let Some((content, &[compression, c0, c1, c2, c3])) = found else {
        return malformed(format!("its index has no {len} bytes at byte {offset}: it is cut off, or not an index"));
    };
    let stored = u32::from_le_bytes([c0, c1, c2, c3]);
    if masked(crc32c::crc32c_append(crc32c::crc32c(content), &[compression])) != stored {
        return malformed(format!("the checksum of its index is wrong in the block at byte {offset}"));
    }
    match compression {
        0 if content.len() <= MAX_BLOCK_BYTES => Ok(Cow::Borrowed(content)),
        1 => {
            let failed = |error| malformed(format!("the block at byte {offset} of its index: {error}"));
            let unpacked = match snap::raw::decompress_len(content) {
                Ok(unpacked) => unpacked,
                Err(error) => return failed(error),
            };
            if unpacked > MAX_BLOCK_BYTES || unpacked > content.len().saturating_mul(MAX_SNAPPY_RATIO) {
                return malformed(format!("the block at byte {offset} of its index claims {unpacked} bytes"));
            }
            snap::raw::Decoder::new().decompress_vec(content).map(Cow::Owned).or_else(failed)
        }
        0 => malformed(format!("the block at byte {offset} of its index has {len} bytes")),
        other => malformed(format!("the block at byte {offset} of its index has compression {other}")),
    }
}

/// Gives every key and value of a block to `each`.
fn entries(block: &[u8], mut each: impl FnMut(&[u8], &[u8]) -> Result<(), ImportError>) -> Result<(), ImportError> {
    // Behind the entries: where a key is written in full, as u32 each, and how many such places there are.
    let restarts = block.split_last_chunk::<4>().and_then(|(rest, count)| {
        let bytes = usize::try_from(u32::from_le_bytes(*count)).ok()?.checked_mul(4)?;
        rest.len().checked_sub(bytes)
    });
    let Some(mut rest) = restarts.and_then(|end| block.get(..end)).map(Bytes) else {
        return malformed("a block of its index has more restarts than bytes");
    };
    let mut key: Vec<u8> = Vec::new();
    while !rest.0.is_empty() {
        let (shared, fresh, value) = (rest.len()?, rest.len()?, rest.len()?);
        if shared > key.len() || shared.saturating_add(fresh) > MAX_KEY_BYTES {
            return malformed(format!("a key of its index has {shared} bytes of the one before it and {fresh} more"));
        }
        key.truncate(shared);
        key.extend_from_slice(rest.take(fresh)?);
        each(&key, rest.take(value)?)?;
    }
    Ok(())
}

/// Bytes that are read from the front.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn varint(&mut self) -> Result<u64, ImportError> {
        match prost::encoding::decode_varint(&mut self.0) {
            Ok(value) => Ok(value),
            Err(_) => malformed("a number of its index is cut off or longer than 64 bits"),
        }
    }

    fn len(&mut self) -> Result<usize, ImportError> {
        Ok(usize::try_from(self.varint()?).unwrap_or(usize::MAX))
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8], ImportError> {
        match self.0.split_at_checked(len) {
            Some((taken, rest)) => {
                self.0 = rest;
                Ok(taken)
            }
            None => malformed(format!("an entry of its index needs {len} bytes, {} are left", self.0.len())),
        }
    }
}
