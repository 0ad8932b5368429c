//! `.npy` and `.npz`, as NumPy reads and writes them.

use std::{
    collections::BTreeMap,
    io::{self, Cursor, Read, Write},
};

use npyz::{DType, Endianness, NpyHeader, Order, TypeChar, WriterBuilder};

use super::{
    MAX_BYTES, Reason,
    element::{Element, Endian},
    guarded, tensor, zip_damage,
};
use crate::canonical::Tensor;

/// Longest header that is read; NumPy's own limit (`max_header_size` of `numpy.load`).
const MAX_HEADER_BYTES: usize = 10_000;

/// Deepest nesting of brackets in a header: the dictionary and the shape in it. The parser recurses.
const MAX_NESTING: i32 = 2;

pub(super) const MAGIC: &[u8] = b"\x93NUMPY";

/// One array.
pub(super) fn parse(bytes: &[u8]) -> Result<Tensor, Reason> {
    let data = bytes.get(header_len(bytes)?..).ok_or("ends inside its header")?;
    let header = guarded(|| NpyHeader::from_reader(bytes))?.map_err(|_| "has a header that NumPy would not write")?;
    let (element, endian) = element(&header.dtype())?;
    let shape = header.shape().iter().map(|&n| usize::try_from(n)).collect::<Result<Vec<_>, _>>();
    let shape = shape.map_err(|_| "has a dimension beyond this machine")?;
    match header.order() {
        Order::C => tensor(shape, data, element, endian),
        Order::Fortran => {
            let shape = shape.into_iter().rev().collect();
            Ok(transpose(&tensor(shape, data, element, endian)?))
        }
    }
}

/// Checks what the parser trusts: the header's length and its nesting. Returns where the numbers begin.
fn header_len(bytes: &[u8]) -> Result<usize, Reason> {
    let (start, len) = match bytes {
        [0x93, b'N', b'U', b'M', b'P', b'Y', 1, _, a, b, ..] => (10, usize::from(u16::from_le_bytes([*a, *b]))),
        [0x93, b'N', b'U', b'M', b'P', b'Y', 2 | 3, _, a, b, c, d, ..] => {
            (12, u32::from_le_bytes([*a, *b, *c, *d]) as usize)
        }
        [0x93, b'N', b'U', b'M', b'P', b'Y', version, _, _, _, ..] => {
            return Err(format!("is .npy version {version}; 1 to 3 are read").into());
        }
        _ => return Err("is not an .npy file".into()),
    };
    if len > MAX_HEADER_BYTES {
        return Err(format!("has a header of {len} bytes; NumPy stops at {MAX_HEADER_BYTES}").into());
    }
    let header = bytes.get(start..start + len).ok_or("ends inside its header")?;
    let mut depth = 0;
    for byte in header {
        depth += i32::from(matches!(byte, b'(' | b'[' | b'{')) - i32::from(matches!(byte, b')' | b']' | b'}'));
        if depth > MAX_NESTING {
            return Err("is a structured array; only plain numbers are read".into());
        }
    }
    Ok(start + len)
}

fn element(dtype: &DType) -> Result<(Element, Endian), Reason> {
    let refused = || Reason::from(format!("holds numpy {}; real numbers are read", dtype.descr()));
    let DType::Plain(plain) = dtype else { return Err(refused()) };
    let element = match (plain.type_char(), plain.size_field()) {
        (TypeChar::Bool, 1) => Element::Bool,
        (TypeChar::Uint, 1) => Element::U8,
        (TypeChar::Int, 1) => Element::I8,
        (TypeChar::Uint, 2) => Element::U16,
        (TypeChar::Int, 2) => Element::I16,
        (TypeChar::Uint, 4) => Element::U32,
        (TypeChar::Int, 4) => Element::I32,
        (TypeChar::Uint, 8) => Element::U64,
        (TypeChar::Int, 8) => Element::I64,
        (TypeChar::Float, 2) => Element::F16,
        (TypeChar::Float, 4) => Element::F32,
        (TypeChar::Float, 8) => Element::F64,
        _ => return Err(refused()),
    };
    let endian = if plain.endianness() == Endianness::Big { Endian::Big } else { Endian::Little };
    Ok((element, endian))
}

/// All axes reversed: Fortran's order to ours.
fn transpose(from: &Tensor) -> Tensor {
    let shape: Vec<usize> = from.shape.iter().rev().copied().collect();
    let mut steps = vec![1; shape.len()];
    for axis in 1..shape.len() {
        steps[axis] = steps[axis - 1] * shape[axis - 1];
    }
    let (mut at, mut offset) = (vec![0; shape.len()], 0);
    let mut data = Vec::with_capacity(from.data.len());
    while data.len() < from.data.len() {
        data.push(from.data[offset]);
        for axis in (0..shape.len()).rev() {
            at[axis] += 1;
            offset += steps[axis];
            if at[axis] < shape[axis] {
                break;
            }
            offset -= at[axis] * steps[axis];
            at[axis] = 0;
        }
    }
    Tensor { shape, data }
}

