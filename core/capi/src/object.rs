//! Initialization, queries and resets of objects.

use core::ffi::c_char;

use tidegate::{ImageBytes, Model, Ports};

use crate::memory::{Answer, Lent, Object, Owning, Place, Word, disjoint};
use crate::status::tidegate_status::{self, *};
use crate::types::{tidegate_model, tidegate_port, tidegate_state};

/// Parses an image into a model.
pub(crate) fn parse(
    word: Word,
    model: *mut tidegate_model,
    (image, image_len): (*const u8, usize),
) -> Result<(), tidegate_status> {
    let (model, image) = (Place::new(word, model)?, Lent::new(word, image, image_len)?);
    let apart = disjoint(&[model.region()], &[image.region()])?;
    let image = ImageBytes::new(image.get())?;
    model.fill(apart, Model::parse(image).map_err(Into::into))
}

/// Writes the result of `find` on a model.
pub(crate) fn answer<T>(
    word: Word,
    model: *const tidegate_model,
    to: *mut T,
    find: impl FnOnce(&Model<'static>) -> Result<T, tidegate_status>,
) -> Result<(), tidegate_status> {
    let (model, to) = (Place::new(word, model)?, Answer::new(word, to)?);
    let apart = disjoint(&[to.region()], &[model.region()])?;
    to.give(apart, find(model.get()?)?);
    Ok(())
}

/// The port with an index.
pub(crate) fn nth(mut ports: Ports<'_>, index: usize) -> Result<tidegate_port, tidegate_status> {
    ports.nth(index).map(tidegate_port::of).ok_or(TIDEGATE_NO_SUCH)
}

/// Writes the address and the length of a label.
pub(crate) fn label(
    word: Word,
    model: *const tidegate_model,
    index: usize,
    text: *mut *const c_char,
    text_len: *mut usize,
) -> Result<(), tidegate_status> {
    let (model, text, text_len) = (Place::new(word, model)?, Answer::new(word, text)?, Answer::new(word, text_len)?);
    let apart = disjoint(&[text.region(), text_len.region()], &[model.region()])?;
    let label = model.get()?.labels().nth(index).ok_or(TIDEGATE_NO_SUCH)?;
    text.give(apart, label.as_ptr().cast());
    text_len.give(apart, label.len());
    Ok(())
}

/// Initializes an object for a model in borrowed words.
pub(crate) fn init<O: Object<Value = Owning<T>>, T>(
    word: Word,
    object: *mut O,
    model: *const tidegate_model,
    (words, words_len): (*mut u32, usize),
    make: impl FnOnce(&Model<'static>, &'static mut [u32]) -> Result<T, tidegate_status>,
) -> Result<(), tidegate_status> {
    let (object, model) = (Place::new(word, object)?, Place::new(word, model)?);
    let words = Lent::new(word, words, words_len)?;
    let apart = disjoint(&[object.region(), words.region()], &[model.region()])?;
    let memory = words.region();
    let value = model.get().and_then(|model| make(model, words.get_mut(apart)));
    object.fill(apart, value.map(|value| Owning { value, memory }))
}

/// Calls `work` on a single object.
pub(crate) fn reset<O: Object>(
    word: Word,
    object: *mut O,
    reset: impl FnOnce(&mut O::Value),
) -> Result<(), tidegate_status> {
    let mut object = Place::new(word, object)?;
    let apart = disjoint(&[object.region()], &[])?;
    reset(object.get_mut(apart)?);
    Ok(())
}

/// Writes a state to bytes.
pub(crate) fn save(
    word: Word,
    state: *const tidegate_state,
    (bytes, bytes_len): (*mut u8, usize),
) -> Result<(), tidegate_status> {
    let (state, bytes) = (Place::new(word, state)?, Lent::new(word, bytes, bytes_len)?);
    let owning = state.get()?;
    let apart = disjoint(&[bytes.region()], &[state.region(), owning.memory])?;
    owning.value.save(bytes.get_mut(apart))?;
    Ok(())
}

/// Reads a state from bytes.
pub(crate) fn restore(
    word: Word,
    state: *mut tidegate_state,
    (bytes, bytes_len): (*const u8, usize),
) -> Result<(), tidegate_status> {
    let (mut state, bytes) = (Place::new(word, state)?, Lent::new(word, bytes, bytes_len)?);
    let apart = disjoint(&[state.region(), state.get()?.memory], &[bytes.region()])?;
    state.get_mut(apart)?.value.restore(bytes.get())?;
    Ok(())
}
