//! Imports models from state dicts, with an architecture that the user gives or that the names determine.

use safetensors::{Dtype, SafeTensors};

use super::{names, state::MAX_TENSORS, state::State};
use crate::budget::{Budget, WEIGHT};
use crate::data::{one_line, tensors::damage, tensors::take_header};
use crate::format::{Imported, Options, refuse::limit_if};
use crate::{canonical::Tensor, data::element::Element, data::element::Endian, error::ImportError, error::Result};

impl State {
    /// Imports the model with the architecture that the user gives or that the names determine.
    pub fn import(self, name: &str, options: &Options) -> Result<Imported> {
        limit_if(self.order.len() > MAX_TENSORS, MAX_TENSORS, "tensors")?;
        let (description, found) = match &options.description {
            Some(given) => (given.clone(), None),
            None => {
                let (description, text) = names::found(&self)?;
                (description, Some(text))
            }
        };
        let source = format!("{name}, PyTorch");
        let mut imported = description.model("torch", &self.tensors, options.window, &source)?;
        imported.notes.splice(0..0, self.notes.into_iter().chain(found));
        Ok(imported)
    }
}

/// Imports a safetensors file that another program wrote.
pub(crate) fn import_safetensors(bytes: &[u8], name: &str, options: &Options) -> Result<Imported> {
    let wrong = |reason: String| ImportError::Malformed { format: "safetensors file", reason: one_line(&reason) };
    let mut budget = Budget::of_file(bytes.len());
    take_header(bytes, &mut budget)?;
    let file = SafeTensors::deserialize(bytes).map_err(|error| wrong(damage(&error)))?;
    let mut state = State::default();
    for (name, view) in file.iter() {
        let element = element(view.dtype())
            .ok_or_else(|| ImportError::Unsupported(format!("tensor {name:?} of type {:?}", view.dtype())))?;
        budget.take(view.data().len() / element.bytes(), WEIGHT)?;
        let (data, lost) = element
            .decode_counting(view.data(), Endian::Little)
            .map_err(|reason| wrong(format!("tensor {name:?} {reason}")))?;
        state.insert(name.to_owned(), Tensor { shape: view.shape().to_vec(), data }, lost)?;
    }
    // The format sorts tensors, so their order says nothing about that of the modules.
    state.order.sort_unstable();
    state.import(name, options)
}

/// Imports the tensors of a state dict from another source, in their order there.
pub(crate) fn import_tensors(tensors: Vec<(String, Tensor)>, name: &str, options: &Options) -> Result<Imported> {
    let mut state = State::default();
    tensors.into_iter().try_for_each(|(name, tensor)| state.insert(name, tensor, 0))?;
    state.import(name, options)
}

fn element(dtype: Dtype) -> Option<Element> {
    Some(match dtype {
        Dtype::BOOL => Element::Bool,
        Dtype::U8 => Element::U8,
        Dtype::I8 => Element::I8,
        Dtype::I16 => Element::I16,
        Dtype::I32 => Element::I32,
        Dtype::I64 => Element::I64,
        Dtype::F16 => Element::F16,
        Dtype::BF16 => Element::Bf16,
        Dtype::F32 => Element::F32,
        Dtype::F64 => Element::F64,
        _ => return None,
    })
}