/// Every array by its name.
pub(super) fn parse_npz(bytes: &[u8]) -> Result<BTreeMap<String, Tensor>, Reason> {
    let damaged = |e: &zip::result::ZipError| {
        Reason::from(format!("is not a whole zip archive: {}", zip_damage(e, "it is cut off or damaged")))
    };
    let mut archive = guarded(|| zip::ZipArchive::new(Cursor::new(bytes)))?.map_err(|e| damaged(&e))?;
    let (mut tensors, mut left) = (BTreeMap::new(), MAX_BYTES);
    for i in 0..archive.len() {
        let (name, array) = guarded(|| -> Result<_, Reason> {
            let entry = archive.by_index(i).map_err(|e| damaged(&e))?;
            let name = entry.name().map_err(|e| damaged(&e))?.into_owned();
            let mut array = Vec::new();
            entry.take(left + 1).read_to_end(&mut array).map_err(|e| format!("`{name}` cannot be unpacked ({e})"))?;
            Ok((name, array))
        })??;
        left = left.checked_sub(array.len() as u64).ok_or("unpacks to more than 512 MiB")?;
        let stem = npyz::npz::array_name_from_file_name(&name).ok_or(format!("holds `{name}`, which is no array"))?;
        let tensor = parse(&array).map_err(|e| e.inside(stem))?;
        if tensors.insert(stem.to_owned(), tensor).is_some() {
            return Err(format!("holds `{stem}` twice").into());
        }
    }
    Ok(tensors)
}

/// One array, row-major little-endian f32.
pub(super) fn write(tensor: &Tensor, out: &mut dyn Write) -> io::Result<()> {
    let shape: Vec<u64> = tensor.shape.iter().map(|&n| n as u64).collect();
    let f32_le = DType::Plain("<f4".parse().map_err(io::Error::other)?);
    let mut array = npyz::WriteOptions::<f32>::new().dtype(f32_le).shape(&shape).writer(out).begin_nd()?;
    array.extend(tensor.data.iter().copied())?;
    array.finish()
}

/// All arrays, uncompressed, dated 1980: the same tensors give the same bytes.
pub(super) fn write_npz(tensors: &BTreeMap<String, Tensor>) -> io::Result<Vec<u8>> {
    let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
    let options = zip::write::SimpleFileOptions::default()
        .compression_method(zip::CompressionMethod::Stored)
        .last_modified_time(zip::DateTime::default());
    for (name, tensor) in tensors {
        archive.start_file(npyz::npz::file_name_from_array_name(name), options)?;
        write(tensor, &mut archive)?;
    }
    Ok(archive.finish()?.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array(descr: &str, fortran: bool, shape: &str, data: &[u8]) -> Vec<u8> {
        let fortran = if fortran { "True" } else { "False" };
        let header = format!("{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {shape}, }}\n");
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((header.len() as u16).to_le_bytes());
        bytes.extend(header.as_bytes());
        bytes.extend(data);
        bytes
    }

    #[test]
    fn fortran_order_becomes_row_major() {
        let bytes = array("|u1", true, "(2, 3, 2)", &(0..12).collect::<Vec<u8>>());
        let tensor = parse(&bytes).unwrap();
        assert_eq!(tensor.shape, [2, 3, 2]);
        assert_eq!(tensor.data, [0., 6., 2., 8., 4., 10., 1., 7., 3., 9., 5., 11.]);
    }

    #[test]
    fn big_endian_is_read_and_a_wrong_length_is_not() {
        let bytes = array(">i2", false, "(2,)", &[0x01, 0x00, 0xff, 0xff]);
        assert_eq!(parse(&bytes).unwrap().data, [256., -1.]);
        assert!(parse(&bytes[..bytes.len() - 1]).is_err());
        assert!(parse(&array("<c8", false, "(1,)", &[0; 8])).unwrap_err().to_string().contains("<c8"));
        assert!(parse(&array("<f4", false, "(4294967296, 4294967296, 2)", &[])).is_err());
    }

    #[test]
    fn compressed_archives_are_read_and_other_methods_named() {
        let entry = array("<f4", false, "(500,)", &[0; 2000]);
        let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
        let options = zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Deflated);
        archive.start_file("zeros.npy", options).unwrap();
        archive.write_all(&entry).unwrap();
        let mut bytes = archive.finish().unwrap().into_inner();
        assert!(bytes.len() < 500);
        assert_eq!(parse_npz(&bytes).unwrap()["zeros"], Tensor { shape: vec![500], data: vec![0.0; 500] });
        // Method 12, bzip2, in the local header and in the directory (APPNOTE 4.3.7, 4.3.12).
        let directory = bytes.windows(4).position(|four| four == b"PK\x01\x02").unwrap();
        (bytes[8], bytes[directory + 10]) = (12, 12);
        let reason = parse_npz(&bytes).unwrap_err().to_string();
        assert_eq!(reason, "`zeros.npy` cannot be unpacked (compression method not supported: 12)");
    }
}
