//! `.npy` and `.npz` files, as NumPy reads and writes them.

use std::{
    collections::BTreeMap,
    io::{self, Cursor, Read, Write},
};

use super::{
    MAX_ENTRIES, Reason, Stored,
    element::{Element, Endian},
    guarded, has_many_entries, shortened, tensor, zip_damage,
};
use crate::budget::{Budget, FIXED};
use crate::canonical::Tensor;

/// Maximum header length; NumPy's own limit (`max_header_size` of `numpy.load`).
const MAX_HEADER_BYTES: usize = 10_000;

pub(super) const MAGIC: &[u8] = b"\x93NUMPY";

/// Alignment of the numbers in a file.
const ALIGNMENT: usize = 64;

/// Reads one array.
pub(super) fn parse(bytes: &[u8], budget: &mut Budget) -> Result<Stored, Reason> {
    let (text, data) = split(bytes)?;
    // In a structured array, a list of fields takes the place of the element type.
    if text.windows(2).any(|two| two == b"[(") {
        return Err("is a structured array, but only plain numbers are supported".into());
    }
    let header = Header::parse(text).ok_or("has a header that NumPy would not write")?;
    let refused = || format!("holds numpy '{}', but only real numbers are supported", shortened(header.descr));
    let (element, endian) = element(header.descr).ok_or_else(refused)?;
    if !header.fortran_order {
        return tensor(header.shape, data, element, endian, budget);
    }
    let shape = header.shape.into_iter().rev().collect();
    let Stored { tensor: columns, is_int8 } = tensor(shape, data, element, endian, budget)?;
    budget.take(columns.data.len(), size_of::<f32>())?;
    let rows = transpose(&columns);
    budget.give(columns.data.len(), size_of::<f32>());
    Ok(Stored { tensor: rows, is_int8 })
}

/// The header's text, and the numbers after it.
fn split(bytes: &[u8]) -> Result<(&[u8], &[u8]), Reason> {
    let (len, rest) = match bytes.strip_prefix(MAGIC) {
        Some([1, _, a, b, rest @ ..]) => (usize::from(u16::from_le_bytes([*a, *b])), rest),
        Some([2 | 3, _, a, b, c, d, rest @ ..]) => (u32::from_le_bytes([*a, *b, *c, *d]) as usize, rest),
        Some([version @ (0 | 4..), _, _, _, ..]) => {
            return Err(format!("is .npy version {version}; 1 to 3 are read").into());
        }
        _ => return Err("is not an .npy file: save the array with `numpy.save`".into()),
    };
    if len > MAX_HEADER_BYTES {
        return Err(format!("has a header of {len} bytes; NumPy stops at {MAX_HEADER_BYTES}").into());
    }
    rest.split_at_checked(len).ok_or_else(|| "ends inside its header".into())
}

/// The header: a Python dictionary with these three keys in any order.
struct Header<'a> {
    /// Byte order, kind and size: `<f4`.
    descr: &'a str,
    fortran_order: bool,
    shape: Vec<usize>,
}

impl<'a> Header<'a> {
    /// `None` if the text is not what NumPy writes.
    fn parse(text: &'a [u8]) -> Option<Self> {
        let mut text = Python(str::from_utf8(text).ok()?);
        let (mut descr, mut fortran_order, mut shape) = (None, None, None);
        text.take("{")?;
        while text.take("}").is_none() {
            let key = text.string()?;
            text.take(":")?;
            match key {
                "descr" if descr.is_none() => descr = Some(text.string()?),
                "fortran_order" if fortran_order.is_none() => {
                    fortran_order = Some(text.take("True").is_some() || text.take("False").map(|()| false)?);
                }
                "shape" if shape.is_none() => shape = Some(text.tuple()?),
                _ => return None,
            }
            if text.take(",").is_none() {
                text.take("}")?;
                break;
            }
        }
        text.is_empty().then_some(())?;
        Some(Self { descr: descr?, fortran_order: fortran_order?, shape: shape? })
    }
}

/// The rest of a Python expression. Spaces before each token are skipped.
struct Python<'a>(&'a str);

impl<'a> Python<'a> {
    fn is_empty(&self) -> bool {
        self.0.trim_ascii_start().is_empty()
    }

    fn take(&mut self, token: &str) -> Option<()> {
        self.0 = self.0.trim_ascii_start().strip_prefix(token)?;
        Some(())
    }

