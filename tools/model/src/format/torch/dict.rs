//! The state dict in a pickle: finds the dictionary, the names of its tensors, and their layout in the storages.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};

use super::pickle::{Id, MAX_OBJECTS, Object, Pickle, Refusal};
use super::state::{FORMAT, MAX_TENSORS, State, malformed, malformed_if};
use crate::format::refuse::limit_if;
use crate::{
    budget::Budget, budget::WEIGHT, canonical::Tensor, data::element::Element, data::element::Endian, data::one_line,
    error::ImportError, error::Result,
};

/// Keys under which checkpoints store their weights.
const WEIGHTS: [&str; 7] = ["state_dict", "model_state_dict", "model_state", "model", "module", "net", "network"];
const MAX_DIMS: usize = 8;
/// Maximum length of a name in bytes. The objects of a pickle may share a long text.
const MAX_NAME: usize = 1024;
/// Maximum number of notes on entries that are not tensors.
const MAX_NOTES: usize = 64;

pub(super) type Storages<'a> = HashMap<String, Cow<'a, [u8]>>;

/// A tensor as a view of a storage.
#[derive(Debug)]
pub(super) struct View<'a> {
    pub storage: &'a str,
    element: Element,
    offset: usize,
    shape: Vec<usize>,
    strides: Vec<usize>,
}

/// The named tensors of a state dict in their original order.
#[derive(Debug)]
pub(super) struct Found<'a> {
    pub views: Vec<(&'a str, View<'a>)>,
    notes: Vec<String>,
}

/// Reads a pickle that may contain only the objects of state dicts.
pub(super) fn read(bytes: &[u8]) -> Result<Pickle<'_>> {
    let known = |module: &str, name: &str| {
        module == "torch._utils" && ["_rebuild_tensor", "_rebuild_tensor_v2", "_rebuild_parameter"].contains(&name)
            || (module, name) == ("collections", "OrderedDict")
            || element_of(module, name).is_some()
    };
    Pickle::parse(bytes, known).map_err(|refusal| match refusal {
        Refusal::Limit => ImportError::Limit { most: MAX_OBJECTS, what: "objects in its pickle" },
        Refusal::Malformed(reason) => ImportError::Malformed { format: FORMAT, reason: one_line(&reason) },
        Refusal::Global(module, name) => {
            let short = |text: &str| text.chars().take(64).collect::<String>().escape_debug().to_string();
            ImportError::Refused {
                found: format!("it would call {}.{}, which no state dict needs", short(&module), short(&name)),
                advice: "nothing is called; save the weights alone: torch.save(model.state_dict(), FILE)",
            }
        }
    })
}

fn element_of(module: &str, name: &str) -> Option<Element> {
    if !["torch", "torch.cuda"].contains(&module) {
        return None;
    }
    Some(match name {
        "FloatStorage" => Element::F32,
        "DoubleStorage" => Element::F64,
        "HalfStorage" => Element::F16,
        "BFloat16Storage" => Element::Bf16,
        "LongStorage" => Element::I64,
        "IntStorage" => Element::I32,
        "ShortStorage" => Element::I16,
        "CharStorage" => Element::I8,
        "ByteStorage" => Element::U8,
        "BoolStorage" => Element::Bool,
        _ => return None,
    })
}

pub(super) fn storages<'a>(pickle: &Pickle<'a>) -> Result<HashMap<&'a str, Element>> {
    let mut elements = HashMap::new();
    for object in pickle.objects() {
        if let Object::Persistent(id) = object {
            let (name, element, _) = storage(pickle, *id)?;
            let differs = elements.insert(name, element).is_some_and(|before| before != element);
            malformed_if(differs, format_args!("storage {name:?} has two types"))?;
        }
    }
    Ok(elements)
}

/// Name, element type and length of a storage: `('storage', type, name, device, numbers)`.
fn storage<'a>(pickle: &Pickle<'a>, id: Id) -> Result<(&'a str, Element, usize)> {
    let parts = match pickle.get(id) {
        Object::Tuple(parts) => parts.as_slice(),
        _ => &[],
    };
    let &[tag, kind, name, _, numbers, ref view @ ..] = parts else {
        return malformed("the storage of a tensor is not a storage");
    };
    malformed_if(view.iter().any(|&view| pickle.get(view) != &Object::None), "a storage is part of another one")?;
    match (pickle.get(tag), pickle.get(kind), pickle.get(name), pickle.get(numbers)) {
        (Object::Text("storage"), &Object::Global(module, kind), &Object::Text(name), &Object::Int(numbers)) => {
            let (Some(element), Ok(numbers)) = (element_of(module, kind), usize::try_from(numbers)) else {
                return malformed(format!("storage {name:?} has an unknown type"));
            };
            Ok((name, element, numbers))
        }
        _ => malformed("a storage has no name"),
    }
}

