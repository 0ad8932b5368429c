//! Statuses: one code for each cause that a program can act on. Their sentences are in `text.rs`.

#![deny(unsafe_code)]

use tidegate::{BufferTooSmall, ImageError, IntegerDetectorError, Misaligned, RestoreError, StepError, WrongLength};

/// The result of a call. The numbers are stable.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum tidegate_status {
    /// Done.
    TIDEGATE_OK = 0,

    /// A pointer is null.
    TIDEGATE_NULL = 1,
    /// A pointer is not aligned for its type, or the image is not aligned to 16 bytes.
    TIDEGATE_MISALIGNED = 2,
    /// A buffer is too short for its contents.
    TIDEGATE_TOO_SHORT = 3,
    /// An input, an output or a row of posteriors does not have the model's length.
    TIDEGATE_WRONG_LENGTH = 4,
    /// A buffer extends past the end of the address space.
    TIDEGATE_TOO_LONG = 5,
    /// A buffer that the call writes overlaps another argument.
    TIDEGATE_OVERLAP = 6,
    /// An object was not initialized, or its initialization failed.
    TIDEGATE_NOT_READY = 7,
    /// There is no port or label with this index.
    TIDEGATE_NO_SUCH = 8,
    /// The object is a copy of another, or was moved: initialize it in its place.
    TIDEGATE_COPIED = 9,
    /// The call has interrupted another call that uses the same object.
    TIDEGATE_BUSY = 10,

    /// The image is truncated.
    TIDEGATE_IMAGE_TRUNCATED = 16,
    /// The bytes do not start with the header of an image.
    TIDEGATE_NOT_AN_IMAGE = 17,
    /// The format version of the image is not supported by this build.
    TIDEGATE_IMAGE_VERSION = 18,
    /// The image's checksum is wrong: a byte has changed since it was packed.
    TIDEGATE_IMAGE_DAMAGED = 19,
    /// The image needs a numeric, a layout, a section or a cell that this build does not have.
    TIDEGATE_IMAGE_UNSUPPORTED = 20,
    /// The image needs more memory or work than is supported.
    TIDEGATE_IMAGE_TOO_LARGE = 21,
    /// The image is inconsistent; `tidegate inspect` gives the details.
    TIDEGATE_IMAGE_INVALID = 22,
    /// The model needs more than the limits of tidegate_model_parse_within.
    TIDEGATE_IMAGE_OVER_LIMIT = 23,

    /// The image has no front end.
    TIDEGATE_NO_FRONT_END = 32,
    /// The image has no detector.
    TIDEGATE_NO_DETECTOR = 33,
    /// The model computes in floats and has no integer ports.
    TIDEGATE_FLOAT_MODEL = 34,
    /// The number of inputs or outputs is wrong.
    TIDEGATE_PORTS = 35,
    /// The state belongs to another model.
    TIDEGATE_OTHER_STATE = 36,
    /// The image's front end computes in floats.
    TIDEGATE_FLOAT_FRONT_END = 37,
    /// The scale of the model's output is neither 2^-15 nor 2^-8, as an integer detector requires.
    TIDEGATE_OTHER_SCALE = 38,
    /// The bytes of the image have changed since it was parsed. State and output are unspecified.
    TIDEGATE_IMAGE_CHANGED = 39,

    /// The bytes do not start with the header of a saved state.
    TIDEGATE_NOT_A_STATE = 48,
    /// The state was saved by another image: by another model, or by this one in another numeric, layout or schedule.
    TIDEGATE_SAVED_BY_OTHER_MODEL = 49,
    /// The state was saved by this image in another version of the format.
    TIDEGATE_SAVED_OTHERWISE = 50,
    /// The saved state is truncated.
    TIDEGATE_SAVED_TRUNCATED = 51,
    /// The saved state's checksum is wrong.
    TIDEGATE_SAVED_DAMAGED = 52,
    /// The saved state's padding is not zero.
    TIDEGATE_SAVED_PADDING = 53,

    /// A callback of a tidegate_flash has failed.
    TIDEGATE_UPDATE_FLASH = 64,
    /// The sizes of the flash are not supported: see tidegate_flash.
    TIDEGATE_UPDATE_GEOMETRY = 65,
    /// No image is being received.
    TIDEGATE_UPDATE_NO_TRANSFER = 66,
    /// The image does not fit the bank.
    TIDEGATE_UPDATE_TOO_LONG = 67,
    /// The block does not start at the byte that follows the last one, or ends after the end of the image.
    TIDEGATE_UPDATE_OUT_OF_ORDER = 68,
    /// The image is not complete.
    TIDEGATE_UPDATE_INCOMPLETE = 69,
    /// The header of the image gives another length than the sender.
    TIDEGATE_UPDATE_OTHER_LENGTH = 70,
    /// A model is pending or on trial: reset, or confirm it, first.
    TIDEGATE_UPDATE_BUSY = 71,
    /// No model is on trial.
    TIDEGATE_UPDATE_NO_TRIAL = 72,
    /// Another model than the one on trial has been tested.
    TIDEGATE_UPDATE_NOT_TESTED = 73,
    /// No image is pending.
    TIDEGATE_UPDATE_NOTHING_PENDING = 74,
    /// The image has no self-test: test the model in the firmware.
    TIDEGATE_UPDATE_NO_SELF_TEST = 75,
    /// The image has a self-test, which must be run.
    TIDEGATE_UPDATE_HAS_SELF_TEST = 76,
    /// The model does not give the outputs of its self-test.
    TIDEGATE_UPDATE_SELF_TEST_FAILED = 77,
    /// The model is open: close it first.
    TIDEGATE_UPDATE_MODEL_OPEN = 78,
    /// The model is not the one that tidegate_update_model has opened.
    TIDEGATE_UPDATE_NOT_OPEN = 79,

    /// The image is not signed.
    TIDEGATE_TRUST_UNSIGNED = 80,
    /// The image is prepared for a signature, but has none yet.
    TIDEGATE_TRUST_NOT_ATTACHED = 81,
    /// The version or the algorithm of the signature is not supported by this build.
    TIDEGATE_TRUST_UNSUPPORTED = 82,
    /// The image is signed by an unknown key.
    TIDEGATE_TRUST_UNKNOWN_KEY = 83,
    /// The image is signed by a key that a key change has replaced.
    TIDEGATE_TRUST_REVOKED_KEY = 84,
    /// The signature is not that of this image: it is damaged or forged.
    TIDEGATE_TRUST_BAD_SIGNATURE = 85,
    /// The image is for another product.
    TIDEGATE_TRUST_WRONG_PRODUCT = 86,
    /// The security counter of the image is below that of the device.
    TIDEGATE_TRUST_OLD_COUNTER = 87,
    /// No image has been confirmed yet.
    TIDEGATE_TRUST_EMPTY = 88,

    /// The bytes are not an Ed25519 public key.
    TIDEGATE_KEY_NOT_A_POINT = 96,
    /// The public key has a small order, so that anybody could forge signatures.
    TIDEGATE_KEY_SMALL_ORDER = 97,
    /// The bytes are not a key change that this build knows.
    TIDEGATE_KEY_NOT_A_CHANGE = 98,
    /// The key change is not signed by the root key.
    TIDEGATE_KEY_BAD_SIGNATURE = 99,
    /// The key change is for another product.
    TIDEGATE_KEY_WRONG_PRODUCT = 100,
    /// The serial number of the key change is not above that of the last one.
    TIDEGATE_KEY_OLD_SERIAL = 101,
    /// The active model is signed by a key that the key change would drop: update the model first.
    TIDEGATE_KEY_IN_USE = 102,

    /// A status that this header does not name yet.
    TIDEGATE_OTHER = 127,
}

