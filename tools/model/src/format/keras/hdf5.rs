//! HDF5 files written by h5py: groups, their text attributes, and tensors. An external crate decodes the file. It reads
//! through a meter that limits the bytes read to a small multiple of the file's length, regardless of the lengths that
//! the file claims.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hdf5_reader::error::Error;
use hdf5_reader::group::Group;
use hdf5_reader::messages::attribute::AttributeMessage;
use hdf5_reader::messages::datatype::{StringSize, VarLenKind};
use hdf5_reader::{ByteOrder, Dataset, Datatype, Hdf5File, OpenOptions, Storage, StorageBuffer};

use crate::budget::{self, Budget, FIXED, WEIGHT};
use crate::canonical::Tensor;
use crate::data::element::{Element, Endian};
use crate::data::{guarded, one_line};
use crate::error::{ImportError, Result};
use crate::format::refuse::{err_if, limit_if, unsupported_if};

pub(crate) const MAGIC: &[u8] = b"\x89HDF\r\n\x1a\n";
/// Maximum number of bytes read, as a multiple of the file's length. Files of h5py need less than 4 (see the test); the
/// margin is for small files.
const MAX_RATIO: u64 = 16;
const MIN_BYTES: u64 = 1 << 16;
/// Maximum size of all tensors together, as a multiple of the file's length: tensors may be compressed or have two
/// names.
const MAX_UNPACKED: usize = 8;
/// Maximum length of a name in bytes. The names of a group's members may overlap in the file, so many long names need
/// little space.
const MAX_NAME: usize = 1024;
const MAX_DEPTH: usize = 32;
const MAX_OBJECTS: usize = 1 << 14;
/// Bytes of each of the two 32-bit fields in a reference to a text of variable length: its length and its index.
const COUNT_BYTES: usize = 4;

/// The content of a file by path, such as `model_weights/lstm/lstm/kernel:0`. The root is the empty path.
#[derive(Debug, Default)]
pub(super) struct Tree {
    pub tensors: BTreeMap<String, Tensor>,
    /// Attributes of groups that are texts or lists of texts.
    pub texts: HashMap<String, HashMap<String, Vec<String>>>,
    /// Nonempty groups that were skipped because the caller did not want them.
    pub skipped: Vec<String>,
    /// Notes about tensors with numbers that were rounded.
    pub notes: Vec<String>,
}

impl Tree {
    /// The text attribute `name` of a group, if it has one.
    pub fn text(&self, group: &str, name: &str) -> Option<&str> {
        match self.texts.get(group)?.get(name)?.as_slice() {
            [text] => Some(text),
            _ => None,
        }
    }

    /// An attribute of a group that is a list of texts. Keras splits a list that is too long into several numbered
    /// attributes.
    pub fn list(&self, group: &str, name: &str) -> Option<Vec<&str>> {
        let texts = self.texts.get(group)?;
        let numbered = || (0..).map_while(|k| texts.get(&format!("{name}{k}"))).flatten().collect::<Vec<_>>();
        match texts.get(name) {
            Some(list) => Some(list.iter().map(String::as_str).collect()),
            None => Some(numbered().into_iter().map(String::as_str).collect()).filter(|list: &Vec<_>| !list.is_empty()),
        }
    }

    pub fn has_group(&self, path: &str) -> bool {
        self.texts.contains_key(path)
    }
}

/// Reads a file, except for groups that `wanted` rejects.
pub(super) fn read(bytes: &[u8], wanted: impl Fn(&str) -> bool, budget: &mut Budget) -> Result<Tree> {
    let most = budget::or_allowed(MAX_RATIO * bytes.len() as u64 + MIN_BYTES);
    let tree = guarded(|| read_within(bytes, &wanted, most, budget));
    tree.unwrap_or_else(|_| malformed("it is damaged: the decoder failed"))
}

/// Like [`read`], but reads at most `most` bytes.
fn read_within(bytes: &[u8], wanted: &dyn Fn(&str) -> bool, most: u64, budget: &mut Budget) -> Result<Tree> {
    let len = bytes.len();
    budget.take(len, 1)?;
    let unpacked = usize::try_from(budget::or_allowed((MAX_UNPACKED * len) as u64)).unwrap_or(usize::MAX);
    let meter = Meter { left: AtomicU64::new(most), bytes: Arc::from(bytes) };
    let options = OpenOptions::default()
        .with_chunk_cache_bytes(0)
        .with_max_chunk_bytes(unpacked)
        .with_max_read_bytes(unpacked)
        .with_max_object_header_bytes(len);
    let file = Hdf5File::from_storage_with_options(Arc::new(meter), options).map_err(|error| damaged("", &error))?;
    // All wanted groups may be present even if the end of the file is missing.
    let end = file.superblock().eof_address;
    malformed_if(end > len as u64, format_args!("it is cut off: its header says {end} bytes, but it has {len}"))?;
    let root = file.root_group().map_err(|error| damaged("", &error))?;
    let other = (root.offset_size(), root.length_size()) != (8, 8);
    malformed_if(other, "its offsets and lengths are not 8 bytes long, as h5py writes them")?;
    let mut reader =
        Reader { wanted, tree: Tree::default(), objects: 0, left: unpacked, budget, within: BTreeSet::new() };
    reader.group(&root, "", 0)?;
    Ok(reader.tree)
}

