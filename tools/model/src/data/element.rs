//! Conversion of stored numbers to `f32`.
//!
//! Each number becomes the nearest `f32` (ties to even). A number that is finite in the file and infinite as `f32` is
//! rejected. Infinities and NaN are kept. Integers up to 2^24 are exact.

use half::{bf16, f16};

/// Storage type of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Element {
    Bool,
    U8,
    I8,
    U16,
    I16,
    U32,
    I32,
    U64,
    I64,
    F16,
    Bf16,
    F32,
    F64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Endian {
    Little,
    Big,
}

impl Element {
    /// The integer of this size.
    pub(crate) const fn integer(bytes: usize, signed: bool) -> Option<Self> {
        Some(match (bytes, signed) {
            (1, false) => Self::U8,
            (1, true) => Self::I8,
            (2, false) => Self::U16,
            (2, true) => Self::I16,
            (4, false) => Self::U32,
            (4, true) => Self::I32,
            (8, false) => Self::U64,
            (8, true) => Self::I64,
            _ => return None,
        })
    }

    /// The IEEE 754 number of this size.
    pub(crate) const fn float(bytes: usize) -> Option<Self> {
        Some(match bytes {
            2 => Self::F16,
            4 => Self::F32,
            8 => Self::F64,
            _ => return None,
        })
    }

    pub(crate) const fn bytes(self) -> usize {
        match self {
            Self::Bool | Self::U8 | Self::I8 => 1,
            Self::U16 | Self::I16 | Self::F16 | Self::Bf16 => 2,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::U64 | Self::I64 | Self::F64 => 8,
        }
    }

    /// Decodes the numbers in `bytes`, whose length is a multiple of [`bytes`](Self::bytes).
    pub(crate) fn decode(self, bytes: &[u8], endian: Endian) -> Result<Vec<f32>, String> {
        match self {
            Self::Bool => Ok(bytes.iter().map(|&b| f32::from(u8::from(b != 0))).collect()),
            Self::U8 => Ok(bytes.iter().map(|&b| f32::from(b)).collect()),
            Self::I8 => Ok(bytes.iter().map(|&b| f32::from(b.cast_signed())).collect()),
            Self::U16 => Ok(words(bytes, endian).map(|w| f32::from(u16::from_le_bytes(w))).collect()),
            Self::I16 => Ok(words(bytes, endian).map(|w| f32::from(i16::from_le_bytes(w))).collect()),
            Self::U32 => Ok(words(bytes, endian).map(|w| u32::from_le_bytes(w) as f32).collect()),
            Self::I32 => Ok(words(bytes, endian).map(|w| i32::from_le_bytes(w) as f32).collect()),
            Self::U64 => Ok(words(bytes, endian).map(|w| u64::from_le_bytes(w) as f32).collect()),
            Self::I64 => Ok(words(bytes, endian).map(|w| i64::from_le_bytes(w) as f32).collect()),
            Self::F16 => Ok(words(bytes, endian).map(|w| f16::from_le_bytes(w).to_f32()).collect()),
            Self::Bf16 => Ok(words(bytes, endian).map(|w| bf16::from_le_bytes(w).to_f32()).collect()),
            Self::F32 => Ok(words(bytes, endian).map(f32::from_le_bytes).collect()),
            Self::F64 => words(bytes, endian).map(|w| narrow(f64::from_le_bytes(w))).collect(),
        }
    }

    /// [`decode`](Self::decode), which also counts the `f64` numbers that are not exact in `f32`.
    pub(crate) fn decode_counting(self, bytes: &[u8], endian: Endian) -> Result<(Vec<f32>, usize), String> {
        let values = self.decode(bytes, endian)?;
        let differs = |(wide, &value): (f64, &f32)| f64::from(value) != wide && !wide.is_nan();
        let lost = match self {
            Self::F64 => {
                words(bytes, endian).map(f64::from_le_bytes).zip(&values).filter(|&pair| differs(pair)).count()
            }
            _ => 0,
        };
        Ok((values, lost))
    }
}

fn narrow(wide: f64) -> Result<f32, String> {
    let value = wide as f32;
    if value.is_infinite() && wide.is_finite() {
        return Err(format!("holds {wide:e}, which exceeds the range of f32"));
    }
    Ok(value)
}

/// Splits `bytes` into words, each converted to little-endian.
fn words<const N: usize>(bytes: &[u8], endian: Endian) -> impl Iterator<Item = [u8; N]> + '_ {
    bytes.as_chunks::<N>().0.iter().map(move |&(mut word)| {
        if endian == Endian::Big {
            word.reverse();
        }
        word
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_become_the_nearest_f32() {
        let wide: Vec<u8> = [0.1f64, -2.5, f64::INFINITY].iter().flat_map(|v| v.to_be_bytes()).collect();
        assert_eq!(Element::F64.decode(&wide, Endian::Big).unwrap(), [0.1, -2.5, f32::INFINITY]);
        assert_eq!(Element::I64.decode(&16_777_217i64.to_le_bytes(), Endian::Little).unwrap(), [16_777_216.0]);
        assert_eq!(Element::F16.decode(&[0x00, 0x3c], Endian::Little).unwrap(), [1.0]);
        assert_eq!(Element::Bf16.decode(&[0x80, 0x3f], Endian::Little).unwrap(), [1.0]);
        assert!(Element::F64.decode(&1e300f64.to_le_bytes(), Endian::Little).unwrap_err().contains("1e300"));
    }
}
