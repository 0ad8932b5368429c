//! Index of a checkpoint: a header under the empty key, and one entry per variable under its name. An entry holds the
//! variable's type and shape, and the shard, offset and size of its values
//! (tensorflow/core/protobuf/tensor_bundle.proto). A partitioned variable has no values of its own but a list of
//! slices, each under a key of its own.

use std::collections::{BTreeMap, HashMap, hash_map};
use std::fmt::Arguments;
use std::io::{self, Read, Seek, SeekFrom};

use prost::Message;

use super::proto::{EntryProto, ExtentProto, Header, SliceProto, VERSION};
use super::{malformed, malformed_if, table};
use crate::{canonical::Tensor, error::Result, error::Shape, format::refuse::limit_if};

/// Maximum number of variables, including the slot variables of optimizers.
const MAX_ENTRIES: usize = 65_536;
/// Maximum total size of all names in bytes. Keys that share a prefix take less space in the file than in memory.
const MAX_NAME_BYTES: usize = 4 << 20;
/// Maximum size of an entry in bytes: 256 slices of 8 dimensions have at most 50,000.
const MAX_ENTRY_BYTES: usize = 1 << 16;
const MAX_SHARDS: u32 = 256;
/// Maximum number of dimensions, and of slices per variable.
const MAX_DIMS: usize = 8;
const MAX_SLICES: usize = 256;

/// Numbers of the types that are converted to `f32`, in the `DataType` of `types.proto`.
const F32: i32 = 1;
const F64: i32 = 2;
const BF16: i32 = 14;
const F16: i32 = 19;