/// The file with a limit on the number of bytes read.
struct Meter {
    bytes: Arc<[u8]>,
    left: AtomicU64,
}

impl Meter {
    /// Whether all names are short if a heap of names begins at `start`. Its header holds signature, version, size,
    /// free space and the address of the names.
    fn has_short_names(&self, start: usize) -> bool {
        let word = |at: usize| Some(u64::from_le_bytes(*self.bytes.get(start + at..)?.first_chunk::<8>()?));
        if self.bytes.get(start..start + 4) != Some(b"HEAP") {
            return true;
        }
        let place = |at: usize| word(at).and_then(|word| usize::try_from(word).ok());
        let (Some(size), Some(from)) = (place(8), place(24)) else { return true };
        let heap = self.bytes.get(from..).unwrap_or_default();
        heap.get(..size).unwrap_or(heap).split(|&byte| byte == 0).all(|name| name.len() <= MAX_NAME)
    }
}

impl Storage for Meter {
    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn read_range(&self, offset: u64, len: usize) -> Result<StorageBuffer, Error> {
        let paid = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(len as u64));
        err_if(paid.is_err(), || Error::InvalidData("its parts refer to each other too often".into()))?;
        let start = usize::try_from(offset).map_err(|_| Error::OffsetOutOfBounds(offset))?;
        let long = start < self.bytes.len() && !self.has_short_names(start);
        err_if(long, || Error::InvalidData(format!("it has names of more than {MAX_NAME} bytes, {FIXED}")))?;
        StorageBuffer::from_shared(Arc::clone(&self.bytes), start, len)
    }
}

struct Reader<'w> {
    wanted: &'w dyn Fn(&str) -> bool,
    tree: Tree,
    objects: usize,
    /// Number of bytes left for tensors.
    left: usize,
    budget: &'w mut Budget,
    /// Addresses of the groups around the one being read.
    within: BTreeSet<u64>,
}

