//! The sentence of every status.

#![deny(unsafe_code)]

use core::ffi::CStr;

use crate::status::tidegate_status::{self, *};

/// A status and its sentence.
type Text = (tidegate_status, &'static CStr);

/// The sentence for a number, which need not be a valid status.
pub(crate) fn text_of(number: i32) -> &'static CStr {
    texts().find(|(status, _)| *status as i32 == number).map_or(c"no status", |(_, text)| text)
}

/// All sentences that this build has.
fn texts() -> impl Iterator<Item = Text> {
    #[cfg(feature = "update")]
    let more = OF_UPDATES;
    #[cfg(not(feature = "update"))]
    let more: [Text; 0] = [];
    TEXTS.into_iter().chain(more)
}

/// The sentence of every status except those of updates, in the order of numbers.
const TEXTS: [Text; 34] = [
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
    (TIDEGATE_SAVED_BY_OTHER_MODEL, c"the state was saved by another model, or by this one packed otherwise"),
    (TIDEGATE_SAVED_OTHERWISE, c"the state was saved in another version of the format"),
    (TIDEGATE_SAVED_TRUNCATED, c"the saved state is truncated"),
    (TIDEGATE_SAVED_DAMAGED, c"the saved state is damaged: its checksum is wrong"),
    (TIDEGATE_SAVED_PADDING, c"the padding of the saved state is not zero"),
    (TIDEGATE_OTHER, c"an error that this header does not name"),
];

/// The sentences of the statuses of updates, in the order of numbers.
#[cfg(feature = "update")]
const OF_UPDATES: [Text; 32] = [
    (TIDEGATE_UPDATE_FLASH, c"a callback of the flash has failed"),
    (TIDEGATE_UPDATE_GEOMETRY, c"the sizes of the flash are not supported"),
    (TIDEGATE_UPDATE_NO_TRANSFER, c"no image is being received"),
    (TIDEGATE_UPDATE_TOO_LONG, c"the image does not fit the bank"),
    (TIDEGATE_UPDATE_OUT_OF_ORDER, c"the block is not the next one, or ends after the image"),
    (TIDEGATE_UPDATE_INCOMPLETE, c"the image is not complete"),
    (TIDEGATE_UPDATE_OTHER_LENGTH, c"the image has another length than was announced"),
    (TIDEGATE_UPDATE_BUSY, c"a model is pending or on trial: reset, or confirm it, first"),
    (TIDEGATE_UPDATE_NO_TRIAL, c"no model is on trial"),
    (TIDEGATE_UPDATE_NOT_TESTED, c"another model than the one on trial has been tested"),
    (TIDEGATE_UPDATE_NOTHING_PENDING, c"no image is pending"),
    (TIDEGATE_UPDATE_NO_SELF_TEST, c"the image has no self-test: test the model in the firmware"),
    (TIDEGATE_UPDATE_HAS_SELF_TEST, c"the image has a self-test: run it"),
    (TIDEGATE_UPDATE_SELF_TEST_FAILED, c"the model does not give the outputs of its self-test"),
    (TIDEGATE_UPDATE_MODEL_OPEN, c"the model is open: close it first"),
    (TIDEGATE_UPDATE_NOT_OPEN, c"the model is not the one that is open"),
    (TIDEGATE_TRUST_UNSIGNED, c"the image is not signed"),
    (TIDEGATE_TRUST_NOT_ATTACHED, c"the image is prepared for a signature, but has none yet"),
    (TIDEGATE_TRUST_UNSUPPORTED, c"the version or algorithm of the signature is not supported by this build"),
    (TIDEGATE_TRUST_UNKNOWN_KEY, c"the image is signed by an unknown key"),
    (TIDEGATE_TRUST_REVOKED_KEY, c"the image is signed by a key that has been replaced"),
    (TIDEGATE_TRUST_BAD_SIGNATURE, c"the signature is not that of this image: it is damaged or forged"),
    (TIDEGATE_TRUST_WRONG_PRODUCT, c"the image is for another product"),
    (TIDEGATE_TRUST_OLD_COUNTER, c"the security counter of the image is too low"),
    (TIDEGATE_TRUST_EMPTY, c"no image has been confirmed yet"),
    (TIDEGATE_KEY_NOT_A_POINT, c"the bytes are not an Ed25519 public key"),
    (TIDEGATE_KEY_SMALL_ORDER, c"the public key has a small order, so that anybody could forge signatures"),
    (TIDEGATE_KEY_NOT_A_CHANGE, c"the bytes are not a key change that this build knows"),
    (TIDEGATE_KEY_BAD_SIGNATURE, c"the key change is not signed by the root key"),
    (TIDEGATE_KEY_WRONG_PRODUCT, c"the key change is for another product"),
    (TIDEGATE_KEY_OLD_SERIAL, c"the serial number of the key change is not above the last"),
    (TIDEGATE_KEY_IN_USE, c"the active model is signed by a key that would be dropped: update it first"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_has_a_sentence_and_a_number_of_its_own() {
        let mut numbers: Vec<i32> = texts().map(|(status, _)| status as i32).collect();
        let count = numbers.len();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), count);
        for (status, text) in texts() {
            assert_eq!(texts().filter(|(_, other)| *other == text).count(), 1, "{status:?}");
            assert_eq!(text_of(status as i32), text);
        }
        assert_eq!(text_of(i32::MIN), c"no status");
    }
}