/// Bytes of a value of this `DataType`. The error is the name of a type that weights cannot have.
fn float_bytes(dtype: i32) -> Result<usize, &'static str> {
    match dtype {
        F64 => Ok(8),
        F32 => Ok(4),
        F16 | BF16 => Ok(2),
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

/// Index entry of a variable, or of one slice of a partitioned variable.
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

#[derive(Clone, Copy, Debug)]
struct Extent {
    start: usize,
    len: usize,
    /// Whether the index omits the length, which means the whole dimension.
    full: bool,
}

/// The index of a checkpoint.
#[derive(Debug)]
pub struct Bundle {
    /// Number of files that hold the values.
    pub shards: u32,
    /// Entries of the variables by name, which is valid UTF-8.
    entries: BTreeMap<Vec<u8>, Entry>,
    /// Entries of the slices by key; every key begins with a zero byte.
    slices: BTreeMap<Vec<u8>, Entry>,
}

impl Bundle {
    /// Reads an index.
    ///
    /// # Errors
    /// If the index is damaged or is not a checkpoint index.
    pub fn read(index: &[u8]) -> Result<Self> {
        let mut header = None;
        let mut bundle = Self { shards: 0, entries: BTreeMap::new(), slices: BTreeMap::new() };
        let (mut names, mut slices) = (0, 0);
        table::read(index, |key, value| {
            let len = value.len();
            limit_if(len > MAX_ENTRY_BYTES, MAX_ENTRY_BYTES, "bytes in an entry of its index")?;
            if key.is_empty() {
                header = Some(decode::<Header>("its header", value)?);
                return Ok(());
            }
            names += key.len();
            limit_if(bundle.entries.len() + bundle.slices.len() == MAX_ENTRIES, MAX_ENTRIES, "variables")?;
            limit_if(names > MAX_NAME_BYTES, MAX_NAME_BYTES, "bytes of names")?;
            let name = String::from_utf8_lossy(key);
            let proto = decode::<EntryProto>("an entry", value)?;
            // Each slice has an entry of its own.
            slices += proto.slices.len();
            limit_if(slices > MAX_ENTRIES, MAX_ENTRIES, "slices")?;
            let entry = Entry::new(&name, proto)?;
            if key[0] == 0 {
                bundle.slices.insert(key.to_vec(), entry);
            } else if bundle.entries.insert(name.as_bytes().to_vec(), entry).is_some() {
                // Names that differ only in bytes that are not valid UTF-8 collide.
                return malformed(format!("it has two variables {name:?}"));
            }
            Ok(())
        })?;
        let Some(Header { num_shards, endianness, version }) = header else { return malformed("it has no header") };
        malformed_if(endianness != 0, "its values are big-endian; only little-endian values are supported")?;
        let needed = version.map_or(0, |version| version.min_consumer);
        let what = format_args!("it needs a reader of version {needed}, but this build has version {VERSION}");
        malformed_if(needed > VERSION, what)?;
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

    /// The variables, by name.
    fn variables(&self) -> impl Iterator<Item = (&str, &Entry)> {
        self.entries.iter().map(|(name, entry)| (str::from_utf8(name).unwrap_or_default(), entry))
    }

    /// Names of the partitioned variables.
    pub fn partitioned(&self) -> impl Iterator<Item = &str> {
        self.variables().filter(|(_, entry)| entry.slices.len() > 1).map(|(name, _)| name)
    }

    /// Names of all variables.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.variables().map(|(name, _)| name)
    }

    /// Variables whose type weights cannot have, each with the name of its type.
    pub fn skipped(&self) -> impl Iterator<Item = (&str, &'static str)> {
        self.variables().filter_map(|(name, entry)| Some((name, float_bytes(entry.dtype).err()?)))
    }

    /// Reads the values of every float variable that `wanted` accepts. `open` opens a shard and is called at most once
    /// for each shard.
    ///
    /// # Errors
    /// If a shard does not match the index.
    pub fn tensors<R: Read + Seek>(
        &self,
        wanted: impl Fn(&str) -> bool,
        open: impl FnMut(u32) -> Result<R>,
    ) -> Result<Values> {
        // All parts of all wanted variables, sorted below by their position in the shards.
        let mut parts: Vec<(&str, &Entry, Option<&[Extent]>)> = Vec::new();
        let floats = self.variables().filter(|(name, entry)| float_bytes(entry.dtype).is_ok() && wanted(name));
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
        // Parts that do not overlap are no larger than the shards, so memory for their values may be allocated.
        let mut free = (0, 0);
        for &(name, part, _) in &parts {
            let &Entry { shard, offset, size, .. } = part;
            malformed_if((shard, offset) < free, format_args!("{name:?} overlaps another variable at byte {offset}"))?;
            free = (shard, offset.saturating_add(size));
        }
        let mut tensors = BTreeMap::new();
        let mut rounded = Vec::new();
        for (name, part, slice) in parts {
            let (Some((file, _)), Some(whole)) = (shards.get_mut(&part.shard), self.entries.get(name.as_bytes()))
            else {
                continue;
            };
            let (values, lost) = part.values(name, file)?;
            if lost > 0 {
                rounded.push((name.to_owned(), lost, values.len()));
            }
            let empty = || Tensor { shape: whole.shape.clone(), data: Vec::new() };
            let tensor: &mut Tensor = tensors.entry(name.to_owned()).or_insert_with(empty);
            match slice {
                None => tensor.data = values,
                Some(slice) => {
                    tensor.data.resize(whole.shape.iter().product(), 0.0);
                    copy_slice(&whole.shape, slice, &values, &mut tensor.data);
                }
            }
        }
        Ok(Values { tensors, rounded })
    }

    /// Opens the shards, each with its length, and checks that they contain every entry of the index, wanted or not.
    fn opened<R: Read + Seek>(&self, mut open: impl FnMut(u32) -> Result<R>) -> Result<HashMap<u32, (R, u64)>> {
        let mut shards: HashMap<u32, (R, u64)> = HashMap::new();
        let all = self.entries.iter().chain(&self.slices);
        for (key, entry) in all.filter(|(_, entry)| entry.slices.is_empty()) {
            let &Entry { shard, offset, size, .. } = entry;
            let len = match shards.entry(shard) {
                hash_map::Entry::Occupied(open) => open.get().1,
                hash_map::Entry::Vacant(place) => {
                    let mut file = open(shard)?;
                    let len = file.seek(SeekFrom::End(0))?;
                    place.insert((file, len)).1
                }
            };
            if offset.checked_add(size).is_none_or(|end| end > len) {
                let name = String::from_utf8_lossy(key);
                let place = format!("{size} bytes at byte {offset} of shard {shard}, which has {len}");
                return malformed(format!("{name:?} has {place}: that .data file is cut off"));
            }
        }
        Ok(shards)
    }
}

/// The float variables of a checkpoint.
#[derive(Debug)]
pub struct Values {
    /// Tensors by variable name.
    pub tensors: BTreeMap<String, Tensor>,
    /// Variables whose values were rounded: name, number of rounded values, total number of values.
    pub rounded: Vec<(String, usize, usize)>,
}

fn decode<T: Message + Default>(what: &str, value: &[u8]) -> Result<T> {
    T::decode(value).or_else(|error| malformed(format!("{what} of its index is damaged ({error})")))
}

impl Entry {
    /// Checks an entry, except for the position of its values in the shards.
    fn new(name: &str, proto: EntryProto) -> Result<Self> {
        let refuse = |reason: &str| malformed(format!("{name:?}: {reason}"));
        let refuse_if = |found: bool, reason: Arguments| malformed_if(found, format_args!("{name:?}: {reason}"));
        let EntryProto { dtype, shape, shard_id, offset, size, crc32c, slices } = proto;
        let shape = shape.unwrap_or_default();
        let rank = shape.dim.len();
        let many = format_args!("it has {rank} dimensions; at most {MAX_DIMS} are supported");
        refuse_if(shape.unknown_rank || rank > MAX_DIMS, many)?;
        let dims: Option<Vec<usize>> = shape.dim.iter().map(|dim| usize::try_from(dim.size).ok()).collect();
        let Some(shape) = dims else { return refuse("a dimension is not known") };
        let Some(volume) = shape.iter().try_fold(1_usize, |volume, &dim| volume.checked_mul(dim)) else {
            return refuse("it has more values than can be counted");
        };
        let mut entry = Self { dtype, shape, shard: 0, offset: 0, size: 0, crc: crc32c, slices: Vec::new() };
        if !slices.is_empty() {
            let count = slices.len();
            limit_if(count > MAX_SLICES, MAX_SLICES, "slices of a variable")?;
            let Some(ranges) = slices.iter().map(|slice| slice_of(slice, &entry.shape)).collect() else {
                return refuse("a slice exceeds its shape");
            };
            entry.slices = ranges;
            // Slices that do not overlap and have the volume of the whole cover the whole.
            let volume_of = |slice: &Vec<Extent>| slice.iter().map(|extent| extent.len).product::<usize>();
            let covered = entry.slices.iter().try_fold(0_usize, |sum, slice| sum.checked_add(volume_of(slice)));
            let apart = entry.slices.iter().enumerate().all(|(k, a)| entry.slices[..k].iter().all(|b| !overlap(a, b)));
            let whole = covered == Some(volume) && apart;
            refuse_if(!whole, format_args!("its slices do not cover the whole variable"))?;
            return Ok(entry);
        }
        let (Ok(shard), Ok(offset), Ok(size)) = (u32::try_from(shard_id), u64::try_from(offset), u64::try_from(size))
        else {
            return refuse("its place is negative");
        };
        (entry.shard, entry.offset, entry.size) = (shard, offset, size);
        let needed = float_bytes(dtype).ok().map(|bytes| volume.checked_mul(bytes));
        if needed.is_some_and(|needed| needed.and_then(|needed| u64::try_from(needed).ok()) != Some(size)) {
            let shape = Shape(entry.shape);
            return refuse(&format!("it is {shape}, which does not make {size} bytes"));
        }
        Ok(entry)
    }

    /// Reads the values and verifies their checksum; also returns the number of rounded values.
    fn values(&self, name: &str, shard: &mut (impl Read + Seek)) -> Result<(Vec<f32>, usize)> {
        let mut bytes = Vec::new();
        shard.seek(SeekFrom::Start(self.offset))?;
        let read = io::copy(&mut shard.take(self.size), &mut bytes)?;
        malformed_if(read != self.size, format_args!("{name:?}: its shard ends {} bytes too early", self.size - read))?;
        let sound = table::masked(crc32c::crc32c(&bytes)) == self.crc;
        malformed_if(!sound, format_args!("the checksum of {name:?} is wrong"))?;
        let mut lost = 0;
        let values = match self.dtype {
            F32 => bytes.as_chunks().0.iter().map(|&value| f32::from_le_bytes(value)).collect(),
            F64 => {
                let mut nearest = |wide: f64| {
                    let value = wide as f32;
                    lost += usize::from(f64::from(value) != wide && !wide.is_nan());
                    value
                };
                bytes.as_chunks().0.iter().map(|&value| nearest(f64::from_le_bytes(value))).collect()
            }
            F16 => bytes.as_chunks().0.iter().map(|&value| half::f16::from_le_bytes(value).to_f32()).collect(),
            BF16 => bytes.as_chunks().0.iter().map(|&value| half::bf16::from_le_bytes(value).to_f32()).collect(),
            _ => return malformed(format!("{name:?} is not a float variable")),
        };
        Ok((values, lost))
    }
}

/// Start and length in each dimension, or `None` if the slice exceeds `shape`.
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

/// Copies the values of a slice to their position in the whole tensor, one row of the last dimension at a time.
fn copy_slice(shape: &[usize], slice: &[Extent], values: &[f32], whole: &mut [f32]) {
    let Some((&Extent { start: first, len: width, .. }, outer)) = slice.split_last() else {
        whole.copy_from_slice(values);
        return;
    };
    if width == 0 {
        return;
    }
    for (number, row) in values.chunks(width).enumerate() {
        // Position of the row in the outer dimensions of the slice; the last one varies fastest.
        let (mut rest, mut at, mut stride) = (number, first, shape.last().copied().unwrap_or(1));
        for (&Extent { start, len, .. }, &dim) in outer.iter().zip(shape).rev() {
            at += (start + rest % len) * stride;
            rest /= len;
            stride *= dim;
        }
        whole[at..at + width].copy_from_slice(row);
    }
}

/// Key of a slice: a zero byte, the name of the variable, then start and length in each dimension. The numbers are
/// encoded so that the byte order of keys is the order of the numbers
/// (tensorflow/core/util/saved_tensor_slice_util.cc).
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
    // The number of dimensions: its length in bytes, then its bytes.
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

/// Appends a signed number in order-preserving form: as many leading one bits as the code has bytes (inverted for a
/// negative number), then the number.
fn push_signed(key: &mut Vec<u8>, value: i64) {
    let magnitude = if value < 0 { !value } else { value };
    let bits = 64 - magnitude.leading_zeros() as usize;
    let len = bits / 7 + 1;
    let mut bytes = [if value < 0 { 0xff } else { 0 }; 10];
    bytes[2..].copy_from_slice(&value.to_be_bytes());
    let code = &mut bytes[10 - len..];
    // The first `len` bits are ones for a positive number; the XOR inverts them for a negative one.
    let header = !0_u16 << (16 - len);
    let [high, low] = header.to_be_bytes();
    code[0] ^= high;
    if let Some(second) = code.get_mut(1) {
        *second ^= low;
    }
    key.extend_from_slice(code);
}
