//! Handwritten TensorFlow checkpoints with contents that TensorFlow itself does not write: snappy-compressed blocks and
//! hostile entries. Also holds the body of the fuzz target `import_checkpoint`.

use std::io::Cursor;

use tidegate_model::error::ImportError;
use tidegate_model::format::checkpoint::import_parts;
use tidegate_model::format::checkpoint::table::masked;
use tidegate_model::format::{Description, Options};

const MAGIC: [u8; 8] = 0xdb47_7524_8b80_fb57_u64.to_le_bytes();
const FOOTER_BYTES: usize = 48;

/// Key and value.
pub type Pair = (Vec<u8>, Vec<u8>);

fn push_varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

/// A length encoded as a varint, as snappy and tables write it.
pub fn length(value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    push_varint(&mut bytes, value);
    bytes
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

/// A table of these pairs, with `per_block` of them in each block.
pub fn table(pairs: &[Pair], per_block: usize, snappy: bool) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut index = Vec::new();
    for pairs in pairs.chunks(per_block.max(1)) {
        let handle = push_block(&mut bytes, &block(pairs), snappy);
        index.push((pairs.last().map(|(key, _)| key.clone()).unwrap_or_default(), handle));
    }
    let meta = push_block(&mut bytes, &block(&[]), false);
    let index = push_block(&mut bytes, &block(&index), snappy);
    let mut footer = [meta, index].concat();
    footer.resize(FOOTER_BYTES - MAGIC.len(), 0);
    bytes.extend(footer);
    bytes.extend(MAGIC);
    bytes
}

/// A block: entries with a full key at every third, then the offsets of those restart points.
pub fn block(pairs: &[Pair]) -> Vec<u8> {
    let (mut bytes, mut restarts, mut last): (Vec<u8>, Vec<u32>, &[u8]) = (Vec::new(), Vec::new(), &[]);
    for (number, (key, value)) in pairs.iter().enumerate() {
        let mut shared = key.iter().zip(last).take_while(|(a, b)| a == b).count();
        if number % 3 == 0 {
            restarts.push(bytes.len() as u32);
            shared = 0;
        }
        push_varint(&mut bytes, shared as u64);
        push_varint(&mut bytes, (key.len() - shared) as u64);
        push_varint(&mut bytes, value.len() as u64);
        bytes.extend(&key[shared..]);
        bytes.extend(value);
        last = key;
    }
    if restarts.is_empty() {
        restarts.push(0);
    }
    bytes.extend(restarts.iter().flat_map(|restart| restart.to_le_bytes()));
    bytes.extend((restarts.len() as u32).to_le_bytes());
    bytes
}

/// Position of a block: its offset and its length.
pub type Place = (u64, u64);

/// A table of these blocks, each with its compression byte. `listed` chooses the positions in the index, given those of
/// the blocks and of the index itself.
pub fn by_hand(blocks: &[(u8, Vec<u8>)], listed: impl Fn(&[Place], Place) -> Vec<Place>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let places: Vec<Place> =
        blocks.iter().map(|(compression, block)| push_raw(&mut bytes, block, *compression)).collect();
    let meta = push_block(&mut bytes, &block(&[]), false);
    let (from, mut len) = (bytes.len() as u64, 0);
    // A greater claimed length takes at most one byte more to encode.
    let index = loop {
        let places = listed(&places, (from, len)).into_iter().zip(0_u8..);
        let pairs: Vec<Pair> = places.map(|(place, number)| (vec![number], handle(place))).collect();
        let index = block(&pairs);
        if index.len() as u64 == len {
            break index;
        }
        len = index.len() as u64;
    };
    let index = push_block(&mut bytes, &index, false);
    let mut footer = [meta, index].concat();
    footer.resize(FOOTER_BYTES - MAGIC.len(), 0);
    bytes.extend(footer);
    bytes.extend(MAGIC);
    bytes
}

fn handle((from, len): Place) -> Vec<u8> {
    let mut handle = Vec::new();
    push_varint(&mut handle, from);
    push_varint(&mut handle, len);
    handle
}

