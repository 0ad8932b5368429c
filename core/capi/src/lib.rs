//! Tidegate for C firmware: every call checks what it is given, hands it to the crate `tidegate`, and says in a status
//! what came of it. `include/tidegate.h` is made of this crate's comments; no logic lives here.

#![cfg_attr(target_os = "none", no_std)]
#![deny(missing_docs)]
// The names of the header are C's.
#![allow(non_camel_case_types)]
#![expect(unsafe_code)]
// What every call asks of its caller stands once, at the top of the header.
#![expect(clippy::missing_safety_doc)]

mod hear;
mod hear_i16;
mod memory;
mod status;
mod step;
mod types;

use core::ffi::c_char;

use memory::{Answer, Lent, Owning, Place, disjoint};
use status::tidegate_status::*;
use tidegate::{ImageBytes, Model, State};

pub use hear::*;
pub use hear_i16::*;
pub use status::tidegate_status;
pub use step::*;
pub use types::*;

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
            disjoint(&[bytes.region()], &[state.region(), owning.memory])?;
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
            disjoint(&[state.region(), state.get()?.memory], &[bytes.region()])?;
            state.get_mut()?.value.restore(bytes.get())?;
        }
        Ok(())
    })
}
