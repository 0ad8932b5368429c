//! FlatBuffers (<https://flatbuffers.dev/internals/>): tables, vectors and strings of an unverified file. Every read
//! stays within the bytes or is an error. The cost of a read is bounded by the request, not by lengths that the file
//! claims.

use super::malformed;
use crate::error::{ImportError, Result};
use crate::format::refuse::{err_if, limit_if};

/// A table, given by its position.
#[derive(Clone, Copy, Debug)]
pub struct Table<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// A vector: position and number of its elements, which are all within the bytes.
#[derive(Clone, Copy, Debug)]
pub struct Vector<'a> {
    bytes: &'a [u8],
    at: usize,
    len: usize,
}

fn outside(at: usize) -> ImportError {
    malformed(format!("the offset at byte {at} points outside the file"))
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N]> {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).copied().ok_or_else(|| outside(at))
}

fn u32_at(bytes: &[u8], at: usize) -> Result<usize> {
    Ok(u32::from_le_bytes(array(bytes, at)?) as usize)
}

/// Position that the offset at `at` points to.
fn target(bytes: &[u8], at: usize) -> Result<usize> {
    let target = at.checked_add(u32_at(bytes, at)?).filter(|&target| target < bytes.len());
    target.ok_or_else(|| outside(at))
}

/// A number in a table or a vector.
pub trait Scalar: Sized {
    const LEN: usize;
    fn read(bytes: &[u8], at: usize) -> Result<Self>;
}

macro_rules! scalars {
    ($($scalar:ty),*) => {
        $(impl Scalar for $scalar {
            const LEN: usize = size_of::<$scalar>();

            fn read(bytes: &[u8], at: usize) -> Result<Self> {
                Ok(<$scalar>::from_le_bytes(array(bytes, at)?))
            }
        })*
    };
}

scalars!(u8, i8, i32, u32, i64, u64, f32);

impl<'a> Table<'a> {
    pub fn root(bytes: &'a [u8]) -> Result<Self> {
        Ok(Self { bytes, at: target(bytes, 0)? })
    }

    /// Position of field `index`; `None` if the table does not have it.
    fn field(&self, index: usize) -> Result<Option<usize>> {
        let back = i32::from_le_bytes(array(self.bytes, self.at)?);
        let layout = usize::try_from(self.at as i64 - i64::from(back)).map_err(|_| outside(self.at))?;
        let len = usize::from(u16::from_le_bytes(array(self.bytes, layout)?));
        let entry = 4 + 2 * index;
        if entry + 2 > len {
            return Ok(None);
        }
        let offset = usize::from(u16::from_le_bytes(array(self.bytes, layout.saturating_add(entry))?));
        Ok((offset != 0).then(|| self.at + offset))
    }

    /// A number, or `default` if the table does not have the field.
    pub fn scalar<T: Scalar>(&self, index: usize, default: T) -> Result<T> {
        self.field(index)?.map_or(Ok(default), |at| T::read(self.bytes, at))
    }

    /// Number of the last field that the table has, plus 1.
    pub fn fields(&self) -> Result<usize> {
        /// Maximum number of fields; tables of the schema have at most 25.
        const MOST: usize = 64;
        for index in (0..MOST).rev() {
            if self.field(index)?.is_some() {
                return Ok(index + 1);
            }
        }
        Ok(0)
    }

    pub fn table(&self, index: usize) -> Result<Option<Self>> {
        let Some(at) = self.field(index)? else { return Ok(None) };
        Ok(Some(Self { bytes: self.bytes, at: target(self.bytes, at)? }))
    }

    /// A vector of elements of `each` bytes; empty if the table does not have the field.
    fn elements(&self, index: usize, each: usize) -> Result<Vector<'a>> {
        let Some(at) = self.field(index)? else { return Ok(Vector { bytes: self.bytes, at: 0, len: 0 }) };
        let start = target(self.bytes, at)?;
        let (len, at) = (u32_at(self.bytes, start)?, start + 4);
        let fits =
            len.checked_mul(each).and_then(|bytes| at.checked_add(bytes)).is_some_and(|end| end <= self.bytes.len());
        if fits { Ok(Vector { bytes: self.bytes, at, len }) } else { Err(outside(start)) }
    }

    /// The numbers of a vector that has at most `most` elements.
    pub fn numbers<T: Scalar>(&self, index: usize, most: usize) -> Result<Vec<T>> {
        let vector = self.elements(index, T::LEN)?;
        let Vector { bytes, at, len } = vector;
        limit_if(len > most, most, "numbers in a list of an operator or tensor")?;
        (0..len).map(|k| T::read(bytes, at + k * T::LEN)).collect()
    }

    pub fn tables(&self, index: usize) -> Result<Vector<'a>> {
        self.elements(index, 4)
    }

    pub fn bytes(&self, index: usize) -> Result<&'a [u8]> {
        let vector = self.elements(index, 1)?;
        Ok(vector.bytes.get(vector.at..vector.at + vector.len).unwrap_or_default())
    }
}

impl<'a> Vector<'a> {
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn get(&self, index: usize) -> Result<Table<'a>> {
        let misfit = || malformed(format!("it has no element {index} in a vector of {}", self.len));
        err_if(index >= self.len, misfit)?;
        Ok(Table { bytes: self.bytes, at: target(self.bytes, self.at + 4 * index)? })
    }
}

#[cfg(test)]
mod tests {
    use super::Table;

    /// A table at byte 8 with its layout at byte 4. Its only field is the u32 at byte 12, which the shorter layout
    /// leaves out.
    fn file(layout_len: u16) -> Vec<u8> {
        let mut bytes = vec![12, 0, 0, 0];
        bytes.extend(layout_len.to_le_bytes());
        bytes.extend(8_u16.to_le_bytes());
        bytes.extend(4_u16.to_le_bytes());
        bytes.extend([0, 0]);
        bytes.extend(8_i32.to_le_bytes());
        bytes.extend(77_u32.to_le_bytes());
        bytes
    }

    #[test]
    fn a_field_that_the_layout_does_not_have_is_its_default() {
        let (with, without) = (file(6), file(4));
        assert_eq!(Table::root(&with).unwrap().scalar(0, 5_u32).unwrap(), 77);
        assert_eq!(Table::root(&without).unwrap().scalar(0, 5_u32).unwrap(), 5);
        assert_eq!(Table::root(&with).unwrap().scalar(9, 5_u32).unwrap(), 5);
    }

    #[test]
    fn every_prefix_is_an_error_or_a_default() {
        let whole = file(6);
        for len in 0..whole.len() {
            let read = Table::root(&whole[..len]).and_then(|table| table.scalar(0, 5_u32));
            assert!(read.is_err(), "{len}");
        }
    }
}