/// Appends a block and returns its handle.
fn push_block(bytes: &mut Vec<u8>, block: &[u8], snappy: bool) -> Vec<u8> {
    let packed = snappy.then(|| snap::raw::Encoder::new().compress_vec(block).expect("a block is small"));
    handle(push_raw(bytes, packed.as_deref().unwrap_or(block), u8::from(snappy)))
}

/// Appends an uncompressed block, followed by its checksum.
fn push_raw(bytes: &mut Vec<u8>, content: &[u8], compression: u8) -> Place {
    let place = (bytes.len() as u64, content.len() as u64);
    let from = bytes.len();
    bytes.extend(content);
    bytes.push(compression);
    let crc = masked(crc32c::crc32c(&bytes[from..]));
    bytes.extend(crc.to_le_bytes());
    place
}

/// Recomputes the checksums of all blocks that can be found.
pub fn reseal(index: &mut [u8]) {
    let Some(footer) = index.len().checked_sub(FOOTER_BYTES) else { return };
    let footer = index[footer..].to_vec();
    let mut handles = footer.as_slice();
    for k in 0..2 {
        let Some(content) = reseal_block(index, &mut handles) else { return };
        if k == 0 {
            continue;
        }
        // The values of the index are handles, readable if the block is not compressed.
        let Some((entries, _)) = content.split_last_chunk::<8>() else { return };
        let mut rest = entries;
        while !rest.is_empty() {
            let lens = [varint(&mut rest), varint(&mut rest), varint(&mut rest)];
            let [Some(_), Some(fresh), Some(value)] = lens else { return };
            let (Ok(fresh), Ok(value)) = (usize::try_from(fresh), usize::try_from(value)) else { return };
            let Some(mut handle) = rest.get(fresh..) else { return };
            let Some(next) = handle.get(value..) else { return };
            reseal_block(index, &mut handle);
            rest = next;
        }
    }
}

fn reseal_block(index: &mut [u8], handle: &mut &[u8]) -> Option<Vec<u8>> {
    let (from, len) = (usize::try_from(varint(handle)?).ok()?, usize::try_from(varint(handle)?).ok()?);
    let end = from.checked_add(len)?.checked_add(1)?;
    let crc = masked(crc32c::crc32c(index.get(from..end)?)).to_le_bytes();
    index.get_mut(end..end + 4)?.copy_from_slice(&crc);
    Some(index[from..end - 1].to_vec())
}

/// The entry of a variable.
#[derive(Clone, Debug, Default)]
pub struct Entry {
    /// `DataType`; 1 is f32.
    pub dtype: u64,
    /// Shape.
    pub dims: Vec<u64>,
    /// Index of the shard that holds the values.
    pub shard: u64,
    /// Offset of the values in the shard.
    pub offset: u64,
    /// Length of the values in bytes.
    pub size: u64,
    /// CRC of the values, not masked.
    pub crc: u32,
    /// Start and length of each slice in each dimension.
    pub slices: Vec<Vec<(u64, u64)>>,
}

impl Entry {
    /// Encodes the entry as protobuf.
    pub fn encode(&self) -> Vec<u8> {
        let number = |bytes: &mut Vec<u8>, tag: u8, value: u64| {
            bytes.push(tag << 3);
            push_varint(bytes, value);
        };
        let message = |bytes: &mut Vec<u8>, tag: u8, content: &[u8]| {
            bytes.push(tag << 3 | 2);
            push_varint(bytes, content.len() as u64);
            bytes.extend(content);
        };
        let (mut bytes, mut shape) = (Vec::new(), Vec::new());
        for &dim in &self.dims {
            let mut content = Vec::new();
            number(&mut content, 1, dim);
            message(&mut shape, 2, &content);
        }
        number(&mut bytes, 1, self.dtype);
        message(&mut bytes, 2, &shape);
        number(&mut bytes, 3, self.shard);
        number(&mut bytes, 4, self.offset);
        number(&mut bytes, 5, self.size);
        bytes.push(6 << 3 | 5);
        bytes.extend(masked(self.crc).to_le_bytes());
        for slice in &self.slices {
            let mut content = Vec::new();
            for &(start, len) in slice {
                let mut extent = Vec::new();
                number(&mut extent, 1, start);
                number(&mut extent, 2, len);
                message(&mut content, 1, &extent);
            }
            message(&mut bytes, 7, &content);
        }
        bytes
    }
}

