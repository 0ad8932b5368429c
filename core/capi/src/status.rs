//! What a call says of itself: one code for each thing that a program can do something about, and a sentence for each.

#![deny(unsafe_code)]

use core::ffi::CStr;

use tidegate::detector::IntegerDetectorError;
use tidegate::image::Misaligned;
use tidegate::state::RestoreError;
use tidegate::{BufferTooSmall, ImageError, StepError, WrongLength};

/// What a call says of itself. The numbers stay.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum tidegate_status {
    /// Done.
    TIDEGATE_OK = 0,

    /// A pointer is null.
    TIDEGATE_NULL = 1,
    /// A pointer is not a multiple of what it points to, or the image not of 16.
    TIDEGATE_MISALIGNED = 2,
    /// A buffer is shorter than what goes into it.
    TIDEGATE_TOO_SHORT = 3,
    /// An input, an output or a row of posteriors does not have the length that the model says.
    TIDEGATE_WRONG_LENGTH = 4,
    /// A buffer is longer than the address space behind its pointer.
    TIDEGATE_TOO_LONG = 5,
    /// What the call writes overlaps something else that it is given.
    TIDEGATE_OVERLAP = 6,
    /// An object was never made ready, or making it ready failed.
    TIDEGATE_NOT_READY = 7,
    /// There is no port or label of this number.
    TIDEGATE_NO_SUCH = 8,

    /// The image ends too soon.
    TIDEGATE_IMAGE_TRUNCATED = 16,
    /// The bytes do not begin as an image does.
    TIDEGATE_NOT_AN_IMAGE = 17,
    /// The image is of a format version that this build does not read.
    TIDEGATE_IMAGE_VERSION = 18,
    /// The image's checksum is wrong: a byte has changed since it was packed.
    TIDEGATE_IMAGE_DAMAGED = 19,
    /// The image needs a numeric, a layout, a section or a cell that this build does not have.
    TIDEGATE_IMAGE_UNSUPPORTED = 20,
    /// The image needs more memory or work than is supported.
    TIDEGATE_IMAGE_TOO_LARGE = 21,
    /// The image contradicts itself; `tidegate inspect` says where.
    TIDEGATE_IMAGE_INVALID = 22,

    /// The image says nothing of a front end.
    TIDEGATE_NO_FRONT_END = 32,
    /// The image says nothing of a detector.
    TIDEGATE_NO_DETECTOR = 33,
    /// The model computes in floats, and takes and gives no integers.
    TIDEGATE_FLOAT_MODEL = 34,
    /// The model has another number of inputs or outputs.
    TIDEGATE_PORTS = 35,
    /// The state belongs to another model.
    TIDEGATE_OTHER_STATE = 36,
    /// The image's front end computes in floats.
    TIDEGATE_FLOAT_FRONT_END = 37,
    /// The model's output does not count in 2^-15, as a detector in integers asks.
    TIDEGATE_OTHER_SCALE = 38,

    /// The bytes do not begin as a saved state does.
    TIDEGATE_NOT_A_STATE = 48,
    /// Another model saved the state.
    TIDEGATE_SAVED_BY_OTHER_MODEL = 49,
    /// The same model saved the state in another numeric, layout, schedule or version.
    TIDEGATE_SAVED_OTHERWISE = 50,
    /// The saved state ends too soon.
    TIDEGATE_SAVED_TRUNCATED = 51,
    /// The saved state's checksum is wrong.
    TIDEGATE_SAVED_DAMAGED = 52,

    /// What this header does not name yet.
    TIDEGATE_OTHER = 127,
}

use tidegate_status::*;

impl tidegate_status {
    /// Every one, in the order of their numbers.
    const ALL: [Self; 29] = [
        TIDEGATE_OK,
        TIDEGATE_NULL,
        TIDEGATE_MISALIGNED,
        TIDEGATE_TOO_SHORT,
        TIDEGATE_WRONG_LENGTH,
        TIDEGATE_TOO_LONG,
        TIDEGATE_OVERLAP,
        TIDEGATE_NOT_READY,
        TIDEGATE_NO_SUCH,
        TIDEGATE_IMAGE_TRUNCATED,
        TIDEGATE_NOT_AN_IMAGE,
        TIDEGATE_IMAGE_VERSION,
        TIDEGATE_IMAGE_DAMAGED,
        TIDEGATE_IMAGE_UNSUPPORTED,
        TIDEGATE_IMAGE_TOO_LARGE,
        TIDEGATE_IMAGE_INVALID,
        TIDEGATE_NO_FRONT_END,
        TIDEGATE_NO_DETECTOR,
        TIDEGATE_FLOAT_MODEL,
        TIDEGATE_PORTS,
        TIDEGATE_OTHER_STATE,
        TIDEGATE_FLOAT_FRONT_END,
        TIDEGATE_OTHER_SCALE,
        TIDEGATE_NOT_A_STATE,
        TIDEGATE_SAVED_BY_OTHER_MODEL,
        TIDEGATE_SAVED_OTHERWISE,
        TIDEGATE_SAVED_TRUNCATED,
        TIDEGATE_SAVED_DAMAGED,
        TIDEGATE_OTHER,
    ];