    /// A string without escapes.
    fn string(&mut self) -> Option<&'a str> {
        let quote = if self.take("'").is_some() { '\'' } else { self.take("\"").map(|()| '"')? };
        let (string, rest) = self.0.split_once(quote)?;
        self.0 = rest;
        (!string.contains('\\')).then_some(string)
    }

    fn number(&mut self) -> Option<usize> {
        let text = self.0.trim_ascii_start();
        let end = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
        let (number, rest) = text.split_at(end);
        self.0 = rest;
        number.parse().ok()
    }

    /// Whole numbers in parentheses. A single number is followed by a comma.
    fn tuple(&mut self) -> Option<Vec<usize>> {
        let mut numbers = Vec::new();
        self.take("(")?;
        while self.take(")").is_none() {
            numbers.push(self.number()?);
            if self.take(",").is_none() {
                self.take(")")?;
                return (numbers.len() > 1).then_some(numbers);
            }
        }
        Some(numbers)
    }
}

fn element(descr: &str) -> Option<(Element, Endian)> {
    let &[order, kind, size @ b'1'..=b'8'] = descr.as_bytes() else { return None };
    let bytes = usize::from(size - b'0');
    let element = match kind {
        b'b' if bytes == 1 => Element::Bool,
        b'u' | b'i' => Element::integer(bytes, kind == b'i')?,
        b'f' => Element::float(bytes)?,
        _ => return None,
    };
    match order {
        b'<' => Some((element, Endian::Little)),
        b'>' => Some((element, Endian::Big)),
        b'|' if bytes == 1 => Some((element, Endian::Little)),
        _ => None,
    }
}

/// Reverses all axes: Fortran order to row-major order.
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

/// Reads every array, by name.
pub(super) fn parse_npz(bytes: &[u8]) -> Result<BTreeMap<String, Stored>, Reason> {
    let damaged = |e: &zip::result::ZipError| {
        Reason::from(format!("is not a whole zip archive: {}", zip_damage(e, "it is cut off or damaged")))
    };
    if has_many_entries(bytes) {
        return Err(format!("has more than {MAX_ENTRIES} entries, {FIXED}").into());
    }
    let mut archive = guarded(|| zip::ZipArchive::new(Cursor::new(bytes)))?.map_err(|e| damaged(&e))?;
    let (mut tensors, mut budget) = (BTreeMap::new(), Budget::of_file(bytes.len()));
    for i in 0..archive.len() {
        let (name, array) = guarded(|| -> Result<_, Reason> {
            let entry = archive.by_index(i).map_err(|e| damaged(&e))?;
            let name = entry.name().map_err(|e| damaged(&e))?.into_owned();
            // The declared size is only a hint: longer content is truncated, and then does not fit the shape.
            let size = usize::try_from(entry.size()).unwrap_or(usize::MAX);
            budget.take(size, 1)?;
            let mut array = Vec::with_capacity(size);
            let cut = |e: io::Error| format!("`{name}` cannot be unpacked ({e})");
            entry.take(size as u64).read_to_end(&mut array).map_err(cut)?;
            Ok((name, array))
        })??;
        let stem = name.strip_suffix(".npy").ok_or_else(|| format!("holds `{name}`, which is not an array"))?;
        let tensor = parse(&array, &mut budget).map_err(|e| e.inside(stem))?;
        budget.give(array.capacity(), 1);
        if tensors.insert(stem.to_owned(), tensor).is_some() {
            return Err(format!("holds `{stem}` twice").into());
        }
    }
    Ok(tensors)
}

/// Writes one array, row-major little-endian `f32`.
pub(super) fn write(tensor: &Tensor, out: &mut dyn Write) -> io::Result<()> {
    let dims: String = tensor.shape.iter().map(|n| format!("{n}, ")).collect();
    let header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({dims}), }}");
    // Magic, version and length have 10 bytes, the line feed has one.
    let padded = (10 + header.len() + 1).next_multiple_of(ALIGNMENT) - 11;
    let len = u16::try_from(padded + 1).map_err(io::Error::other)?;
    out.write_all(MAGIC)?;
    out.write_all(&[1, 0])?;
    out.write_all(&len.to_le_bytes())?;
    writeln!(out, "{header:padded$}")?;
    tensor.data.iter().try_for_each(|value| out.write_all(&value.to_le_bytes()))
}