impl Reader<'_> {
    fn group(&mut self, group: &Group, path: &str, depth: usize) -> Result<()> {
        let again = !self.within.insert(group.address()) || depth > MAX_DEPTH;
        malformed_if(again, format_args!("group {path:?} contains itself or is nested too deeply"))?;
        let attributes = group.raw_attributes().map_err(|error| damaged(path, &error))?;
        let mut texts = HashMap::new();
        for attribute in &attributes {
            if let Some(list) = self.texts(group, path, attribute.message())? {
                texts.insert(attribute.name().to_owned(), list);
            }
        }
        self.tree.texts.insert(path.to_owned(), texts);
        let (groups, datasets) = group.members().map_err(|error| damaged(path, &error))?;
        self.objects += groups.len() + datasets.len();
        limit_if(self.objects > MAX_OBJECTS, MAX_OBJECTS, "groups and tensors")?;
        let within = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}/{name}") };
        for dataset in &datasets {
            let name = within(dataset.name());
            if (self.wanted)(&name) { self.tensor(dataset, name)? } else { self.tree.skipped.push(name) }
        }
        for child in &groups {
            let name = within(child.name());
            if (self.wanted)(&name) { self.group(child, &name, depth + 1)? } else { self.tree.skipped.push(name) }
        }
        self.within.remove(&group.address());
        Ok(())
    }

    fn tensor(&mut self, dataset: &Dataset, name: String) -> Result<()> {
        let (element, endian) = element(dataset.dtype()).ok_or_else(|| {
            ImportError::Unsupported(format!("tensor {:?} of type {:?}", name.as_str(), dataset.dtype()))
        })?;
        let half = || -> Option<bool> {
            // The header has class, flags, size, offset, precision and position of the exponent; byte 13 is the
            // exponent's length.
            Some(*dataset.raw_datatype().ok()?.get(13)? == 5)
        };
        let other = element == Element::F16 && half() != Some(true);
        unsupported_if(other, format_args!("tensor {name:?} of a two-byte type that is not f16"))?;
        let bytes = dataset.raw_byte_len().map_err(|error| damaged(&name, &error))?;
        let many = bytes > self.left;
        malformed_if(many, format_args!("tensor {name:?} unpacks to {bytes} bytes, more than such a file holds"))?;
        self.left -= bytes;
        self.budget.take(bytes / element.bytes(), WEIGHT)?;
        // The chunks and the whole are in memory until they are decoded.
        self.budget.take(bytes, 2)?;
        self.budget.give(bytes, 2);
        let raw = dataset.read_raw_bytes().map_err(|error| damaged(&name, &error))?;
        let shape = dataset.shape().iter().map(|&dim| usize::try_from(dim)).collect::<Result<Vec<_>, _>>();
        let Ok(shape) = shape else { return malformed(format!("tensor {name:?} is too large")) };
        let decoded = element.decode_counting(&raw, endian);
        let (data, lost) = decoded.or_else(|reason| malformed(format!("tensor {name:?} {reason}")))?;
        let (len, found) = (shape.iter().try_fold(1_usize, |len, &dim| len.checked_mul(dim)), data.len());
        malformed_if(len != Some(found), format_args!("tensor {name:?} has {found} numbers"))?;
        if lost > 0 {
            self.tree.notes.push(format!("{name}: {lost} of {} numbers are rounded from f64 to f32", data.len()));
        }
        self.tree.tensors.insert(name, Tensor { shape, data });
        Ok(())
    }

    /// An attribute that is a text or a list of texts; `None` for any other type.
    fn texts(&mut self, group: &Group, path: &str, attribute: &AttributeMessage) -> Result<Option<Vec<String>>> {
        let raw = attribute.raw_data.as_slice();
        let count = attribute.dataspace.num_elements().unwrap_or(0);
        let mut texts = Vec::new();
        match &attribute.datatype {
            Datatype::String { size: StringSize::Fixed(len), .. } if *len > 0 => {
                self.budget.take(raw.len() / *len as usize, 2 * size_of::<Option<String>>())?;
                texts.extend(raw.chunks_exact(*len as usize).map(text));
            }
            Datatype::String { size: StringSize::Variable, .. } | Datatype::VarLen { kind: VarLenKind::String, .. } => {
                let reference = COUNT_BYTES + usize::from(group.offset_size()) + COUNT_BYTES;
                for reference in raw.chunks_exact(reference) {
                    let bytes = group.resolve_vlen_reference_bytes(reference, 1);
                    let bytes = bytes.map_err(|error| damaged(path, &error))?;
                    let many = bytes.len() > self.left;
                    malformed_if(many, format_args!("group {path:?} has texts longer than the file"))?;
                    self.left -= bytes.len();
                    texts.push(text(&bytes));
                }
            }
            _ => return Ok(None),
        }
        match texts.into_iter().collect::<Option<Vec<String>>>() {
            Some(texts) if texts.len() as u64 == count => Ok(Some(texts)),
            _ => malformed(format!("attribute {:?} of group {path:?} is not a text", attribute.name)),
        }
    }
}

/// The text without trailing zero bytes.
fn text(bytes: &[u8]) -> Option<String> {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    String::from_utf8(bytes.get(..end)?.to_vec()).ok()
}

fn element(datatype: &Datatype) -> Option<(Element, Endian)> {
    let endian = |order: &ByteOrder| match order {
        ByteOrder::LittleEndian => Endian::Little,
        ByteOrder::BigEndian => Endian::Big,
    };
    Some(match datatype {
        Datatype::FloatingPoint { size, byte_order } => (Element::float(usize::from(*size))?, endian(byte_order)),
        Datatype::FixedPoint { size, signed, byte_order } => {
            (Element::integer(usize::from(*size), *signed)?, endian(byte_order))
        }
        // The boolean type of h5py.
        Datatype::Enum { base, members } if members.len() == 2 && element(base)?.0.bytes() == 1 => {
            (Element::Bool, Endian::Little)
        }
        _ => return None,
    })
}

fn damaged(path: &str, error: &Error) -> ImportError {
    let at = if path.is_empty() { String::new() } else { format!("{path:?}: ") };
    ImportError::Malformed { format: "HDF5 file", reason: one_line(&format!("{at}{error}")) }
}

fn malformed<T>(reason: impl AsRef<str>) -> Result<T> {
    Err(ImportError::Malformed { format: "HDF5 file", reason: one_line(reason.as_ref()) })
}

fn malformed_if(found: bool, reason: impl Display) -> Result<()> {
    if found { malformed(reason.to_string()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn files_of_keras_need_less_than_four_times_their_length() {
        let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/frameworks");
        for name in ["keras1/trained.h5", "keras2/deep.h5", "keras2/trained.h5", "keras3/legacy_lstm.h5"] {
            let bytes = std::fs::read(samples.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
            let within = |most| read_within(&bytes, &|_| true, most, &mut Budget::of_file(bytes.len()));
            let tree = within(4 * bytes.len() as u64).unwrap();
            assert!(tree.tensors.len() >= 3 && tree.text("", "model_config").is_some(), "{name}");
            assert!(within(1 << 10).is_err(), "{name}");
        }
    }
}
