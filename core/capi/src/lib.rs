//! Tidegate for C firmware. Every call checks its arguments, passes them to the crate `tidegate` and returns a status.
//! `include/tidegate.h` is generated from this crate's comments. No logic belongs here.
//!
//! This file holds the functions of the header, whose requirements C must meet. `memory` dereferences pointers. The
//! rest is safe code.

#![cfg_attr(any(target_os = "none", target_family = "wasm"), no_std)]
#![deny(missing_docs)]
// The header's names follow C conventions.
#![allow(non_camel_case_types)]
#![expect(unsafe_code)]
// The top of the header states the requirements of every call once.
#![expect(clippy::missing_safety_doc)]
// Every function passes the promise of its caller, who meets these requirements, to `call`. Nothing else in it is unsafe.
#![expect(unsafe_op_in_unsafe_fn)]

mod audio;
mod memory;
mod object;
mod status;
mod step;
mod text;
mod types;
/// Signed updates, with the header `tidegate_update.h`.
///
/// cbindgen:ignore
#[cfg(feature = "update")]
mod update;

use core::ffi::c_char;

use memory::{Lent, Word};
use object::nth;
use status::tidegate_status::*;
use step::At;
use tidegate::{FrontEnd, IntegerFrontEnd, Model, State};

pub use status::tidegate_status;
pub use types::*;
#[cfg(feature = "update")]
pub use update::*;

/// `core` never panics. A watchdog would end this loop.
#[cfg(target_os = "none")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {
        core::hint::spin_loop();
    }
}

/// In WebAssembly, where a loop would block the thread for good, the caller gets an exception.
#[cfg(target_family = "wasm")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    core::arch::wasm32::unreachable()
}

/// # Safety
/// The pointers of the call meet the requirements of the header.
unsafe fn call(work: impl FnOnce(Word) -> Result<(), tidegate_status>) -> tidegate_status {
    // SAFETY: the caller meets the requirements of the header.
    match work(unsafe { Word::given() }) {
        Ok(()) => TIDEGATE_OK,
        Err(status) => status,
    }
}

/// The version of the library. `tidegate_version() == TIDEGATE_VERSION` if header and library match.
#[unsafe(no_mangle)]
pub extern "C" fn tidegate_version() -> u32 {
    TIDEGATE_VERSION
}

/// A sentence that describes a status, for a log. The string is null-terminated, static and never null.
#[unsafe(no_mangle)]
pub extern "C" fn tidegate_status_text(status: i32) -> *const c_char {
    text::text_of(status).as_ptr()
}

/// Checks an image of `image_len` bytes that starts on a multiple of 16, and initializes `model` to run it. Bytes after
/// the end of the image are ignored, because a flash bank may be longer. The image is not copied and must stay
/// unchanged in place. A step of a parsed model cannot fail because of the image, unless its bytes have changed since.
///
/// Reads every byte of the image once for the checksum, at a few instructions per byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_model_parse(
    model: *mut tidegate_model,
    image: *const u8,
    image_len: usize,
) -> tidegate_status {
    call(|word| object::parse(word, model, (image, image_len), None))
}

/// tidegate_model_parse for an image from elsewhere, such as an update over the air: also refuses a model that needs more
/// than `*limits`. Parsing takes time proportional to the length of the image, whether it is accepted or not.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_model_parse_within(
    model: *mut tidegate_model,
    image: *const u8,
    image_len: usize,
    limits: *const tidegate_limits,
) -> tidegate_status {
    call(|word| object::parse(word, model, (image, image_len), Some(limits)))
}

/// The work of one step of a model.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_model_work(
    model: *const tidegate_model,
    work: *mut tidegate_work,
) -> tidegate_status {
    call(|word| object::answer(word, model, work, |model| Ok(tidegate_work::of(model))))
}

/// The model built into the library by the cargo feature `image`, or null without that feature. It needs neither RAM
/// nor a parse, and links the code of its own cells only.
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
    use tidegate::Model;

    use crate::memory::Sealed;
    use crate::types::sealed;

    const PARSED: Model<'static> = tidegate::include_model!(env!("TIDEGATE_IMAGE", "the path of an image, absolute"));

    pub static MODEL: Sealed<Model<'static>> = sealed(PARSED);

    /// The cells of the model.
    #[cfg(feature = "update")]
    pub static FAMILY: tidegate::Family = match PARSED.family() {
        Ok(family) => family,
        Err(_) => panic!("the image in TIDEGATE_IMAGE has too many cells for updates"),
    };
}

