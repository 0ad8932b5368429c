//! FlatBuffers (<https://flatbuffers.dev/internals/>): tables, vectors and strings of a file that nobody has checked. Every
//! read is within the bytes, or an error; what it costs is bounded by what is asked for, not by what the file says.

use crate::error::ImportError;

/// A table: where it begins.
#[derive(Clone, Copy, Debug)]
pub struct Table<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// A vector: where its elements begin, and how many there are. All of them are within the bytes.
#[derive(Clone, Copy, Debug)]
pub struct Vector<'a> {
    bytes: &'a [u8],
    at: usize,
    len: usize,
}

fn outside(at: usize) -> ImportError {
    super::malformed(format!("what stands at byte {at} points outside of it"))
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N], ImportError> {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).copied().ok_or_else(|| outside(at))
}

fn u32_at(bytes: &[u8], at: usize) -> Result<usize, ImportError> {
    Ok(u32::from_le_bytes(array(bytes, at)?) as usize)
}

/// Where the offset that stands there points to.
fn target(bytes: &[u8], at: usize) -> Result<usize, ImportError> {
    let target = at.checked_add(u32_at(bytes, at)?).filter(|&target| target < bytes.len());
    target.ok_or_else(|| outside(at))
}

/// A number of a table or a vector.
pub trait Scalar: Sized {
    /// Its bytes.
    const LEN: usize;
    /// The one that stands there.
    fn read(bytes: &[u8], at: usize) -> Result<Self, ImportError>;
}

macro_rules! scalars {
    ($($scalar:ty),*) => {
        $(impl Scalar for $scalar {
            const LEN: usize = size_of::<$scalar>();

            fn read(bytes: &[u8], at: usize) -> Result<Self, ImportError> {
                Ok(<$scalar>::from_le_bytes(array(bytes, at)?))
            }
        })*
    };
}

scalars!(u8, i8, i32, u32, i64, u64, f32);

impl<'a> Table<'a> {
    /// The root of a file.
    pub fn root(bytes: &'a [u8]) -> Result<Self, ImportError> {
        Ok(Self { bytes, at: target(bytes, 0)? })
    }

    /// Where field `index` stands; none if the table does not have it.
    fn field(&self, index: usize) -> Result<Option<usize>, ImportError> {
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

    /// A number, or what it is where the table does not say.
    pub fn scalar<T: Scalar>(&self, index: usize, default: T) -> Result<T, ImportError> {
        match self.field(index)? {
            Some(at) => T::read(self.bytes, at),
            None => Ok(default),
        }
    }

    /// A table in it.
    pub fn table(&self, index: usize) -> Result<Option<Self>, ImportError> {
        let Some(at) = self.field(index)? else { return Ok(None) };
        Ok(Some(Self { bytes: self.bytes, at: target(self.bytes, at)? }))
    }

    /// A vector of elements of so many bytes; one without elements if the table has none.
    fn elements(&self, index: usize, each: usize) -> Result<Vector<'a>, ImportError> {
        let Some(at) = self.field(index)? else { return Ok(Vector { bytes: self.bytes, at: 0, len: 0 }) };
        let start = target(self.bytes, at)?;
        let (len, at) = (u32_at(self.bytes, start)?, start + 4);
        let fits =
            len.checked_mul(each).and_then(|bytes| at.checked_add(bytes)).is_some_and(|end| end <= self.bytes.len());
        if fits { Ok(Vector { bytes: self.bytes, at, len }) } else { Err(outside(start)) }
    }

    /// The numbers of a vector, at most so many.
    pub fn numbers<T: Scalar>(&self, index: usize, most: usize) -> Result<Vec<T>, ImportError> {
        let vector = self.elements(index, T::LEN)?;
        if vector.len > most {
            return Err(super::malformed(format!(
                "the vector at byte {} has {} elements, more than {most}",
                vector.at, vector.len
            )));
        }
        (0..vector.len).map(|k| T::read(vector.bytes, vector.at + k * T::LEN)).collect()
    }

    /// A vector of tables.
    pub fn tables(&self, index: usize) -> Result<Vector<'a>, ImportError> {
        self.elements(index, 4)
    }

    /// The bytes of a vector or a string.
    pub fn bytes(&self, index: usize) -> Result<&'a [u8], ImportError> {
        let vector = self.elements(index, 1)?;
        Ok(vector.bytes.get(vector.at..vector.at + vector.len).unwrap_or_default())
    }
}

impl<'a> Vector<'a> {
    /// Elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// The table at `index`.
    pub fn get(&self, index: usize) -> Result<Table<'a>, ImportError> {
        if index >= self.len {
            return Err(super::malformed(format!("it has no element {index} in a vector of {}", self.len)));
        }
        Ok(Table { bytes: self.bytes, at: target(self.bytes, self.at + 4 * index)? })
    }
}

#[cfg(test)]
mod tests {
    use super::Table;

    /// A table at 8 whose layout is at 4, with one field, the u32 at 12, which is not there in the shorter layout.
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
