//! What the table of a checkpoint says: a header under the empty key, and under each variable's name its type, its
//! shape and where in which shard its values lie (tensorflow/core/protobuf/tensor_bundle.proto). A variable that was
//! partitioned has no values of its own but a list of slices, each under a key of its own.

use std::collections::{BTreeMap, btree_map};
use std::io::{self, Read, Seek, SeekFrom};

use prost::Message;

use super::proto::{EntryProto, ExtentProto, Header, SliceProto, VERSION, Version};
use super::{malformed, table};
use crate::canonical::Tensor;
use crate::error::ImportError;

/// Most variables, slot variables of optimizers among them.
const MAX_ENTRIES: usize = 65_536;
/// Most bytes of all names: keys that share a prefix take less in the file than in memory.
const MAX_NAME_BYTES: usize = 4 << 20;
/// Most shards.
const MAX_SHARDS: u32 = 256;
/// Most dimensions, and slices of one variable.
const MAX_DIMS: usize = 8;
const MAX_SLICES: usize = 256;
/// A type of values that becomes f32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Float {
    F32,
    F64,
    F16,
    BF16,
}

impl Float {
    fn bytes(self) -> usize {
        match self {
            Self::F64 => 8,
            Self::F32 => 4,
            Self::F16 | Self::BF16 => 2,
        }
    }
}

/// `DataType` of `types.proto`: floats, or the name of what no weight is.
fn dtype(code: i32) -> Result<Float, &'static str> {
    match code {
        1 => Ok(Float::F32),
        2 => Ok(Float::F64),
        19 => Ok(Float::F16),
        14 => Ok(Float::BF16),
        3 => Err("int32"),
        4 => Err("uint8"),
        5 => Err("int16"),
        6 => Err("int8"),
        7 => Err("string"),
        9 => Err("int64"),
        10 => Err("bool"),
        17 => Err("uint16"),
        20 => Err("resource"),
        22 => Err("uint32"),
        23 => Err("uint64"),
        _ => Err("another type"),
    }
}

/// Where the values of a variable, or of a slice of one, lie.
#[derive(Clone, Debug)]
struct Entry {
    dtype: i32,
    shape: Vec<usize>,
    shard: u32,
    offset: u64,
    size: u64,
    crc: u32,
    slices: Vec<Vec<Extent>>,
}

/// What a slice has of a dimension.
#[derive(Clone, Copy, Debug)]
struct Extent {
    start: usize,
    len: usize,
    /// Whether the index has it as all of the dimension, without a length.
    full: bool,
}

/// The index of a checkpoint.
#[derive(Debug)]
pub struct Bundle {
    /// How many files hold the values.
    pub shards: u32,
    entries: BTreeMap<String, Entry>,
    /// By their keys, which begin with a zero.
    slices: BTreeMap<Vec<u8>, Entry>,
}

impl Bundle {
    /// Reads an index.
    ///
    /// # Errors
    /// If it is damaged or of another kind.
    pub fn read(index: &[u8]) -> Result<Self, ImportError> {
        let mut header = None;
        let mut bundle = Self { shards: 0, entries: BTreeMap::new(), slices: BTreeMap::new() };
        let mut names = 0;
        table::read(index, |key, value| {
            if key.is_empty() {
                header = Some(decode::<Header>("its header", value)?);
                return Ok(());
            }
            names += key.len();
            if bundle.entries.len() + bundle.slices.len() == MAX_ENTRIES || names > MAX_NAME_BYTES {
                return malformed(format!(
                    "it has more than {MAX_ENTRIES} variables or {MAX_NAME_BYTES} bytes of names"
                ));
            }
            let name = String::from_utf8_lossy(key);
            let entry = Entry::new(&name, decode::<EntryProto>("an entry", value)?)?;
            if key[0] == 0 {
                bundle.slices.insert(key.to_vec(), entry);
            } else {
                // Names that differ only in what is not UTF-8 are one.
                if bundle.entries.insert(name.clone().into_owned(), entry).is_some() {
                    return malformed(format!("it has two variables {name:?}"));
                }
            }
            Ok(())
        })?;
        let Some(Header { num_shards, endianness, version }) = header else {
            return malformed("it has no header");
        };
        if endianness != 0 {
            return malformed("its values are big-endian, but little-endian ones are read");
        }
        if let Some(Version { min_consumer, .. }) = version
            && min_consumer > VERSION
        {
            return malformed(format!("it needs a reader of version {min_consumer}, this build has version {VERSION}"));
        }
        bundle.shards = match u32::try_from(num_shards) {
            Ok(shards) if shards <= MAX_SHARDS => shards,
            _ => return malformed(format!("it has {num_shards} shards")),
        };
        let all = || bundle.entries.values().chain(bundle.slices.values());
        match all().find(|entry| entry.slices.is_empty() && entry.shard >= bundle.shards) {
            Some(entry) => malformed(format!("it has {num_shards} shards, but names shard {}", entry.shard)),
            None => Ok(bundle),
        }
    }

