//! What h5py has written: groups, texts that are their attributes, and tensors. The reader is a crate; it sees the file
//! through a meter, so that whatever a file claims, no more is read of it than a small multiple of its length.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hdf5_reader::error::Error;
use hdf5_reader::group::Group;
use hdf5_reader::messages::attribute::AttributeMessage;
use hdf5_reader::messages::datatype::{StringSize, VarLenKind};
use hdf5_reader::{ByteOrder, Dataset, Datatype, Hdf5File, OpenOptions, Storage, StorageBuffer};

use crate::canonical::Tensor;
use crate::data::element::{Element, Endian};
use crate::data::{guarded, one_line};
use crate::error::ImportError;

/// What a file begins with.
pub(crate) const MAGIC: &[u8] = b"\x89HDF\r\n\x1a\n";
/// Most bytes that are read of a file, as a multiple of its own: h5py's need less than 4 (see the test). The rest is for
/// small ones.
const MAX_RATIO: u64 = 16;
const MIN_BYTES: u64 = 1 << 16;
/// Most bytes of all tensors together, as a multiple of the file: they may be compressed, or one may have two names.
const MAX_UNPACKED: usize = 8;
/// Bytes of a name: those of a group's members may overlap where they lie, so that many long ones need little.
const MAX_NAME: usize = 1024;
/// Groups within groups.
const MAX_DEPTH: usize = 32;
/// Groups and tensors.
const MAX_OBJECTS: usize = 1 << 14;
/// Bytes of a reference to a text of any length: its length, and where it is.
const COUNT_BYTES: usize = 4;

/// What is in a file, by path: `model_weights/lstm/lstm/kernel:0`. The root is the empty path.
#[derive(Debug, Default)]
pub(super) struct Tree {
    pub tensors: BTreeMap<String, Tensor>,
    /// Attributes of groups that are texts or lists of them.
    pub texts: BTreeMap<String, BTreeMap<String, Vec<String>>>,
    /// Groups whose content was not wanted, and that had some.
    pub skipped: Vec<String>,
    /// Tensors of which some numbers are not what they were.
    pub notes: Vec<String>,
}

impl Tree {
    /// A text of a group, if it has one of this name.
    pub fn text(&self, group: &str, name: &str) -> Option<&str> {
        match self.texts.get(group)?.get(name)?.as_slice() {
            [text] => Some(text),
            _ => None,
        }
    }

    /// A list of texts of a group; Keras cuts what is too long for an attribute into several, which are numbered.
    pub fn list(&self, group: &str, name: &str) -> Option<Vec<&str>> {
        let texts = self.texts.get(group)?;
        let numbered = || (0..).map_while(|k| texts.get(&format!("{name}{k}"))).flatten().collect::<Vec<_>>();
        match texts.get(name) {
            Some(list) => Some(list.iter().map(String::as_str).collect()),
            None => Some(numbered().into_iter().map(String::as_str).collect()).filter(|list: &Vec<_>| !list.is_empty()),
        }
    }

    /// Whether there is a group of this path.
    pub fn has_group(&self, path: &str) -> bool {
        self.texts.contains_key(path)
    }
}

/// Reads a file but for the groups that are not wanted.
pub(super) fn read(bytes: &[u8], wanted: impl Fn(&str) -> bool) -> Result<Tree, ImportError> {
    let budget = MAX_RATIO * bytes.len() as u64 + MIN_BYTES;
    guarded(|| read_within(bytes, &wanted, budget))
        .unwrap_or_else(|_| malformed("it is damaged: the decoder stumbled over it"))
}

