//! The front end (samples to features) and the detector (posteriors to events), in floats and in integers.

use tidegate::{Detector, FrontEnd, IntegerDetector, IntegerFrontEnd, Model};

use crate::memory::{Answer, Lent, Object, Owning, Place, Word, disjoint};
use crate::status::tidegate_status::{self, *};

/// A front end, and the number of features in its rows.
type Rows<F> = (F, usize);

/// Creates the float front end of a model.
pub(crate) fn front_end(
    model: &Model<'static>,
    words: &'static mut [u32],
) -> Result<Rows<FrontEnd<'static, 'static>>, tidegate_status> {
    let mfcc = model.front_end().ok_or(TIDEGATE_NO_FRONT_END)?;
    Ok((FrontEnd::new(mfcc, words)?, mfcc.settings().coefficients as usize))
}

/// The same in integers.
pub(crate) fn front_end_i16(
    model: &Model<'static>,
    words: &'static mut [u32],
) -> Result<Rows<IntegerFrontEnd<'static, 'static>>, tidegate_status> {
    let mfcc = model.front_end().ok_or(TIDEGATE_NO_FRONT_END)?.integer().ok_or(TIDEGATE_FLOAT_FRONT_END)?;
    Ok((IntegerFrontEnd::new(&mfcc, words)?, mfcc.settings().coefficients as usize))
}

/// Creates the float detector of a model.
pub(crate) fn detector(
    model: &Model<'static>,
    words: &'static mut [u32],
) -> Result<Detector<'static, 'static>, tidegate_status> {
    Ok(Detector::new(model.detector().ok_or(TIDEGATE_NO_DETECTOR)?, words)?)
}

/// The same in integers.
pub(crate) fn detector_i16(
    model: &Model<'static>,
    words: &'static mut [u32],
) -> Result<IntegerDetector<'static, 'static>, tidegate_status> {
    Ok(IntegerDetector::new(model.detector().ok_or(TIDEGATE_NO_DETECTOR)?, model.output_scale(), words)?)
}

/// Passes samples to `push`, which returns the number taken.
pub(crate) fn push<O: Object<Value = Owning<Rows<F>>>, F>(
    word: Word,
    front_end: *mut O,
    (samples, samples_len): (*const i16, usize),
    taken: *mut usize,
    push: impl FnOnce(&mut F, &[i16]) -> usize,
) -> Result<(), tidegate_status> {
    let (front_end, taken) = (Place::new(word, front_end)?, Answer::new(word, taken)?);
    let samples = Lent::new(word, samples, samples_len)?;
    let mut held = front_end.hold()?;
    let [object, memory] = held.regions();
    let apart = disjoint(&[object, memory, taken.region()], &[samples.region(), held.image()])?;
    taken.give(apart, push(&mut held.value(apart).0, samples.get()));
    Ok(())
}

/// Writes the next row of features, if there is one.
pub(crate) fn next<O: Object<Value = Owning<Rows<F>>>, F, T: Copy>(
    word: Word,
    front_end: *mut O,
    (features, features_len): (*mut T, usize),
    has_features: *mut bool,
    next: impl FnOnce(&mut F) -> Option<&[T]>,
) -> Result<(), tidegate_status> {
    let (front_end, has_features) = (Place::new(word, front_end)?, Answer::new(word, has_features)?);
    let features = Lent::new(word, features, features_len)?;
    let mut held = front_end.hold()?;
    let [object, memory] = held.regions();
    let apart = disjoint(&[object, memory, features.region(), has_features.region()], &[held.image()])?;
    let (front_end, row_len) = held.value(apart);
    if features_len != *row_len {
        return Err(TIDEGATE_WRONG_LENGTH);
    }
    let row = next(front_end);
    has_features.give(apart, row.is_some());
    for (feature, value) in features.get_mut(apart).iter_mut().zip(row.unwrap_or_default()) {
        *feature = *value;
    }
    Ok(())
}

/// Passes posteriors to `push` and writes the event if there is one.
pub(crate) fn detect<O: Object<Value = Owning<D>>, D, P, E>(
    word: Word,
    detector: *mut O,
    (posteriors, posteriors_len): (*const P, usize),
    event: *mut E,
    has_event: *mut bool,
    push: impl FnOnce(&mut D, &[P]) -> Result<Option<E>, tidegate_status>,
) -> Result<(), tidegate_status> {
    let detector = Place::new(word, detector)?;
    let (event, has_event) = (Answer::new(word, event)?, Answer::new(word, has_event)?);
    let posteriors = Lent::new(word, posteriors, posteriors_len)?;
    let mut held = detector.hold()?;
    let [object, memory] = held.regions();
    let written = [object, memory, event.region(), has_event.region()];
    let apart = disjoint(&written, &[posteriors.region(), held.image()])?;
    let found = push(held.value(apart), posteriors.get())?;
    has_event.give(apart, found.is_some());
    if let Some(found) = found {
        event.give(apart, found);
    }
    Ok(())
}
