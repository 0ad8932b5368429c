//! The memory that a protobuf message takes once it is decoded, added up before it is decoded: an empty message has two
//! bytes in a file, but hundreds in memory.

use prost::DecodeError;
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};

use crate::budget::{Budget, TooCostly};

/// What a field becomes in memory.
pub(super) enum Field<M> {
    /// A message of this many bytes, without its own fields.
    Message(M, usize),
    /// Numbers of `each` bytes in memory that have at least `wire` bytes in a list in the file.
    Numbers { each: usize, wire: usize },
    /// A text or bytes.
    Bytes,
    /// A field that is skipped, or that the message itself stores.
    Plain,
}

/// Why a message cannot be decoded.
pub(super) enum Trouble {
    Costly(TooCostly),
    Damaged(DecodeError),
    /// A field needs more bytes than are left.
    Cut {
        needed: u64,
        left: usize,
    },
    Deep,
}

impl From<TooCostly> for Trouble {
    fn from(error: TooCostly) -> Self {
        Self::Costly(error)
    }
}

impl From<DecodeError> for Trouble {
    fn from(error: DecodeError) -> Self {
        Self::Damaged(error)
    }
}

/// Subtracts the memory of the fields of a message, which `field` describes by their numbers. Messages are nested at
/// most `depth` deep.
pub(super) fn take<M: Copy>(
    mut bytes: &[u8],
    of: M,
    field: fn(M, u32) -> Field<M>,
    depth: usize,
    budget: &mut Budget,
) -> Result<(), Trouble> {
    // Lists grow by doubling.
    const SPARE: usize = 2;
    while !bytes.is_empty() {
        let (tag, wire) = decode_key(&mut bytes)?;
        let content = if wire == WireType::LengthDelimited {
            let needed = decode_varint(&mut bytes)?;
            let left = bytes.len();
            let split = usize::try_from(needed).ok().and_then(|len| bytes.split_at_checked(len));
            let (content, rest) = split.ok_or(Trouble::Cut { needed, left })?;
            bytes = rest;
            Some(content)
        } else {
            skip_field(wire, tag, &mut bytes, DecodeContext::default())?;
            None
        };
        match (field(of, tag), content) {
            (Field::Message(inner, size), Some(content)) => {
                budget.take(size, SPARE)?;
                let depth = depth.checked_sub(1).ok_or(Trouble::Deep)?;
                take(content, inner, field, depth, budget)?;
            }
            (Field::Numbers { each, wire }, content) => {
                budget.take(content.map_or(1, |content| content.len() / wire), SPARE * each)?;
            }
            (Field::Bytes, Some(content)) => budget.take(SPARE * size_of::<String>() + content.len(), 1)?,
            _ => {}
        }
    }
    Ok(())
}