/// The same, of which no more bytes than `budget` are read.
fn read_within(bytes: &[u8], wanted: &dyn Fn(&str) -> bool, budget: u64) -> Result<Tree, ImportError> {
    let len = bytes.len();
    let meter = Meter { left: AtomicU64::new(budget), bytes: Arc::from(bytes) };
    let options = OpenOptions::default()
        .with_chunk_cache_bytes(0)
        .with_max_chunk_bytes(MAX_UNPACKED * len)
        .with_max_read_bytes(MAX_UNPACKED * len)
        .with_max_object_header_bytes(len);
    let file = Hdf5File::from_storage_with_options(Arc::new(meter), options).map_err(|error| damaged("", &error))?;
    // What is wanted may all be there, with something else behind it gone.
    let end = file.superblock().eof_address;
    if end > len as u64 {
        return malformed(format!("it is cut off: it says that it has {end} bytes, and has {len}"));
    }
    let root = file.root_group().map_err(|error| damaged("", &error))?;
    if (root.offset_size(), root.length_size()) != (8, 8) {
        return malformed("its offsets and lengths are not 8 bytes long, as h5py writes them");
    }
    let left = MAX_UNPACKED * len;
    let mut reader = Reader { wanted, tree: Tree::default(), objects: 0, left, within: BTreeSet::new() };
    reader.group(&root, "", 0)?;
    Ok(reader.tree)
}

/// The file, of which only so much is read.
struct Meter {
    bytes: Arc<[u8]>,
    left: AtomicU64,
}

impl Meter {
    /// Whether the names are short where this begins a heap of names: signature, version, its size, what is free in it,
    /// where it lies.
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
        if paid.is_err() {
            return Err(Error::InvalidData("its parts refer to each other again and again".into()));
        }
        let start = usize::try_from(offset).map_err(|_| Error::OffsetOutOfBounds(offset))?;
        if start < self.bytes.len() && !self.has_short_names(start) {
            return Err(Error::InvalidData(format!("it has names of more than {MAX_NAME} bytes")));
        }
        StorageBuffer::from_shared(Arc::clone(&self.bytes), start, len)
    }
}

struct Reader<'w> {
    wanted: &'w dyn Fn(&str) -> bool,
    tree: Tree,
    objects: usize,
    /// Bytes of tensors that may still come.
    left: usize,
    /// Groups that the one that is read is in.
    within: BTreeSet<u64>,
}