    /// Variables that are in several parts.
    pub fn partitioned(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().filter(|(_, entry)| entry.slices.len() > 1).map(|(name, _)| name.as_str())
    }

    /// Every variable.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().map(String::as_str)
    }

    /// What no weight is, each with its type.
    pub fn skipped(&self) -> impl Iterator<Item = (&str, &'static str)> {
        self.entries.iter().filter_map(|(name, entry)| Some((name.as_str(), dtype(entry.dtype).err()?)))
    }

    /// The values of every float variable that is wanted. `open` gives a shard, once each at most.
    ///
    /// # Errors
    /// If a shard does not hold what the index says.
    pub fn tensors<R: Read + Seek>(
        &self,
        wanted: impl Fn(&str) -> bool,
        open: impl FnMut(u32) -> Result<R, ImportError>,
    ) -> Result<Values, ImportError> {
        // Every part of every variable, in the order in which it lies in the shards.
        let mut parts: Vec<(&str, &Entry, Option<&[Extent]>)> = Vec::new();
        let floats = self.entries.iter().filter(|(name, entry)| dtype(entry.dtype).is_ok() && wanted(name));
        for (name, entry) in floats {
            if entry.slices.is_empty() {
                parts.push((name, entry, None));
            }
            for slice in &entry.slices {
                let shape: Vec<usize> = slice.iter().map(|extent| extent.len).collect();
                let found = self.slices.get(&slice_key(name, slice));
                match found.filter(|part| part.slices.is_empty()) {
                    Some(part) if part.shape == shape && part.dtype == entry.dtype => {
                        parts.push((name, part, Some(slice)));
                    }
                    _ => return malformed(format!("a slice of the partitioned variable {name:?} is missing")),
                }
            }
        }
        parts.sort_by_key(|(_, part, _)| (part.shard, part.offset));
        let mut shards = self.opened(open)?;
        // Apart from each other, so that all values together are no more than the shards, before there is memory for any.
        let mut free = (0, 0);
        for &(name, part, _) in &parts {
            if (part.shard, part.offset) < free {
                return malformed(format!("{name:?} lies where another variable does, at byte {}", part.offset));
            }
            free = (part.shard, part.offset.saturating_add(part.size));
        }
        let mut tensors = BTreeMap::new();
        let mut rounded: Vec<(String, usize, usize)> = Vec::new();
        for (name, part, slice) in parts {
            let Some(file) = shards.get_mut(&part.shard) else { continue };
            let (values, lost) = part.values(name, file)?;
            if lost > 0 {
                rounded.push((name.to_owned(), lost, values.len()));
            }
            let Some(whole) = self.entries.get(name) else { continue };
            match (slice, tensors.entry(name.to_owned())) {
                (None, place) => drop(place.insert_entry(Tensor { shape: whole.shape.clone(), data: values })),
                (Some(slice), place) => {
                    let tensor = match place {
                        btree_map::Entry::Occupied(entry) => entry.into_mut(),
                        btree_map::Entry::Vacant(entry) => {
                            let data = vec![0.0; whole.shape.iter().product()];
                            entry.insert(Tensor { shape: whole.shape.clone(), data })
                        }
                    };
                    copy_slice(&whole.shape, slice, &values, &mut tensor.data);
                }
            }
        }
        Ok(Values { tensors, rounded })
    }

    /// The shards, which hold all that the index says, whether it is wanted or not.
    fn opened<R: Read + Seek>(
        &self,
        mut open: impl FnMut(u32) -> Result<R, ImportError>,
    ) -> Result<BTreeMap<u32, R>, ImportError> {
        let mut shards: BTreeMap<u32, (R, u64)> = BTreeMap::new();
        let slices = self.slices.iter().map(|(key, entry)| (String::from_utf8_lossy(key), entry));
        let entries = self.entries.iter().map(|(name, entry)| (name.into(), entry));
        for (name, entry) in entries.chain(slices).filter(|(_, entry)| entry.slices.is_empty()) {
            let &Entry { shard, offset, size, .. } = entry;
            let len = match shards.entry(shard) {
                btree_map::Entry::Occupied(open) => open.get().1,
                btree_map::Entry::Vacant(place) => {
                    let mut file = open(shard)?;
                    let len = file.seek(SeekFrom::End(0))?;
                    place.insert((file, len)).1
                }
            };
            if offset.checked_add(size).is_none_or(|end| end > len) {
                let place = format!("{size} bytes at byte {offset} of shard {shard}, which has {len}");
                return malformed(format!("{name:?} has {place}: that .data file is cut off"));
            }
        }
        Ok(shards.into_iter().map(|(shard, (file, _))| (shard, file)).collect())
    }
}

