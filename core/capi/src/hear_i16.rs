//! The same in integers: from samples to features, and from posteriors to events, without a float.

use tidegate::detector::IntegerDetector;
use tidegate::front_end::IntegerFrontEnd;

use crate::done;
use crate::memory::{Answer, Lent, Owning, Place, disjoint};
use crate::status::tidegate_status::{self, *};
use crate::types::{tidegate_detector_i16, tidegate_event_i16, tidegate_front_end_i16, tidegate_model};

/// tidegate_front_end_init of an image whose front end is one of integers; it needs as many words.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_front_end_i16_init(
    front_end: *mut tidegate_front_end_i16,
    model: *const tidegate_model,
    words: *mut u32,
    words_len: usize,
) -> tidegate_status {
    done(|| {
        let (front_end, model, words) = (Place::new(front_end)?, Place::new(model)?, Lent::new(words, words_len)?);
        disjoint(&[front_end.region(), words.region()], &[model.region()])?;
        let memory = words.region();
        // SAFETY: the caller's word: the header says what the pointers point to; they overlap nowhere.
        unsafe {
            let mfcc = model.get().and_then(|model| model.front_end().ok_or(TIDEGATE_NO_FRONT_END));
            let mfcc = mfcc.and_then(|mfcc| mfcc.integer().ok_or(TIDEGATE_FLOAT_FRONT_END));
            let value = mfcc.and_then(|mfcc| {
                Ok((IntegerFrontEnd::new(&mfcc, words.get_mut())?, mfcc.settings().coefficients as usize))
            });
            front_end.fill(value.map(|value| Owning { value, memory }))
        }
    })
}

/// As tidegate_front_end_push.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_front_end_i16_push(
    front_end: *mut tidegate_front_end_i16,
    samples: *const i16,
    samples_len: usize,
    taken: *mut usize,
) -> tidegate_status {
    done(|| {
        let (front_end, taken) = (Place::new(front_end)?, Answer::new(taken)?);
        let samples = Lent::new(samples, samples_len)?;
        // SAFETY: the caller's word: the header says what the pointers point to; they overlap nowhere.
        unsafe {
            let memory = front_end.get()?.memory;
            disjoint(&[front_end.region(), memory, taken.region()], &[samples.region()])?;
            taken.give(front_end.get_mut()?.value.0.push(samples.get()));
        }
        Ok(())
    })
}

/// tidegate_front_end_next without a float: rows for tidegate_step_i16.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_front_end_i16_next(
    front_end: *mut tidegate_front_end_i16,
    features: *mut i16,
    features_len: usize,
    has_features: *mut bool,
) -> tidegate_status {
    done(|| {
        let (front_end, has_features) = (Place::new(front_end)?, Answer::new(has_features)?);
        let features = Lent::new(features, features_len)?;
        // SAFETY: the caller's word: the header says what the pointers point to; they overlap nowhere.
        unsafe {
            let memory = front_end.get()?.memory;
            disjoint(&[front_end.region(), memory, features.region(), has_features.region()], &[])?;
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
pub unsafe extern "C" fn tidegate_front_end_i16_reset(front_end: *mut tidegate_front_end_i16) -> tidegate_status {
    done(|| {
        // SAFETY: the caller's word: `front_end` is an object that nothing else uses, nor its words.
        unsafe { Place::new(front_end)?.get_mut()? }.value.0.reset();
        Ok(())
    })
}

/// tidegate_detector_init of a model whose outputs are posteriors in 2^-15, as those of softmax and sigmoid are; it needs the
/// `detector_i16_words` of tidegate_info.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_detector_i16_init(
    detector: *mut tidegate_detector_i16,
    model: *const tidegate_model,
    words: *mut u32,
    words_len: usize,
) -> tidegate_status {
    done(|| {
        let (detector, model, words) = (Place::new(detector)?, Place::new(model)?, Lent::new(words, words_len)?);
        disjoint(&[detector.region(), words.region()], &[model.region()])?;
        let memory = words.region();
        // SAFETY: the caller's word: the header says what the pointers point to; they overlap nowhere.
        unsafe {
            let value = model.get().and_then(|model| {
                let settings = model.detector().ok_or(TIDEGATE_NO_DETECTOR)?;
                Ok(IntegerDetector::new(settings, model.output_scale(), words.get_mut())?)
            });
            detector.fill(value.map(|value| Owning { value, memory }))
        }
    })
}

/// tidegate_detector_push without a float: takes what tidegate_step_i16 gives.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_detector_i16_push(
    detector: *mut tidegate_detector_i16,
    posteriors: *const i16,
    posteriors_len: usize,
    now_ms: u32,
    event: *mut tidegate_event_i16,
    has_event: *mut bool,
) -> tidegate_status {
    done(|| {
        let (detector, event, has_event) = (Place::new(detector)?, Answer::new(event)?, Answer::new(has_event)?);
        let posteriors = Lent::new(posteriors, posteriors_len)?;
        // SAFETY: the caller's word: the header says what the pointers point to; they overlap nowhere.
        unsafe {
            let memory = detector.get()?.memory;
            let written = [detector.region(), memory, event.region(), has_event.region()];
            disjoint(&written, &[posteriors.region()])?;
            let found = detector.get_mut()?.value.push(posteriors.get(), now_ms)?;
            has_event.give(found.is_some());
            if let Some(found) = found {
                event.give(tidegate_event_i16 { label: found.label, score: found.score, at_ms: found.at_ms });
            }
        }
        Ok(())
    })
}

/// Forgets every posterior and event, as new.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_detector_i16_reset(detector: *mut tidegate_detector_i16) -> tidegate_status {
    done(|| {
        // SAFETY: the caller's word: `detector` is an object that nothing else uses, nor its words.
        unsafe { Place::new(detector)?.get_mut()? }.value.reset();
        Ok(())
    })
}