/// The sizes and properties of a model.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_model_info(
    model: *const tidegate_model,
    info: *mut tidegate_info,
) -> tidegate_status {
    call(|word| object::answer(word, model, info, |model| Ok(tidegate_info::of(model))))
}

/// Input number `index`, from 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_model_input(
    model: *const tidegate_model,
    index: usize,
    port: *mut tidegate_port,
) -> tidegate_status {
    call(|word| object::answer(word, model, port, |model| nth(model.inputs(), index)))
}

/// Output number `index`, from 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_model_output(
    model: *const tidegate_model,
    index: usize,
    port: *mut tidegate_port,
) -> tidegate_status {
    call(|word| object::answer(word, model, port, |model| nth(model.outputs(), index)))
}

/// Label number `index`, from 0, in the order of the output: `*text_len` bytes of UTF-8 from `*text` on. The text is in
/// the image and not null-terminated: `printf("%.*s", (int)text_len, text)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_model_label(
    model: *const tidegate_model,
    index: usize,
    text: *mut *const c_char,
    text_len: *mut usize,
) -> tidegate_status {
    call(|word| object::label(word, model, index, text, text_len))
}

/// Initializes `state` as a zero state of `model` in `words`, an array of `words_len` words, at least the `state_words`
/// of tidegate_info. The words belong to the state as long as it is used. The state does not refer to `model`
/// afterward. Another call initializes it again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_state_init(
    state: *mut tidegate_state,
    model: *const tidegate_model,
    words: *mut u32,
    words_len: usize,
) -> tidegate_status {
    call(|word| object::init(word, state, model, (words, words_len), |model, words| Ok(State::new(model, words)?)))
}

/// Resets the state to zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_state_reset(state: *mut tidegate_state) -> tidegate_status {
    call(|word| object::reset(word, state, State::reset))
}

/// Writes the state to the start of `bytes`, for example before deep sleep or to move it to another machine.
/// `bytes_len` must be at least the `saved_bytes` of tidegate_info. The saved bytes are the same on every machine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_state_save(
    state: *const tidegate_state,
    bytes: *mut u8,
    bytes_len: usize,
) -> tidegate_status {
    call(|word| object::save(word, state, (bytes, bytes_len)))
}

/// Restores a state of `model` that tidegate_state_save wrote. `state` is a state of `model` that was initialized. Damaged
/// bytes, those of another image, and padding that is not zero are refused; the state is then unchanged.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_state_restore(
    state: *mut tidegate_state,
    model: *const tidegate_model,
    bytes: *const u8,
    bytes_len: usize,
) -> tidegate_status {
    call(|word| object::restore(word, state, model, (bytes, bytes_len)))
}

/// Initializes `front_end` as the front end of `model`, without samples, in `words`, an array of `words_len` words, at
/// least the `front_end_words` of tidegate_info. The words belong to the front end as long as it is used.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_front_end_init(
    front_end: *mut tidegate_front_end,
    model: *const tidegate_model,
    words: *mut u32,
    words_len: usize,
) -> tidegate_status {
    call(|word| object::init(word, front_end, model, (words, words_len), audio::front_end))
}

/// Takes 16-bit samples until a row of features is complete, and stores the number taken in `*taken`; 0 while a row
/// waits for tidegate_front_end_next. The features do not depend on how the samples are divided among calls.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_front_end_push(
    front_end: *mut tidegate_front_end,
    samples: *const i16,
    samples_len: usize,
    taken: *mut usize,
) -> tidegate_status {
    call(|word| audio::push(word, front_end, (samples, samples_len), taken, FrontEnd::push))
}

