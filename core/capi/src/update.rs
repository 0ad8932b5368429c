//! Signed updates of the model, in the feature `update`: the types and functions of `tidegate_update.h`, which is generated
//! from this file's comments. `update/calls.rs` does their work.

mod calls;
mod flash;
/// cbindgen would read `../status.rs`.
///
/// cbindgen:ignore
mod status;

use core::ffi::c_void;

use crate::call;
use crate::memory::{Object, Owning};
use crate::status::tidegate_status;
use crate::types::tidegate_model;

/// Length of the longest frame of tidegate_update_serve.
pub const TIDEGATE_FRAME_BYTES: usize = 141;

/// Bytes of every write to flash.
pub const TIDEGATE_FLASH_WRITE_BYTES: usize = 256;

/// Flash of a bank or of the journal. Offsets count from its first byte. A callback returns 0 when it is done, and any
/// other value if it has failed. It may not call functions of the same tidegate_update.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tidegate_flash {
    /// Passed to the callbacks.
    pub context: *mut c_void,
    /// Reads from flash that is not mapped into memory, which only a journal may be. Null in mapped flash.
    pub read: Option<unsafe extern "C" fn(context: *mut c_void, offset: u32, bytes: *mut u8, bytes_len: usize) -> i32>,
    /// Writes TIDEGATE_FLASH_WRITE_BYTES bytes to erased flash. The offset is a multiple of their number, so that the
    /// bytes are whole units of every flash whose unit is a power of two. No byte is written twice before it is erased.
    pub write:
        Option<unsafe extern "C" fn(context: *mut c_void, offset: u32, bytes: *const u8, bytes_len: usize) -> i32>,
    /// Erases the pages from the offset `from` until `to`.
    pub erase: Option<unsafe extern "C" fn(context: *mut c_void, from: u32, to: u32) -> i32>,
    /// The address at which the processor reads the flash, a multiple of 16 for a bank. It shows what was written and
    /// erased last: a callback invalidates the cache, if there is one. Null if the flash is not mapped.
    pub bytes: *const u8,
    /// Length in bytes. The journal has at least two pages.
    pub bytes_len: usize,
    /// Size of a page in bytes: a multiple of TIDEGATE_FLASH_WRITE_BYTES. If the pages have several sizes, the largest.
    pub erase_size: usize,
}

/// The flash and the keys of a device.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tidegate_update_config {
    /// The two banks. A factory flashes a signed image into the first one.
    pub banks: [tidegate_flash; 2],
    /// The journal.
    pub journal: tidegate_flash,
    /// The root key, an Ed25519 public key: `tidegate keygen` prints it.
    pub root_key: [u8; 32],
    /// The product id: the device refuses images for other products.
    pub product: [u8; 16],
}

/// The outcome of the last reset, tidegate_update_switch or tidegate_update_revert.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum tidegate_boot {
    /// No bank has an image.
    TIDEGATE_BOOT_EMPTY = 0,
    /// The confirmed image runs.
    TIDEGATE_BOOT_CONFIRMED = 1,
    /// A new image runs on trial: confirm or revert it.
    TIDEGATE_BOOT_TRIAL = 2,
    /// The image on trial was not confirmed: the one before it runs again.
    TIDEGATE_BOOT_REVERTED = 3,
}

/// The state of the bank that does not run.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum tidegate_phase {
    /// Nothing.
    TIDEGATE_PHASE_IDLE = 0,
    /// The bank is being erased for an image.
    TIDEGATE_PHASE_ERASING = 1,
    /// The bank is erased, and an image is being received.
    TIDEGATE_PHASE_RECEIVING = 2,
    /// The bank holds a verified image.
    TIDEGATE_PHASE_PENDING = 3,
    /// The image of the bank runs on trial.
    TIDEGATE_PHASE_TRIAL = 4,
}

/// The state of a device.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tidegate_slots {
    /// The outcome of the last reset.
    pub boot: tidegate_boot,
    /// The state of the bank that does not run.
    pub phase: tidegate_phase,
    /// The security counter of the last confirmed image.
    pub counter: u32,
    /// Pages erased so far, those of the journal included, to predict when the flash wears out.
    pub erases: u32,
    /// Writes so far.
    pub writes: u32,
}

/// A device that takes updates: two banks, a journal, and the transfer of an image.
#[repr(C)]
pub struct tidegate_update {
    private_seal: u64,
    private_words: [usize; 352],
}

impl Object for tidegate_update {
    type Value = Owning<calls::Update>;
    const SEAL: u64 = u64::from_le_bytes(*b"TGupdat\x01");
}

/// Initializes `update` after a reset, from the journal. `*config` is copied. A pending image goes on trial, and one on
/// trial that was not confirmed is given up; tidegate_update_slots says which. Without a journal, a trusted image in the
/// first bank is the confirmed one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_update_open(
    update: *mut tidegate_update,
    config: *const tidegate_update_config,
) -> tidegate_status {
    call(|word| calls::open(word, update, config))
}

