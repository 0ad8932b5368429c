//! Initialization, queries and resets of objects.

use core::ffi::c_char;

use tidegate::{ImageBytes, Model, Ports};

use crate::memory::{Answer, Lent, Object, Owning, Place, Region, Word, disjoint};
use crate::status::tidegate_status::{self, *};
use crate::types::{tidegate_limits, tidegate_model, tidegate_port, tidegate_state};

/// Parses an image into a model, within limits if there are any.
pub(crate) fn parse(
    word: Word,
    model: *mut tidegate_model,
    (image, image_len): (*const u8, usize),
    limits: Option<*const tidegate_limits>,
) -> Result<(), tidegate_status> {
    let (model, image) = (Place::new(word, model)?, Lent::new(word, image, image_len)?);
    let limits = limits.map(|limits| Lent::new(word, limits, 1)).transpose()?;
    let of_limits = limits.as_ref().map_or(Region::default(), Lent::region);
    let apart = disjoint(&[model.region()], &[image.region(), of_limits])?;
    let image = ImageBytes::new(image.get())?;
    let limits = limits.and_then(|limits| limits.get().first());
    let parsed = match limits {
        Some(limits) => Model::parse_within(image, &limits.get()),
        None => Model::parse(image),
    };
    model.fill(apart, parsed.map_err(Into::into))
}

/// The bytes of the image of a model.
pub(crate) fn image_of(model: &Model<'_>) -> Region {
    Region::of(model.image().bytes)
}

/// Writes the result of `find` on a model.
pub(crate) fn answer<T>(
    word: Word,
    model: *const tidegate_model,
    to: *mut T,
    find: impl FnOnce(&Model<'static>) -> Result<T, tidegate_status>,
) -> Result<(), tidegate_status> {
    let (model, to) = (Place::new(word, model)?, Answer::new(word, to)?);
    let apart = disjoint(&[to.region()], &[model.region(), image_of(model.get()?)])?;
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
    let apart = disjoint(&[text.region(), text_len.region()], &[model.region(), image_of(model.get()?)])?;
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
    object.is_free()?;
    let words = Lent::new(word, words, words_len)?;
    let image = model.get().map(image_of).unwrap_or_default();
    let apart = disjoint(&[object.region(), words.region()], &[model.region(), image])?;
    let memory = words.region();
    let value = model.get().and_then(|model| make(model, words.get_mut(apart)));
    object.fill_with(apart, value, [memory, image])
}

/// Calls `work` on the value of a single object.
pub(crate) fn reset<O: Object<Value = Owning<T>>, T>(
    word: Word,
    object: *mut O,
    reset: impl FnOnce(&mut T),
) -> Result<(), tidegate_status> {
    let object = Place::new(word, object)?;
    let mut held = object.hold()?;
    let apart = disjoint(&held.regions(), &[])?;
    reset(held.value(apart));
    Ok(())
}

/// Writes a state to bytes.
pub(crate) fn save(
    word: Word,
    state: *const tidegate_state,
    (bytes, bytes_len): (*mut u8, usize),
) -> Result<(), tidegate_status> {
    let (state, bytes) = (Place::new(word, state)?, Lent::new(word, bytes, bytes_len)?);
    let mut held = state.hold()?;
    let [object, memory] = held.regions();
    let apart = disjoint(&[bytes.region()], &[object, memory, held.image()])?;
    held.value(apart).save(bytes.get_mut(apart))?;
    Ok(())
}

/// Reads a state of a model from bytes.
pub(crate) fn restore(
    word: Word,
    state: *mut tidegate_state,
    model: *const tidegate_model,
    (bytes, bytes_len): (*const u8, usize),
) -> Result<(), tidegate_status> {
    let (state, model) = (Place::new(word, state)?, Place::new(word, model)?);
    let bytes = Lent::new(word, bytes, bytes_len)?;
    let (model_region, model) = (model.region(), model.get()?);
    let mut held = state.hold()?;
    let apart = disjoint(&held.regions(), &[model_region, image_of(model), bytes.region()])?;
    Ok(model.restore(held.value(apart), bytes.get())?)
}
