//! Nested lists of numbers, read as one tensor.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, SeqAccess, Visitor};

use crate::canonical::Tensor;

const MAX_RANK: usize = 8;

/// A tensor; a number outside a list has no dimensions.
pub(super) struct Array(pub Tensor);

impl<'de> serde::Deserialize<'de> for Array {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut tensor = Tensor { shape: Vec::new(), data: Vec::new() };
        let mut filled = Filled { tensor: &mut tensor, known: false };
        Level { to: &mut filled, depth: 0 }.deserialize(deserializer)?;
        Ok(Self(tensor))
    }
}

struct Filled<'t> {
    tensor: &'t mut Tensor,
    /// Whether a number has been read, so that the number of dimensions is known.
    known: bool,
}

/// Reads a list or a number at nesting depth `depth`.
struct Level<'t, 'f> {
    to: &'f mut Filled<'t>,
    depth: usize,
}

impl<'de> DeserializeSeed<'de> for Level<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl Level<'_, '_> {
    fn number<E: Error>(self, value: f64) -> Result<(), E> {
        let Self { to, depth } = self;
        if to.tensor.shape.len() != depth {
            return Err(E::custom("a list holds both numbers and lists"));
        }
        let narrow = value as f32;
        if value.is_finite() && !narrow.is_finite() {
            return Err(E::custom(format!("{value} does not fit 32 bits")));
        }
        to.known = true;
        to.tensor.data.push(narrow);
        Ok(())
    }
}

impl<'de> Visitor<'de> for Level<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number or a list")
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<(), E> {
        self.number(value)
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<(), E> {
        self.number(value as f64)
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<(), E> {
        self.number(value as f64)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let Self { to, depth } = self;
        if depth == MAX_RANK {
            return Err(A::Error::custom(format!("lists are nested more than {MAX_RANK} deep")));
        }
        match to.tensor.shape.len() {
            // The length is known at the end of the list.
            rank if rank == depth && !to.known => to.tensor.shape.push(usize::MAX),
            rank if rank <= depth => return Err(A::Error::custom("a list holds both lists and numbers")),
            _ => {}
        }
        let mut len = 0;
        while list.next_element_seed(Level { to: &mut *to, depth: depth + 1 })?.is_some() {
            len += 1;
        }
        match to.tensor.shape[depth] {
            usize::MAX => to.tensor.shape[depth] = len,
            known if known == len => {}
            known => {
                return Err(A::Error::custom(format!("lists of {len} and of {known} elements have the same depth")));
            }
        }
        Ok(())
    }
}