/// Which image runs, and what the other bank holds.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_update_slots(
    update: *mut tidegate_update,
    slots: *mut tidegate_slots,
) -> tidegate_status {
    call(|word| calls::slots(word, update, slots))
}

/// Verifies the image that runs, and initializes `model` with it. The model is open until tidegate_update_close. The
/// program may use it with every function of tidegate.h while it receives another image, but may not copy it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_update_model(
    update: *mut tidegate_update,
    model: *mut tidegate_model,
) -> tidegate_status {
    call(|word| calls::model(word, update, model))
}

/// Closes the model, before tidegate_update_switch, _revert or _open. No call may be using it. Later uses return
/// TIDEGATE_NOT_READY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_update_close(
    update: *mut tidegate_update,
    model: *mut tidegate_model,
) -> tidegate_status {
    call(|word| calls::close(word, update, model))
}

/// Keeps the model on trial if it gives the outputs of its self-test: from now on, a reset starts it, and no image with a
/// lower counter is accepted. `words` is memory for the test, at least `state_words + scratch_words + output_size` of
/// tidegate_info, which is free afterward. If the test fails, call tidegate_update_revert, or reset. Verifies the image
/// again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_update_confirm(
    update: *mut tidegate_update,
    words: *mut u32,
    words_len: usize,
) -> tidegate_status {
    call(|word| calls::confirm(word, update, Some((words, words_len))))
}

/// tidegate_update_confirm for an image without a self-test: says that the firmware has tested the model.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_update_confirm_tested(update: *mut tidegate_update) -> tidegate_status {
    call(|word| calls::confirm(word, update, None))
}

/// Erases the bank that does not run, for an image of `image_len` bytes. An image that is pending or being received is
/// given up.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_update_begin(update: *mut tidegate_update, image_len: u32) -> tidegate_status {
    call(|word| calls::begin(word, update, image_len))
}

/// Continues the transfer that was interrupted. After a reset it goes on at the start of the page that was written last.
/// `*image_len` is the length of its image. Compare tidegate_update_received with the new image, and begin anew if they
/// differ.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_update_resume(update: *mut tidegate_update, image_len: *mut u32) -> tidegate_status {
    call(|word| calls::resume(word, update, image_len))
}

/// The number of bytes received so far, which is the offset of the next block, and their SHA-512 in the 64 bytes of
/// `digest`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_update_received(
    update: *mut tidegate_update,
    received: *mut u32,
    digest: *mut u8,
    digest_len: usize,
) -> tidegate_status {
    call(|word| calls::received(word, update, received, (digest, digest_len)))
}

/// Takes the bytes of the image from `offset` on, any number of them. Blocks come in order. After TIDEGATE_UPDATE_FLASH,
/// resume the transfer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_update_write(
    update: *mut tidegate_update,
    offset: u32,
    bytes: *const u8,
    bytes_len: usize,
) -> tidegate_status {
    call(|word| calls::write(word, update, offset, (bytes, bytes_len)))
}

/// Verifies the complete image in its bank, and makes it the pending one: it runs on trial after the next reset, or after
/// tidegate_update_switch. An image that is not trusted is given up.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_update_finish(update: *mut tidegate_update) -> tidegate_status {
    call(|word| calls::run(word, update, calls::Operation::Finish))
}

/// Lets the pending image run on trial without a reset. Close the model first, then open the new one with
/// tidegate_update_model and initialize its state.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_update_switch(update: *mut tidegate_update) -> tidegate_status {
    call(|word| calls::run(word, update, calls::Operation::Switch))
}

/// Gives up the image on trial without a reset: the one before it runs again. Close the model first.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_update_revert(update: *mut tidegate_update) -> tidegate_status {
    call(|word| calls::run(word, update, calls::Operation::Revert))
}

/// Makes another key the signing key. `change` has the 128 bytes that `tidegate change-key` writes. Verifies the image that
/// runs again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_update_change_key(
    update: *mut tidegate_update,
    change: *const u8,
    change_len: usize,
) -> tidegate_status {
    call(|word| calls::change_key(word, update, (change, change_len)))
}

/// Takes bytes that `tidegate flash` has sent over a line, until they complete a request, and carries the request out.
/// `*taken` is the number of bytes taken: call again with the others. `frame` has at least TIDEGATE_FRAME_BYTES elements;
/// the first `*frame_used` of them are the answer to send, and 0 means none. If `*run` is true, the sender asks for the
/// pending image: send the answer, close the model, call tidegate_update_switch, and test and open the new model before the
/// next call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_update_serve(
    update: *mut tidegate_update,
    bytes: *const u8,
    bytes_len: usize,
    taken: *mut usize,
    frame: *mut u8,
    frame_len: usize,
    frame_used: *mut usize,
    run: *mut bool,
) -> tidegate_status {
    call(|word| {
        let results = calls::Served { taken, frame_used, run };
        calls::serve(word, update, (bytes, bytes_len), (frame, frame_len), results)
    })
}
