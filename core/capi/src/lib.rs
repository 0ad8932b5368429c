//! Tidegate for C firmware: every call checks what it is given, hands it to the crate `tidegate`, and says in a status
//! what came of it. `include/tidegate.h` is made of this crate's comments; no logic lives here.

#![cfg_attr(target_os = "none", no_std)]
#![deny(missing_docs)]
// The names of the header are C's.
#![allow(non_camel_case_types)]
#![expect(unsafe_code)]
// What every call asks of its caller stands once, at the top of the header.
#![expect(clippy::missing_safety_doc)]

mod memory;
mod status;
mod types;

use core::ffi::c_char;

use memory::{Answer, Lent, Owning, Place, disjoint};
use status::tidegate_status::*;
use tidegate::{Detector, FrontEnd, ImageBytes, Model, State, Step, StepError};

pub use status::tidegate_status;
pub use types::{
    TIDEGATE_VERSION, tidegate_detector, tidegate_event, tidegate_front_end, tidegate_info, tidegate_model,
    tidegate_port, tidegate_state,
};

/// What `core` never does. A watchdog finds it.
#[cfg(target_os = "none")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {
        core::hint::spin_loop();
    }
}

fn done(work: impl FnOnce() -> Result<(), tidegate_status>) -> tidegate_status {
    match work() {
        Ok(()) => TIDEGATE_OK,
        Err(status) => status,
    }
}

/// The version of the library. `tidegate_version() == TIDEGATE_VERSION` where header and library belong together.
#[unsafe(no_mangle)]
pub extern "C" fn tidegate_version() -> u32 {
    TIDEGATE_VERSION
}

/// A sentence about a status, for a log: ended by a zero byte, never null, never to be freed.
#[unsafe(no_mangle)]
pub extern "C" fn tidegate_status_text(status: i32) -> *const c_char {
    tidegate_status::text_of(status).as_ptr()
}

/// Checks an image of `image_len` bytes, which begins on a multiple of 16, and makes `model` ready to run it. Bytes behind
/// the image's own end are ignored: a flash bank is longer. The image must stay as it is and where it is; nothing of it is
/// copied. A step of a model that was parsed cannot fail for the image's sake.
///
/// Reads every byte of the image once, for the checksum: a few instructions a byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_model_parse(
    model: *mut tidegate_model,
    image: *const u8,
    image_len: usize,
) -> tidegate_status {
    done(|| {
        let (model, image) = (Place::new(model)?, Lent::new(image, image_len)?);
        disjoint(&[model.region()], &[image.region()])?;
        // SAFETY: the caller's word: the header says what `image` and `model` point to.
        unsafe {
            let image = ImageBytes::new(image.get())?;
            model.fill(Model::parse(image).map_err(Into::into))
        }
    })
}

/// The model that was built into the library (cargo feature `image`), which needs neither RAM nor a parse, and links the
/// code of its own cells only; null if none was.
#[unsafe(no_mangle)]
pub extern "C" fn tidegate_model_builtin() -> *const tidegate_model {
    #[cfg(feature = "image")]
    {
        (&raw const builtin::MODEL).cast()
    }
    #[cfg(not(feature = "image"))]
    {
        core::ptr::null()
    }
}

#[cfg(feature = "image")]
mod builtin {
    use tidegate::{Aligned, ImageBytes, Model};

    use crate::memory::Sealed;
    use crate::types::sealed;

    static IMAGE: &Aligned<[u8]> = &Aligned(*include_bytes!(env!("TIDEGATE_IMAGE", "the path of an image, absolute")));

    pub static MODEL: Sealed<Model<'static>> = match Model::parse(ImageBytes::from_aligned(IMAGE)) {
        Ok(model) => sealed(model),
        Err(_) => panic!("what TIDEGATE_IMAGE names is not a valid image: tidegate inspect says why"),
    };
}

/// What a model needs and has.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_model_info(
    model: *const tidegate_model,
    info: *mut tidegate_info,
) -> tidegate_status {
    done(|| {
        let (model, info) = (Place::new(model)?, Answer::new(info)?);
        disjoint(&[info.region()], &[model.region()])?;
        // SAFETY: the caller's word: the header says what the pointers point to.
        unsafe { info.give(tidegate_info::of(model.get()?)) };
        Ok(())
    })
}