/// The tensors of the state dict, which is the pickle itself or the value of one of a checkpoint's keys for weights.
pub(super) fn tensors<'a>(pickle: &Pickle<'a>) -> Result<Found<'a>> {
    let none = |what: &str| {
        let found = format!("it holds {what}, where a state dict has tensors by name");
        Err(ImportError::Refused { found, advice: "save the weights: torch.save(model.state_dict(), FILE)" })
    };
    let Object::Dict(items) = pickle.get(pickle.root) else { return none("no dictionary") };
    let has_tensors = |id: Id| match pickle.get(id) {
        Object::Dict(items) => items.iter().any(|&(_, value)| is_tensor(pickle, value)),
        _ => false,
    };
    if has_tensors(pickle.root) {
        return named(pickle, items, Vec::new());
    }
    let key = |id: Id| match pickle.get(id) {
        &Object::Text(text) => Some(text),
        _ => None,
    };
    let is_weights = |id: Id| key(id).is_some_and(|name| WEIGHTS.contains(&name));
    // Each dictionary is looked through once: any number of keys may share it.
    let mut seen = BTreeSet::new();
    let mut weights =
        items.iter().filter(|&&(name, value)| is_weights(name) && seen.insert(value) && has_tensors(value));
    let (Some(&(of, dict)), None) = (weights.next(), weights.next()) else {
        return none("no dictionary of tensors, neither at the top nor under state_dict or model_state_dict");
    };
    let others = items.iter().filter(|&&(name, _)| name != of).filter_map(|&(name, _)| key(name));
    let notes = others.filter(|name| name.len() <= MAX_NAME).take(MAX_NOTES);
    let notes = notes.map(|name| format!("not used: {} of the checkpoint", name.escape_debug())).collect();
    match pickle.get(dict) {
        Object::Dict(items) => named(pickle, items, notes),
        _ => none("no dictionary"),
    }
}

fn is_tensor(pickle: &Pickle<'_>, id: Id) -> bool {
    matches!(pickle.get(id), Object::Call { .. })
}

fn named<'a>(pickle: &Pickle<'a>, items: &[(Id, Id)], mut notes: Vec<String>) -> Result<Found<'a>> {
    let (mut views, mut names) = (Vec::new(), BTreeSet::new());
    for &(name, value) in items {
        let &Object::Text(name) = pickle.get(name) else { return malformed("the name of a tensor is not a text") };
        limit_if(name.len() > MAX_NAME, MAX_NAME, "bytes in a name")?;
        malformed_if(!names.insert(name), format_args!("two entries are named {name:?}"))?;
        if is_tensor(pickle, value) {
            limit_if(views.len() == MAX_TENSORS, MAX_TENSORS, "tensors")?;
            views.push((name, view(pickle, name, value)?));
        } else if notes.len() < MAX_NOTES {
            notes.push(format!("not used: {}, which is not a tensor", name.escape_debug()));
        }
    }
    Ok(Found { views, notes })
}

