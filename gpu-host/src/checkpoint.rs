//! Writes TensorFlow checkpoints in their second format: one shard of values and an index, which is a sorted table of
//! uncompressed blocks. The format is described where it is read, in `tidegate_model::format::checkpoint`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use prost::Message;
use prost::encoding::encode_varint;
use tidegate_model::canonical::Tensor;
use tidegate_model::data::DataError;
use tidegate_model::format::checkpoint::proto::{DimProto, EntryProto, Header, ShapeProto, VERSION, Version};
use tidegate_model::format::checkpoint::table::{FOOTER_BYTES, MAGIC, masked};
use tidegate_model::output::prepare;

const PLAIN: u8 = 0;
/// Entries per block: with the longest names still far below the 256 KiB of TensorFlow's own blocks.
const PER_BLOCK: usize = 64;
/// `DT_FLOAT`
const FLOAT: i32 = 1;

/// Writes a checkpoint that TensorFlow and `tidegate import` read: `<prefix>.index` and `<prefix>.data-00000-of-00001`.
///
/// # Errors
/// If the files cannot be written.
pub fn write_checkpoint(prefix: &Path, variables: &BTreeMap<String, Tensor>) -> Result<(), DataError> {
    let (index, values) = encode(variables);
    let with = |suffix: &str| {
        let mut name = prefix.as_os_str().to_owned();
        name.push(suffix);
        PathBuf::from(name)
    };
    // The index, which makes the checkpoint valid, is written last.
    let values = prepare(&with(".data-00000-of-00001"), |out| out.write_all(&values))?;
    let index = prepare(&with(".index"), |out| out.write_all(&index))?;
    values.keep()?;
    index.keep()
}

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
    // The meta index, which TensorFlow leaves empty, followed by the index.
    let mut footer = push_block(&mut bytes, &[]);
    footer.extend(push_block(&mut bytes, &index));
    footer.resize(FOOTER_BYTES - MAGIC.len(), 0);
    bytes.extend(footer);
    bytes.extend(MAGIC);
    bytes
}

/// Appends a block and returns its handle. Every key is stored in full, so every entry is a restart point.
fn push_block(bytes: &mut Vec<u8>, pairs: &[Pair]) -> Vec<u8> {
    let from = bytes.len();
    let mut restarts = Vec::new();
    for (key, value) in pairs {
        restarts.push((bytes.len() - from) as u32);
        for number in [0, key.len(), value.len()] {
            encode_varint(number as u64, bytes);
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
    encode_varint(from as u64, &mut handle);
    encode_varint(len as u64, &mut handle);
    handle
}