/// Input number `index`, from 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_model_input(
    model: *const tidegate_model,
    index: usize,
    port: *mut tidegate_port,
) -> tidegate_status {
    // SAFETY: the caller's word.
    unsafe { give_port(model, port, |model| model.inputs().nth(index).map(tidegate_port::of)) }
}

/// Output number `index`, from 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_model_output(
    model: *const tidegate_model,
    index: usize,
    port: *mut tidegate_port,
) -> tidegate_status {
    // SAFETY: the caller's word.
    unsafe { give_port(model, port, |model| model.outputs().nth(index).map(tidegate_port::of)) }
}

/// # Safety
/// As the functions that call it.
unsafe fn give_port(
    model: *const tidegate_model,
    port: *mut tidegate_port,
    find: impl FnOnce(&Model<'static>) -> Option<tidegate_port>,
) -> tidegate_status {
    done(|| {
        let (model, port) = (Place::new(model)?, Answer::new(port)?);
        disjoint(&[port.region()], &[model.region()])?;
        // SAFETY: the caller's word: the header says what the pointers point to.
        unsafe { port.give(find(model.get()?).ok_or(TIDEGATE_NO_SUCH)?) };
        Ok(())
    })
}

/// Label number `index`, from 0, in the order of the output: `*text_len` bytes of UTF-8 from `*text` on. They lie in the
/// image and are not ended by a zero byte: `printf("%.*s", (int)text_len, text)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_model_label(
    model: *const tidegate_model,
    index: usize,
    text: *mut *const c_char,
    text_len: *mut usize,
) -> tidegate_status {
    done(|| {
        let (model, text, text_len) = (Place::new(model)?, Answer::new(text)?, Answer::new(text_len)?);
        disjoint(&[text.region(), text_len.region()], &[model.region()])?;
        // SAFETY: the caller's word: the header says what the pointers point to.
        unsafe {
            let label = model.get()?.labels().nth(index).ok_or(TIDEGATE_NO_SUCH)?;
            text.give(label.as_ptr().cast());
            text_len.give(label.len());
        }
        Ok(())
    })
}

/// Makes `state` a state of `model` that starts at zero, in `words`, of which there are `words_len`, at least the
/// `state_words` of tidegate_info. The words belong to the state for as long as it is used. It does not need `model`
/// itself any longer, and is made ready anew by another call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_state_init(
    state: *mut tidegate_state,
    model: *const tidegate_model,
    words: *mut u32,
    words_len: usize,
) -> tidegate_status {
    done(|| {
        let (state, model, words) = (Place::new(state)?, Place::new(model)?, Lent::new(words, words_len)?);
        disjoint(&[state.region(), words.region()], &[model.region()])?;
        let memory = words.region();
        // SAFETY: the caller's word: the header says what the pointers point to; they overlap nowhere.
        unsafe {
            let value = model.get().and_then(|model| Ok(State::new(model, words.get_mut())?));
            state.fill(value.map(|value| Owning { value, memory }))
        }
    })
}

/// Back to zero, as new.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_state_reset(state: *mut tidegate_state) -> tidegate_status {
    done(|| {
        // SAFETY: the caller's word: `state` is an object that nothing else uses, nor its words.
        unsafe { Place::new(state)?.get_mut()? }.value.reset();
        Ok(())
    })
}

/// Writes the state to the start of `bytes` (flash before deep sleep, another machine), which has room for `bytes_len`, at
/// least the `saved_bytes` of tidegate_info. What is written is the same on every machine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_state_save(
    state: *const tidegate_state,
    bytes: *mut u8,
    bytes_len: usize,
) -> tidegate_status {
    done(|| {
        let (state, bytes) = (Place::new(state)?, Lent::new(bytes, bytes_len)?);
        // SAFETY: the caller's word: the header says what the pointers point to; they overlap nowhere.
        unsafe {
            let owning = state.get()?;
            disjoint(&[bytes.region()], &[state.region(), owning.memory.clone()])?;
            owning.value.save(bytes.get_mut())?;
        }
        Ok(())
    })
}

/// Reads a state that tidegate_state_save wrote. Bytes that are damaged or that another model saved are refused, and the
/// state is as it was.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_state_restore(
    state: *mut tidegate_state,
    bytes: *const u8,
    bytes_len: usize,
) -> tidegate_status {
    done(|| {
        let (state, bytes) = (Place::new(state)?, Lent::new(bytes, bytes_len)?);
        // SAFETY: the caller's word: the header says what the pointers point to; they overlap nowhere.
        unsafe {
            disjoint(&[state.region(), state.get()?.memory.clone()], &[bytes.region()])?;
            state.get_mut()?.value.restore(bytes.get())?;
        }
        Ok(())
    })
}

