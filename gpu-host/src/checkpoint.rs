//! TensorFlow checkpoints in their second format, written: one shard of values, and an index, which is a sorted table of
//! blocks without compression. What the bytes mean is told where they are read, in `tidegate_tools::format::checkpoint`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use prost::Message;
use tidegate_tools::canonical::Tensor;
use tidegate_tools::data::DataError;
use tidegate_tools::format::checkpoint::proto::{DimProto, EntryProto, Header, ShapeProto, VERSION, Version};
use tidegate_tools::format::checkpoint::table::{FOOTER_BYTES, MAGIC, masked};
use tidegate_tools::output::prepare;

/// A block is not compressed.
const PLAIN: u8 = 0;
/// Entries of a block: with the longest names far below the 256 KiB of TensorFlow's own.
const PER_BLOCK: usize = 64;
/// `DT_FLOAT`
const FLOAT: i32 = 1;
/// Writes both files; the index, without which there is no checkpoint, last.
pub(crate) fn write(path: &Path, variables: &BTreeMap<String, Tensor>) -> Result<(), DataError> {
    let (index, values) = encode(variables);
    let with = |suffix: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        PathBuf::from(name)
    };
    let values = prepare(&with(".data-00000-of-00001"), |out| out.write_all(&values))?;
    let index = prepare(&with(".index"), |out| out.write_all(&index))?;
    values.keep()?;
    index.keep()
}

/// The index and the shard.
fn encode(variables: &BTreeMap<String, Tensor>) -> (Vec<u8>, Vec<u8>) {
    let mut values = Vec::new();
    let header = Header {
        num_shards: 1,
        version: Some(Version { producer: VERSION, ..Version::default() }),
        ..Header::default()
    };
    let mut pairs = vec![(Vec::new(), header.encode_to_vec())];
    for (name, tensor) in variables {
        let offset = values.len();
        values.extend(tensor.data.iter().flat_map(|value| value.to_le_bytes()));
        let entry = EntryProto {
            dtype: FLOAT,
            shape: Some(ShapeProto {
                dim: tensor.shape.iter().map(|&size| DimProto { size: size as i64 }).collect(),
                ..ShapeProto::default()
            }),
            offset: offset as i64,
            size: (values.len() - offset) as i64,
            crc32c: masked(crc32c::crc32c(&values[offset..])),
            ..EntryProto::default()
        };
        pairs.push((name.clone().into_bytes(), entry.encode_to_vec()));
    }
    (table(&pairs), values)
}

type Pair = (Vec<u8>, Vec<u8>);

fn table(pairs: &[Pair]) -> Vec<u8> {
    let (mut bytes, mut index) = (Vec::new(), Vec::new());
    for block in pairs.chunks(PER_BLOCK) {
        let handle = push_block(&mut bytes, block);
        index.extend(block.last().map(|(key, _)| (key.clone(), handle)));
    }
    // The meta index, which TensorFlow leaves empty, and the index.
    let mut footer = push_block(&mut bytes, &[]);
    footer.extend(push_block(&mut bytes, &index));
    footer.resize(FOOTER_BYTES - MAGIC.len(), 0);
    bytes.extend(footer);
    bytes.extend(MAGIC);
    bytes
}

/// Adds a block and gives its handle. Every key stands in full, so every entry is a restart.
fn push_block(bytes: &mut Vec<u8>, pairs: &[Pair]) -> Vec<u8> {
    let from = bytes.len();
    let mut restarts = Vec::new();
    for (key, value) in pairs {
        restarts.push((bytes.len() - from) as u32);
        for number in [0, key.len(), value.len()] {
            push_varint(bytes, number as u64);
        }
        bytes.extend(key);
        bytes.extend(value);
    }
    if restarts.is_empty() {
        restarts.push(0);
    }
    bytes.extend(restarts.iter().chain([&(restarts.len() as u32)]).flat_map(|number| number.to_le_bytes()));
    let len = bytes.len() - from;
    bytes.push(PLAIN);
    let crc = masked(crc32c::crc32c(&bytes[from..]));
    bytes.extend(crc.to_le_bytes());
    let mut handle = Vec::new();
    push_varint(&mut handle, from as u64);
    push_varint(&mut handle, len as u64);
    handle
}

fn push_varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}