/// Writes all arrays uncompressed, dated 1980, so that the same tensors give the same bytes.
pub(super) fn write_npz(tensors: &BTreeMap<String, Tensor>) -> io::Result<Vec<u8>> {
    let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
    let options = zip::write::SimpleFileOptions::default()
        .compression_method(zip::CompressionMethod::Stored)
        .last_modified_time(zip::DateTime::default());
    for (name, tensor) in tensors {
        archive.start_file(format!("{name}.npy"), options)?;
        write(tensor, &mut archive)?;
    }
    Ok(archive.finish()?.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_array(bytes: &[u8]) -> Result<Tensor, Reason> {
        parse(bytes, &mut Budget::of_file(bytes.len())).map(|stored| stored.tensor)
    }

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
        let tensor = parse_array(&bytes).unwrap();
        assert_eq!(tensor.shape, [2, 3, 2]);
        assert_eq!(tensor.data, [0., 6., 2., 8., 4., 10., 1., 7., 3., 9., 5., 11.]);
    }

    #[test]
    fn big_endian_is_read_and_a_wrong_length_is_not() {
        let bytes = array(">i2", false, "(2,)", &[0x01, 0x00, 0xff, 0xff]);
        assert_eq!(parse_array(&bytes).unwrap().data, [256., -1.]);
        assert!(parse_array(&bytes[..bytes.len() - 1]).is_err());
        assert!(parse_array(&array("<c8", false, "(1,)", &[0; 8])).unwrap_err().to_string().contains("<c8"));
        assert!(parse_array(&array("<f4", false, "(4294967296, 4294967296, 2)", &[])).is_err());
    }

    #[test]
    fn only_signed_bytes_are_int8() {
        for (descr, is_int8) in [("|i1", true), ("|u1", false), ("<i2", false), ("|b1", false)] {
            let bytes = array(descr, true, "(1, 2)", &[0; 4][..if descr == "<i2" { 4 } else { 2 }]);
            let stored = parse(&bytes, &mut Budget::of_file(bytes.len())).unwrap();
            assert_eq!(stored.is_int8, is_int8, "{descr}");
        }
    }

    #[test]
    fn a_header_is_read_as_numpy_writes_it() {
        let shape = |header: &str| Header::parse(header.as_bytes()).map(|header| header.shape);
        let with = |shape: &str| format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}   \n");
        assert_eq!(shape(&with("()")), Some(Vec::new()));
        assert_eq!(shape(&with("(7,)")).unwrap(), [7]);
        assert_eq!(shape(&with("(2, 3)")).unwrap(), [2, 3]);
        assert_eq!(shape("{\"shape\":(2,3,),\"fortran_order\":True,\"descr\":\"<f4\"}").unwrap(), [2, 3]);
        for wrong in ["(7)", "[7]", "(,)", "(-1,)", "(1,,)", "(99999999999999999999,)", "(1, 2", "7", "((1,),)"] {
            assert_eq!(shape(&with(wrong)), None, "{wrong}");
        }
        let whole = with("(2, 3)");
        for wrong in ["'fortran_order': 1", "'descr': '<f4', 'fortran_order': False", "'order': False", ""] {
            assert_eq!(shape(&whole.replace("'fortran_order': False", wrong)), None, "{wrong}");
        }
        assert_eq!(shape(&whole.replace('}', "} 1")), None);
        assert!((0..whole.len() - 4).all(|len| shape(&whole[..len]).is_none()));
        let fields =
            parse_array(&array("', [('a', '<f4'), ('b', '<i4', (2,))]", false, "(1,)", &[])).unwrap_err().to_string();
        assert!(fields.contains("structured array"), "{fields}");
    }

    #[test]
    fn a_written_array_is_aligned_and_ends_its_header_with_a_line_feed() {
        let mut bytes = Vec::new();
        write(&Tensor { shape: vec![1, 2], data: vec![0.5, -1.0] }, &mut bytes).unwrap();
        let (header, data) = bytes.split_at(128);
        let text = "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2, ), }";
        assert_eq!(header, [b"\x93NUMPY\x01\x00\x76\x00", format!("{text:117}\n").as_bytes()].concat());
        assert_eq!(data, [0, 0, 0, 0x3f, 0, 0, 0x80, 0xbf]);
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
        assert_eq!(parse_npz(&bytes).unwrap()["zeros"].tensor, Tensor { shape: vec![500], data: vec![0.0; 500] });
        // Method 12, bzip2, in the local header and in the directory (APPNOTE 4.3.7, 4.3.12).
        let directory = bytes.windows(4).position(|four| four == b"PK\x01\x02").unwrap();
        (bytes[8], bytes[directory + 10]) = (12, 12);
        let reason = parse_npz(&bytes).unwrap_err().to_string();
        assert_eq!(reason, "`zeros.npy` cannot be unpacked (compression method not supported: 12)");
    }
}