    /// The sentence of a number, which C may have made up.
    pub(crate) fn text_of(number: i32) -> &'static CStr {
        Self::ALL.into_iter().find(|status| *status as i32 == number).map_or(c"no status", Self::text)
    }

    const fn text(self) -> &'static CStr {
        match self {
            TIDEGATE_OK => c"done",
            TIDEGATE_NULL => c"a pointer is null",
            TIDEGATE_MISALIGNED => c"a pointer is not aligned (an image: to 16 bytes)",
            TIDEGATE_TOO_SHORT => c"a buffer is too short",
            TIDEGATE_WRONG_LENGTH => c"a row has another length than the model says",
            TIDEGATE_TOO_LONG => c"a buffer reaches past the end of the address space",
            TIDEGATE_OVERLAP => c"what the call writes overlaps something else that it is given",
            TIDEGATE_NOT_READY => c"an object was not made ready",
            TIDEGATE_NO_SUCH => c"there is no port or label of this number",
            TIDEGATE_IMAGE_TRUNCATED => c"the image ends too soon",
            TIDEGATE_NOT_AN_IMAGE => c"not a flash image",
            TIDEGATE_IMAGE_VERSION => c"the image has a format version that this build does not read",
            TIDEGATE_IMAGE_DAMAGED => c"the image is damaged: its checksum is wrong",
            TIDEGATE_IMAGE_UNSUPPORTED => c"the image needs a numeric, layout, section or cell that this build lacks",
            TIDEGATE_IMAGE_TOO_LARGE => c"the image needs more memory or work than is supported",
            TIDEGATE_IMAGE_INVALID => c"the image contradicts itself: tidegate inspect says where",
            TIDEGATE_NO_FRONT_END => c"the image says nothing of a front end",
            TIDEGATE_NO_DETECTOR => c"the image says nothing of a detector",
            TIDEGATE_FLOAT_MODEL => c"the model computes in floats: it takes and gives no integers",
            TIDEGATE_PORTS => c"the model has another number of inputs or outputs",
            TIDEGATE_OTHER_STATE => c"the state belongs to another model",
            TIDEGATE_FLOAT_FRONT_END => c"the front end computes in floats",
            TIDEGATE_OTHER_SCALE => c"the output does not count in 2^-15",
            TIDEGATE_NOT_A_STATE => c"not a saved state",
            TIDEGATE_SAVED_BY_OTHER_MODEL => c"another model saved this state",
            TIDEGATE_SAVED_OTHERWISE => c"saved in another numeric, layout, schedule or version",
            TIDEGATE_SAVED_TRUNCATED => c"the saved state ends too soon",
            TIDEGATE_SAVED_DAMAGED => c"the saved state is damaged: its checksum is wrong",
            TIDEGATE_OTHER => c"an error that this header does not name",
        }
    }
}

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
            | ImageError::NoIntegerForm { .. } => TIDEGATE_IMAGE_UNSUPPORTED,
            ImageError::TooLarge { .. } => TIDEGATE_IMAGE_TOO_LARGE,
            // What is left, now or later, says which part of an image does not fit which other.
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
            StepError::FloatModel => TIDEGATE_FLOAT_MODEL,
            StepError::Scratch(_) => TIDEGATE_TOO_SHORT,
            StepError::Inputs(_) | StepError::Outputs(_) => TIDEGATE_PORTS,
            StepError::Input(_) | StepError::Output(_) => TIDEGATE_WRONG_LENGTH,
            // Of sequences, which C runs step by step.
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
            _ => TIDEGATE_OTHER,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_has_a_sentence_of_its_own_and_numbers_grow() {
        for pair in tidegate_status::ALL.windows(2) {
            assert!((pair[0] as i32) < pair[1] as i32, "{pair:?}");
        }
        for status in tidegate_status::ALL {
            let same = tidegate_status::ALL.into_iter().filter(|other| other.text() == status.text()).count();
            assert_eq!(same, 1, "{status:?}");
            assert_eq!(tidegate_status::text_of(status as i32), status.text());
        }
        assert_eq!(tidegate_status::text_of(i32::MIN), c"no status");
    }
}
