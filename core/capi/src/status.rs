//! Statuses: one code for each cause that a program can act on, and a sentence for each.

#![deny(unsafe_code)]

use core::ffi::CStr;

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
    /// The state was saved by another model.
    TIDEGATE_SAVED_BY_OTHER_MODEL = 49,
    /// The state was saved by the same model in another numeric, layout, schedule or version.
    TIDEGATE_SAVED_OTHERWISE = 50,
    /// The saved state is truncated.
    TIDEGATE_SAVED_TRUNCATED = 51,
    /// The saved state's checksum is wrong.
    TIDEGATE_SAVED_DAMAGED = 52,
    /// The saved state's padding is not zero.
    TIDEGATE_SAVED_PADDING = 53,

    /// A status that this header does not name yet.
    TIDEGATE_OTHER = 127,
}

use tidegate_status::*;

impl tidegate_status {
    /// The sentence for a number, which need not be a valid status.
    pub(crate) fn text_of(number: i32) -> &'static CStr {
        TEXTS.into_iter().find(|(status, _)| *status as i32 == number).map_or(c"no status", |(_, text)| text)
    }
}

/// The sentence of every status, in the order of numbers.
const TEXTS: [(tidegate_status, &CStr); 34] = [
    (TIDEGATE_OK, c"done"),
    (TIDEGATE_NULL, c"a pointer is null"),
    (TIDEGATE_MISALIGNED, c"a pointer is not aligned (an image: to 16 bytes)"),
    (TIDEGATE_TOO_SHORT, c"a buffer is too short"),
    (TIDEGATE_WRONG_LENGTH, c"a row does not have the model's length"),
    (TIDEGATE_TOO_LONG, c"a buffer extends past the end of the address space"),
    (TIDEGATE_OVERLAP, c"a buffer that the call writes overlaps another argument"),
    (TIDEGATE_NOT_READY, c"an object is not initialized"),
    (TIDEGATE_NO_SUCH, c"there is no port or label with this index"),
    (TIDEGATE_COPIED, c"the object is a copy of another or was moved"),
    (TIDEGATE_BUSY, c"the call has interrupted another call that uses the same object"),
    (TIDEGATE_IMAGE_TRUNCATED, c"the image is truncated"),
    (TIDEGATE_NOT_AN_IMAGE, c"not a flash image"),
    (TIDEGATE_IMAGE_VERSION, c"the format version of the image is not supported by this build"),
    (TIDEGATE_IMAGE_DAMAGED, c"the image is damaged: its checksum is wrong"),
    (TIDEGATE_IMAGE_UNSUPPORTED, c"the image needs a numeric, layout, section or cell that this build lacks"),
    (TIDEGATE_IMAGE_TOO_LARGE, c"the image needs more memory or work than is supported"),
    (TIDEGATE_IMAGE_INVALID, c"the image is inconsistent: run tidegate inspect for details"),
    (TIDEGATE_IMAGE_OVER_LIMIT, c"the model needs more than the given limits"),
    (TIDEGATE_NO_FRONT_END, c"the image has no front end"),
    (TIDEGATE_NO_DETECTOR, c"the image has no detector"),
    (TIDEGATE_FLOAT_MODEL, c"the model computes in floats and has no integer ports"),
    (TIDEGATE_PORTS, c"the number of inputs or outputs is wrong"),
    (TIDEGATE_OTHER_STATE, c"the state belongs to another model"),
    (TIDEGATE_FLOAT_FRONT_END, c"the front end computes in floats"),
    (TIDEGATE_OTHER_SCALE, c"the scale of the output is neither 2^-15 nor 2^-8"),
    (TIDEGATE_IMAGE_CHANGED, c"the image has changed since it was parsed"),
    (TIDEGATE_NOT_A_STATE, c"not a saved state"),
    (TIDEGATE_SAVED_BY_OTHER_MODEL, c"the state was saved by another model"),
    (TIDEGATE_SAVED_OTHERWISE, c"the state was saved in another numeric, layout, schedule or version"),
    (TIDEGATE_SAVED_TRUNCATED, c"the saved state is truncated"),
    (TIDEGATE_SAVED_DAMAGED, c"the saved state is damaged: its checksum is wrong"),
    (TIDEGATE_SAVED_PADDING, c"the padding of the saved state is not zero"),
    (TIDEGATE_OTHER, c"an error that this header does not name"),
];

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
            RestoreError::OtherForm => TIDEGATE_SAVED_OTHERWISE,
            RestoreError::Truncated { .. } => TIDEGATE_SAVED_TRUNCATED,
            RestoreError::Damaged { .. } => TIDEGATE_SAVED_DAMAGED,
            RestoreError::Padding { .. } => TIDEGATE_SAVED_PADDING,
            _ => TIDEGATE_OTHER,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_has_a_sentence_of_its_own_and_numbers_grow() {
        for pair in TEXTS.windows(2) {
            assert!((pair[0].0 as i32) < pair[1].0 as i32, "{pair:?}");
        }
        for (status, text) in TEXTS {
            assert_eq!(TEXTS.into_iter().filter(|(_, other)| *other == text).count(), 1, "{status:?}");
            assert_eq!(tidegate_status::text_of(status as i32), text);
        }
        assert_eq!(tidegate_status::text_of(i32::MIN), c"no status");
    }
}