/// The float variables of a checkpoint.
#[derive(Debug)]
pub struct Values {
    /// By their names.
    pub tensors: BTreeMap<String, Tensor>,
    /// Which of them are not what they were, how many numbers of each, and of how many.
    pub rounded: Vec<(String, usize, usize)>,
}

fn decode<T: Message + Default>(what: &str, value: &[u8]) -> Result<T, ImportError> {
    T::decode(value).or_else(|error| malformed(format!("{what} of its index is damaged ({error})")))
}

impl Entry {
    /// Checks everything but where the values lie.
    fn new(name: &str, proto: EntryProto) -> Result<Self, ImportError> {
        let refuse = |reason: String| malformed(format!("{name:?}: {reason}"));
        let EntryProto { dtype: code, shape, shard_id, offset, size, crc32c, slices } = proto;
        let shape = shape.unwrap_or_default();
        let rank = shape.dim.len();
        if shape.unknown_rank || rank > MAX_DIMS {
            return refuse(format!("it has {rank} dimensions, at most {MAX_DIMS} are read"));
        }
        let dims: Result<Vec<usize>, _> = shape.dim.iter().map(|dim| usize::try_from(dim.size)).collect();
        let Ok(shape) = dims else { return refuse("a dimension is not known".into()) };
        let Some(volume) = shape.iter().try_fold(1_usize, |volume, &dim| volume.checked_mul(dim)) else {
            return refuse("it has more values than can be counted".into());
        };
        let mut entry = Self { dtype: code, shape, shard: 0, offset: 0, size: 0, crc: crc32c, slices: Vec::new() };
        if !slices.is_empty() {
            if slices.len() > MAX_SLICES {
                return refuse(format!("it has {} slices, at most {MAX_SLICES} are read", slices.len()));
            }
            for slice in &slices {
                let Some(slice) = slice_of(slice, &entry.shape) else {
                    return refuse("a slice is not within it".into());
                };
                entry.slices.push(slice);
            }
            // Apart from each other and as large as the whole: then they are the whole.
            let volume_of = |slice: &Vec<Extent>| slice.iter().map(|extent| extent.len).product::<usize>();
            let covered = entry.slices.iter().try_fold(0_usize, |sum, slice| sum.checked_add(volume_of(slice)));
            let apart = entry.slices.iter().enumerate().all(|(k, a)| entry.slices[..k].iter().all(|b| !overlap(a, b)));
            if covered != Some(volume) || !apart {
                return refuse("its slices do not make the whole".into());
            }
            return Ok(entry);
        }
        let (Ok(shard), Ok(offset), Ok(size)) = (u32::try_from(shard_id), u64::try_from(offset), u64::try_from(size))
        else {
            return refuse("its place is negative".into());
        };
        (entry.shard, entry.offset, entry.size) = (shard, offset, size);
        if let Ok(float) = dtype(code) {
            let needed = volume.checked_mul(float.bytes());
            if needed.and_then(|needed| u64::try_from(needed).ok()) != Some(size) {
                let shape = crate::error::Shape(entry.shape);
                return refuse(format!("it is {shape}, which does not make {size} bytes"));
            }
        }
        Ok(entry)
    }