impl Reader<'_> {
    fn group(&mut self, group: &Group, path: &str, depth: usize) -> Result<(), ImportError> {
        if !self.within.insert(group.address()) || depth > MAX_DEPTH {
            return malformed(format!("group {path:?} is within itself, or too deep"));
        }
        let attributes = group.raw_attributes().map_err(|error| damaged(path, &error))?;
        let mut texts = BTreeMap::new();
        for attribute in &attributes {
            if let Some(list) = self.texts(group, path, attribute.message())? {
                texts.insert(attribute.name().to_owned(), list);
            }
        }
        self.tree.texts.insert(path.to_owned(), texts);
        let (groups, datasets) = group.members().map_err(|error| damaged(path, &error))?;
        self.objects += groups.len() + datasets.len();
        if self.objects > MAX_OBJECTS {
            return malformed(format!("it has more than {MAX_OBJECTS} groups and tensors"));
        }
        let within = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}/{name}") };
        for dataset in &datasets {
            let name = within(dataset.name());
            match (self.wanted)(&name) {
                true => self.tensor(dataset, name)?,
                false => self.tree.skipped.push(name),
            }
        }
        for child in &groups {
            let name = within(child.name());
            match (self.wanted)(&name) {
                true => self.group(child, &name, depth + 1)?,
                false => self.tree.skipped.push(name),
            }
        }
        self.within.remove(&group.address());
        Ok(())
    }

    fn tensor(&mut self, dataset: &Dataset, name: String) -> Result<(), ImportError> {
        let (element, endian) = element(dataset.dtype()).ok_or_else(|| {
            ImportError::Unsupported(format!("tensor {:?} of type {:?}", name.as_str(), dataset.dtype()))
        })?;
        let half = || -> Option<bool> {
            // Class, flags, size, offset, precision, place of the exponent: then how long that is.
            Some(*dataset.raw_datatype().ok()?.get(13)? == 5)
        };
        if element == Element::F16 && half() != Some(true) {
            return Err(ImportError::Unsupported(format!("tensor {name:?} of a type of two bytes that is not f16")));
        }
        let bytes = dataset.raw_byte_len().map_err(|error| damaged(&name, &error))?;
        let Some(left) = self.left.checked_sub(bytes) else {
            return malformed(format!("tensor {name:?} unpacks to {bytes} bytes, more than such a file holds"));
        };
        self.left = left;
        let raw = dataset.read_raw_bytes().map_err(|error| damaged(&name, &error))?;
        let shape = dataset.shape().iter().map(|&dim| usize::try_from(dim)).collect::<Result<Vec<_>, _>>();
        let Ok(shape) = shape else { return malformed(format!("tensor {name:?} is too large")) };
        let decoded = element.decode_counting(&raw, endian);
        let (data, lost) = decoded.or_else(|reason| malformed(format!("tensor {name:?} {reason}")))?;
        if shape.iter().try_fold(1_usize, |len, &dim| len.checked_mul(dim)) != Some(data.len()) {
            return malformed(format!("tensor {name:?} has {} numbers", data.len()));
        }
        if lost > 0 {
            self.tree.notes.push(format!("{name}: {lost} of {} numbers are rounded from f64 to f32", data.len()));
        }
        self.tree.tensors.insert(name, Tensor { shape, data });
        Ok(())
    }

    /// An attribute that is a text or a list of them; none for others.
    fn texts(
        &mut self,
        group: &Group,
        path: &str,
        attribute: &AttributeMessage,
    ) -> Result<Option<Vec<String>>, ImportError> {
        let raw = attribute.raw_data.as_slice();
        let count = attribute.dataspace.num_elements().unwrap_or(0);
        let mut texts = Vec::new();
        match &attribute.datatype {
            Datatype::String { size: StringSize::Fixed(len), .. } if *len > 0 => {
                texts.extend(raw.chunks_exact(*len as usize).map(text));
            }
            Datatype::String { size: StringSize::Variable, .. } | Datatype::VarLen { kind: VarLenKind::String, .. } => {
                let reference = COUNT_BYTES + usize::from(group.offset_size()) + COUNT_BYTES;
                for reference in raw.chunks_exact(reference) {
                    let bytes = group.resolve_vlen_reference_bytes(reference, 1);
                    let bytes = bytes.map_err(|error| damaged(path, &error))?;
                    let Some(left) = self.left.checked_sub(bytes.len()) else {
                        return malformed(format!("group {path:?} has texts that are longer than the file"));
                    };
                    self.left = left;
                    texts.push(text(&bytes));
                }
            }
            _ => return Ok(None),
        }
        match texts.into_iter().collect::<Option<Vec<String>>>() {
            Some(texts) if texts.len() as u64 == count => Ok(Some(texts)),
            _ => malformed(format!("attribute {:?} of group {path:?} is no text", attribute.name)),
        }
    }
}

/// Without the zeros behind it.
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
        Datatype::FloatingPoint { size, byte_order } => {
            let element = match size {
                2 => Element::F16,
                4 => Element::F32,
                8 => Element::F64,
                _ => return None,
            };
            (element, endian(byte_order))
        }
        Datatype::FixedPoint { size, signed, byte_order } => {
            let element = match (size, signed) {
                (1, false) => Element::U8,
                (1, true) => Element::I8,
                (2, false) => Element::U16,
                (2, true) => Element::I16,
                (4, false) => Element::U32,
                (4, true) => Element::I32,
                (8, false) => Element::U64,
                (8, true) => Element::I64,
                _ => return None,
            };
            (element, endian(byte_order))
        }
        // h5py's bool.
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

fn malformed<T>(reason: impl AsRef<str>) -> Result<T, ImportError> {
    Err(ImportError::Malformed { format: "HDF5 file", reason: one_line(reason.as_ref()) })
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
            let tree = read_within(&bytes, &|_| true, 4 * bytes.len() as u64).unwrap();
            assert!(tree.tensors.len() >= 3 && tree.text("", "model_config").is_some(), "{name}");
            assert!(read_within(&bytes, &|_| true, 1 << 10).is_err(), "{name}");
        }
    }
}