/// A tensor: `_rebuild_tensor_v2(storage, offset, size, stride, requires_grad, hooks)`, or a parameter that contains
/// one.
fn view<'a>(pickle: &Pickle<'a>, name: &str, id: Id) -> Result<View<'a>> {
    let of = name.escape_debug();
    let call = |id: Id| match pickle.get(id) {
        &Object::Call { callee, args } => match (pickle.get(callee), pickle.get(args)) {
            (&Object::Global(_, callee), Object::Tuple(args)) => Some((callee, args.as_slice())),
            _ => None,
        },
        _ => None,
    };
    let mut found = call(id);
    if let Some(("_rebuild_parameter", &[data, ..])) = found {
        found = call(data);
    }
    let Some(("_rebuild_tensor" | "_rebuild_tensor_v2", &[stored, offset, size, stride, ..])) = found else {
        return malformed(format!("{of} is not a tensor"));
    };
    let &Object::Persistent(stored) = pickle.get(stored) else { return malformed(format!("{of} has no storage")) };
    let (storage, element, numbers) = storage(pickle, stored)?;
    let number = |id: Id| match pickle.get(id) {
        Object::Int(number) => usize::try_from(*number).ok(),
        _ => None,
    };
    let list = |id: Id| match pickle.get(id) {
        Object::Tuple(ids) | Object::List(ids) if ids.len() <= MAX_DIMS => {
            ids.iter().map(|&id| number(id)).collect::<Option<Vec<usize>>>()
        }
        _ => None,
    };
    let (Some(offset), Some(shape), Some(strides)) = (number(offset), list(size), list(stride)) else {
        return malformed(format!("{of} has an invalid size, stride or offset"));
    };
    let view = View { storage, element, offset, shape, strides };
    match view.end() {
        Some(end) if end <= numbers && view.shape.len() == view.strides.len() => Ok(view),
        _ => malformed(format!("{of} reaches beyond its storage of {numbers} numbers")),
    }
}

impl View<'_> {
    fn count(&self) -> Option<usize> {
        self.shape.iter().try_fold(1_usize, |count, &dim| count.checked_mul(dim))
    }

    /// End of the view in its storage: one past its last element, or its offset if it has no elements.
    fn end(&self) -> Option<usize> {
        if self.count()? == 0 {
            return Some(self.offset);
        }
        let mut last = self.offset;
        for (&dim, &stride) in self.shape.iter().zip(&self.strides) {
            last = last.checked_add((dim - 1).checked_mul(stride)?)?;
        }
        last.checked_add(1)
    }

    /// Whether the elements are contiguous and in row-major order.
    fn is_contiguous(&self) -> bool {
        let mut step = 1;
        self.shape.iter().zip(&self.strides).rev().all(|(&dim, &stride)| {
            let fits = dim == 1 || stride == step;
            step *= dim;
            fits
        })
    }

    /// The elements in row-major order, and the number of them that were rounded. `content` is the storage's content.
    fn decode(&self, content: &[u8], endian: Endian, count: usize) -> Result<(Vec<f32>, usize), String> {
        let size = self.element.bytes();
        let at = |index: usize| {
            let start = index.checked_mul(size)?;
            content.get(start..start.checked_add(size)?)
        };
        let cut = || "reaches beyond the end of its storage".to_owned();
        if count == 0 {
            return Ok((Vec::new(), 0));
        }
        if self.is_contiguous() {
            let bytes =
                self.offset.checked_mul(size).and_then(|start| content.get(start..start.checked_add(count * size)?));
            return self.element.decode_counting(bytes.ok_or_else(cut)?, endian);
        }
        let mut bytes = Vec::with_capacity(count * size);
        let mut position = vec![0_usize; self.shape.len()];
        let mut index = self.offset;
        for _ in 0..count {
            bytes.extend_from_slice(at(index).ok_or_else(cut)?);
            // Advances to the next element in row-major order, last dimension first.
            for ((place, &dim), &stride) in position.iter_mut().zip(&self.shape).zip(&self.strides).rev() {
                *place += 1;
                // The stride of a dimension of length 1 may be any number.
                index = index.wrapping_add(stride);
                if *place < dim {
                    break;
                }
                index = index.wrapping_sub(stride.wrapping_mul(dim));
                *place = 0;
            }
        }
        self.element.decode_counting(&bytes, endian)
    }
}

impl Found<'_> {
    /// Decodes all tensors from their storages.
    pub fn state(self, storages: &Storages<'_>, endian: Endian, budget: &mut Budget) -> Result<State> {
        let mut state = State { notes: self.notes, ..State::default() };
        for (name, view) in self.views {
            let of = name.escape_debug();
            let count = view.count().unwrap_or(usize::MAX);
            budget.take(count, WEIGHT)?;
            let content = storages.get(view.storage);
            let missing = || malformed(format!("storage {:?} of {of} is missing", view.storage));
            let content = content.map_or_else(missing, Ok)?;
            let (data, lost) =
                view.decode(content, endian, count).or_else(|reason| malformed(format!("{of} {reason}")))?;
            state.insert(name.to_owned(), Tensor { shape: view.shape, data }, lost)?;
        }
        Ok(state)
    }
}