/// The header entry of a checkpoint with this number of shards.
pub fn header(shards: u64) -> Pair {
    let mut value = vec![1 << 3];
    push_varint(&mut value, shards);
    value.extend([3 << 3 | 2, 2, 1 << 3, 1]);
    (Vec::new(), value)
}

/// An index and its only shard, holding `f32` variables.
pub fn written(variables: &[(&str, &[u64], &[f32])], snappy: bool) -> (Vec<u8>, Vec<u8>) {
    let (mut pairs, mut shard) = (vec![header(1)], Vec::new());
    for &(name, dims, values) in variables {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let (offset, size, crc) = (shard.len() as u64, bytes.len() as u64, crc32c::crc32c(&bytes));
        let entry = Entry { dtype: 1, dims: dims.to_vec(), offset, size, crc, ..Entry::default() };
        pairs.push((name.as_bytes().to_vec(), entry.encode()));
        shard.extend(bytes);
    }
    pairs.sort();
    (table(&pairs, 4, snappy), shard)
}

/// Bits of the first byte of the fuzz target's data.
pub mod flag {
    /// The length of the index in two bytes, the index, then the shard.
    pub const RAW: u8 = 0;
    /// The same, but the checksums of the blocks are recomputed.
    pub const SEALED: u8 = 1;
    /// A list of variables from which index and shard are generated.
    pub const MADE: u8 = 2;
    /// Mask of the three kinds above.
    pub const KIND: u8 = 3;
    /// A generated index is compressed.
    pub const SNAPPY: u8 = 4;
    /// A description is given.
    pub const ARCH: u8 = 8;
}

/// Descriptions that the fuzz target tries, selected by the two bits above the flags and the highest bit.
const ARCHES: [&str; 8] = [
    r#"{"inputs": [{"name": "x", "size": 3}], "layers": [{"name": "rnn", "class": "LSTMCell", "prefix": "rnn",
        "args": {"use_peepholes": true}}], "unused": ["a"]}"#,
    r#"{"inputs": [{"name": "x", "size": 3}], "layers": [{"name": "rnn", "class": "GRUCell"},
        {"name": "dense", "class": "Dense", "args": {"activation": "softmax"}}]}"#,
    r#"{"inputs": [{"name": "x", "size": 3, "steps": 5}], "layers": [{"name": "rnn", "class": "CudnnGRU", "prefix": "",
        "args": {"num_layers": 2, "direction": "bidirectional"}, "take": "final"}]}"#,
    r#"{"inputs": [{"name": "x", "size": 3}], "layers": [{"name": "rnn", "class": "MultiRNNCell",
        "args": {"cells": ["BasicLSTMCell(2)", "LayerNormBasicLSTMCell(2)"]}}]}"#,
    r#"{"inputs": [{"name": "x", "size": 3, "steps": 6}], "layers": [
        {"name": "a", "class": "Conv1D", "args": {"strides": 2, "padding": "same", "activation": "relu"}},
        {"name": "b", "class": "BatchNormalization"}, {"name": "p", "class": "MaxPooling1D", "args": {"pool_size": 2}},
        {"name": "f", "class": "Flatten"}, {"name": "dense", "class": "Dense", "args": {"activation": "softmax"}}]}"#,
    r#"{"inputs": [{"name": "x", "size": 4}], "layers": [
        {"name": "r", "class": "reshape", "args": {"shape": [-1, 1, 2, -1]}},
        {"name": "a", "class": "Conv2D", "args": {"dilation_rate": [2, 1]}}, {"name": "tanh", "class": "tanh"},
        {"name": "p", "class": "AveragePooling2D", "args": {"pool_size": 2, "strides": 1}},
        {"name": "rnn", "class": "GRUCell", "take": "last"}]}"#,
    r#"{"inputs": [{"name": "x", "size": 1}], "layers": [
        {"name": "e", "class": "embedding_lookup", "tensors": {"params": "W"}},
        {"name": "n", "class": "layer_norm", "args": {"begin_norm_axis": 2}},
        {"name": "d", "class": "Dense", "inputs": ["n"], "tensors": {"kernel": "a/w", "bias": "a/b"}},
        {"name": "m", "class": "Multiply", "inputs": ["d", "n"]}], "unused": ["z*"]}"#,
    r#"{"inputs": [{"name": "x", "size": 2, "steps": 4}], "layers": [
        {"name": "s", "class": "SeparableConv1D", "args": {"depth_multiplier": 2}},
        {"name": "l", "class": "LayerNormalization", "args": {"center": false}},
        {"name": "mean", "class": "reduce_mean", "args": {"axis": 1}},
        {"name": "fully_connected", "class": "fully_connected"}]}"#,
];