/// Writes the next complete row of features to `features`, an array of `features_len` elements, the model's
/// `input_size`. `*has_features` says whether there was one. One push may complete several rows, so call this until
/// there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_front_end_next(
    front_end: *mut tidegate_front_end,
    features: *mut f32,
    features_len: usize,
    has_features: *mut bool,
) -> tidegate_status {
    call(|word| audio::next(word, front_end, (features, features_len), has_features, FrontEnd::next))
}

/// Drops every sample.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_front_end_reset(front_end: *mut tidegate_front_end) -> tidegate_status {
    call(|word| object::reset(word, front_end, |(front_end, _)| front_end.reset()))
}

/// Initializes `detector` as the detector of `model`, without posteriors, in `words`, an array of `words_len` words, at
/// least the `detector_words` of tidegate_info. The words belong to the detector as long as it is used.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_detector_init(
    detector: *mut tidegate_detector,
    model: *const tidegate_model,
    words: *mut u32,
    words_len: usize,
) -> tidegate_status {
    call(|word| object::init(word, detector, model, (words, words_len), audio::detector))
}

/// Adds the posteriors of a step's output, `output_size` of them, at the time `now_ms`, modulo 2^32. `*has_event` says
/// whether they made an event, which is then stored in `*event`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_detector_push(
    detector: *mut tidegate_detector,
    posteriors: *const f32,
    posteriors_len: usize,
    now_ms: u32,
    event: *mut tidegate_event,
    has_event: *mut bool,
) -> tidegate_status {
    call(|word| {
        audio::detect(word, detector, (posteriors, posteriors_len), event, has_event, |detector, posteriors| {
            let found = detector.push(posteriors, now_ms)?;
            Ok(found.map(|found| tidegate_event { label: found.label, score: found.score, at_ms: found.at_ms }))
        })
    })
}

/// Forgets every posterior and event.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_detector_reset(detector: *mut tidegate_detector) -> tidegate_status {
    call(|word| object::reset(word, detector, tidegate::Detector::reset))
}

/// tidegate_front_end_init for an image with an integer front end. It needs the same number of words.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_front_end_i16_init(
    front_end: *mut tidegate_front_end_i16,
    model: *const tidegate_model,
    words: *mut u32,
    words_len: usize,
) -> tidegate_status {
    call(|word| object::init(word, front_end, model, (words, words_len), audio::front_end_i16))
}

/// See tidegate_front_end_push.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_front_end_i16_push(
    front_end: *mut tidegate_front_end_i16,
    samples: *const i16,
    samples_len: usize,
    taken: *mut usize,
) -> tidegate_status {
    call(|word| audio::push(word, front_end, (samples, samples_len), taken, IntegerFrontEnd::push))
}

/// tidegate_front_end_next without floating point: rows for tidegate_step_i16.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_front_end_i16_next(
    front_end: *mut tidegate_front_end_i16,
    features: *mut i16,
    features_len: usize,
    has_features: *mut bool,
) -> tidegate_status {
    call(|word| audio::next(word, front_end, (features, features_len), has_features, IntegerFrontEnd::next))
}

/// Drops every sample.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_front_end_i16_reset(front_end: *mut tidegate_front_end_i16) -> tidegate_status {
    call(|word| object::reset(word, front_end, |(front_end, _)| front_end.reset()))
}

/// tidegate_detector_init for a model whose outputs are posteriors in units of 2^-15 or 2^-8, as those of softmax and sigmoid.
/// The detector needs the `detector_i16_words` of tidegate_info.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_detector_i16_init(
    detector: *mut tidegate_detector_i16,
    model: *const tidegate_model,
    words: *mut u32,
    words_len: usize,
) -> tidegate_status {
    call(|word| object::init(word, detector, model, (words, words_len), audio::detector_i16))
}

/// tidegate_detector_push without floating point: takes the output of tidegate_step_i16.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_detector_i16_push(
    detector: *mut tidegate_detector_i16,
    posteriors: *const i16,
    posteriors_len: usize,
    now_ms: u32,
    event: *mut tidegate_event_i16,
    has_event: *mut bool,
) -> tidegate_status {
    call(|word| {
        audio::detect(word, detector, (posteriors, posteriors_len), event, has_event, |detector, posteriors| {
            let found = detector.push(posteriors, now_ms)?;
            Ok(found.map(|found| tidegate_event_i16 { label: found.label, score: found.score, at_ms: found.at_ms }))
        })
    })
}