/// One time step of a model with one input and one output. `input` has `input_size` elements, `output` room for
/// `output_size`; `scratch` has at least `scratch_words`, holds nothing between steps, and may serve all states of all
/// models in turn. `*has_output` says whether the step wrote `output`: a step within a window does not. After an error
/// state and output are as they were.
///
/// An integer model takes and gives floats too: they are converted at its ports.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_step_f32(
    model: *const tidegate_model,
    state: *mut tidegate_state,
    scratch: *mut u32,
    scratch_len: usize,
    input: *const f32,
    input_len: usize,
    output: *mut f32,
    output_len: usize,
    has_output: *mut bool,
) -> tidegate_status {
    // SAFETY: the caller's word.
    unsafe {
        let (input, output) = (Lent::new(input, input_len), Lent::new(output, output_len));
        step(model, state, Lent::new(scratch, scratch_len), input, output, has_output, Model::step_f32)
    }
}

/// tidegate_step_f32 of an integer model without a float. What the integers are worth is in tidegate_port.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_step_i16(
    model: *const tidegate_model,
    state: *mut tidegate_state,
    scratch: *mut u32,
    scratch_len: usize,
    input: *const i16,
    input_len: usize,
    output: *mut i16,
    output_len: usize,
    has_output: *mut bool,
) -> tidegate_status {
    // SAFETY: the caller's word.
    unsafe {
        let (input, output) = (Lent::new(input, input_len), Lent::new(output, output_len));
        step(model, state, Lent::new(scratch, scratch_len), input, output, has_output, Model::step_i16)
    }
}

/// A step of the crate.
type Run<P> = fn(&Model<'static>, &mut State<'_>, &mut [u32], &[P], &mut [P]) -> Result<Step, StepError>;

/// # Safety
/// As the functions that call it.
unsafe fn step<P>(
    model: *const tidegate_model,
    state: *mut tidegate_state,
    scratch: Result<Lent<u32>, tidegate_status>,
    input: Result<Lent<P>, tidegate_status>,
    output: Result<Lent<P>, tidegate_status>,
    has_output: *mut bool,
    run: Run<P>,
) -> tidegate_status {
    done(|| {
        let (model, state, has_output) = (Place::new(model)?, Place::new(state)?, Answer::new(has_output)?);
        let (scratch, input, output) = (scratch?, input?, output?);
        // SAFETY: the caller's word: the header says what the pointers point to; they overlap nowhere.
        unsafe {
            let memory = state.get()?.memory.clone();
            let written = [state.region(), memory, scratch.region(), output.region(), has_output.region()];
            disjoint(&written, &[model.region(), input.region()])?;
            let state = &mut state.get_mut()?.value;
            let step = run(model.get()?, state, scratch.get_mut(), input.get(), output.get_mut())?;
            has_output.give(step.has_output());
        }
        Ok(())
    })
}

/// Ends a sequence of a model that looks at windows of rows (a bidirectional layer): the steps since the last full window
/// give an output as a window of their own, whose missing rows are zero. Other models have nothing to give at the end.
/// Buffers and answers are those of tidegate_step_f32.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_finish_f32(
    model: *const tidegate_model,
    state: *mut tidegate_state,
    scratch: *mut u32,
    scratch_len: usize,
    output: *mut f32,
    output_len: usize,
    has_output: *mut bool,
) -> tidegate_status {
    // SAFETY: the caller's word; there is no input, for which any slice without an element stands.
    unsafe {
        let (input, output) = (Lent::new([].as_ptr(), 0), Lent::new(output, output_len));
        step(
            model,
            state,
            Lent::new(scratch, scratch_len),
            input,
            output,
            has_output,
            |model, state, scratch, _, output| model.finish(state, scratch, &mut [output]),
        )
    }
}

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
        disjoint(&[front_end.region(), words.region()], &[model.region()])?;
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
            disjoint(&[front_end.region(), memory, taken.region()], &[samples.region()])?;
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
        disjoint(&[detector.region(), words.region()], &[model.region()])?;
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
            disjoint(&written, &[posteriors.region()])?;
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
