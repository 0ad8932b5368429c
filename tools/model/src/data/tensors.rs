//! `.safetensors` files.

use std::{borrow::Cow, collections::BTreeMap, io};

use safetensors::{Dtype, SafeTensorError, SafeTensors, View};

use super::{
    Reason, Stored,
    element::{Element, Endian},
    tensor,
};
use crate::budget::{Budget, TooCostly};
use crate::canonical::Tensor;

/// Describes the damage of a file for users who do not know the format.
pub(crate) fn damage(error: &SafeTensorError) -> String {
    use SafeTensorError as E;
    match error {
        E::HeaderTooSmall | E::HeaderTooLarge | E::InvalidHeaderLength => {
            "it is cut off before its list of tensors ends".to_owned()
        }
        E::MetadataIncompleteBuffer => "it has fewer or more bytes than its tensors: it may be cut off".to_owned(),
        E::InvalidHeader(_) | E::InvalidHeaderDeserialization(_) => "its list of tensors is damaged".to_owned(),
        other => other.to_string().escape_debug().to_string(),
    }
}

/// Subtracts the memory of a file's header, before it is parsed.
pub(crate) fn take_header(bytes: &[u8], budget: &mut Budget) -> Result<(), TooCostly> {
    let Some((len, rest)) = bytes.split_first_chunk::<8>() else { return Ok(()) };
    let len = usize::try_from(u64::from_le_bytes(*len)).unwrap_or(usize::MAX);
    budget.take_json(rest.get(..len).unwrap_or_default())
}

/// Reads every tensor, by name.
pub(super) fn parse(bytes: &[u8]) -> Result<BTreeMap<String, Stored>, Reason> {
    let mut budget = Budget::of_file(bytes.len());
    take_header(bytes, &mut budget)?;
    let file =
        SafeTensors::deserialize(bytes).map_err(|e| format!("is not a whole .safetensors file: {}", damage(&e)))?;
    file.iter()
        .map(|(name, view)| {
            let tensor = element(view.dtype())
                .and_then(|element| tensor(view.shape().to_vec(), view.data(), element, Endian::Little, &mut budget))
                .map_err(|e| e.inside(name))?;
            Ok((name.to_owned(), tensor))
        })
        .collect()
}

fn element(dtype: Dtype) -> Result<Element, Reason> {
    Ok(match dtype {
        Dtype::BOOL => Element::Bool,
        Dtype::U8 => Element::U8,
        Dtype::I8 => Element::I8,
        Dtype::U16 => Element::U16,
        Dtype::I16 => Element::I16,
        Dtype::U32 => Element::U32,
        Dtype::I32 => Element::I32,
        Dtype::U64 => Element::U64,
        Dtype::I64 => Element::I64,
        Dtype::F16 => Element::F16,
        Dtype::BF16 => Element::Bf16,
        Dtype::F32 => Element::F32,
        Dtype::F64 => Element::F64,
        other => return Err(format!("holds {other:?}, but only real numbers of 8 to 64 bits are supported").into()),
    })
}

/// Writes all tensors as F32, sorted by name.
pub(super) fn write(tensors: &BTreeMap<String, Tensor>) -> io::Result<Vec<u8>> {
    safetensors::serialize(tensors, None).map_err(io::Error::other)
}

impl View for &Tensor {
    fn dtype(&self) -> Dtype {
        Dtype::F32
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        self.data.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    fn data_len(&self) -> usize {
        self.data.len() * 4
    }
}