/// Imports bytes as a checkpoint, which is either refused with a one-line error or becomes a valid model. Returns
/// whether it became one.
pub fn import_checkpoint(data: &[u8]) -> bool {
    let Some((&flags, data)) = data.split_first() else { return false };
    let (index, shard) = match flags & flag::KIND {
        kind @ (flag::RAW | flag::SEALED) => {
            let Some((len, rest)) = data.split_first_chunk::<2>() else { return false };
            let len = usize::from(u16::from_le_bytes(*len)).min(rest.len());
            let (index, shard) = rest.split_at(len);
            let mut index = index.to_vec();
            if kind == flag::SEALED {
                reseal(&mut index);
            }
            (index, shard.to_vec())
        }
        _ => made(data, flags & flag::SNAPPY != 0),
    };
    let number = usize::from(flags >> 4 & 3 | flags >> 5 & 4);
    let arch = ARCHES.get(number).filter(|_| flags & flag::ARCH != 0);
    let description: Option<Description> = arch.and_then(|arch| serde_json::from_str(arch).ok());
    let options = Options { description, window: (flags & 0x40 != 0).then_some(4), ..Options::default() };
    match import_parts(&index, "fuzz", &options, |_, _| Ok(Cursor::new(shard.as_slice()))) {
        Ok(imported) => {
            assert!(imported.model.validate().is_ok());
            assert!(imported.notes.iter().all(|note| note.len() < 1 << 16));
            true
        }
        Err(error) => {
            assert_line(&error);
            false
        }
    }
}

/// Checks that an error is one line.
pub fn assert_line(error: &ImportError) {
    let text = error.to_string();
    assert!(!text.is_empty() && !text.contains(['\n', '\r', '\0', '\u{1b}']), "{text:?}");
}

/// Generates index and shard from a list of variables. Each variable is the length of its name and the name, its type,
/// its rank and dimensions, and a byte that seeds its values or selects what is wrong with its entry.
fn made(mut data: &[u8], snappy: bool) -> (Vec<u8>, Vec<u8>) {
    let (mut pairs, mut shard) = (vec![header(1)], Vec::new());
    let mut take = |len: usize| -> Option<&[u8]> {
        let (taken, rest) = data.split_at_checked(len)?;
        data = rest;
        Some(taken)
    };
    let mut next = || -> Option<Pair> {
        let len = usize::from(*take(1)?.first()?);
        let name = take(len)?.to_vec();
        let (dtype, rank) = (u64::from(*take(1)?.first()?), usize::from(*take(1)?.first()? & 7));
        let dims: Vec<u64> = take(rank)?.iter().map(|&dim| u64::from(dim)).collect();
        let value = *take(1)?.first()?;
        let volume: u64 = dims.iter().product();
        let bytes = match dtype {
            2 => 8,
            14 | 19 => 2,
            _ => 4,
        };
        let mut entry = Entry { dtype, dims, size: volume * bytes, offset: shard.len() as u64, ..Entry::default() };
        if entry.size <= 1 << 14 {
            let content = vec![value & 0x3f; entry.size as usize];
            entry.crc = crc32c::crc32c(&content);
            shard.extend(content);
        }
        match value {
            0xff => entry.offset += 1,
            0xfe => entry.size += 1,
            0xfd => entry.shard += 1,
            0xfc => entry.dims.push(u64::MAX),
            0xfb => entry.slices.push(entry.dims.iter().map(|&dim| (0, dim)).collect()),
            0xfa => entry.offset = u64::MAX,
            _ => {}
        }
        Some((name, entry.encode()))
    };
    while let Some(pair) = next() {
        pairs.push(pair);
    }
    pairs.sort();
    pairs.dedup_by(|a, b| a.0 == b.0);
    (table(&pairs, 4, snappy), shard)
}
