//! LevelDB's sorted table, the container of a checkpoint's index. It consists of data blocks of keys and values, an
//! index block with the positions of the data blocks, and a footer with the position of the index block. Keys are
//! compressed by their common prefix. A block may be compressed with snappy and has a masked CRC-32C.
//! (tensorflow/core/lib/io: `format.cc`, `block.cc`)
//!
//! Blocks are read one after the other: at most one unpacked block and one key are in memory besides the file.

use std::borrow::Cow;

use super::{malformed, malformed_if};
use crate::error::Result;

/// The last bytes of a table.
pub const MAGIC: [u8; 8] = 0xdb47_7524_8b80_fb57_u64.to_le_bytes();
/// Two handles of at most 20 bytes, then the magic number.
pub const FOOTER_BYTES: usize = 48;
/// Trailer of a block: its compression and its checksum.
const TRAILER_BYTES: usize = 5;
/// Maximum size of a block in bytes; TensorFlow starts a new block at 256 KiB.
const MAX_BLOCK_BYTES: usize = 4 << 20;
/// Maximum size of a key in bytes. A key is the name of a variable or identifies a slice of one.
const MAX_KEY_BYTES: usize = 4096;
/// Maximum compression ratio: Snappy's densest element turns 3 bytes into 64, and the length prefix needs a margin.
const MAX_SNAPPY_RATIO: usize = 22;

/// Whether the bytes end with the magic number of a table.
pub fn is_table(bytes: &[u8]) -> bool {
    bytes.len() >= FOOTER_BYTES && bytes.ends_with(&MAGIC)
}

/// The checksum as LevelDB and TensorFlow store it. Masking is needed because the CRC of data that contain their own
/// CRC is weak.
pub fn masked(crc: u32) -> u32 {
    crc.rotate_right(15).wrapping_add(0xa282_ead8)
}

/// Calls `each` with every key and its value, in key order.
///
/// # Errors
/// If the bytes are not a valid table, and the errors of `each`.
pub fn read(bytes: &[u8], mut each: impl FnMut(&[u8], &[u8]) -> Result<()>) -> Result<()> {
    let reason = "its index is cut off, or not an index: it does not end with the magic number of a table";
    malformed_if(!is_table(bytes), reason)?;
    let (blocks, footer) = bytes.split_at(bytes.len() - FOOTER_BYTES);
    let mut footer = Bytes(footer);
    // The meta index, which TensorFlow leaves empty.
    let _ = handle(&mut footer)?;
    let index = handle(&mut footer)?;
    let mut last_key: Option<Vec<u8>> = None;
    let mut free = 0;
    entries(&block(blocks, index)?, |_, value| {
        let place = handle(&mut Bytes(value))?;
        // Blocks must be in order and must not overlap, so that none is counted twice.
        let (offset, len) = place;
        malformed_if(offset < free, format_args!("its index names a block at byte {offset} twice"))?;
        free = offset.saturating_add(len);
        entries(&block(blocks, place)?, |key, value| {
            let ordered = last_key.as_ref().is_none_or(|last| last.as_slice() < key);
            malformed_if(!ordered, "the keys of its index are not in order")?;
            each(key, value)?;
            let last = last_key.get_or_insert_default();
            last.clear();
            last.extend_from_slice(key);
            Ok(())
        })
    })
}

/// Offset and length of a block, without its trailer.
fn handle(bytes: &mut Bytes<'_>) -> Result<(usize, usize)> {
    Ok((bytes.len()?, bytes.len()?))
}

/// Verifies the checksum of a block and decompresses it.
fn block(bytes: &[u8], (offset, len): (usize, usize)) -> Result<Cow<'_, [u8]>> {
    let content = bytes.get(offset..).and_then(|rest| rest.split_at_checked(len));
    let found = content.and_then(|(content, rest)| Some((content, rest.first_chunk::<TRAILER_BYTES>()?)));
    let Some((content, &[compression, c0, c1, c2, c3])) = found else {
        return malformed(format!(
            "its index does not have {len} bytes at byte {offset}: it is cut off, or not an index"
        ));
    };
    let sum = masked(crc32c::crc32c_append(crc32c::crc32c(content), &[compression]));
    let damaged = sum != u32::from_le_bytes([c0, c1, c2, c3]);
    malformed_if(damaged, format_args!("the checksum of its index is wrong in the block at byte {offset}"))?;
    match compression {
        0 if content.len() <= MAX_BLOCK_BYTES => Ok(Cow::Borrowed(content)),
        1 => {
            let damaged = |error| format!("the block at byte {offset} of its index: {error}");
            let unpacked = snap::raw::decompress_len(content).or_else(|error| malformed(damaged(error)))?;
            let most = content.len().saturating_mul(MAX_SNAPPY_RATIO).min(MAX_BLOCK_BYTES);
            malformed_if(
                unpacked > most,
                format_args!("the block at byte {offset} of its index claims {unpacked} bytes"),
            )?;
            let unpacked = snap::raw::Decoder::new().decompress_vec(content);
            unpacked.map(Cow::Owned).or_else(|error| malformed(damaged(error)))
        }
        0 => malformed(format!("the block at byte {offset} of its index has {len} bytes")),
        other => malformed(format!("the block at byte {offset} of its index has compression {other}")),
    }
}

fn entries(block: &[u8], mut each: impl FnMut(&[u8], &[u8]) -> Result<()>) -> Result<()> {
    // After the entries, a block lists the positions of keys written in full (one u32 each), then their count.
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
        let what = format_args!("a key of its index shares {shared} bytes with the previous key and has {fresh} more");
        malformed_if(shared > key.len() || shared.saturating_add(fresh) > MAX_KEY_BYTES, what)?;
        key.truncate(shared);
        key.extend_from_slice(rest.take(fresh)?);
        each(&key, rest.take(value)?)?;
    }
    Ok(())
}

struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn len(&mut self) -> Result<usize> {
        match prost::encoding::decode_varint(&mut self.0) {
            Ok(value) => Ok(usize::try_from(value).unwrap_or(usize::MAX)),
            Err(_) => malformed("a number of its index is cut off or longer than 64 bits"),
        }
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8]> {
        match self.0.split_at_checked(len) {
            Some((taken, rest)) => {
                self.0 = rest;
                Ok(taken)
            }
            None => malformed(format!("an entry of its index needs {len} bytes, {} are left", self.0.len())),
        }
    }
}