/// Forgets every posterior and event.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_detector_i16_reset(detector: *mut tidegate_detector_i16) -> tidegate_status {
    call(|word| object::reset(word, detector, tidegate::IntegerDetector::reset))
}

/// One time step of a model with one input and one output. `input` has `input_size` elements and `output` room for
/// `output_size`. `scratch` has at least `scratch_words`; it keeps nothing between steps and may be shared by all
/// states of all models. `*has_output` says whether the step wrote `output`, which a step within a window does not.
/// After an error, state and output are unchanged.
///
/// An integer model accepts and returns floats too; they are converted at its ports.
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
    call(|word| {
        let at = At { model, state, scratch: (scratch, scratch_len), has_output };
        step::one(word, at, (input, input_len), (output, output_len), Model::step_ports)
    })
}

/// tidegate_step_f32 for an integer model, without floating point. tidegate_port has the scales of the integers. The
/// least value is -32767; with -32768 the output is unspecified.
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
    call(|word| {
        let at = At { model, state, scratch: (scratch, scratch_len), has_output };
        step::one(word, at, (input, input_len), (output, output_len), Model::step_ports_i16)
    })
}

/// tidegate_step_f32 for a model with several inputs or outputs, up to TIDEGATE_MOST_PORTS of each, in the order of
/// tidegate_model_input and tidegate_model_output. No output may overlap another buffer; inputs may overlap each other.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_step_ports_f32(
    model: *const tidegate_model,
    state: *mut tidegate_state,
    scratch: *mut u32,
    scratch_len: usize,
    inputs: *const tidegate_input_f32,
    input_count: usize,
    outputs: *const tidegate_output_f32,
    output_count: usize,
    has_output: *mut bool,
) -> tidegate_status {
    call(|word| {
        let at = At { model, state, scratch: (scratch, scratch_len), has_output };
        let inputs = step::rows(word, inputs, input_count, |row| (row.values, row.values_len))?;
        let outputs = step::rows(word, outputs, output_count, |row| (row.values.cast_const(), row.values_len))?;
        step::step(word, at, (inputs, input_count), (outputs, output_count), Model::step_ports)
    })
}

/// tidegate_step_i16 for a model with several inputs or outputs; see tidegate_step_ports_f32.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_step_ports_i16(
    model: *const tidegate_model,
    state: *mut tidegate_state,
    scratch: *mut u32,
    scratch_len: usize,
    inputs: *const tidegate_input_i16,
    input_count: usize,
    outputs: *const tidegate_output_i16,
    output_count: usize,
    has_output: *mut bool,
) -> tidegate_status {
    call(|word| {
        let at = At { model, state, scratch: (scratch, scratch_len), has_output };
        let inputs = step::rows(word, inputs, input_count, |row| (row.values, row.values_len))?;
        let outputs = step::rows(word, outputs, output_count, |row| (row.values.cast_const(), row.values_len))?;
        step::step(word, at, (inputs, input_count), (outputs, output_count), Model::step_ports_i16)
    })
}

/// Ends a sequence of a model with windows of rows, such as a bidirectional layer: the steps since the last full window
/// yield an output as a window whose missing rows are zero. Other models have no output at the end. Buffers and results
/// are those of tidegate_step_f32.
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
    call(|word| {
        let at = At { model, state, scratch: (scratch, scratch_len), has_output };
        step::step(word, at, ([], 0), ([Lent::new(word, output, output_len)?], 1), step::finish)
    })
}

/// tidegate_finish_f32 for a model with several outputs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_finish_ports_f32(
    model: *const tidegate_model,
    state: *mut tidegate_state,
    scratch: *mut u32,
    scratch_len: usize,
    outputs: *const tidegate_output_f32,
    output_count: usize,
    has_output: *mut bool,
) -> tidegate_status {
    call(|word| {
        let at = At { model, state, scratch: (scratch, scratch_len), has_output };
        let outputs = step::rows(word, outputs, output_count, |row| (row.values.cast_const(), row.values_len))?;
        step::step(word, at, ([], 0), (outputs, output_count), step::finish)
    })
}
