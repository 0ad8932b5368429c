//! From samples to features, and from posteriors to events.

use tidegate::{Detector, FrontEnd};

use crate::done;
use crate::memory::{Answer, Lent, Owning, Place, disjoint};
use crate::status::tidegate_status::{self, *};
use crate::types::{tidegate_detector, tidegate_event, tidegate_front_end, tidegate_model};

/// Makes `front_end` the front end of `model`, without samples, in `words`, of which there are `words_len`, at least the
/// `front_end_words` of tidegate_info. The words belong to the front end for as long as it is used.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_front_end_init(
    front_end: *mut tidegate_front_end,
    model: *const tidegate_model,
    words: *mut u32,
    words_len: usize,
) -> tidegate_status {
    done(|| {
        let (front_end, model, words) = (Place::new(front_end)?, Place::new(model)?, Lent::new(words, words_len)?);
        disjoint([front_end.region(), words.region()].into_iter(), [model.region()].into_iter())?;
        let memory = words.region();
        // SAFETY: the caller's word: the header says what the pointers point to; they overlap nowhere.
        unsafe {
            let settings = model.get().and_then(|model| model.front_end().ok_or(TIDEGATE_NO_FRONT_END));
            let value = settings
                .and_then(|mfcc| Ok((FrontEnd::new(mfcc, words.get_mut())?, mfcc.settings().coefficients as usize)));
            front_end.fill(value.map(|value| Owning { value, memory }))
        }
    })
}

/// Takes samples, 16 bits each, until a row of features is complete; `*taken` says how many, 0 while a row waits for
/// tidegate_front_end_next. The features do not depend on how the samples are cut into calls.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_front_end_push(
    front_end: *mut tidegate_front_end,
    samples: *const i16,
    samples_len: usize,
    taken: *mut usize,
) -> tidegate_status {
    done(|| {
        let (front_end, taken) = (Place::new(front_end)?, Answer::new(taken)?);
        let samples = Lent::new(samples, samples_len)?;
        // SAFETY: the caller's word: the header says what the pointers point to; they overlap nowhere.
        unsafe {
            let memory = front_end.get()?.memory.clone();
            disjoint([front_end.region(), memory, taken.region()].into_iter(), [samples.region()].into_iter())?;
            taken.give(front_end.get_mut()?.value.0.push(samples.get()));
        }
        Ok(())
    })
}

/// The next row of features, if one is complete: `*has_features` says whether it was written to `features`, which has
/// `features_len` elements, the model's `input_size`. One push may complete several rows: call it until there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_front_end_next(
    front_end: *mut tidegate_front_end,
    features: *mut f32,
    features_len: usize,
    has_features: *mut bool,
) -> tidegate_status {
    done(|| {
        let (front_end, has_features) = (Place::new(front_end)?, Answer::new(has_features)?);
        let features = Lent::new(features, features_len)?;
        // SAFETY: the caller's word: the header says what the pointers point to; they overlap nowhere.
        unsafe {
            let memory = front_end.get()?.memory.clone();
            disjoint(
                [front_end.region(), memory, features.region(), has_features.region()].into_iter(),
                [].into_iter(),
            )?;
            let (front_end, row_len) = &mut front_end.get_mut()?.value;
            if features_len != *row_len {
                return Err(TIDEGATE_WRONG_LENGTH);
            }
            let row = front_end.next();
            has_features.give(row.is_some());
            for (feature, value) in features.get_mut().iter_mut().zip(row.unwrap_or_default()) {
                *feature = *value;
            }
        }
        Ok(())
    })
}

/// Forgets every sample, as new.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_front_end_reset(front_end: *mut tidegate_front_end) -> tidegate_status {
    done(|| {
        // SAFETY: the caller's word: `front_end` is an object that nothing else uses, nor its words.
        unsafe { Place::new(front_end)?.get_mut()? }.value.0.reset();
        Ok(())
    })
}

/// Makes `detector` the detector of `model`, without posteriors, in `words`, of which there are `words_len`, at least the
/// `detector_words` of tidegate_info. The words belong to the detector for as long as it is used.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_detector_init(
    detector: *mut tidegate_detector,
    model: *const tidegate_model,
    words: *mut u32,
    words_len: usize,
) -> tidegate_status {
    done(|| {
        let (detector, model, words) = (Place::new(detector)?, Place::new(model)?, Lent::new(words, words_len)?);
        disjoint([detector.region(), words.region()].into_iter(), [model.region()].into_iter())?;
        let memory = words.region();
        // SAFETY: the caller's word: the header says what the pointers point to; they overlap nowhere.
        unsafe {
            let settings = model.get().and_then(|model| model.detector().ok_or(TIDEGATE_NO_DETECTOR));
            let value = settings.and_then(|settings| Ok(Detector::new(settings, words.get_mut())?));
            detector.fill(value.map(|value| Owning { value, memory }))
        }
    })
}

/// Takes the posteriors of a step's output, `output_size` of them, at the time `now_ms`, which may wrap. `*has_event` says
/// whether that made an event, which is then in `*event`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_detector_push(
    detector: *mut tidegate_detector,
    posteriors: *const f32,
    posteriors_len: usize,
    now_ms: u32,
    event: *mut tidegate_event,
    has_event: *mut bool,
) -> tidegate_status {
    done(|| {
        let (detector, event, has_event) = (Place::new(detector)?, Answer::new(event)?, Answer::new(has_event)?);
        let posteriors = Lent::new(posteriors, posteriors_len)?;
        // SAFETY: the caller's word: the header says what the pointers point to; they overlap nowhere.
        unsafe {
            let memory = detector.get()?.memory.clone();
            let written = [detector.region(), memory, event.region(), has_event.region()];
            disjoint(written.into_iter(), [posteriors.region()].into_iter())?;
            let found = detector.get_mut()?.value.push(posteriors.get(), now_ms)?;
            has_event.give(found.is_some());
            if let Some(found) = found {
                event.give(tidegate_event { label: found.label, score: found.score, at_ms: found.at_ms });
            }
        }
        Ok(())
    })
}

/// Forgets every posterior and event, as new.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_detector_reset(detector: *mut tidegate_detector) -> tidegate_status {
    done(|| {
        // SAFETY: the caller's word: `detector` is an object that nothing else uses, nor its words.
        unsafe { Place::new(detector)?.get_mut()? }.value.reset();
        Ok(())
    })
}