use tidegate_status::*;

impl From<ImageError> for tidegate_status {
    fn from(error: ImageError) -> Self {
        match error {
            ImageError::Truncated { .. } => TIDEGATE_IMAGE_TRUNCATED,
            ImageError::BadMagic { .. } => TIDEGATE_NOT_AN_IMAGE,
            ImageError::UnsupportedVersion { .. } => TIDEGATE_IMAGE_VERSION,
            ImageError::BadChecksum { .. } => TIDEGATE_IMAGE_DAMAGED,
            ImageError::UnsupportedNumeric { .. }
            | ImageError::UnsupportedLayout { .. }
            | ImageError::UnknownSection { .. }
            | ImageError::UnknownCell { .. }
            | ImageError::NoIntegerForm { .. }
            | ImageError::OtherFamily { .. } => TIDEGATE_IMAGE_UNSUPPORTED,
            ImageError::TooLarge { .. } => TIDEGATE_IMAGE_TOO_LARGE,
            ImageError::OverLimit { .. } => TIDEGATE_IMAGE_OVER_LIMIT,
            // The remaining errors, present or future, are contradictions within an image.
            _ => TIDEGATE_IMAGE_INVALID,
        }
    }
}

impl From<Misaligned> for tidegate_status {
    fn from(_: Misaligned) -> Self {
        TIDEGATE_MISALIGNED
    }
}

impl From<BufferTooSmall> for tidegate_status {
    fn from(_: BufferTooSmall) -> Self {
        TIDEGATE_TOO_SHORT
    }
}

impl From<IntegerDetectorError> for tidegate_status {
    fn from(error: IntegerDetectorError) -> Self {
        match error {
            IntegerDetectorError::Scale { .. } => TIDEGATE_OTHER_SCALE,
            IntegerDetectorError::Memory(_) => TIDEGATE_TOO_SHORT,
            _ => TIDEGATE_OTHER,
        }
    }
}

impl From<WrongLength> for tidegate_status {
    fn from(_: WrongLength) -> Self {
        TIDEGATE_WRONG_LENGTH
    }
}

impl From<StepError> for tidegate_status {
    fn from(error: StepError) -> Self {
        match error {
            StepError::OtherState => TIDEGATE_OTHER_STATE,
            StepError::ImageChanged => TIDEGATE_IMAGE_CHANGED,
            StepError::FloatModel => TIDEGATE_FLOAT_MODEL,
            StepError::Scratch(_) => TIDEGATE_TOO_SHORT,
            StepError::Inputs(_) | StepError::Outputs(_) => TIDEGATE_PORTS,
            StepError::Input(_) | StepError::Output(_) => TIDEGATE_WRONG_LENGTH,
            // Errors of sequences, which C runs step by step.
            _ => TIDEGATE_OTHER,
        }
    }
}

impl From<RestoreError> for tidegate_status {
    fn from(error: RestoreError) -> Self {
        match error {
            RestoreError::NotAState => TIDEGATE_NOT_A_STATE,
            RestoreError::OtherModel => TIDEGATE_SAVED_BY_OTHER_MODEL,
            RestoreError::OtherState => TIDEGATE_OTHER_STATE,
            RestoreError::OtherForm => TIDEGATE_SAVED_OTHERWISE,
            RestoreError::Truncated { .. } => TIDEGATE_SAVED_TRUNCATED,
            RestoreError::Damaged { .. } => TIDEGATE_SAVED_DAMAGED,
            RestoreError::Padding { .. } => TIDEGATE_SAVED_PADDING,
            _ => TIDEGATE_OTHER,
        }
    }
}