    /// The values, read and checked, and how many are rounded. They lie within the shard.
    fn values(&self, name: &str, shard: &mut (impl Read + Seek)) -> Result<(Vec<f32>, usize), ImportError> {
        let mut bytes = Vec::new();
        shard.seek(SeekFrom::Start(self.offset))?;
        let read = io::copy(&mut shard.take(self.size), &mut bytes)?;
        if read != self.size {
            return malformed(format!("{name:?}: its shard ends {} bytes too early", self.size - read));
        }
        if table::masked(crc32c::crc32c(&bytes)) != self.crc {
            return malformed(format!("the checksum of {name:?} is wrong"));
        }
        let Ok(float) = dtype(self.dtype) else { return malformed(format!("{name:?} is no float")) };
        let mut lost = 0;
        let values = match float {
            Float::F32 => bytes.as_chunks().0.iter().map(|&value| f32::from_le_bytes(value)).collect(),
            Float::F64 => {
                let mut nearest = |wide: f64| {
                    let value = wide as f32;
                    lost += usize::from(f64::from(value) != wide && !wide.is_nan());
                    value
                };
                bytes.as_chunks().0.iter().map(|&value| nearest(f64::from_le_bytes(value))).collect()
            }
            Float::F16 => bytes.as_chunks().0.iter().map(|&value| half::f16::from_le_bytes(value).to_f32()).collect(),
            Float::BF16 => bytes.as_chunks().0.iter().map(|&value| half::bf16::from_le_bytes(value).to_f32()).collect(),
        };
        Ok((values, lost))
    }
}

/// Start and length in each dimension, if the slice is within `shape`.
fn slice_of(slice: &SliceProto, shape: &[usize]) -> Option<Vec<Extent>> {
    if slice.extent.len() != shape.len() {
        return None;
    }
    let within = |(extent, &dim): (&ExtentProto, &usize)| {
        let Some(len) = extent.length else { return Some(Extent { start: 0, len: dim, full: true }) };
        let (start, len) = (usize::try_from(extent.start).ok()?, usize::try_from(len).ok()?);
        (start.checked_add(len)? <= dim).then_some(Extent { start, len, full: false })
    };
    slice.extent.iter().zip(shape).map(within).collect()
}

fn overlap(a: &[Extent], b: &[Extent]) -> bool {
    a.iter().zip(b).all(|(a, b)| a.start < b.start + b.len && b.start < a.start + a.len)
}

/// Writes the values of a slice to where they are in the whole, a row of the last dimension at a time.
fn copy_slice(shape: &[usize], slice: &[Extent], values: &[f32], whole: &mut [f32]) {
    let Some((&Extent { start: first, len: width, .. }, outer)) = slice.split_last() else {
        whole.copy_from_slice(values);
        return;
    };
    if width == 0 {
        return;
    }
    for (number, row) in values.chunks(width).enumerate() {
        // The row's place in the outer dimensions of the slice, the last one fastest.
        let (mut rest, mut at, mut stride) = (number, first, shape.last().copied().unwrap_or(1));
        for (&Extent { start, len, .. }, &dim) in outer.iter().zip(shape).rev() {
            at += (start + rest % len) * stride;
            rest /= len;
            stride *= dim;
        }
        whole[at..at + width].copy_from_slice(row);
    }
}

/// The key of a slice: a zero, the variable's name, and start and length in each dimension, each in a code whose
/// bytes are in the order of what they stand for (tensorflow/core/util/saved_tensor_slice_util.cc).
fn slice_key(name: &str, slice: &[Extent]) -> Vec<u8> {
    let mut key = vec![0];
    for &byte in name.as_bytes() {
        match byte {
            0 => key.extend([0, 0xff]),
            0xff => key.extend([0xff, 0]),
            _ => key.push(byte),
        }
    }
    key.extend([0, 1]);
    // The number of dimensions: how many bytes, then the bytes.
    match slice.len() {
        0 => key.push(0),
        rank => key.extend([1, rank as u8]),
    }
    for &Extent { start, len, full } in slice {
        push_signed(&mut key, start as i64);
        push_signed(&mut key, if full { -1 } else { len as i64 });
    }
    key
}

/// As many leading ones as there are bytes, the complement for a negative number, then the number.
fn push_signed(key: &mut Vec<u8>, value: i64) {
    let magnitude = if value < 0 { !value } else { value };
    let bits = 64 - magnitude.leading_zeros() as usize;
    let len = bits / 7 + 1;
    let mut bytes = [if value < 0 { 0xff } else { 0 }; 10];
    bytes[2..].copy_from_slice(&value.to_be_bytes());
    let code = &mut bytes[10 - len..];
    // The first `len` bits: ones for a positive number, which the sign turns over.
    let header = !0_u16 << (16 - len);
    let [high, low] = header.to_be_bytes();
    code[0] ^= high;
    if let Some(second) = code.get_mut(1) {
        *second ^= low;
    }
    key.extend_from_slice(code);
}
